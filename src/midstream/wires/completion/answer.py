"""Events -> the text of a raw model, in the chunks of one flavour: thinking in its tags, calls as the model writes them.

A text is all this wire has: borders, signatures and blocks are lost. Where the text format has marks around each call, calls are
written as they come; in other formats those that follow each other are written together, once the last is known to be the last.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from ...core.blocks import Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn, Usage
from ...core.errors import MidstreamError
from ...core.events import (
    BlockEvent,
    Done,
    ErrorEvent,
    Event,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ...core.ids import STRATEGIES
from ...toolformats.registry import text_format
from ..answer import COMMENT, AnswerContext, CallIds, LeftOut, openai_refusal, sse, stop_word
from ..lenient_json import json_value
from ..openai_chat.answer import write_usage
from ..sse import DONE
from .wire import DEFAULT

FINISH = {"end_turn": "stop", "tool_use": "stop", "max_tokens": "length", "refusal": "content_filter"}
_STOP_TYPES = {"stop": "eos", "length": "limit"}
# Written before a bare JSON call, so that a reader of the text takes it for one in any place.
_OPENERS = {"llama": "<|python_tag|>"}
"""Bare JSON is a call only where nothing was said before it."""
_TAGS = ("<think>", "</think>")
_CALL_MARKS = {
    "kimi": (
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>{id}<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        "<|tool_calls_section_end|>",
    ),
}
"""Formats that can be written while a call streams: before the calls, before one's arguments, behind them, behind all."""
# Real models write each marker as a single token, and hosts stream token by token.
_MARK = re.compile(r"(<\|[^|]*\|>)")
_CHANNELS = {"kimi-k3": {"text": "response", "thinking": "think"}}
"""Formats whose texts stand in channels, by what is said in them."""


class _Flavour(msgspec.Struct, frozen=True):
    piece: Callable[[str, AnswerContext], dict[str, Any]]
    end: Callable[[str, Turn, str, AnswerContext], list[dict[str, Any]]]
    """The last chunks, given the whole text and the finish reason."""
    body: Callable[[str, Turn, str, AnswerContext], dict[str, Any]]
    says_done: bool = True


def make_writer(context: AnswerContext) -> CompletionWriter:
    return CompletionWriter(context)


class CompletionWriter:
    media_type = "text/event-stream"

    __slots__ = (
        "_calls", "_context", "_flavour", "_format", "_ids", "_in_calls", "_left_out", "_marks", "_said", "_thinks", "notes",
    )  # fmt: skip

    def __init__(self, context: AnswerContext) -> None:
        habits = context.habits
        self._context = context
        self._flavour = _FLAVOURS[habits.completion]
        self._format = habits.text_format
        # A format may write the id and no name (Kimi's): it must be of the scheme that the model was taught.
        self._ids = CallIds(context, habits.text_format if habits.text_format in STRATEGIES else "standard")
        self._left_out = LeftOut(DEFAULT.wire)
        self.notes = self._left_out.notes
        self._marks = _CALL_MARKS.get(habits.text_format)
        self._in_calls = False  # the marks before the calls have been written, and not those behind
        self._calls: list[ToolCall] = []  # those that wait for the last of their group
        self._said: list[str] = []
        # Closed by the first thing that is not thinking, if nobody closed it.
        self._thinks = habits.starts_inside  # the model is inside its thinking, by the prompt's word

    def event(self, event: Event) -> bytes:
        match event:
            case TextDelta() | ThinkingDelta():
                return self._say(event.delta)
            case TextStart():
                return self._end_calls() + self._mark(self._thought() + self._opened("text"))
            case ThinkingStart():
                return self._end_calls() + self._mark(self._opened("thinking"))
            case ThinkingEnd():
                self._thinks = False
                return self._mark(self._closed("thinking"))
            case ToolCallStart():
                return self._mark(self._thought()) + self._open_call(event)
            case ToolCallDelta():
                # Other formats can only be written when the call is whole.
                return self._say(event.delta) if self._marks else b""
            case ToolCallEnd():
                return self._end_call(event.block)
            case BlockEvent():
                return self._left_out.block(event.block)
            case Done():
                return self._end(event.turn)
            case ErrorEvent():
                return self.error(event.to_exception(), mid_stream=True)[1]
            case TextEnd():
                return self._mark(self._closed("text"))
        return b""

    def body(self, turn: Turn) -> bytes:
        for block in turn.blocks:
            match block:
                case Text():
                    self._end_calls()
                    self._said += [self._thought(), self._opened("text"), block.text, self._closed("text")]
                case Thinking():
                    self._end_calls()
                    self._said += [self._opened("thinking"), block.text, self._closed("thinking")]
                    self._thinks = False
                case ToolCall():
                    self._said.append(self._thought())
                    self._open_call(ToolCallStart(0, block.id, block.name))
                    if self._marks:
                        self._said.append(block.arguments)
                    self._end_call(block)
                case Media() | Opaque():
                    self._left_out.block(block)
                case ToolResponse():
                    self._left_out.note("tool_response", "misplaced_block", "a result is not a part of an answer")
        self._end_calls()
        self._said.append(self._thought())
        return json_value(self._flavour.body("".join(self._said), turn, self._finish(turn), self._context))

    def error(self, error: MidstreamError, *, mid_stream: bool = False) -> tuple[int, bytes]:
        return openai_refusal(error, mid_stream=mid_stream)

    def keep_alive(self) -> bytes:
        return COMMENT

    def _say(self, text: str) -> bytes:
        if not text:
            return b""
        self._said.append(text)
        return sse(json_value(self._flavour.piece(text, self._context)))

    def _opened(self, kind: str) -> str:
        channel = _CHANNELS.get(self._format, {}).get(kind)
        if kind == "thinking" and self._thinks:
            return ""  # by the prompt already
        if channel:
            return f"<|open|>{channel}<|sep|>"
        return _TAGS[0] if kind == "thinking" else ""

    def _closed(self, kind: str) -> str:
        channel = _CHANNELS.get(self._format, {}).get(kind)
        if channel:
            return f"<|close|>{channel}<|sep|>"
        return _TAGS[1] if kind == "thinking" else ""

    def _mark(self, text: str) -> bytes:
        """What stands around the model's words: each mark is a token of its own."""
        return b"".join([self._say(token) for token in _MARK.split(text)])

    def _thought(self) -> str:
        """The end of a thinking that the prompt opened and that never came: due before anything else."""
        if not self._thinks:
            return ""
        self._thinks = False
        return self._closed("thinking")

    def _open_call(self, event: ToolCallStart) -> bytes:
        if self._marks is None:
            return b""
        before = "" if self._in_calls else self._marks[0]
        self._in_calls = True
        return self._mark(before + self._marks[1].format(id=self._ids.of(event) or ""))

    def _end_call(self, block: ToolCall) -> bytes:
        if self._marks is None:
            self._calls.append(block)
            return b""
        return self._mark(("" if block.arguments else "{}") + self._marks[2])

    def _end_calls(self) -> bytes:
        """Something else begins, or the end: what is due of the calls before it."""
        if self._marks is not None:
            behind, self._in_calls = (self._marks[3] if self._in_calls else ""), False
            return self._mark(behind)
        if not self._calls:
            return b""
        calls, self._calls = self._calls, []
        ids = [self._ids.of(call) or "" for call in calls]
        text = _OPENERS.get(self._format, "") + text_format(self._format).render_calls(calls, ids)
        size = self._context.habits.pieces or len(text)
        return b"".join([self._say(text[at : at + size]) for at in range(0, len(text), size)])

    def _finish(self, turn: Turn) -> str:
        return stop_word(turn, FINISH, self._context.habits, self._left_out)

    def _end(self, turn: Turn) -> bytes:
        rest = self._end_calls() + self._mark(self._thought())
        last = self._flavour.end("".join(self._said), turn, self._finish(turn), self._context)
        return (
            rest + b"".join([sse(json_value(each)) for each in last]) + (sse(DONE) if self._flavour.says_done else b"")
        )


def _openai_frame(context: AnswerContext) -> dict[str, Any]:
    named = {"id": context.response_id, "object": "text_completion", "created": context.created}
    return {**named, "model": context.model}


def _openai_piece(text: str, context: AnswerContext, finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
    return {**_openai_frame(context), "choices": [choice]}


def _openai_end(whole: str, turn: Turn, finish: str, context: AnswerContext) -> list[dict[str, Any]]:
    last = _openai_piece("", context, finish)
    usage = write_usage(turn.usage)
    if usage is None or not context.usage:
        return [last]
    return [last, {**_openai_frame(context), "choices": [], "usage": usage}]


def _openai_body(whole: str, turn: Turn, finish: str, context: AnswerContext) -> dict[str, Any]:
    return {**_openai_piece(whole, context, finish), "usage": write_usage(turn.usage)}


def _token(text: str) -> dict[str, Any]:
    # Whether DeepInfra flags call markers is not known (field-guide/raw-completion.md#deepinfras-native-path);
    # flagging them tests that nobody drops such tokens.
    return {"id": None, "text": text, "logprob": 0, "special": text.startswith("<|")}


def _deepinfra_piece(text: str, context: AnswerContext) -> dict[str, Any]:
    return {"token": _token(text), "generated_text": "", "details": None}


def _deepinfra_end(whole: str, turn: Turn, finish: str, context: AnswerContext) -> list[dict[str, Any]]:
    usage = turn.usage or Usage()
    counted = {"num_output_tokens": usage.output, "num_input_tokens": usage.read, "estimated_cost": usage.cost}
    return [{"token": _token(""), "generated_text": whole, "details": {"finish_reason": finish}, **counted}]


def _deepinfra_body(whole: str, turn: Turn, finish: str, context: AnswerContext) -> dict[str, Any]:
    usage = turn.usage or Usage()
    counted = {"num_tokens": usage.output, "num_input_tokens": usage.read}
    status = {"status": "succeeded", "runtime_ms": 1, "cost": usage.cost}
    said = {"results": [{"generated_text": whole}], "details": {"finish_reason": finish}, **counted}
    return {**said, "request_id": context.response_id, "inference_status": status}


def _llamacpp_piece(text: str, context: AnswerContext) -> dict[str, Any]:
    return {"index": 0, "content": text, "tokens": [], "stop": False, "id_slot": -1}


def _llamacpp_end(whole: str, turn: Turn, finish: str, context: AnswerContext) -> list[dict[str, Any]]:
    return [{"index": 0, **_llamacpp_body("", turn, finish, context), "tokens": []}]


def _llamacpp_body(whole: str, turn: Turn, finish: str, context: AnswerContext) -> dict[str, Any]:
    usage = turn.usage or Usage()
    timings = {"cache_n": usage.cache_read, "prompt_n": usage.read - usage.cache_read, "predicted_n": usage.output}
    return {
        "content": whole,
        "stop": True,
        "stop_type": _STOP_TYPES.get(finish, "eos"),
        "stopping_word": "",
        "model": context.model,
        "tokens_predicted": usage.output,
        "tokens_evaluated": usage.read,
        "timings": timings,
    }


_FLAVOURS = {
    "openai": _Flavour(_openai_piece, _openai_end, _openai_body),
    "deepinfra": _Flavour(_deepinfra_piece, _deepinfra_end, _deepinfra_body),
    "llamacpp": _Flavour(_llamacpp_piece, _llamacpp_end, _llamacpp_body, says_done=False),
}
