"""The forms of raw completion: where a prompt goes, what stands beside it, how an answer is read. One row each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from . import deepinfra, llamacpp, openai
from .completion_chunk import CompletionChunk


class Flavour(msgspec.Struct, frozen=True):
    path: str
    prompt_field: str
    max_tokens_field: str
    read_chunk: Callable[[bytes], CompletionChunk]
    read_body: Callable[[bytes], CompletionChunk]
    response_format: Callable[[dict[str, Any]], dict[str, Any]]
    names_model: bool = False
    """The model is named in the body."""
    names_user: bool = True
    usage_option: bool = False
    """`stream_options.include_usage` is understood."""
    max_stops: int | None = None


def _as_is(format: dict[str, Any]) -> dict[str, Any]:
    return {"response_format": format}


def _as_schema(format: dict[str, Any]) -> dict[str, Any]:
    """llama.cpp takes the schema itself."""
    if format.get("type") == "text":
        return {}
    named = format.get("json_schema") or {}
    return {"json_schema": named.get("schema") or format.get("schema") or {"type": "object"}}


FLAVOURS = {
    "deepinfra": Flavour(
        "/inference/{model}", "input", "max_new_tokens", deepinfra.read_chunk, deepinfra.read_body, _as_is, max_stops=16
    ),
    "openai": Flavour(
        "/completions", "prompt", "max_tokens", openai.read_chunk, openai.read_body, _as_is,
        names_model=True, usage_option=True,
    ),
    "llamacpp": Flavour(
        "/completion", "prompt", "n_predict", llamacpp.read_chunk, llamacpp.read_body, _as_schema, names_user=False
    ),
}  # fmt: skip
