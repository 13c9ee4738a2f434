"""DeepInfra's native inference endpoint (facts/deepinfra-native-schema.json, facts/kimi.md §5).

A stream is made of tokens; the last chunk repeats the whole text and carries the finish reason, counts and cost. A token
flagged `special` is text like any other here: tool markers may be flagged, and what ends an answer is known by its spelling.
A whole body says no finish reason: that it came is the end.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...core.blocks import Usage
from ...core.errors import MalformedStream
from .completion_chunk import CompletionChunk, amount, count, read_shape


class _Token(msgspec.Struct, gc=False):
    text: str | None = None


class _Details(msgspec.Struct, gc=False):
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    token: _Token | None = None
    generated_text: str | None = None
    details: _Details | None = None
    request_id: Any = None
    num_output_tokens: Any = None
    num_input_tokens: Any = None
    estimated_cost: Any = None
    error: Any = None
    error_type: Any = None
    error_message: Any = None
    detail: Any = None


class _Result(msgspec.Struct, gc=False):
    generated_text: str | None = None


class _Body(msgspec.Struct, gc=False):
    results: list[_Result] | None = None
    request_id: Any = None
    num_tokens: Any = None
    num_input_tokens: Any = None
    inference_status: Any = None
    details: _Details | None = None
    error: Any = None
    error_type: Any = None
    error_message: Any = None
    detail: Any = None


_decode_chunk = msgspec.json.Decoder(_Chunk).decode
_decode_body = msgspec.json.Decoder(_Body).decode


def read_chunk(data: bytes) -> CompletionChunk:
    chunk = read_shape(data, _decode_chunk, _Chunk)
    error = _error(chunk)
    if error is not None and chunk.token is None:
        return CompletionChunk(error=error)
    portion = CompletionChunk(
        (chunk.token.text or "") if chunk.token is not None else "",
        whole=chunk.generated_text or "",
        finish=chunk.details.finish_reason if chunk.details is not None else None,
        response_id=_id(chunk.request_id),
    )
    if chunk.num_output_tokens is not None or chunk.num_input_tokens is not None:
        portion.usage = Usage(
            count(chunk.num_input_tokens),
            count(chunk.num_output_tokens),
            cost=amount(chunk.estimated_cost),
            raw={
                "num_input_tokens": chunk.num_input_tokens,
                "num_output_tokens": chunk.num_output_tokens,
                "estimated_cost": chunk.estimated_cost,
            },
        )
    return portion


def read_body(data: bytes) -> CompletionChunk:
    body = read_shape(data, _decode_body, _Body)
    error = _error(body)
    status: dict[str, Any] = body.inference_status if isinstance(body.inference_status, dict) else {}
    if error is None and status.get("status") == "failed":
        error = {"message": "the inference failed", "type": "failed"}
    if error is not None:
        return CompletionChunk(error=error)
    if not body.results:
        raise MalformedStream("expected results, got a body without any")
    usage = Usage(
        count(body.num_input_tokens, status.get("tokens_input")),
        count(body.num_tokens, status.get("tokens_generated")),
        cost=amount(status.get("cost")),
        raw={"num_input_tokens": body.num_input_tokens, "num_tokens": body.num_tokens, "inference_status": status},
    )
    return CompletionChunk(
        body.results[0].generated_text or "",
        finish=(body.details.finish_reason if body.details is not None else None) or "stop",
        usage=usage,
        response_id=_id(body.request_id),
    )


def _error(said: _Chunk | _Body) -> Any:
    if said.error_type is not None or said.error_message is not None:
        return {"type": said.error_type, "message": said.error_message}
    if said.error is None and said.detail is not None:
        return {"detail": said.detail}
    return said.error


def _id(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
