"""Cohere chat: named events; content parts and calls are opened, filled and ended; usage and the end in `message-end`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..answer import Answer, Call, Style, pieces, tokens

_FINISH = {"end": "COMPLETE", "calls": "TOOL_CALL", "length": "MAX_TOKENS"}


def stream(answer: Answer, style: Style) -> Iterator[bytes]:
    empty = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    yield _event("message-start", id=style.response_id, delta={"message": empty})
    if style.reasoning_field == "tool_plan":
        for token in tokens(answer.thinking):
            yield _message("tool-plan-delta", {"tool_plan": token})
    parts = _parts(answer, style)
    for index, part in enumerate(parts):
        kind = part["type"]
        yield _message("content-start", {"content": {"type": kind, kind: ""}}, index=index)
        for token in tokens(part[kind]):
            yield _message("content-delta", {"content": {kind: token}}, index=index)
        yield _event("content-end", index=index)
    for index, call in enumerate(answer.calls):
        yield _message("tool-call-start", {"tool_calls": _call(call, index, style, "")}, index=index)
        for piece in pieces(call.json):
            yield _message("tool-call-delta", {"tool_calls": {"function": {"arguments": piece}}}, index=index)
        yield _event("tool-call-end", index=index)
    yield _event("message-end", delta=_end(answer))
    yield b"data: [DONE]\n\n"


def body(answer: Answer, style: Style) -> bytes:
    message: dict[str, Any] = {"role": "assistant"}
    parts = _parts(answer, style)
    if parts:
        message["content"] = parts
    if answer.thinking and style.reasoning_field == "tool_plan":
        message["tool_plan"] = answer.thinking
    if answer.calls:
        message["tool_calls"] = [_call(call, index, style, call.json) for index, call in enumerate(answer.calls)]
    return msgspec.json.encode({"id": style.response_id, "message": message, **_end(answer)})


def _parts(answer: Answer, style: Style) -> list[dict[str, Any]]:
    parts = []
    if answer.thinking and style.reasoning_field != "tool_plan":
        parts.append({"type": "thinking", "thinking": answer.thinking})
    if answer.text:
        parts.append({"type": "text", "text": answer.text})
    return parts


def _call(call: Call, index: int, style: Style, arguments: str) -> dict[str, Any]:
    function = {"name": call.name, "arguments": arguments}
    return {"id": style.call_id(call.name, index), "type": "function", "function": function}


def _end(answer: Answer) -> dict[str, Any]:
    said = {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}
    usage = {"billed_units": said, "tokens": {**said, "reasoning_tokens": answer.reasoning_tokens}, "cached_tokens": 0}
    return {"finish_reason": _FINISH[answer.stop], "usage": usage}


def _message(kind: str, message: dict[str, Any], **fields: Any) -> bytes:
    return _event(kind, **fields, delta={"message": message})


def _event(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), msgspec.json.encode({"type": kind, **fields}))
