"""The JSON of the Responses wire as hosts really send it: every field optional, types as wide as seen in the wild.

One Struct reads every event. What is large and mostly not needed (the whole response object, items, parts) stays raw
bytes until somebody asks for it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..lenient_json import decode_leniently, decode_object, json_value, text_of

_NONE = msgspec.Raw(b"")
# Indexes beyond this are garbage, and Python would happily count there.
_MOST = 1 << 31


# One shape for all kinds of events, because they share their few fields; a union of forty would say no more.
class ResponseEvent(msgspec.Struct, gc=False):
    """One event of the stream. Raw fields are empty when absent."""

    type: str | None = None
    delta: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    item_id: str | None = None
    # Raw: an item or a response may be large, and most events that carry one are not read at all.
    item: msgspec.Raw = _NONE
    part: msgspec.Raw = _NONE
    response: msgspec.Raw = _NONE
    annotation: msgspec.Raw = _NONE
    error: msgspec.Raw = _NONE
    arguments: str | None = None
    input: str | None = None
    name: str | None = None


class ResponseHead(msgspec.Struct, gc=False):
    """All that is read of the response object before the end."""

    id: str | None = None
    model: str | None = None


_RAW_FIELDS = ("item", "part", "response", "annotation", "error")
_TEXT_FIELDS = ("type", "delta", "item_id", "arguments", "input", "name")
_NUMBER_FIELDS = ("output_index", "content_index", "summary_index")

decode_event = msgspec.json.Decoder(ResponseEvent).decode
_decode_head = msgspec.json.Decoder(ResponseHead).decode


def read_event(data: bytes) -> ResponseEvent:
    """Typed and fast, or lenient and slow; MalformedStream if it is no event."""
    try:
        return decode_event(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        # Only a delta can be cut in the middle of a character.
        value = decode_object(data, "an event object", ("delta",))
        return _softened(value)


def read_head(raw: msgspec.Raw) -> ResponseHead:
    try:
        return _decode_head(raw)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return ResponseHead()


def read_raw(raw: msgspec.Raw) -> Any:
    """The value of a raw field; None where it was absent."""
    if not raw:
        return None
    data = bytes(raw)
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return decode_leniently(data)


def read_object(raw: msgspec.Raw) -> dict[str, Any]:
    """The object in a raw field; an empty one for anything else."""
    value = read_raw(raw)
    return value if isinstance(value, dict) else {}


def _softened(value: dict[str, Any]) -> ResponseEvent:
    """An event whose fields have surprising types, with those fields made fit or left out."""
    event = ResponseEvent()
    for name in _TEXT_FIELDS:
        found = value.get(name)
        if found is not None:
            setattr(event, name, text_of(found))
    for name in _NUMBER_FIELDS:
        found = value.get(name)
        if isinstance(found, (int, float)) and 0 <= found < _MOST:
            setattr(event, name, int(found))
    for name in _RAW_FIELDS:
        if value.get(name) is not None:
            setattr(event, name, msgspec.Raw(json_value(value[name])))
    return event
