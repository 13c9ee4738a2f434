"""The forms of raw completion: where a prompt goes, what stands beside it, how an answer is read. One row each.

`deepinfra` is its native inference endpoint (field-guide/raw-completion.md#deepinfras-native-path): a stream is made of
tokens; the last chunk repeats the whole text and carries the finish reason, counts and cost. A token flagged `special` is
text like any other here: tool markers may be flagged, and what ends an answer is known by its spelling. A whole body says no
finish reason: that it came is the end.
`openai` is `/v1/completions`, as vLLM, SGLang and many hosts still speak it: choice 0, usage in a chunk of its own.
`llamacpp` is its `/completion`: pieces of `content`, then one with `stop: true` that says why, counts and timings. There is
no [DONE]: the chunk with `stop` is the end. Older servers say the reason in three booleans instead of `stop_type`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ...core.blocks import Usage
from ...core.errors import MalformedStream
from ..lenient_json import token_count
from ..openai_chat.decode import read_usage
from ..provider_errors import is_error
from .shapes import CompletionChunk, DeepInfraBody, DeepInfraChunk, LlamaCppChunk, OpenAIChunk, read_shape

_decode_deepinfra = msgspec.json.Decoder(DeepInfraChunk).decode
_decode_deepinfra_body = msgspec.json.Decoder(DeepInfraBody).decode
_decode_openai = msgspec.json.Decoder(OpenAIChunk).decode
_decode_llamacpp = msgspec.json.Decoder(LlamaCppChunk).decode


# What differs between hosts of raw completion, as values. The reader and the encoder know none of them by name.
class Flavour(msgspec.Struct, frozen=True):
    path: str
    prompt_field: str
    max_tokens_field: str
    read_chunk: Callable[[bytes], CompletionChunk]
    read_body: Callable[[bytes], CompletionChunk]
    response_format: Callable[[dict[str, Any]], dict[str, Any]]
    names_model: bool = False
    """The model is named in the body."""
    usage_option: bool = False
    """`stream_options.include_usage` is understood."""
    max_stops: int | None = None


def _deepinfra_chunk(data: bytes) -> CompletionChunk:
    chunk = read_shape(data, _decode_deepinfra, DeepInfraChunk)
    error = _deepinfra_error(chunk)
    if error is not None and chunk.token is None:
        return CompletionChunk(error=error)
    read = CompletionChunk(
        (chunk.token.text or "") if chunk.token is not None else "",
        # The last chunk repeats the whole text (field-guide/raw-completion.md#deepinfras-native-path):
        # kept apart, so that it is not said twice.
        whole=chunk.generated_text or "",
        finish=chunk.details.finish_reason if chunk.details is not None else None,
        response_id=_text_or_none(chunk.request_id),
    )
    if chunk.num_output_tokens is not None or chunk.num_input_tokens is not None:
        read.usage = Usage(
            token_count(chunk.num_input_tokens),
            token_count(chunk.num_output_tokens),
            cost=_amount(chunk.estimated_cost),
            raw={
                "num_input_tokens": chunk.num_input_tokens,
                "num_output_tokens": chunk.num_output_tokens,
                "estimated_cost": chunk.estimated_cost,
            },
        )
    return read


def _deepinfra_body(data: bytes) -> CompletionChunk:
    body = read_shape(data, _decode_deepinfra_body, DeepInfraBody)
    error = _deepinfra_error(body)
    status: dict[str, Any] = body.inference_status if isinstance(body.inference_status, dict) else {}
    if error is None and status.get("status") == "failed":
        error = {"message": "the inference failed", "type": "failed"}
    if error is not None:
        return CompletionChunk(error=error)
    if not body.results:
        raise MalformedStream("expected results, got a body without any")
    counts = {
        "num_input_tokens": body.num_input_tokens,
        "num_tokens": body.num_tokens,
        "inference_status": status or None,
    }
    usage = Usage(
        token_count(body.num_input_tokens, status.get("tokens_input")),
        token_count(body.num_tokens, status.get("tokens_generated")),
        cost=_amount(status.get("cost")),
        raw={**counts, "inference_status": status},
    )
    return CompletionChunk(
        body.results[0].generated_text or "",
        # A body says no reason, and that it came is the end.
        finish=(body.details.finish_reason if body.details is not None else None) or "stop",
        usage=usage if any(value is not None for value in counts.values()) else None,
        response_id=_text_or_none(body.request_id),
    )


def _deepinfra_error(said: DeepInfraChunk | DeepInfraBody) -> Any:
    if said.error_type is not None or said.error_message is not None:
        return {"type": said.error_type, "message": said.error_message}
    if said.error is None and said.detail is not None:
        return {"detail": said.detail}
    return said.error


def _text_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _openai_chunk(data: bytes) -> CompletionChunk:
    chunk = read_shape(data, _decode_openai, OpenAIChunk)
    if chunk.error is not None and is_error(chunk.error, beside=chunk.choices):
        return CompletionChunk(error=chunk.error)
    if chunk.choices is None and (chunk.detail is not None or chunk.object == "error"):
        return CompletionChunk(error={"message": chunk.message, "detail": chunk.detail})
    read = CompletionChunk(
        model=_text_or_none(chunk.model) or "",
        response_id=_text_or_none(chunk.id),
        usage=read_usage(chunk.usage) if isinstance(chunk.usage, dict) and chunk.usage else None,
    )
    for choice in chunk.choices or ():
        if not choice.index:
            read.text += choice.text or ""
            read.finish = choice.finish_reason or read.finish
    return read


def _openai_body(data: bytes) -> CompletionChunk:
    read = _openai_chunk(data)
    if read.error is None and read.finish is None and not read.text:
        raise MalformedStream("expected choices, got a body without any")
    return read


def _llamacpp_chunk(data: bytes) -> CompletionChunk:
    chunk = read_shape(data, _decode_llamacpp, LlamaCppChunk)
    if chunk.error is not None and is_error(chunk.error, beside=chunk.content):
        return CompletionChunk(error=chunk.error)
    read = CompletionChunk(chunk.content or "", model=_text_or_none(chunk.model) or "")
    if chunk.stop:
        # Older servers have booleans; only the limit matters, since any other end is a good one.
        read.finish = chunk.stop_type or ("limit" if chunk.stopped_limit else "eos")
        timings: dict[str, Any] = chunk.timings if isinstance(chunk.timings, dict) else {}
        if chunk.tokens_evaluated is None and chunk.tokens_predicted is None:
            return read
        read.usage = Usage(
            token_count(chunk.tokens_evaluated),
            token_count(chunk.tokens_predicted),
            cache_read=token_count(timings.get("cache_n")),
            raw={
                "tokens_evaluated": chunk.tokens_evaluated,
                "tokens_predicted": chunk.tokens_predicted,
                "timings": chunk.timings,
            },
        )
    return read


def _llamacpp_body(data: bytes) -> CompletionChunk:
    read = _llamacpp_chunk(data)
    if read.error is None and read.finish is None and not read.text:
        raise MalformedStream("expected a completion, got a body without one")
    return read


def _as_is(format: dict[str, Any]) -> dict[str, Any]:
    return {"response_format": format}


def _as_schema(format: dict[str, Any]) -> dict[str, Any]:
    """llama.cpp takes the schema itself."""
    if format.get("type") == "text":
        return {}
    named = format.get("json_schema") or {}
    # JSON without a schema is an object of any kind.
    return {"json_schema": named.get("schema") or format.get("schema") or {"type": "object"}}


def _amount(*values: Any) -> float | None:
    """The first of these that is a number."""
    for value in values:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    return None


FLAVOURS = {
    "deepinfra": Flavour(
        "/inference/{model}", "input", "max_new_tokens", _deepinfra_chunk, _deepinfra_body, _as_is, max_stops=16
    ),
    "openai": Flavour(
        "/completions", "prompt", "max_tokens", _openai_chunk, _openai_body, _as_is,
        names_model=True, usage_option=True,
    ),
    "llamacpp": Flavour(
        "/completion", "prompt", "n_predict", _llamacpp_chunk, _llamacpp_body, _as_schema
    ),
}  # fmt: skip
