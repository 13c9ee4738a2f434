"""Output items <-> blocks: what of an item is a block's own, and what is kept beside it for the way back.

A block's `extra["item"]` holds the fields of its item that have no place in the core (id, status, phase …).
A reasoning item is one Thinking: its text is the summary parts, then the content parts; `extra` keeps how long each was,
where that is not one part under the block's `field`. An item id goes back only under its kind's prefix (field-guide/
tool-ids.md#item-ids-of-responses), never longer than 64 characters.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from ...core.blocks import Media, Thinking
from ...core.patterns import late_pattern
from ..lenient_json import text_of
from ..media import audio_format, is_address

# What a block holds by itself. The rest of an item is kept beside it and goes back with it, so a field that did not
# exist when this was written survives the round trip.
_CORE_FIELDS: dict[str, frozenset[str]] = {
    "message": frozenset({"type", "role", "content"}),
    "function_call": frozenset({"type", "call_id", "name", "arguments", "namespace"}),
    "custom_tool_call": frozenset({"type", "call_id", "name", "input", "namespace"}),
    "function_call_output": frozenset({"type", "call_id", "output"}),
    "custom_tool_call_output": frozenset({"type", "call_id", "output"}),
    # `status` on a reasoning item is for reading only; hosts refuse it in a request.
    "reasoning": frozenset({"type", "summary", "content", "encrypted_content", "status"}),
}
# The beginning of an id that a host accepts for each kind (field-guide/openai-responses.md#ids). An output's is a
# prefix of its longer form: `fc` fits `fco_` as well.
_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "function_call_output": "fc",
    "custom_tool_call_output": "ctc",
    "reasoning": "rs",
}
NAMESPACE = "namespace"
"""The key in a tool's `extra` for what its namespace says of itself."""
# No colon, and at most 64 characters.
_SAFE = late_pattern(r"[A-Za-z0-9_-]{1,64}\Z")


def item_fields(item: dict[str, Any]) -> dict[str, Any] | None:
    """What an item carries beside its block; None for nothing."""
    known = _CORE_FIELDS[item["type"]]
    return {key: value for key, value in item.items() if key not in known and value is not None} or None


def namespace_of(item: dict[str, Any]) -> str:
    """The namespace of the tool that an item calls."""
    namespace = item.get("namespace")
    return namespace if isinstance(namespace, str) else ""


def replayed(kind: str, fields: dict[str, Any] | None, *, with_id: bool = True) -> dict[str, Any]:
    """The kept fields as they may be sent again: an id only where it is one of this kind's."""
    if not isinstance(fields, dict):
        return {}
    gone = set(_CORE_FIELDS[kind].intersection(fields))
    if "id" in fields and not (with_id and is_item_id(kind, fields["id"])):
        gone.add("id")
    # The same object where nothing had to go: this runs for each item of a history.
    return {key: value for key, value in fields.items() if key not in gone} if gone else fields


def is_item_id(kind: str, value: Any) -> bool:
    return isinstance(value, str) and value.startswith(_PREFIXES[kind]) and _SAFE.match(value) is not None


def part_extra(part: dict[str, Any]) -> dict[str, Any]:
    """What a text part carries beside its text: citations by their name, everything else under `part`."""
    extra: dict[str, Any] = {}
    if part.get("annotations"):
        extra["annotations"] = part["annotations"]
    known = ("type", "text", "refusal", "annotations")
    # `logprobs: []` and its like say nothing, and would grow every part.
    if rest := {key: value for key, value in part.items() if key not in known and value}:
        extra["part"] = rest
    return extra


def part_fields(extra: dict[str, Any]) -> dict[str, Any]:
    """The fields of a text part that its block's `extra` keeps."""
    rest, annotations = extra.get("part"), extra.get("annotations")
    fields = {"annotations": annotations if isinstance(annotations, list) else []}
    return {**rest, **fields} if isinstance(rest, dict) else fields


def part_texts(parts: Any) -> list[str]:
    """The texts of a reasoning item's summary or content."""
    if parts is None or parts == "":
        return []
    found = [part.get("text") if isinstance(part, dict) and "text" in part else part for part in _list(parts)]
    return [text for each in found if (text := text_of(each)) or each == ""]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def reasoning_extra(item: dict[str, Any]) -> dict[str, Any] | None:
    """What of a reasoning item is kept beside its text."""
    summary, content = part_texts(item.get("summary")), part_texts(item.get("content"))
    extra: dict[str, Any] = {}
    if fields := item_fields(item):
        extra["item"] = fields
    # One part needs no lengths: the block's field says which kind it was.
    if len(summary) + len(content) > 1:
        extra["lengths"] = {"summary": [len(text) for text in summary], "content": [len(text) for text in content]}
    return extra or None


def reasoning_parts(block: Thinking) -> tuple[list[str], list[str]]:
    """The summary and content texts a Thinking was made of."""
    text = block.text
    lengths = _lengths(block)
    # Checked against the text: a block may have been edited, and
    # cutting it in the wrong places would be worse than one part.
    if lengths is not None and sum(lengths[0]) + sum(lengths[1]) == len(text):
        texts: tuple[list[str], list[str]] = ([], [])
        at = 0
        for counts, found in zip(lengths, texts, strict=True):
            for length in counts:
                found.append(text[at : at + length])
                at += length
        return texts
    if not text:
        return [], []
    return ([], [text]) if block.field == "content" else ([text], [])


def reasoning_item(block: Thinking) -> dict[str, Any] | None:
    """The reasoning item that a Thinking was, or becomes; None where it holds nothing this wire can say."""
    summary, content = reasoning_parts(block)
    item: dict[str, Any] = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in summary],
        **replayed("reasoning", block.extra.get("item") if block.extra else None),
    }
    if content:
        item["content"] = [{"type": "reasoning_text", "text": text} for text in content]
    if block.encrypted:
        item["encrypted_content"] = block.encrypted
    # Type and summary alone are an empty item, which is refused.
    return item if summary or len(item) > 2 else None


def foreign_reasoning(text: str) -> Thinking:
    """Another model's reasoning as this wire's own, with an id: OpenAI's schema requires one, though nobody looks it up."""
    digest = sha256(text.encode(errors="surrogatepass")).hexdigest()[:32]
    return Thinking(text, "content", extra={"item": {"id": f"rs_{digest}"}})


def _lengths(block: Thinking) -> tuple[list[int], list[int]] | None:
    """How long the parts of a reasoning item were; None where that is not known, or was tampered with."""
    kept = block.extra.get("lengths") if block.extra else None
    if not isinstance(kept, dict):
        return None
    counts = [kept.get("summary", []), kept.get("content", [])]
    if not all(
        isinstance(found, list) and all(type(count) is int and count >= 0 for count in found) for found in counts
    ):
        return None
    return counts[0], counts[1]


_MEDIA_FIELDS = ("detail", "prompt_cache_breakpoint")


def media_part(media: Media) -> dict[str, Any]:
    """A medium as a part of a message or a tool output."""
    # Other fields are another wire's, and an unknown one is refused.
    extra = {key: value for key, value in (media.extra or {}).items() if key in _MEDIA_FIELDS}
    data = None
    if media.data is not None:
        data = f"data:{media.mime};base64,{media.data}" if media.mime else media.data
    # A file id has no scheme (see wires/media.py).
    by_id = data is None and media.url is not None and not is_address(media.url)
    if media.kind == "image":
        where = {"file_id": media.url} if by_id else {"image_url": data or media.url}
        return {"type": "input_image", **where, **extra}
    if media.kind == "audio" and media.data is not None:
        sound = {"data": media.data, "format": audio_format(media)}
        return {"type": "input_audio", "input_audio": sound, **extra}
    file: dict[str, Any] = {"type": "input_file"}
    if data is not None:
        # A file sent by value is refused without a name.
        file |= {"filename": media.name or "file", "file_data": data}
    else:
        file |= {"file_id": media.url} if by_id else {"file_url": media.url}
        if media.name:
            file["filename"] = media.name
    return {**file, **extra}


def format_from_chat(response_format: dict[str, Any]) -> dict[str, Any]:
    inner = response_format.get("json_schema")
    if not isinstance(inner, dict):
        return response_format
    rest = {key: value for key, value in response_format.items() if key != "json_schema"}
    # Chat nests the schema, this wire does not.
    return {**rest, **inner}


def format_to_chat(text_format: dict[str, Any]) -> dict[str, Any]:
    if text_format.get("type") != "json_schema" or "schema" not in text_format:
        return text_format
    inner = {key: value for key, value in text_format.items() if key != "type"}
    return {"type": "json_schema", "json_schema": inner}
