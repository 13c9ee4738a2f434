"""A Responses request body, ours or a stranger's -> conversation, tools and options.

Read leniently: what has a canonical form gets it; items and parts that have none are kept whole as Opaque, body fields in
`extra_body`, so that encoding the result for the same dialect says the same thing again. Each message of a human is a
turn; what the model said between two of them is one. Ids become canonical here; the raw ones stay as metadata.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ...core.blocks import (
    INSTRUCTION_ROLES,
    Block,
    Conversation,
    Media,
    Opaque,
    Origin,
    Speaker,
    Text,
    Thinking,
    ToolCall,
    ToolResponse,
    Turn,
)
from ...core.dialect import EFFORTS, Options
from ...core.errors import InvalidHistory
from ...core.history import CallIdentity, canonicalize
from ...core.tools import ToolSpec
from ..lenient_json import decode_leniently, text_of
from ..media import opened
from ..parsing import (
    OptionFields,
    flag,
    freeform_tool,
    host_tool,
    make_call,
    make_tool,
    numbered,
    objects,
    rest,
    strings,
    text_field,
)
from ..request import ParsedRequest, RequestedAnswer
from .items import NAMESPACE, format_to_chat, item_fields, namespace_of, part_extra, part_texts, reasoning_extra
from .stored_response import CONTINUES
from .wire import DEFAULT

_OPTION_FIELDS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_output_tokens": "max_tokens",
    "parallel_tool_calls": "parallel_tool_calls",
    "user": "user",
    "previous_response_id": "previous_response_id",
}
# Results come as items of their own.
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_DECLARING = ("additional_tools", "tool_search_output")
"""Items that bring tools, which count from there on."""


def parse_request(body: bytes, *, provider: str = "", identity: CallIdentity | None = None) -> ParsedRequest:
    """`provider` is the owner of the reasoning and the opaque items in the history, where the caller knows it."""
    value = decode_leniently(body)
    if not isinstance(value, dict) or not isinstance(value.get("input", []), (str, list)):
        raise InvalidHistory("expected a JSON object whose `input` is a string or a list")
    model = text_field(value, "model")
    conversation = read_items(value.get("input") or [], Origin(provider, DEFAULT.wire, model), identity)
    fields: dict[str, Any] = {}
    if isinstance(value.get("instructions"), str):
        fields["system"] = value["instructions"]
    if isinstance(value.get("previous_response_id"), str):
        # The response before this request is on the host; the conversation only knows its name.
        fields["extra"] = {CONTINUES: value["previous_response_id"]}
    if fields:
        conversation = Conversation(conversation.turns, **fields)
    requested = RequestedAnswer(
        usage=True,
        store=flag(value.get("store")),
        include=strings(value.get("include")),
        # Repeated in the answer: see `_DEFAULTS` in the answer room.
        echo={key: inner for key, inner in value.items() if key not in ("input", "model", "stream")} or None,
    )
    return ParsedRequest(conversation, model, _tools(value.get("tools")), _options(value), requested)


def read_items(items: str | list[Any], origin: Origin, identity: CallIdentity | None = None) -> Conversation:
    """Input items as a conversation with canonical ids."""
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    turns: list[Turn] = []
    joined: dict[int, list[Block]] = {}  # the blocks of turns that are made of several items
    for _, item in numbered(items, "item"):
        turn = _turn(item, origin)
        last = turns[-1] if turns else None
        # What the model said is one turn, however many items it was, and so are the results of one turn.
        if last is not None and last.speaker == turn.speaker and turn.speaker in ("ai", "tool"):
            joined.setdefault(len(turns) - 1, list(last.blocks)).extend(turn.blocks)
        else:
            turns.append(turn)
    for place, blocks in joined.items():
        last = turns[place]
        # Joined at the end: growing a tuple item by item would be quadratic.
        turns[place] = Turn(last.speaker, tuple(blocks), origin=last.origin)
    return canonicalize(Conversation(tuple(turns)), origin.provider, identity)


def _turn(item: dict[str, Any], origin: Origin) -> Turn:
    kind = item.get("type") or "message"
    if kind == "message":
        role = str(item.get("role") or "user")
        if role == "assistant":
            return Turn("ai", tuple(_answer(item, origin)), origin=origin)
        speaker: Speaker = "system" if role in INSTRUCTION_ROLES else "human"
        word = "" if role in ("user", "system") else role
        return Turn(speaker, tuple(_content(item.get("content"), origin)), role=word)
    if kind in _OUTPUTS:
        return Turn("tool", (_response(item, origin),))
    if kind in ("function_call", "custom_tool_call"):
        return Turn("ai", (_call(item, origin),), origin=origin)
    if kind == "reasoning":
        return Turn("ai", (_thinking(item, origin),), origin=origin)
    block = Opaque(str(kind), item, origin)
    if kind in _DECLARING:
        return Turn("system", (block,), tools=_tools(item.get("tools")))
    # An output of a tool that only the client has, an approval, a reference: said to the model.
    if _is_from_client(str(kind)):
        return Turn("human", (block,))
    return Turn("ai", (block,), origin=origin)


def _is_from_client(kind: str) -> bool:
    """Whether an item the core has no word for is said to the model, not by it."""
    return kind.endswith("_output") or kind in ("mcp_approval_response", "item_reference", "compaction_trigger")


def _answer(item: dict[str, Any], origin: Origin) -> list[Block]:
    """The parts of an assistant message; each remembers the message's own fields."""
    content = item.get("content")
    fields = item_fields({**item, "type": "message"})
    kept = {"item": fields} if fields else {}
    if isinstance(content, str):
        return [Text(content, kept or None)]
    blocks: list[Block] = []
    for part in objects(content):
        if isinstance(part.get("refusal"), str):
            blocks.append(Text(part["refusal"], {"refusal": True, **kept}))
        elif isinstance(part.get("text"), str):
            blocks.append(Text(part["text"], {**part_extra(part), **kept} or None))
        else:
            blocks.append(Opaque("part", part, origin))
    return blocks


def _content(content: Any, origin: Origin) -> list[Text | Media | Opaque]:
    if isinstance(content, str):
        return [Text(content)]
    return [_part(part, origin) for part in objects(content)]


def _part(part: dict[str, Any], origin: Origin) -> Text | Media | Opaque:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text") and isinstance(part.get("text"), str):
        return Text(part["text"])
    if kind == "input_image":
        where = part.get("image_url") or part.get("file_id")
        if isinstance(where, str):
            return opened(Media("image/*", url=where, extra=rest(part, "type", "image_url", "file_id")))
    if kind == "input_file":
        where = part.get("file_data") or part.get("file_url") or part.get("file_id")
        if isinstance(where, str):
            extra = rest(part, "type", "file_data", "file_url", "file_id", "filename")
            media = opened(Media("", None, where, part.get("filename"), extra))
            # `file_data` may be base64 alone, without the data URL around it.
            return Media("", where, None, media.name, extra) if part.get("file_data") and media.data is None else media
    sound = part.get("input_audio")
    if kind == "input_audio" and isinstance(sound, dict) and isinstance(sound.get("data"), str):
        return Media(f"audio/{sound.get('format', 'wav')}", data=sound["data"])
    return Opaque("part", part, origin)


def _call(item: dict[str, Any], origin: Origin) -> ToolCall:
    custom = item["type"] == "custom_tool_call"
    arguments = text_of(item.get("input" if custom else "arguments"))
    fields = item_fields(item)
    return make_call(
        text_field(item, "call_id"),
        text_field(item, "name"),
        arguments,
        origin,
        {"item": fields} if fields else None,
        freeform=custom,
        namespace=namespace_of(item),
    )


def _response(item: dict[str, Any], origin: Origin) -> ToolResponse:
    raw_id = text_field(item, "call_id")
    output = item.get("output")
    said = output if output is None or isinstance(output, list) else text_of(output)
    custom, fields = item["type"] == "custom_tool_call_output", item_fields(item)
    # Remembered, so that the result goes back as the same kind, even if its call is on the host only.
    extra = ({"type": "custom"} if custom else {}) | ({"item": fields} if fields else {})
    return ToolResponse(raw_id, "", tuple(_content(said, origin)), raw_id=raw_id or None, extra=extra or None)


def _thinking(item: dict[str, Any], origin: Origin) -> Thinking:
    summary, content = part_texts(item.get("summary")), part_texts(item.get("content"))
    encrypted = item.get("encrypted_content")
    return Thinking(
        "".join(summary + content),
        "content" if content and not summary else "summary",
        encrypted=encrypted if isinstance(encrypted, str) and encrypted else None,
        origin=origin,
        extra=reasoning_extra(item),
    )


def _tools(tools: Any) -> tuple[ToolSpec, ...]:
    specs: list[ToolSpec] = []
    for tool in objects(tools):
        if tool.get("type") == "namespace" and isinstance(tool.get("tools"), list):
            shared = rest(tool, "type", "name", "tools")
            specs += [_in_namespace(_tool(inner), text_field(tool, "name"), shared) for inner in objects(tool["tools"])]
        else:
            specs.append(_tool(tool))
    return tuple(specs)


def _in_namespace(tool: ToolSpec, namespace: str, shared: dict[str, Any] | None) -> ToolSpec:
    extra = {**(tool.extra or {}), **({NAMESPACE: shared} if shared else {})}
    return replace(tool, namespace=namespace, extra=extra or None)


def _tool(tool: dict[str, Any]) -> ToolSpec:
    if tool.get("type") != "function":
        return freeform_tool(tool) or host_tool(tool, DEFAULT.wire)
    function = {**tool, **tool["function"]} if isinstance(tool.get("function"), dict) else tool
    known = ("type", "name", "description", "parameters", "strict", "function")
    extra = {key: value for key, value in function.items() if key not in known}
    if function.get("strict") is None:
        # Kept apart from False: left out means "strict where possible" on this wire.
        extra["strict"] = None  # not set: this wire's own default, not ours
    return make_tool(function, function.get("parameters"), extra)


def _options(body: dict[str, Any]) -> Options:
    found = OptionFields()
    for key, value in body.items():
        if key in ("model", "input", "tools", "stream") or value is None:
            continue
        if key in _OPTION_FIELDS:
            found.fields[_OPTION_FIELDS[key]] = value
        elif key == "instructions" and isinstance(value, str):
            pass  # it is the system prompt
        elif key == "tool_choice" and (choice := _choice(value)) is not None:
            found.fields["tool_choice"] = choice
        elif key == "reasoning" and isinstance(value, dict):
            effort = _effort(value.get("effort"))
            found.fields |= effort
            # `summary` and the like are the wire's own and are kept.
            found.keep(key, rest(value, "effort") if effort else rest(value))
        elif key == "text" and isinstance(value, dict):
            if isinstance(value.get("format"), dict):
                found.fields["response_format"] = format_to_chat(value["format"])
            found.keep(key, rest(value, "format"))
        else:
            found.extra[key] = value
    return found.options(stream=bool(body.get("stream")))


def _effort(effort: Any) -> dict[str, Any]:
    # Our word for no thinking is an option of its own.
    if effort == "none":
        return {"thinking": "off"}
    return {"effort": effort} if effort in EFFORTS else {}


def _choice(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and value.get("type") in ("function", "custom") and isinstance(value.get("name"), str):
        return str(value["name"])
    return None
