"""The events of Cohere's stream: the everyday ones typed and fast, all others read leniently from any JSON object."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from ..lenient_json import decode_object, text_of


class _Shape(msgspec.Struct, gc=False):
    pass


class Words(_Shape):
    """A piece of text or of thinking."""

    text: str | None = None
    thinking: str | None = None


class _ContentMessage(_Shape):
    content: Words


class _ContentPiece(_Shape):
    message: _ContentMessage


class _PlanMessage(_Shape):
    tool_plan: str


class _PlanPiece(_Shape):
    message: _PlanMessage


class Function(_Shape):
    name: str | None = None
    arguments: str | None = None


class Call(_Shape):
    id: str | None = None
    function: Function | None = None


class _CallMessage(_Shape):
    tool_calls: Call


class _CallPiece(_Shape):
    message: _CallMessage


class _Event(msgspec.Struct, gc=False, tag_field="type"):
    pass


# `index` of a content part is not read: parts never overlap.
class ContentDelta(_Event, tag="content-delta"):
    delta: _ContentPiece


class PlanDelta(_Event, tag="tool-plan-delta"):
    delta: _PlanPiece


class CallDelta(_Event, tag="tool-call-delta"):
    delta: _CallPiece
    index: int | None = None


class CallStart(_Event, tag="tool-call-start"):
    delta: _CallPiece
    index: int | None = None


class CallEnd(_Event, tag="tool-call-end"):
    index: int | None = None


class ContentStart(_Event, tag="content-start"):
    delta: dict[str, Any] | None = None


class ContentEnd(_Event, tag="content-end"):
    pass


# Kept as they come: their form depends on the kind of source.
class CitationStart(_Event, tag="citation-start"):
    delta: dict[str, Any] | None = None


class CitationEnd(_Event, tag="citation-end"):
    """Also what stands for every event we do not know: it says that the stream lives."""


class MessageStart(_Event, tag="message-start"):
    id: str | None = None


class MessageEnd(_Event, tag="message-end"):
    delta: dict[str, Any] | None = None


class Failure(_Event, tag="error"):
    """An error instead of an event; never on the wire under this tag."""

    error: Any = None


class Body(_Event, tag="body"):
    """A whole answer instead of an event; never on the wire under this tag."""

    body: dict[str, Any]


StreamEvent: TypeAlias = (
    ContentDelta | PlanDelta | CallDelta | CallStart | CallEnd | ContentStart | ContentEnd | CitationStart | CitationEnd
    | MessageStart | MessageEnd
)  # fmt: skip

decode_event = msgspec.json.Decoder(StreamEvent).decode

# Texts that a host may cut in the middle of a character.
_MAY_SPLIT = frozenset({"text", "thinking", "tool_plan", "arguments"})


def read_event(data: bytes, name: str) -> StreamEvent | Failure | Body:
    """The slow road, for what the typed decoder refuses. `name` is the event's name on its SSE line."""
    value = decode_object(data, "an event object", _MAY_SPLIT)
    delta = inner(value, "delta")
    message = inner(delta, "message")
    index = value["index"] if type(value.get("index")) is int else None
    match value.get("type") or name:
        case "content-delta":
            return ContentDelta(_ContentPiece(_ContentMessage(read_words(message.get("content")))))
        case "tool-plan-delta":
            return PlanDelta(_PlanPiece(_PlanMessage(text_of(message.get("tool_plan")))))
        case "tool-call-delta":
            return CallDelta(_CallPiece(_CallMessage(read_call(message.get("tool_calls")))), index)
        case "tool-call-start":
            return CallStart(_CallPiece(_CallMessage(read_call(message.get("tool_calls")))), index)
        case "tool-call-end":
            return CallEnd(index)
        case "content-start":
            return ContentStart(delta)
        case "content-end":
            return ContentEnd()
        case "citation-start":
            return CitationStart(delta)
        case "message-start":
            return MessageStart(text(value.get("id")))
        case "message-end":
            return MessageEnd(delta)
        case "error":
            return Failure(value)
    # A body or an error where an event belongs: a host that was asked for a stream and does not stream.
    if "type" not in value:
        if isinstance(value.get("message"), dict):
            return Body(value)
        if value.get("message") or value.get("error"):
            return Failure(value)
    return CitationEnd()


def read_words(content: Any) -> Words:
    """One part of a content; what is no part is text."""
    if not isinstance(content, dict):
        return Words(text_of(content))
    return Words(text_of(content.get("text")), text_of(content.get("thinking")))


def read_call(call: Any) -> Call:
    """One call, or a piece of it; of a list, the first."""
    # One call is what the wire has; a list of one is taken as well.
    if isinstance(call, list):
        call = call[0] if call else None
    function = inner(call, "function")
    given = Function(text(function.get("name")), text_of(function.get("arguments")))
    return Call(text(call.get("id")) if isinstance(call, dict) else None, given)


def inner(value: Any, name: str) -> dict[str, Any]:
    """The object under a key; an empty one for anything else."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
