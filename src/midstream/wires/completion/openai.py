"""OpenAI's `/v1/completions`, as vLLM, SGLang and many hosts still speak it: choice 0, usage in a chunk of its own."""

from __future__ import annotations

from typing import Any

import msgspec

from ...core.errors import MalformedStream
from ..openai_chat.decode import read_usage
from ..provider_errors import is_error
from .completion_chunk import CompletionChunk, read_shape


class _Choice(msgspec.Struct, gc=False):
    index: int | None = 0
    text: str | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    """A streamed chunk and a whole body have the same shape."""

    id: Any = None
    model: Any = None
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    detail: Any = None
    object: Any = None
    message: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


def read_chunk(data: bytes) -> CompletionChunk:
    chunk = read_shape(data, _decode, _Chunk)
    if chunk.error is not None and is_error(chunk.error, beside=chunk.choices):
        return CompletionChunk(error=chunk.error)
    if chunk.choices is None and (chunk.detail is not None or chunk.object == "error"):
        return CompletionChunk(error={"message": chunk.message, "detail": chunk.detail})
    portion = CompletionChunk(
        model=chunk.model if isinstance(chunk.model, str) else "",
        response_id=chunk.id if isinstance(chunk.id, str) and chunk.id else None,
        usage=read_usage(chunk.usage) if isinstance(chunk.usage, dict) else None,
    )
    for choice in chunk.choices or ():
        if not choice.index:
            portion.text += choice.text or ""
            portion.finish = choice.finish_reason or portion.finish
    return portion


def read_body(data: bytes) -> CompletionChunk:
    portion = read_chunk(data)
    if portion.error is None and portion.finish is None and not portion.text:
        raise MalformedStream("expected choices, got a body without any")
    return portion
