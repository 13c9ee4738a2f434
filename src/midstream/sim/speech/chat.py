"""OpenAI chat: deltas, then a finish reason, usage in a chunk of its own, [DONE]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ...core.tools import INPUT
from ..answer import Answer, Call, Style, pieces, tokens

_FINISH = {"end": "stop", "calls": "tool_calls", "length": "length"}


def stream(answer: Answer, style: Style) -> Iterator[bytes]:
    yield _chunk(style, {"role": "assistant", "content": ""})
    for token in tokens(answer.thinking):
        yield _chunk(style, {style.reasoning_field: token})
    for token in tokens(answer.text):
        yield _chunk(style, {"content": token})
    for number, call in enumerate(answer.calls):
        said = _said(call)
        parts = [said] if style.whole_calls else ["", *pieces(said)]
        yield _chunk(style, {"tool_calls": [{"index": number, **_head(call, number, style, parts[0])}]})
        for part in parts[1:]:
            more = {"custom": {"input": part}} if call.kind == "freeform" else {"function": {"arguments": part}}
            yield _chunk(style, {"tool_calls": [{"index": number, **more}]})
    yield _chunk(style, {}, _FINISH[answer.stop])
    yield _data({**_frame(style, "chat.completion.chunk"), "choices": [], "usage": _usage(answer)})
    yield b"data: [DONE]\n\n"


def body(answer: Answer, style: Style) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.thinking:
        message[style.reasoning_field] = answer.thinking
    if answer.calls:
        message["tool_calls"] = [_head(call, number, style, _said(call)) for number, call in enumerate(answer.calls)]
    choice = {"index": 0, "message": message, "finish_reason": _FINISH[answer.stop]}
    return msgspec.json.encode({**_frame(style, "chat.completion"), "choices": [choice], "usage": _usage(answer)})


def _said(call: Call) -> str:
    return str(call.arguments.get(INPUT, "")) if call.kind == "freeform" else call.json


def _head(call: Call, number: int, style: Style, arguments: str) -> dict[str, Any]:
    if call.kind == "freeform":
        custom = {"name": call.name, "input": arguments}
        return {"id": style.call_id(call.name, number), "type": "custom", "custom": custom}
    function = {"name": call.name, "arguments": arguments}
    return {"id": style.call_id(call.name, number), "type": "function", "function": function}


def _frame(style: Style, kind: str) -> dict[str, Any]:
    return {"id": style.response_id, "object": kind, "created": 0, "model": style.model}


def _chunk(style: Style, delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _data({**_frame(style, "chat.completion.chunk"), "choices": [choice]})


def _usage(answer: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "completion_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
    }


def _data(value: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
