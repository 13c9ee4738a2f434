"""Events -> Ollama's chat stream: a line of JSON for each piece, whole calls, and one with `done: true` and the counts.

A message has one text and one thinking field: borders between blocks of a kind are lost, with signatures, media (the host's own
client refuses an image in an answer) and blocks of other wires. Of the counts only those read and written have a place; the durations are what the context says of them.
"""

from __future__ import annotations

from typing import Any

from ...core.blocks import Media, Opaque, Thinking, ToolCall, Turn
from ...core.errors import MidstreamError
from ...core.events import BlockEvent, Done, ErrorEvent, Event, TextDelta, ThinkingDelta, ToolCallEnd
from ..answer import AnswerContext, CallIds, LeftOut, json_arguments, refusal_of, stop_word
from ..lenient_json import json_text, json_value
from .wire import DEFAULT

# There is no word for calls: they stand in the message.
FINISH = {"end_turn": "stop", "tool_use": "stop", "max_tokens": "length"}
_DAY = 86400


def make_writer(context: AnswerContext) -> OllamaWriter:
    return OllamaWriter(context)


class OllamaWriter:
    media_type = "application/x-ndjson"

    __slots__ = ("_context", "_head", "_ids", "_left_out", "notes")

    def __init__(self, context: AnswerContext) -> None:
        self._context = context
        self._ids = CallIds(context, "standard")
        self._left_out = LeftOut(DEFAULT.wire)
        self.notes = self._left_out.notes
        # The same in every line: encoded once, and cut before its closing brace.
        self._head = json_value({"model": context.model, "created_at": utc(context.created)})[:-1]

    def event(self, event: Event) -> bytes:
        match event:
            case TextDelta():
                return self._line(b'{"role":"assistant","content":%b}' % json_text(event.delta))
            case ThinkingDelta():
                if not self._context.thinking:
                    return b""
                return self._line(b'{"role":"assistant","content":"","thinking":%b}' % json_text(event.delta))
            case ToolCallEnd():
                return self._said(tool_calls=[self._call(event.block)])
            case BlockEvent():
                return self._left_out.block(event.block)
            case Done():
                return self._last({"role": "assistant", "content": ""}, event.turn)
            case ErrorEvent():
                return self.error(event.to_exception(), mid_stream=True)[1]
        return b""

    def body(self, turn: Turn) -> bytes:
        message: dict[str, Any] = {"role": "assistant", "content": turn.text}
        if self._context.thinking and any(isinstance(block, Thinking) for block in turn.blocks):
            message["thinking"] = turn.thinking
        if turn.tool_calls:
            message["tool_calls"] = [self._call(call) for call in turn.tool_calls]
        for block in turn.blocks:
            if isinstance(block, (Media, Opaque)):
                self._left_out.block(block)
        return self._last(message, turn)

    def error(self, error: MidstreamError, *, mid_stream: bool = False) -> tuple[int, bytes]:
        refusal = refusal_of(error)
        told = json_value({"error": refusal.message})
        return refusal.status, told + b"\n" if mid_stream else told

    def keep_alive(self) -> bytes:
        """A piece without words: a blank line is no JSON, and the host's own client reads every line as that."""
        # The host's own client reads every line as JSON (see `keep_alive`), so silence has to be one.
        return self._line(b'{"role":"assistant","content":""}')

    def _line(self, message: bytes) -> bytes:
        return b'%b,"message":%b,"done":false}\n' % (self._head, message)

    def _said(self, **fields: Any) -> bytes:
        return self._line(json_value({"role": "assistant", "content": "", **fields}))

    def _last(self, message: dict[str, Any], turn: Turn) -> bytes:
        reason = stop_word(turn, FINISH, self._context.habits, self._left_out)
        end: dict[str, Any] = {"message": message, "done_reason": reason, "done": True, **self._durations()}
        if turn.usage is not None:
            end |= {"prompt_eval_count": turn.usage.read, "eval_count": turn.usage.output}
        return self._head + b"," + json_value(end)[1:] + b"\n"

    def _durations(self) -> dict[str, int]:
        taken = self._context.elapsed
        return {"total_duration": taken, "load_duration": 0, "prompt_eval_duration": 0, "eval_duration": taken}

    def _call(self, call: ToolCall) -> dict[str, Any]:
        call_id = self._ids.of(call)
        function = {"name": call.name, "arguments": json_arguments(call)}
        # The host itself often gives no ids (field-guide/ollama.md#tools).
        return {"function": function} if call_id is None else {"id": call_id, "function": function}


def utc(seconds: int) -> str:
    """A date as RFC 3339 writes it. By arithmetic, since the codecs keep no time; from the algorithm for civil days."""
    days, rest = divmod(seconds, _DAY)
    # Days are counted from 1 March of the year 0, so that the leap day is the last of its year; an era is 400 years.
    era, day = divmod(days + 719468, 146097)
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    month = month + 3 if month < 10 else month - 9
    year += era * 400 + (month <= 2)
    return f"{year:04d}-{month:02d}-{day:02d}T{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}Z"
