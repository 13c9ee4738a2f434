"""llama.cpp's `/completion`: pieces of `content`, then one with `stop: true` that says why, counts and timings.

There is no [DONE]: the chunk with `stop` is the end. Older servers say the reason in three booleans instead of `stop_type`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...core.blocks import Usage
from ...core.errors import MalformedStream
from ..provider_errors import is_error
from .completion_chunk import CompletionChunk, count, read_shape


class _Chunk(msgspec.Struct, gc=False):
    """A streamed chunk and a whole body have the same shape."""

    content: str | None = None
    stop: bool | None = None
    stop_type: str | None = None
    stopped_limit: Any = None
    model: Any = None
    tokens_predicted: Any = None
    tokens_evaluated: Any = None
    timings: Any = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


def read_chunk(data: bytes) -> CompletionChunk:
    chunk = read_shape(data, _decode, _Chunk)
    if chunk.error is not None and is_error(chunk.error, beside=chunk.content):
        return CompletionChunk(error=chunk.error)
    portion = CompletionChunk(chunk.content or "", model=chunk.model if isinstance(chunk.model, str) else "")
    if chunk.stop:
        portion.finish = chunk.stop_type or ("limit" if chunk.stopped_limit else "eos")
        timings: dict[str, Any] = chunk.timings if isinstance(chunk.timings, dict) else {}
        portion.usage = Usage(
            count(chunk.tokens_evaluated),
            count(chunk.tokens_predicted),
            cache_read=count(timings.get("cache_n")),
            raw={
                "tokens_evaluated": chunk.tokens_evaluated,
                "tokens_predicted": chunk.tokens_predicted,
                "timings": chunk.timings,
            },
        )
    return portion


def read_body(data: bytes) -> CompletionChunk:
    portion = read_chunk(data)
    if portion.error is None and portion.finish is None and not portion.text:
        raise MalformedStream("expected a completion, got a body without one")
    return portion
