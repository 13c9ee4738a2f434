"""Ollama's chat rules: few, but its Go decoder is strict about types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .rule import Apart, Assumed, Body, Problem, Rule, Traits, objects

WIRE = "ollama"
_EFFORTS = ("high", "medium", "low")


def _shape(body: Body, traits: Traits) -> Iterator[str]:
    if not body.get("model"):
        yield "model is required"
    for message in objects(body.get("messages")):
        if message.get("role") not in ("system", "user", "assistant", "tool"):
            yield Assumed(f"invalid role: {message.get('role')!r}, must be system, user, assistant, or tool")
        if not isinstance(message.get("content", ""), str):
            yield "json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type string"
        # Bare base64: the colon of a data URL, at byte 4, is what its decoder complains about.
        if not all(isinstance(image, str) and not image.startswith("data:") for image in message.get("images") or ()):
            yield "illegal base64 data at input byte 4"
        for call in objects(message.get("tool_calls")):
            function = call.get("function")
            if not isinstance(function, dict) or not isinstance(function.get("arguments", {}), dict):
                yield (
                    "json: cannot unmarshal string into Go struct field"
                    " ChatRequest.messages.tool_calls.function.arguments of type api.ToolCallFunctionArguments"
                )


def _thinks(body: Body, traits: Traits) -> Iterator[str]:
    if body.get("think") not in (None, True, False, *_EFFORTS):
        levels = ", ".join(f'"{level}"' for level in _EFFORTS)
        yield f"invalid think value: {body['think']!r} (must be {levels}, true, or false)"


def _answered(body: Body, traits: Traits) -> Iterator[str]:
    """The template prints messages in order: every call should have a result after it."""
    # Counted without ids: Ollama gives none, and results are matched by their order.
    waiting = 0
    for message in objects(body.get("messages")):
        if message.get("role") == "tool":
            waiting -= 1
            continue
        if waiting > 0:
            yield "a tool call has no tool message after it"
        waiting = len(objects(message.get("tool_calls")))
    if waiting > 0:
        yield "a tool call has no tool message after it"


def error(problem: Problem, traits: Traits) -> dict[str, Any]:
    return {"error": problem.message}


RULES = (
    Rule(
        "shape", "documented", "Ollama API reference, POST /api/chat, as its Go types read it", _shape,
        apart=(Apart("assumed", "a role that is none of the four"),),
        guide="ollama.md#shape",
    ),
    Rule("think is known", "documented", "Ollama API reference: think is true, false, high, medium or low", _thinks, guide="ollama.md#thinking"),
    Rule("answered", "assumed", "Ollama's templates print messages in order; it refuses no history for this", _answered, guide="ollama.md#tools"),
)  # fmt: skip
