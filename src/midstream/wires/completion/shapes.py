"""The JSON of raw completions as hosts really send it, and what one chunk or body says, the same for every flavour."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from ...core.blocks import Usage
from ..lenient_json import convert_leniently, decode_object, text_of

T = TypeVar("T")
# Where text belongs in any of these shapes; a host that puts JSON there means its text.
_TEXTS = ("text", "content", "generated_text")


class CompletionChunk(msgspec.Struct, gc=False):
    """`text` goes on where the last chunk ended; `whole` is the answer said once more, for a stream that said nothing."""

    text: str = ""
    whole: str = ""
    finish: str | None = None
    usage: Usage | None = None
    model: str = ""
    response_id: str | None = None
    error: Any = None


class DeepInfraToken(msgspec.Struct, gc=False):
    text: str | None = None


class DeepInfraDetails(msgspec.Struct, gc=False):
    finish_reason: str | None = None


class DeepInfraChunk(msgspec.Struct, gc=False):
    token: DeepInfraToken | None = None
    generated_text: str | None = None
    details: DeepInfraDetails | None = None
    # `Any` for what is only passed on: a wrong type there must not cost the answer.
    request_id: Any = None
    num_output_tokens: Any = None
    num_input_tokens: Any = None
    estimated_cost: Any = None
    error: Any = None
    error_type: Any = None
    error_message: Any = None
    detail: Any = None


class DeepInfraResult(msgspec.Struct, gc=False):
    generated_text: str | None = None


class DeepInfraBody(msgspec.Struct, gc=False):
    results: list[DeepInfraResult] | None = None
    request_id: Any = None
    num_tokens: Any = None
    num_input_tokens: Any = None
    inference_status: Any = None
    details: DeepInfraDetails | None = None
    error: Any = None
    error_type: Any = None
    error_message: Any = None
    detail: Any = None


class OpenAIChoice(msgspec.Struct, gc=False):
    index: int | None = 0
    text: str | None = None
    finish_reason: str | None = None


class OpenAIChunk(msgspec.Struct, gc=False):
    """A streamed chunk and a whole body have the same shape."""

    id: Any = None
    model: Any = None
    choices: list[OpenAIChoice] | None = None
    usage: Any = None
    error: Any = None
    detail: Any = None
    object: Any = None
    message: Any = None


class LlamaCppChunk(msgspec.Struct, gc=False):
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


def read_shape(data: bytes, decode: Callable[[bytes], T], shape: type[T]) -> T:
    """Typed and fast, or lenient and slow; MalformedStream if it is no such object."""
    try:
        return decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        value = decode_object(data, "a chunk object", _TEXTS)
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
