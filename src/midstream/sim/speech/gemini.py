"""Gemini: whole parts in each chunk; the first function call of a turn carries its thought signature."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..answer import Answer, Style, tokens

_FINISH = {"end": "STOP", "calls": "STOP", "length": "MAX_TOKENS"}


def stream(answer: Answer, style: Style) -> Iterator[bytes]:
    for token in tokens(answer.thinking):
        yield _chunk(answer, style, [{"text": token, "thought": True}])
    for token in tokens(answer.text):
        yield _chunk(answer, style, [{"text": token}])
    calls = _calls(answer, style)
    if calls:
        yield _chunk(answer, style, calls)
    yield _chunk(answer, style, [{"text": ""}], _FINISH[answer.stop])


def body(answer: Answer, style: Style) -> bytes:
    parts: list[dict[str, Any]] = []
    if answer.thinking:
        parts.append({"text": answer.thinking, "thought": True})
    if answer.text:
        parts.append({"text": answer.text})
    return msgspec.json.encode(_response(answer, style, [*parts, *_calls(answer, style)], _FINISH[answer.stop]))


def _calls(answer: Answer, style: Style) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for number, call in enumerate(answer.calls):
        part: dict[str, Any] = {"functionCall": {"name": call.name, "args": call.arguments}}
        if number == 0 and style.signature:
            part["thoughtSignature"] = f"{style.signature}{len(call.json)}"
        parts.append(part)
    return parts


def _response(answer: Answer, style: Style, parts: list[dict[str, Any]], finish: str | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    if finish:
        candidate["finishReason"] = finish
    said = answer.output_tokens - answer.reasoning_tokens
    usage = {
        "promptTokenCount": answer.input_tokens,
        "candidatesTokenCount": said,
        "thoughtsTokenCount": answer.reasoning_tokens,
        "totalTokenCount": answer.input_tokens + answer.output_tokens,
    }
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": style.model,
        "responseId": style.response_id,
    }


def _chunk(answer: Answer, style: Style, parts: list[dict[str, Any]], finish: str | None = None) -> bytes:
    return b"data: " + msgspec.json.encode(_response(answer, style, parts, finish)) + b"\r\n\r\n"
