"""A Messages request body, ours or a stranger's -> conversation, tools and options.

Read leniently: what has a canonical form gets it, what has none is kept (unknown blocks as Opaque, unknown body fields in
`extra_body`), so that encoding the result for the same dialect says the same thing again. A user message becomes a tool
turn of its results and a human turn of the rest. Ids become canonical here; the raw ones stay as metadata.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ...core.blocks import Block, Conversation, Media, Opaque, Origin, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.dialect import EFFORTS, Options
from ...core.errors import InvalidHistory
from ...core.history import canonicalize
from ...core.tools import ToolSpec
from ..lenient_json import decode_leniently, json_value
from ..request import ParsedRequest
from .media import read_media
from .wire import DEFAULT

_CHOICES = {"auto": "auto", "none": "none", "any": "required"}


def parse_request(body: bytes, *, provider: str = "anthropic") -> ParsedRequest:
    """`provider` is who the thinking and the opaque blocks of the history belong to."""
    value = decode_leniently(body)
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        raise InvalidHistory("expected a JSON object with a `messages` list")
    model = str(value.get("model") or "")
    origin = Origin(provider, DEFAULT.wire, model)
    turns: list[Turn] = []
    for number, message in enumerate(value["messages"]):
        if not isinstance(message, dict):
            raise InvalidHistory(f"message {number} is not an object")
        turns += _turns(number, message, origin)
    _pair_by_position(turns)
    conversation = canonicalize(Conversation(tuple(turns), _system(value.get("system"))), provider)
    return ParsedRequest(conversation, model, _tools(value.get("tools")), _options(value))


def _turns(number: int, message: dict[str, Any], origin: Origin) -> list[Turn]:
    role = message.get("role")
    key = f"m{number}"
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    read = [_block(block, origin) for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    if role == "assistant":
        return [Turn("ai", tuple(read), key=key, origin=origin)]
    if role in ("system", "developer"):
        return [Turn("human", tuple(read), key=key, role=str(role))]
    results = tuple([block for block in read if type(block) is ToolResponse])
    if not results:
        return [Turn("human", tuple(read), key=key)]
    rest = tuple([block for block in read if type(block) is not ToolResponse])
    tool_turn = Turn("tool", results, key=f"{key}:results")
    return [tool_turn, Turn("human", rest, key=key)] if rest else [tool_turn]


def _pair_by_position(turns: list[Turn]) -> None:
    """Results that name no call at all answer the calls right before them that nothing else answers, in order."""
    seen: set[str] = set()
    for place, turn in enumerate(turns):
        if turn.speaker == "ai":
            seen.update([call.id for call in turn.tool_calls])
        elif turn.speaker == "tool" and place and turns[place - 1].speaker == "ai":
            strays = [response for response in turn.tool_responses if response.call_id not in seen]
            answered = {response.call_id for response in turn.tool_responses}
            waiting = [call for call in turns[place - 1].tool_calls if call.id not in answered]
            if strays and len(strays) == len(waiting):
                renamed = {id(stray): call.id for stray, call in zip(strays, waiting, strict=True)}
                blocks = [replace(r, call_id=renamed.get(id(r), r.call_id)) for r in turn.tool_responses]
                turns[place] = replace(turn, blocks=tuple(blocks))


def _block(block: dict[str, Any], origin: Origin) -> Block:
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text, _rest(block, "text"))
        case {"type": "thinking", "thinking": str(text)}:
            signature = block.get("signature")
            return Thinking(text, "thinking", signature if isinstance(signature, str) else None, origin=origin)
        case {"type": "redacted_thinking", "data": str(data)}:
            return Thinking("", "thinking", encrypted=data, redacted=True, origin=origin)
        case {"type": "tool_use"}:
            return _call(block, origin)
        case {"type": "tool_result"}:
            return _response(block, origin)
        case {"type": "image" | "document"}:
            media = read_media(block)
            if media is not None:
                return media
    return Opaque(str(block.get("type") or "unknown"), block, origin)


def _rest(block: dict[str, Any], *known: str) -> dict[str, Any] | None:
    """The keys of a block that have no field of their own."""
    return {key: value for key, value in block.items() if key not in ("type", *known) and value is not None} or None


def _call(block: dict[str, Any], origin: Origin) -> ToolCall:
    raw_id = str(block.get("id") or "")
    given = block.get("input")
    arguments = given if isinstance(given, str) else json_value({} if given is None else given).decode()
    extra = _rest(block, "id", "name", "input")
    return ToolCall(raw_id, str(block.get("name") or ""), arguments, raw_id or None, origin.provider, extra)


def _response(block: dict[str, Any], origin: Origin) -> ToolResponse:
    raw_id = str(block.get("tool_use_id") or "")
    content = block.get("content")
    parts: tuple[Text | Media | Opaque, ...] = ()
    if isinstance(content, str):
        parts = (Text(content),) if content else ()
    elif isinstance(content, list):
        read = [_block(part, origin) for part in content if isinstance(part, dict)]
        parts = tuple([part for part in read if isinstance(part, (Text, Media, Opaque))])
    extra = _rest(block, "tool_use_id", "content", "is_error")
    return ToolResponse(raw_id, "", parts, block.get("is_error") is True, raw_id or None, extra)


def _system(system: Any) -> str | tuple[Text, ...]:
    if isinstance(system, str):
        return system
    blocks = system if isinstance(system, list) else ()
    return tuple(
        [
            Text(block["text"], _rest(block, "text"))
            for block in blocks
            if isinstance(block, dict) and isinstance(block.get("text"), str)
        ]
    )


def _tools(tools: Any) -> tuple[ToolSpec, ...]:
    specs: list[ToolSpec] = []
    for tool in tools if isinstance(tools, list) else ():
        if not isinstance(tool, dict):
            continue
        name, kind = str(tool.get("name") or ""), tool.get("type")
        if kind not in (None, "custom") and "input_schema" not in tool:
            specs.append(ToolSpec(name, builtin=str(kind), extra=_rest(tool, "name")))
            continue
        extra = _rest(tool, "name", "description", "input_schema", "strict") or {}
        if kind is not None:
            extra["type"] = kind
        schema = tool.get("input_schema")
        specs.append(
            ToolSpec(
                name,
                str(tool.get("description") or ""),
                schema if isinstance(schema, dict) else None,
                tool.get("strict") if isinstance(tool.get("strict"), bool) else None,
                extra=extra or None,
            )
        )
    return tuple(specs)


def _options(body: dict[str, Any]) -> Options:
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, value in body.items():
        match key, value:
            case ("model" | "messages" | "tools" | "system" | "stream", _) | (_, None):
                pass
            case "max_tokens", int() if value > 0:
                fields["max_tokens"] = value
            case "temperature" | "top_p", int() | float():
                fields[key] = value
            case "stop_sequences", list():
                fields["stop"] = tuple([str(stop) for stop in value])
            case "tool_choice", {"type": str()}:
                _choice(value, fields, extra)
            case "thinking", {"type": str()}:
                _thinking(value, fields, extra)
            case "output_config", dict():
                _output(value, fields, extra)
            case "metadata", {"user_id": str(user)} if len(value) == 1:
                fields["user"] = user
            case _:
                extra[key] = value
    if "effort" in fields and "thinking" not in fields:
        # Effort alone does not ask for thinking on this wire, as it does among our options.
        extra["output_config"] = {**extra.get("output_config", {}), "effort": fields.pop("effort")}
    return Options(stream=bool(body.get("stream")), extra_body=extra or None, **fields)


def _choice(value: dict[str, Any], fields: dict[str, Any], extra: dict[str, Any]) -> None:
    kind = value["type"]
    if kind in _CHOICES:
        fields["tool_choice"] = _CHOICES[kind]
    elif kind == "tool" and isinstance(value.get("name"), str):
        fields["tool_choice"] = value["name"]
    else:
        extra["tool_choice"] = value
        return
    serial = value.get("disable_parallel_tool_use")
    if isinstance(serial, bool):
        fields["parallel_tool_calls"] = not serial


def _thinking(value: dict[str, Any], fields: dict[str, Any], extra: dict[str, Any]) -> None:
    kind = value["type"]
    if kind not in ("enabled", "adaptive", "disabled"):
        extra["thinking"] = value
        return
    fields["thinking"] = "off" if kind == "disabled" else "on"
    budget = value.get("budget_tokens")
    if kind == "enabled" and isinstance(budget, int):
        fields["thinking_budget"] = budget
    rest = _rest(value, "budget_tokens")
    if rest:
        extra["thinking"] = rest


def _output(value: dict[str, Any], fields: dict[str, Any], extra: dict[str, Any]) -> None:
    rest = dict(value)
    if rest.get("effort") in EFFORTS:
        fields["effort"] = rest.pop("effort")
    shape = rest.get("format")
    if isinstance(shape, dict) and shape.get("type") == "json_schema" and set(shape) == {"type", "schema"}:
        schema = {"name": "answer", "schema": shape["schema"]}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
        del rest["format"]
    if rest:
        extra["output_config"] = rest
