"""The events of Anthropic's stream: the everyday ones typed and fast, all others read leniently from any JSON object."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from ..lenient_json import decode_object, text_of


class _Shape(msgspec.Struct, gc=False, tag_field="type"):
    pass


class TextPiece(_Shape, tag="text_delta"):
    text: str


class JsonPiece(_Shape, tag="input_json_delta"):
    partial_json: str


class ThinkingPiece(_Shape, tag="thinking_delta"):
    thinking: str


class SignaturePiece(_Shape, tag="signature_delta"):
    signature: str


class CitationPiece(_Shape, tag="citations_delta"):
    # Any: citations differ by kind of source and are only carried.
    citation: Any


Piece: TypeAlias = TextPiece | JsonPiece | ThinkingPiece | SignaturePiece | CitationPiece


class WholeText(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["text"]  # a tag of a lone shape need not be there
    text: str


class TextMessage(msgspec.Struct, forbid_unknown_fields=True):
    """A whole answer that is one text: anything else in it is another message, and is read field by field."""

    content: Annotated[list[WholeText], msgspec.Meta(min_length=1, max_length=1)]
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    id: str = ""
    model: str = ""
    stop_reason: str | None = None
    stop_sequence: None = None
    usage: dict[str, Any] | None = None


class BlockDelta(_Shape, tag="content_block_delta"):
    delta: Piece
    index: int | None = None


class OtherDelta(_Shape, tag="other_delta"):
    """A delta of a kind we have no word for, whole; never on the wire under this tag."""

    delta: dict[str, Any]
    index: int | None = None


class BlockStart(_Shape, tag="content_block_start"):
    content_block: dict[str, Any]
    index: int | None = None


class BlockStop(_Shape, tag="content_block_stop"):
    index: int | None = None


class MessageStart(_Shape, tag="message_start"):
    message: dict[str, Any]


class MessageDelta(_Shape, tag="message_delta"):
    delta: dict[str, Any] | None = None
    usage: dict[str, Any] | None = None
    context_management: Any = None


class MessageStop(_Shape, tag="message_stop"):
    pass


class Ping(_Shape, tag="ping"):
    """Also what stands for every event we do not know: it says that the stream lives."""


class Failure(_Shape, tag="error"):
    error: Any


# A union tagged by `type`: msgspec decodes straight into the right class.
StreamEvent: TypeAlias = (
    BlockDelta | BlockStart | BlockStop | MessageStart | MessageDelta | MessageStop | Ping | Failure
)

decode_event = msgspec.json.Decoder(StreamEvent).decode
_PIECES: dict[str, tuple[Any, str]] = {
    "text_delta": (TextPiece, "text"),
    "input_json_delta": (JsonPiece, "partial_json"),
    "thinking_delta": (ThinkingPiece, "thinking"),
    "signature_delta": (SignaturePiece, "signature"),
}


# Texts that a host may cut in the middle of a character.
_MAY_SPLIT = frozenset(field for _, field in _PIECES.values())


def read_event(data: bytes, name: str) -> StreamEvent | OtherDelta:
    """The slow road, for what the typed decoder refuses. `name` is the event's name on its SSE line."""
    value = decode_object(data, "an event object", _MAY_SPLIT)
    # Some imitators leave the type out of the data and have it on the event's line.
    kind = value.get("type") or name
    index = value["index"] if type(value.get("index")) is int else None
    match kind:
        case "content_block_delta":
            return _delta(_object(value, "delta"), index)
        case "content_block_start":
            return BlockStart(_object(value, "content_block"), index)
        case "content_block_stop":
            return BlockStop(index)
        case "message_start":
            return MessageStart(_object(value, "message"))
        case "message_delta":
            return MessageDelta(_object(value, "delta"), _object(value, "usage"), value.get("context_management"))
        case "message_stop":
            return MessageStop()
    # An error without its frame.
    if kind == "error" or ("error" in value and "type" not in value):
        return Failure(value.get("error", value))
    return Ping()


def _delta(delta: dict[str, Any], index: int | None) -> BlockDelta | OtherDelta:
    shape, field = _PIECES.get(str(delta.get("type")), (None, ""))
    if shape is None:
        return OtherDelta(delta, index)
    return BlockDelta(shape(text_of(delta.get(field))), index)


def _object(value: dict[str, Any], name: str) -> dict[str, Any]:
    inner = value.get(name)
    return inner if isinstance(inner, dict) else {}
