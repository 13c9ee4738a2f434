"""A Messages request body, ours or a stranger's -> conversation, tools and options.

Read leniently: what has a canonical form gets it, what has none is kept (unknown blocks as Opaque, unknown body fields in
`extra_body`), so that encoding the result for the same dialect says the same thing again. A user message becomes a tool
turn of its results and a human turn of the rest. Ids become canonical here; the raw ones stay as metadata.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from ...core.blocks import Block, Conversation, Opaque, Origin, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.dialect import EFFORTS, Options
from ...core.history import CallIdentity, canonicalize
from ...core.tools import ToolSpec
from ..lenient_json import text_of
from ..parsing import (
    BILLING,
    OptionFields,
    Said,
    decode_texts,
    make_call,
    make_tool,
    numbered,
    objects,
    open_messages,
    rest,
    result_parts,
    split_results,
    strings,
    text_field,
    text_turns,
)
from ..request import ParsedRequest, RequestedAnswer
from .media import read_media
from .wire import DEFAULT

_CHOICES = {"auto": "auto", "none": "none", "any": "required"}


def parse_request(body: bytes, *, provider: str = "anthropic", identity: CallIdentity | None = None) -> ParsedRequest:
    """`provider` is the owner of the thinking and the opaque blocks in the history."""
    value, origin = open_messages(body, provider, DEFAULT.wire)
    turns: list[Turn] = []
    for _, message in numbered(value["messages"], "message"):
        turns += _turns(message, origin)
    # Before ids become canonical: only here are the raw ones known.
    _pair_by_position(turns)
    system, billing = _system(value.get("system"))
    conversation = canonicalize(Conversation(tuple(turns), system), provider, identity)
    thinking = value.get("thinking")
    requested = RequestedAnswer(
        usage=True,
        # On this wire a client has to ask for thinking to see any.
        thinking=isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive"),
        betas=strings(value.get("betas")) + strings(value.get("anthropic_beta")),
        billing=billing,
    )
    return ParsedRequest(conversation, origin.model, _tools(value.get("tools")), _options(value), requested)


class _TextRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A request that holds only texts and plain options; one with any other field or type is not decoded as this."""

    messages: list[Said]
    model: str = ""
    system: str = ""
    stream: bool = False
    max_tokens: Annotated[int, msgspec.Meta(gt=0)] | None = None
    temperature: float | None = None
    top_p: float | None = None


_decode_text_request = msgspec.json.Decoder(_TextRequest).decode


def text_request(body: bytes, provider: str) -> ParsedRequest | None:
    """What `parse_request` gives for a request that holds only texts, which have no ids to map; None for any other."""
    value = decode_texts(_decode_text_request, body)
    if value is None:
        return None
    turns = text_turns(value.messages, 0, Origin(provider, DEFAULT.wire, value.model))
    if turns is None:
        return None
    options = Options(value.max_tokens, value.temperature, value.top_p, stream=value.stream)
    requested = RequestedAnswer(usage=True, thinking=False)
    return ParsedRequest(Conversation(turns, value.system), value.model, (), options, requested)


def _turns(message: dict[str, Any], origin: Origin) -> list[Turn]:
    role = message.get("role")
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    read = [_block(block, origin) for block in objects(blocks)]
    if role == "assistant":
        return [Turn("ai", tuple(read), origin=origin)]
    if role in ("system", "developer"):
        word = "" if role == "system" else str(role)
        extra = {"output_config": message["output_config"]} if message.get("output_config") else None
        return [Turn("system", tuple(read), role=word, extra=extra)]
    return split_results(read)


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
            # Only if the numbers agree: otherwise nobody can say which belongs to which.
            if strays and len(strays) == len(waiting):
                renamed = {id(stray): call.id for stray, call in zip(strays, waiting, strict=True)}
                blocks = [replace(r, call_id=renamed.get(id(r), r.call_id)) for r in turn.tool_responses]
                turns[place] = replace(turn, blocks=tuple(blocks))


def _block(block: dict[str, Any], origin: Origin) -> Block:
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text, rest(block, "type", "text"))
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


def _call(block: dict[str, Any], origin: Origin) -> ToolCall:
    raw_id, name = text_field(block, "id"), text_field(block, "name")
    extra = rest(block, "type", "id", "name", "input")
    given = block.get("input")
    return make_call(raw_id, name, text_of({} if given is None else given), origin, extra)


def _response(block: dict[str, Any], origin: Origin) -> ToolResponse:
    raw_id = text_field(block, "tool_use_id")
    content = block.get("content")
    said = [Text(content)] if isinstance(content, str) and content else []
    parts = result_parts(said or [_block(part, origin) for part in objects(content)])
    extra = rest(block, "type", "tool_use_id", "content", "is_error")
    return ToolResponse(raw_id, "", parts, block.get("is_error") is True, raw_id or None, extra)


def _system(system: Any) -> tuple[str | tuple[Text, ...], str | None]:
    """The system prompt, and the line before it that is not meant for the model: where it changes from request to request,
    no host's prompt cache would hold."""
    if system is None or isinstance(system, str):
        return system or "", None
    texts = [block for block in objects(system) if isinstance(block.get("text"), str)]
    billing = texts.pop(0)["text"] if texts and texts[0]["text"].startswith(BILLING) else None
    return tuple([Text(block["text"], rest(block, "type", "text")) for block in texts]), billing


def _tools(tools: Any) -> tuple[ToolSpec, ...]:
    specs: list[ToolSpec] = []
    for tool in objects(tools):
        kind = tool.get("type")
        # A type and no schema: a tool that the host runs.
        if kind not in (None, "custom") and "input_schema" not in tool:
            extra = rest(tool, "type", "name")
            specs.append(ToolSpec(text_field(tool, "name"), builtin=str(kind), extra=extra))
        else:
            extra = rest(tool, "name", "description", "input_schema", "strict")
            specs.append(make_tool(tool, tool.get("input_schema"), extra))
    return tuple(specs)


def _options(body: dict[str, Any]) -> Options:
    found = OptionFields()
    fields, extra = found.fields, found.extra
    for key, value in body.items():
        match key, value:
            case ("model" | "messages" | "tools" | "system" | "stream", _) | (_, None):
                pass
            case "max_tokens", int() if value > 0:
                fields["max_tokens"] = value
            case "temperature" | "top_p", int() | float():
                fields[key] = value
            case "stop_sequences", list():
                found.stop(value)
            case "tool_choice", {"type": str()}:
                _choice(value, found)
            case "thinking", {"type": str()}:
                _thinking(value, found)
            case "output_config", dict():
                _output(value, found)
            # Alone, it is our `user`; beside other metadata the whole object is kept.
            case "metadata", {"user_id": str(user)} if len(value) == 1:
                fields["user"] = user
            case _:
                extra[key] = value
    if "effort" in fields and "thinking" not in fields:
        # Effort alone does not ask for thinking on this wire, as it does among our options.
        extra["output_config"] = {**extra.get("output_config", {}), "effort": fields.pop("effort")}
    return found.options(stream=bool(body.get("stream")))


def _choice(value: dict[str, Any], found: OptionFields) -> None:
    kind, name = value["type"], value.get("name")
    choice = name if kind == "tool" and isinstance(name, str) else _CHOICES.get(kind)
    if choice is None:
        found.extra["tool_choice"] = value
        return
    found.fields["tool_choice"] = choice
    serial = value.get("disable_parallel_tool_use")
    if isinstance(serial, bool):
        found.fields["parallel_tool_calls"] = not serial


def _thinking(value: dict[str, Any], found: OptionFields) -> None:
    kind = value["type"]
    if kind not in ("enabled", "adaptive", "disabled"):
        found.extra["thinking"] = value
        return
    found.fields["thinking"] = "off" if kind == "disabled" else "on"
    budget = value.get("budget_tokens")
    if kind == "enabled" and isinstance(budget, int):
        found.fields["thinking_budget"] = budget
    # `display` and the like: kept, and laid over our own `thinking` when this goes out again.
    found.keep("thinking", rest(value, "type", "budget_tokens"))


def _output(value: dict[str, Any], found: OptionFields) -> None:
    left = dict(value)
    if left.get("effort") in EFFORTS:
        found.fields["effort"] = left.pop("effort")
    shape = left.get("format")
    # Only the plain shape; one with more in it is kept whole for this host.
    if isinstance(shape, dict) and shape.get("type") == "json_schema" and set(shape) == {"type", "schema"}:
        found.schema(shape["schema"])
        del left["format"]
    found.keep("output_config", left)
