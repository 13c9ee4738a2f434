"""What one chunk or body of a completion says, the same for every flavour."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from ...core.blocks import Usage
from ...core.errors import MalformedStream
from ..lenient_json import convert_leniently, decode_leniently, text_of


class CompletionChunk(msgspec.Struct, gc=False):
    """`text` goes on where the last portion ended; `whole` is the answer said once more, for a stream that said nothing."""

    text: str = ""
    whole: str = ""
    finish: str | None = None
    usage: Usage | None = None
    model: str = ""
    response_id: str | None = None
    error: Any = None


T = TypeVar("T")
_TEXTS = ("text", "content", "generated_text")


def read_shape(data: bytes, decode: Callable[[bytes], T], shape: type[T]) -> T:
    """Typed and fast, or lenient and slow; MalformedStream if it is no such object."""
    try:
        return decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        value = decode_leniently(data, _TEXTS)
        if not isinstance(value, dict):
            raise MalformedStream(f"expected a chunk object, got {type(value).__name__}") from None
        return convert_leniently(_with_texts(value), shape)


def _with_texts(value: Any) -> Any:
    """The same with JSON as text where text belongs."""
    if isinstance(value, list):
        return [_with_texts(item) for item in value]
    if isinstance(value, dict):
        return {
            key: text_of(item) if key in _TEXTS and item is not None else _with_texts(item)
            for key, item in value.items()
        }
    return value


def count(*values: Any) -> int:
    """The first of these that is a positive number."""
    for value in values:
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf"):
            return int(value)
    return 0


def amount(*values: Any) -> float | None:
    """The first of these that is a number."""
    for value in values:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    return None
