"""DeepInfra's native path: tokens of raw text, beginning inside thinking; calls as the model itself writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..answer import Answer, Voice, pieces, tokens

_FINISH = {"end": "stop", "calls": "stop", "length": "length"}


def stream(answer: Answer, voice: Voice) -> Iterator[bytes]:
    raw = _raw_tokens(answer, voice)
    for token in raw:
        yield _chunk({"token": _token(token), "generated_text": "", "details": None})
    ending = {
        "token": _token(""),
        "generated_text": "".join(raw),
        "details": {"finish_reason": _FINISH[answer.stop]},
        "num_output_tokens": answer.output_tokens,
        "num_input_tokens": answer.input_tokens,
        "estimated_cost": answer.output_tokens / 1_000_000,
    }
    yield _chunk(ending)
    yield b"data: [DONE]\n\n"


def body(answer: Answer, voice: Voice) -> bytes:
    return msgspec.json.encode(
        {
            "results": [{"generated_text": "".join(_raw_tokens(answer, voice))}],
            "num_tokens": answer.output_tokens,
            "num_input_tokens": answer.input_tokens,
            "request_id": voice.response_id,
            "inference_status": {"status": "succeeded", "runtime_ms": 1, "cost": 0.0},
        }
    )


def _raw_tokens(answer: Answer, voice: Voice) -> list[str]:
    said = [*tokens(answer.thinking), "</think>", *tokens(answer.text)]
    if answer.calls:
        said.append("<|tool_calls_section_begin|>")
        for number, call in enumerate(answer.calls):
            said += ["<|tool_call_begin|>", f"functions.{call.name}:{voice.first_call + number}"]
            said += ["<|tool_call_argument_begin|>", *pieces(call.json), "<|tool_call_end|>"]
        said.append("<|tool_calls_section_end|>")
    return said


def _token(text: str) -> dict[str, Any]:
    return {"id": None, "text": text, "logprob": 0, "special": False}


def _chunk(value: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
