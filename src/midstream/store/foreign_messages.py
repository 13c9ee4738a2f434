"""Message lists of other programs to Conversations: OpenAI chat, Anthropic, Responses items, kimi-cli's context.

These read only what a saved history holds. Once the wires read whole requests themselves, they take the place of the
first three. Ids stay raw here: `core.history.canonicalize` gives the canonical ones afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec

from ..core.blocks import Block, Conversation, Media, Opaque, Origin, Text, Thinking, ToolCall, ToolResponse, Turn
from ..core.errors import StoreError

Json: TypeAlias = dict[str, Any]

_INSTRUCTIONS = ("system", "developer")
_ANTHROPIC_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"}
_RESPONSES_ITEMS = {"message", "function_call", "function_call_output", "reasoning", "item_reference"}
_RESPONSES_PARTS = {"input_text", "output_text", "input_image", "input_file"}


class Reader(NamedTuple):
    """How a format is read, and whose it is unless the caller knows better."""

    read: Callable[[Any, str, str], Conversation]
    provider: str


def looks_like(document: Any) -> str | None:
    """The format of a decoded history, told by what only it has; None if nothing tells."""
    if isinstance(document, dict) and ("input" in document or "output" in document or "instructions" in document):
        return "responses"
    messages = _listed(document)
    if not messages or not all(isinstance(message, dict) for message in messages):
        return None
    roles = {_text(message.get("role")) for message in messages}
    types = {_text(message.get("type")) for message in messages}
    parts = {
        _text(part.get("type"))
        for message in messages
        if isinstance(message.get("content"), list)
        for part in message["content"]
        if isinstance(part, dict)
    }
    if types & (_RESPONSES_ITEMS - {"message"}) or parts & _RESPONSES_PARTS:
        return "responses"
    if any(role.startswith("_") for role in roles) or "think" in parts:
        return "kimi"
    if (isinstance(document, dict) and "system" in document) or parts & _ANTHROPIC_BLOCKS:
        return "anthropic"
    return "openai" if roles <= {"system", "developer", "user", "assistant", "tool", "function"} else None


class _Turns:
    """The turns so far: results that follow each other share a turn, and so do the items of one answer where asked."""

    def __init__(self) -> None:
        self.done: list[Turn] = []

    def say(self, turn: Turn, join: bool = False) -> None:
        if not turn.blocks:
            return
        last = self.done[-1] if self.done else None
        if last is not None and last.speaker == turn.speaker and (join or turn.speaker == "tool"):
            turn = msgspec.structs.replace(last, blocks=last.blocks + turn.blocks)
            self.done.pop()
        self.done.append(turn)


def read_openai(document: Any, where: str, provider: str) -> Conversation:
    """OpenAI chat messages, and kimi-cli's context, which adds `think` parts and `_…` records of its own."""
    origin = Origin(provider, "openai-chat", _model(document))
    system: list[Text] = []
    turns = _Turns()
    for number, message in enumerate(_messages(document, where)):
        role = message.get("role")
        place = f"{where}, message {number}"
        if role == "_system_prompt" or (role in _INSTRUCTIONS and not turns.done):
            system += [block for block in _openai_content(message, place, origin) if type(block) is Text]
        elif role in _INSTRUCTIONS:
            turns.say(Turn("human", tuple(_openai_content(message, place, origin)), role=str(role)))
        elif role == "user":
            turns.say(Turn("human", tuple(_openai_content(message, place, origin))))
        elif role == "assistant":
            turns.say(Turn("ai", tuple(_openai_answer(message, place, origin)), origin=origin))
        elif role in ("tool", "function"):
            content = _result_parts(_openai_content(message, place, origin))
            raw = _text(message.get("tool_call_id"))
            turns.say(Turn("tool", (ToolResponse(raw, _text(message.get("name")), content, raw_id=raw or None),)))
        elif not (isinstance(role, str) and role.startswith("_")):
            raise StoreError(f"{place}: no such role: {role!r}")
    return Conversation(tuple(turns.done), _system(system))


def _openai_answer(message: Json, where: str, origin: Origin) -> Iterable[Block]:
    for field in ("reasoning_content", "reasoning"):
        if isinstance(message.get(field), str):
            yield Thinking(message[field], field, origin=origin)
            break
    yield from _openai_content(message, where, origin)
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        yield Text(message["refusal"], {"refusal": True})
    for call in _dicts(message.get("tool_calls"), f"{where}, tool_calls"):
        yield _call(call.get("id"), _dict(call.get("function"), f"{where}, tool call"))
    if isinstance(message.get("function_call"), dict):
        yield _call(None, message["function_call"])


def _openai_content(message: Json, where: str, origin: Origin) -> Iterable[Block]:
    content = message.get("content")
    if isinstance(content, str):
        return [Text(content)] if content else []
    return [_openai_part(part, origin) for part in _dicts(content, f"{where}, content")]


def _openai_part(part: Json, origin: Origin) -> Block:
    kind = _text(part.get("type"))
    inner = part.get(kind)
    if kind == "text" and isinstance(part.get("text"), str):
        return Text(part["text"])
    if kind == "think" and isinstance(part.get("think"), str):
        return Thinking(part["think"], "reasoning_content", _text(part.get("encrypted")) or None, origin=origin)
    if kind in ("image_url", "audio_url", "video_url") and isinstance(inner, dict | str):
        return _media(inner if isinstance(inner, str) else _text(inner.get("url")), f"{kind[:5]}/*")
    if kind == "input_audio" and isinstance(inner, dict):
        return Media(f"audio/{_text(inner.get('format'))}", _text(inner.get("data")))
    return Opaque(kind, part, origin)


def read_anthropic(document: Any, where: str, provider: str) -> Conversation:
    """Anthropic messages. Results and words in one user message become a tool turn and a human turn."""
    origin = Origin(provider, "anthropic", _model(document))
    turns = _Turns()
    for number, message in enumerate(_messages(document, where)):
        place = f"{where}, message {number}"
        blocks = _anthropic_blocks(message.get("content"), place, origin)
        match message.get("role"):
            case "assistant":
                turns.say(Turn("ai", tuple(blocks), origin=origin))
            case "user":
                results = [block for block in blocks if type(block) is ToolResponse]
                turns.say(Turn("tool", tuple(results)))
                turns.say(Turn("human", tuple([block for block in blocks if type(block) is not ToolResponse])))
            case role:
                raise StoreError(f"{place}: no such role: {role!r}")
    given = document.get("system") if isinstance(document, dict) else None
    system = [block for block in _anthropic_blocks(given, f"{where}, system", origin) if type(block) is Text]
    return Conversation(tuple(turns.done), _system(system))


def _anthropic_blocks(content: Any, where: str, origin: Origin) -> list[Block]:
    if isinstance(content, str):
        return [Text(content)] if content else []
    return [_anthropic_block(block, where, origin) for block in _dicts(content, where)]


def _anthropic_block(block: Json, where: str, origin: Origin) -> Block:
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "thinking", "thinking": str(text)}:
            return Thinking(text, "thinking", _text(block.get("signature")) or None, origin=origin)
        case {"type": "redacted_thinking", "data": str(data)}:
            return Thinking(encrypted=data, redacted=True, origin=origin)
        case {"type": "tool_use", "name": str(), "input": given}:
            return _call(block.get("id"), {"name": block["name"], "arguments": given})
        case {"type": "tool_result"}:
            raw = _text(block.get("tool_use_id"))
            parts = _result_parts(_anthropic_blocks(block.get("content"), where, origin))
            return ToolResponse(raw, content=parts, is_error=bool(block.get("is_error")), raw_id=raw or None)
        case {"type": "image", "source": {"type": "base64", "media_type": str(mime), "data": str(data)}}:
            return Media(mime, data)
        case {"type": "image", "source": {"type": "url", "url": str(url)}}:
            return Media("image/*", url=url)
    return Opaque(_text(block.get("type")), block, origin)


def read_responses(document: Any, where: str, provider: str) -> Conversation:
    """Responses items: a request's `input`, an answer's `output`, or the bare list. One answer's items share a turn."""
    origin = Origin(provider, "openai-responses", _model(document))
    system: list[Text] = []
    turns = _Turns()
    if isinstance(document, dict):
        if isinstance(document.get("instructions"), str):
            system.append(Text(document["instructions"]))
        given = document.get("input", document.get("output"))
        items = [{"role": "user", "content": given}] if isinstance(given, str) else _dicts(given, where)
    else:
        items = _dicts(document, where)
    for number, item in enumerate(items):
        place = f"{where}, item {number}"
        match item:
            case {"role": str(role)}:
                blocks = tuple(_responses_content(item.get("content"), place, origin))
                if role == "assistant":
                    turns.say(Turn("ai", blocks, origin=origin), join=True)
                elif role in _INSTRUCTIONS and not turns.done:
                    system += [block for block in blocks if type(block) is Text]
                else:
                    turns.say(Turn("human", blocks, role=role if role in _INSTRUCTIONS else ""))
            case {"type": "function_call"}:
                turns.say(Turn("ai", (_call(item.get("call_id"), item),), origin=origin), join=True)
            case {"type": "function_call_output"}:
                raw = _text(item.get("call_id"))
                parts = _result_parts(_responses_content(item.get("output"), place, origin))
                turns.say(Turn("tool", (ToolResponse(raw, content=parts, raw_id=raw or None),)))
            case {"type": "reasoning"}:
                turns.say(Turn("ai", (_responses_reasoning(item, place, origin),), origin=origin), join=True)
            case {"type": str(kind)}:
                turns.say(Turn("ai", (Opaque(kind, item, origin),), origin=origin), join=True)
            case _:
                raise StoreError(f"{place}: neither a role nor a type")
    return Conversation(tuple(turns.done), _system(system))


def _responses_content(content: Any, where: str, origin: Origin) -> list[Block]:
    if isinstance(content, str):
        return [Text(content)] if content else []
    blocks: list[Block] = []
    for part in _dicts(content, where):
        match part:
            case {"type": "input_text" | "output_text" | "text", "text": str(text)}:
                blocks.append(Text(text))
            case {"type": "refusal", "refusal": str(text)}:
                blocks.append(Text(text, {"refusal": True}))
            case {"type": "input_image", "image_url": str(url)}:
                blocks.append(_media(url, "image/*"))
            case _:
                blocks.append(Opaque(_text(part.get("type")), part, origin))
    return blocks


def _responses_reasoning(item: Json, where: str, origin: Origin) -> Thinking:
    parts = _dicts(item.get("summary"), where) + _dicts(item.get("content"), where)
    text = "\n\n".join([part["text"] for part in parts if isinstance(part.get("text"), str)])
    sealed = _text(item.get("encrypted_content")) or None
    extra = {"id": item["id"]} if isinstance(item.get("id"), str) else None
    return Thinking(text, "", encrypted=sealed, origin=origin, extra=extra)


def _listed(document: Any) -> list[Any] | None:
    if isinstance(document, dict):
        document = document.get("messages", [document] if "role" in document else None)
    return document if isinstance(document, list) else None


def _messages(document: Any, where: str) -> list[Json]:
    found = _listed(document)
    if found is None:
        raise StoreError(f"{where}: no list of messages")
    return _dicts(found, where)


def _model(document: Any) -> str:
    return _text(document.get("model")) if isinstance(document, dict) else ""


def _dicts(value: Any, where: str) -> list[Json]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise StoreError(f"{where}: expected a list of objects, got {type(value).__name__}")
    return value


def _dict(value: Any, where: str) -> Json:
    if not isinstance(value, dict):
        raise StoreError(f"{where}: expected an object, got {type(value).__name__}")
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _call(raw_id: Any, function: Mapping[str, Any]) -> ToolCall:
    arguments = function.get("arguments")
    if arguments is None:
        arguments = "{}"
    elif not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    raw = _text(raw_id)
    return ToolCall(raw, _text(function.get("name")), arguments, raw or None)


def _result_parts(blocks: Iterable[Block]) -> tuple[Text | Media | Opaque, ...]:
    return tuple([block for block in blocks if isinstance(block, Text | Media | Opaque)])


def _media(url: str, mime: str) -> Media:
    if url.startswith("data:") and ";base64," in url:
        head, _, data = url.partition(";base64,")
        return Media(head.removeprefix("data:"), data)
    return Media(mime, url=url)


def _system(parts: list[Text]) -> str | tuple[Text, ...]:
    if not parts:
        return ""
    return parts[0].text if len(parts) == 1 else tuple(parts)


READERS: dict[str, Reader] = {
    "openai": Reader(read_openai, ""),
    "anthropic": Reader(read_anthropic, "anthropic"),
    "responses": Reader(read_responses, "openai"),
    "kimi": Reader(read_openai, "moonshot"),
}
