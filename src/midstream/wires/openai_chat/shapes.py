"""The JSON of OpenAI's chat wire as hosts really send it: every field optional, types as wide as seen in the wild."""

from __future__ import annotations

from typing import Any

import msgspec


# `gc=False`: a chunk is thrown away at once, and cannot be part of a cycle.
class _Shape(msgspec.Struct, gc=False):
    pass


class Function(_Shape):
    name: str | None = None
    arguments: str | dict[str, Any] | list[Any] | None = None


class Call(_Shape):
    index: int | None = None
    id: str | None = None
    function: Function | None = None
    custom: dict[str, Any] | None = None
    extra_content: dict[str, Any] | None = None


class Message(_Shape):
    """A streamed delta, or the whole message of a body."""

    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_text: str | None = None
    thinking: str | None = None
    reasoning_details: str | list[Any] | None = None
    tool_calls: list[Call] | None = None
    refusal: str | None = None
    function_call: Function | None = None
    annotations: list[Any] | None = None
    audio: dict[str, Any] | None = None
    images: list[Any] | None = None


class Choice(_Shape):
    # Missing means the first: some hosts leave it out.
    index: int | None = 0
    delta: Message | None = None
    message: Message | None = None
    finish_reason: str | None = None
    native_finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    text: str | None = None
    error: Any = None


class Chunk(_Shape):
    """One streamed chunk, or a whole body: they differ in `delta` and `message` only."""

    id: str | None = None
    created: float | None = None
    """Not used, but read: a number no machine can hold is no answer."""
    model: str | None = None
    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None
    x_groq: dict[str, Any] | None = None
    citations: list[Any] | None = None
    search_results: list[Any] | None = None
    object: str | None = None
    # Errors of some hosts stand at the top of the chunk, without an object around them.
    message: Any = None
    detail: Any = None
