"""Raw completion: tokens of text as the model itself writes them, thinking, channels and calls included.

The chunks take the form of DeepInfra's native path, of OpenAI's `/v1/completions` or of llama.cpp's `/completion`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ...core.blocks import ToolCall
from ...toolformats.registry import text_format
from ..answer import Answer, Call, Style, pieces, tokens

_FINISH = {"end": "stop", "calls": "stop", "length": "length"}
# Bare JSON is a call only where nothing was said before it.
_OPENERS = {"llama": "<|python_tag|>"}
_STOP_TYPE = {"end": "eos", "calls": "eos", "length": "limit"}


def stream(answer: Answer, style: Style) -> Iterator[bytes]:
    raw = _raw_tokens(answer, style)
    if style.completion == "openai":
        yield from _openai(raw, answer, style)
    elif style.completion == "llamacpp":
        yield from _llamacpp(raw, answer, style)
    else:
        yield from _deepinfra(raw, answer)


def body(answer: Answer, style: Style) -> bytes:
    text = "".join(_raw_tokens(answer, style))
    if style.completion == "openai":
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": _FINISH[answer.stop]}
        return msgspec.json.encode({**_frame(style), "choices": [choice], "usage": _usage(answer)})
    if style.completion == "llamacpp":
        return msgspec.json.encode({"content": text, **_llamacpp_end(answer, style)})
    return msgspec.json.encode(
        {
            "results": [{"generated_text": text}],
            "num_tokens": answer.output_tokens,
            "num_input_tokens": answer.input_tokens,
            "request_id": style.response_id,
            "inference_status": {"status": "succeeded", "runtime_ms": 1, "cost": 0.0},
        }
    )


def _deepinfra(raw: list[str], answer: Answer) -> Iterator[bytes]:
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


def _openai(raw: list[str], answer: Answer, style: Style) -> Iterator[bytes]:
    frame = _frame(style)
    for token in raw:
        yield _chunk({**frame, "choices": [{"index": 0, "text": token, "logprobs": None, "finish_reason": None}]})
    yield _chunk({**frame, "choices": [{"index": 0, "text": "", "finish_reason": _FINISH[answer.stop]}]})
    yield _chunk({**frame, "choices": [], "usage": _usage(answer)})
    yield b"data: [DONE]\n\n"


def _llamacpp(raw: list[str], answer: Answer, style: Style) -> Iterator[bytes]:
    for token in raw:
        yield _chunk({"index": 0, "content": token, "tokens": [], "stop": False, "id_slot": -1})
    yield _chunk({"index": 0, "content": "", "tokens": [], **_llamacpp_end(answer, style)})


def _llamacpp_end(answer: Answer, style: Style) -> dict[str, Any]:
    return {
        "stop": True,
        "stop_type": _STOP_TYPE[answer.stop],
        "stopping_word": "",
        "model": style.model,
        "tokens_predicted": answer.output_tokens,
        "tokens_evaluated": answer.input_tokens,
        "timings": {"cache_n": 0, "prompt_n": answer.input_tokens, "predicted_n": answer.output_tokens},
    }


def _raw_tokens(answer: Answer, style: Style) -> list[str]:
    if style.text_format == "kimi-k3":
        return _k3_tokens(answer, style)
    said: list[str] = []
    if style.starts_inside:
        said = [*tokens(answer.thinking), "</think>"]
    elif answer.thinking:
        said = ["<think>", *tokens(answer.thinking), "</think>"]
    said += tokens(answer.text)
    if style.text_format == "kimi" and answer.calls:
        said.append("<|tool_calls_section_begin|>")
        for number, call in enumerate(answer.calls):
            said += ["<|tool_call_begin|>", f"functions.{call.name}:{style.first_call + number}"]
            said += ["<|tool_call_argument_begin|>", *pieces(call.json), "<|tool_call_end|>"]
        said.append("<|tool_calls_section_end|>")
        return said
    return said + _written_calls(answer.calls, style)


def _k3_tokens(answer: Answer, style: Style) -> list[str]:
    said: list[str] = []
    if style.starts_inside:
        said = [*tokens(answer.thinking), "<|close|>", "think", "<|sep|>"]
    if answer.text:
        said += ["<|open|>", "response", "<|sep|>", *tokens(answer.text), "<|close|>", "response", "<|sep|>"]
    return said + _written_calls(answer.calls, style)


def _written_calls(calls: tuple[Call, ...], style: Style) -> list[str]:
    """The calls as the model's own format writes them."""
    if not calls:
        return []
    written = [ToolCall(f"sim{number}", call.name, call.json) for number, call in enumerate(calls)]
    ids = [style.call_id(call.name, number) for number, call in enumerate(calls)]
    opener = _OPENERS.get(style.text_format, "")
    return [opener, *pieces(text_format(style.text_format).render_calls(written, ids))]


def _frame(style: Style) -> dict[str, Any]:
    return {"id": style.response_id, "object": "text_completion", "created": 0, "model": style.model}


def _usage(answer: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
    }


def _token(text: str) -> dict[str, Any]:
    return {"id": None, "text": text, "logprob": 0, "special": text.startswith("<|")}


def _chunk(value: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"
