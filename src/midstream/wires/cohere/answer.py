"""Events -> Cohere's chat stream: named events; content parts and calls are opened, filled and ended; `message-end` has the counts.

Parts keep their order and borders. Signatures, media and blocks of other wires have no place; citations gathered on this
wire are said again behind the text. An error in the middle is a `message-end` whose finish reason is ERROR.
"""

from __future__ import annotations

from typing import Any

from ...core.blocks import Opaque, Text, Thinking, ToolCall, Turn, Usage
from ...core.errors import MidstreamError
from ...core.events import (
    BlockEvent,
    Done,
    ErrorEvent,
    Event,
    Start,
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
from ..answer import COMMENT, AnswerContext, CallIds, LeftOut, own_block, refusal_of, sse, stop_word
from ..lenient_json import json_value
from ..sse import DONE
from .wire import DEFAULT, PLAN, THINKING

# `ERROR_TOXIC` is the host's word for a refusal.
FINISH = {"end_turn": "COMPLETE", "tool_use": "TOOL_CALL", "max_tokens": "MAX_TOKENS", "refusal": "ERROR_TOXIC"}
# The host opens with an empty message of this shape, and typed clients read it.
_EMPTY = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}


def make_writer(context: AnswerContext) -> CohereWriter:
    return CohereWriter(context)


class CohereWriter:
    media_type = "text/event-stream"

    __slots__ = ("_calls", "_context", "_ids", "_left_out", "_part", "_plans", "notes")

    def __init__(self, context: AnswerContext) -> None:
        self._context = context
        # Models that do not think say beside their calls what they are about to do, in a field of its own.
        self._plans = context.habits.reasoning_field == PLAN
        self._ids = CallIds(context, "standard")
        self._left_out = LeftOut(DEFAULT.wire)
        self.notes = self._left_out.notes
        # Two countings: parts of the content and calls are numbered apart.
        self._part = -1
        self._calls = -1

    def event(self, event: Event) -> bytes:
        shown = self._context.thinking
        match event:
            case TextDelta():
                return self._content(Text, event.delta)
            case ThinkingDelta():
                if not shown:
                    return b""
                if self._plans:
                    return _message("tool-plan-delta", {"tool_plan": event.delta})
                return self._content(Thinking, event.delta)
            case TextStart():
                return self._open({"type": "text", "text": ""})
            case ThinkingStart():
                return self._open({"type": "thinking", "thinking": ""}) if shown and not self._plans else b""
            case TextEnd():
                return _event("content-end", index=self._part)
            case ThinkingEnd():
                return _event("content-end", index=self._part) if shown and not self._plans else b""
            case ToolCallStart():
                self._calls += 1
                opened = self._call(event, "")
                return _message("tool-call-start", {"tool_calls": opened}, index=self._calls)
            case ToolCallDelta():
                piece = {"tool_calls": {"function": {"arguments": event.delta}}}
                return _message("tool-call-delta", piece, index=self._calls)
            case ToolCallEnd():
                return self._end_call(event.block)
            case BlockEvent():
                return self._block(event)
            case Start():
                return _event("message-start", id=self._context.response_id, delta={"message": _EMPTY})
            case Done():
                return _event("message-end", id=self._context.response_id, delta=self._end(event.turn)) + sse(DONE)
            case ErrorEvent():
                return self.error(event.to_exception(), mid_stream=True)[1]

    def body(self, turn: Turn) -> bytes:
        parts: list[dict[str, Any]] = []
        plans: list[str] = []
        message: dict[str, Any] = {"role": "assistant"}
        for block in turn.blocks:
            if isinstance(block, Text):
                parts.append({"type": "text", "text": block.text})
            elif isinstance(block, Thinking) and self._context.thinking:
                if self._plans:
                    plans.append(block.text)
                else:
                    parts.append({"type": "thinking", "thinking": block.text})
            elif isinstance(block, Opaque):
                own = own_block(BlockEvent(0, block), DEFAULT.wire)
                if own is not None and own.kind == "citations":
                    message["citations"] = own.data
                else:
                    self._left_out.block(block)
        if parts:
            message["content"] = parts
        if plans:
            message[PLAN] = "".join(plans)
        if turn.tool_calls:
            message["tool_calls"] = [self._call(call, call.arguments or "{}") for call in turn.tool_calls]
        return json_value({"id": self._context.response_id, "message": message, **self._end(turn)})

    def error(self, error: MidstreamError, *, mid_stream: bool = False) -> tuple[int, bytes]:
        refusal = refusal_of(error)
        if mid_stream:
            # No event is for errors: the last one says so instead.
            end = _event("message-end", delta={"finish_reason": "ERROR", "error": refusal.message})
            return refusal.status, end + sse(DONE)
        return refusal.status, json_value({"message": refusal.message})

    def keep_alive(self) -> bytes:
        return COMMENT

    def _open(self, part: dict[str, Any]) -> bytes:
        self._part += 1
        return _message("content-start", {"content": part}, index=self._part)

    def _content(self, kind: type, delta: str) -> bytes:
        field = "text" if kind is Text else THINKING
        return _message("content-delta", {"content": {field: delta}}, index=self._part)

    def _call(self, call: ToolCall | ToolCallStart, arguments: str) -> dict[str, Any]:
        function = {"name": call.name, "arguments": arguments}
        return {"id": self._ids.of(call), "type": "function", "function": function}

    def _end_call(self, block: ToolCall) -> bytes:
        none = {"tool_calls": {"function": {"arguments": "{}"}}}  # no text is no JSON, and clients parse it
        said = b"" if block.arguments else _message("tool-call-delta", none, index=self._calls)
        return said + _event("tool-call-end", index=self._calls)

    def _block(self, event: BlockEvent) -> bytes:
        own = own_block(event, DEFAULT.wire)
        if own is None or own.kind != "citations" or not isinstance(own.data, list):
            return self._left_out.block(event.block)
        said = [
            _message("citation-start", {"citations": each}, index=number) + _event("citation-end", index=number)
            for number, each in enumerate(own.data)
        ]
        return b"".join(said)

    def _end(self, turn: Turn) -> dict[str, Any]:
        end: dict[str, Any] = {"finish_reason": stop_word(turn, FINISH, self._context.habits, self._left_out)}
        if turn.usage is not None:
            end["usage"] = write_usage(turn.usage)
        return end


def write_usage(usage: Usage) -> dict[str, Any]:
    said = {"input_tokens": usage.read, "output_tokens": usage.output}
    tokens = {**said, "reasoning_tokens": usage.reasoning}
    return {"billed_units": said, "tokens": tokens, "cached_tokens": usage.cache_read}


def _message(kind: str, message: dict[str, Any], **fields: Any) -> bytes:
    return _event(kind, **fields, delta={"message": message})


def _event(kind: str, **fields: Any) -> bytes:
    return sse(json_value({"type": kind, **fields}), kind)
