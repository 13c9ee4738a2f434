"""Ollama chat: a line of JSON a piece, whole tool calls without ids, `done: true` at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..answer import Answer, Style, tokens


def stream(answer: Answer, style: Style) -> Iterator[bytes]:
    for token in tokens(answer.thinking):
        yield _line(style, {"content": "", "thinking": token})
    for token in tokens(answer.text):
        yield _line(style, {"content": token})
    for call in answer.calls:
        yield _line(style, {"content": "", "tool_calls": [_call(call.name, call.arguments)]})
    yield _line(style, {"content": ""}, **_end(answer))


def body(answer: Answer, style: Style) -> bytes:
    message: dict[str, Any] = {"content": answer.text}
    if answer.thinking:
        message["thinking"] = answer.thinking
    if answer.calls:
        message["tool_calls"] = [_call(call.name, call.arguments) for call in answer.calls]
    return _line(style, message, **_end(answer))


def _call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}}


def _end(answer: Answer) -> dict[str, Any]:
    return {
        "done": True,
        "done_reason": "length" if answer.length_stop else "stop",
        "prompt_eval_count": answer.input_tokens,
        "eval_count": answer.output_tokens,
    }


def _line(style: Style, message: dict[str, Any], **fields: Any) -> bytes:
    value = {
        "model": style.model,
        "created_at": "1970-01-01T00:00:00Z",
        "message": {"role": "assistant", **message},
        "done": False,
        **fields,
    }
    return msgspec.json.encode(value) + b"\n"
