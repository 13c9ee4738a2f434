"""Anthropic Messages: content blocks that start, take deltas and stop; thinking ends with its signature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..answer import Answer, Style, pieces, tokens

_STOP = {"end": "end_turn", "calls": "tool_use", "length": "max_tokens"}


def stream(answer: Answer, style: Style) -> Iterator[bytes]:
    start = {**_message(answer, style), "content": [], "stop_reason": None}
    start["usage"] = {**_usage(answer), "output_tokens": 1}
    yield _event("message_start", {"message": start})
    yield _event("ping", {})
    index = 0
    if answer.thinking:
        yield _event(
            "content_block_start",
            {"index": index, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
        )
        for token in tokens(answer.thinking):
            yield _delta(index, {"type": "thinking_delta", "thinking": token})
        yield _delta(index, {"type": "signature_delta", "signature": _signature(answer, style)})
        yield _event("content_block_stop", {"index": index})
        index += 1
    if answer.text:
        yield _event("content_block_start", {"index": index, "content_block": {"type": "text", "text": ""}})
        for token in tokens(answer.text):
            yield _delta(index, {"type": "text_delta", "text": token})
        yield _event("content_block_stop", {"index": index})
        index += 1
    for number, call in enumerate(answer.calls):
        block = {"type": "tool_use", "id": style.call_id(call.name, number), "name": call.name, "input": {}}
        yield _event("content_block_start", {"index": index, "content_block": block})
        for part in ["", *pieces(call.json)]:
            yield _delta(index, {"type": "input_json_delta", "partial_json": part})
        yield _event("content_block_stop", {"index": index})
        index += 1
    ending = {
        "delta": {"stop_reason": _STOP[answer.stop], "stop_sequence": None},
        "usage": {"output_tokens": answer.output_tokens},
    }
    yield _event("message_delta", ending)
    yield _event("message_stop", {})


def body(answer: Answer, style: Style) -> bytes:
    content: list[dict[str, Any]] = []
    if answer.thinking:
        content.append({"type": "thinking", "thinking": answer.thinking, "signature": _signature(answer, style)})
    if answer.text:
        content.append({"type": "text", "text": answer.text})
    for number, call in enumerate(answer.calls):
        content.append(
            {"type": "tool_use", "id": style.call_id(call.name, number), "name": call.name, "input": call.arguments}
        )
    return msgspec.json.encode(
        {**_message(answer, style), "content": content, "stop_reason": _STOP[answer.stop], "usage": _usage(answer)}
    )


def _signature(answer: Answer, style: Style) -> str:
    return f"{style.signature}{len(answer.thinking)}" if style.signature else ""


def _message(answer: Answer, style: Style) -> dict[str, Any]:
    return {
        "id": style.response_id,
        "type": "message",
        "role": "assistant",
        "model": style.model,
        "stop_sequence": None,
    }


def _usage(answer: Answer) -> dict[str, Any]:
    return {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}


def _delta(index: int, delta: dict[str, Any]) -> bytes:
    return _event("content_block_delta", {"index": index, "delta": delta})


def _event(kind: str, fields: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: ".encode() + msgspec.json.encode({"type": kind, **fields}) + b"\n\n"
