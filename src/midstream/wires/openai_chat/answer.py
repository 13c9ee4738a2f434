"""Events -> OpenAI's chat stream: a chunk with the role, deltas, the finish reason, usage where it was asked for, [DONE].

One text and one reasoning field are all this wire has: where two blocks of a kind follow each other their border is lost,
and so are signatures, media and blocks of other wires. Calls are numbered by `index`, their arguments sent as they come.
Where a host does it in another way (reasoning as a part of the content, all calls at the end), its habits say so.
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
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ...core.tools import freeform_input
from ..answer import (
    COMMENT,
    AnswerContext,
    CallIds,
    LeftOut,
    openai_refusal,
    own_block,
    sse,
    stop_word,
)
from ..lenient_json import json_text, json_value
from ..sse import DONE
from .wire import DEFAULT

FINISH = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
# Fields that other answers of this wire carry. They can be said again here and nowhere else.
_FIELDS = ("annotations", "audio", "images")
"""What of a message is kept whole, and is sent again under its own key."""


def make_writer(context: AnswerContext) -> ChatWriter:
    return ChatWriter(context)


class ChatWriter:
    media_type = "text/event-stream"

    __slots__ = (
        "_calls", "_context", "_field", "_freeform", "_habits", "_head", "_ids", "_last_calls", "_left_out", "_tail",
        "notes",
    )  # fmt: skip

    def __init__(self, context: AnswerContext) -> None:
        self._context = context
        self._habits = context.habits
        self._field = context.habits.reasoning_field or "reasoning_content"
        self._ids: CallIds | None = None  # made at the first call: most answers have none
        self._left_out = LeftOut(DEFAULT.wire)
        self.notes = self._left_out.notes
        self._calls = -1  # the index of the call that came last
        self._freeform = False
        self._last_calls: list[dict[str, Any]] = []  # those that wait for the last chunk
        self._head = b""
        counted = context.usage and context.habits.usage == "chunk"
        # OpenAI sends `usage: null` in every chunk if usage was asked for, and clients read the last one.
        self._tail = b',"usage":null}' if counted else b"}"

    def event(self, event: Event) -> bytes:
        if type(event) is TextDelta:
            return self._delta(b'{"content":%b}' % json_text(event.delta))
        if type(event) is ToolCallDelta:
            return self._arguments(event.delta)
        match event:
            case ThinkingDelta():
                return self._reasoning(event.delta)
            case ThinkingEnd():
                return self._reasoning("") if not event.block.text else b""  # "" is not absent
            case Start():
                # The role comes in a chunk of its own, as from OpenAI: clients open their message by it.
                return self._delta(json_value({"role": "assistant", "content": "", "refusal": None}))
            case ToolCallStart():
                return self._open_call(event)
            case ToolCallEnd():
                return self._end_call(event.block)
            case BlockEvent():
                return self._block(event)
            case Done():
                return self._end(event.turn)
            case ErrorEvent():
                return self.error(event.to_exception(), mid_stream=True)[1]
        return b""

    def text_frame(self) -> tuple[bytes, bytes]:
        before, _, behind = self._delta(b'{"content":\0}').partition(b"\0")  # no JSON text holds one
        return before, behind

    def body(self, turn: Turn) -> bytes:
        text: list[str] = []
        refused: list[str] = []
        thoughts: list[str] = []
        others: list[Opaque] = []
        calls: list[ToolCall] = []
        for block in turn.blocks:
            if isinstance(block, Text):
                (refused if _is_refusal(block) else text).append(block.text)
            elif isinstance(block, Thinking):
                thoughts.append(block.text)
            elif isinstance(block, ToolCall):
                calls.append(block)
            elif isinstance(block, Opaque):
                others.append(block)
        # Null where something else stands in its place, as from OpenAI; clients read an answer without anything as a text.
        content: Any = "".join(text) if text or not (refused or calls or others) else None
        # Mistral's way (field-guide/reasoning.md#fields).
        if thoughts and self._context.thinking and self._habits.thinking_parts:
            words = [{"type": "text", "text": content}] if content else []
            content = [_thought("".join(thoughts)), *words]
            thoughts = []
        message: dict[str, Any] = {"role": "assistant", "content": content}
        message["refusal"] = "".join(refused) or None
        if thoughts and self._context.thinking:
            message[self._field] = "".join(thoughts)
        for other in others:
            # A block of another wire would be noise under this one's keys.
            own = own_block(BlockEvent(0, other), DEFAULT.wire)
            if own is not None and own.kind in _FIELDS:
                message[own.kind] = own.data
            else:
                self._left_out.block(other)
        if calls:
            message["tool_calls"] = [self._whole_call(call) for call in calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish(turn)}
        return json_value({**self._frame("chat.completion"), "choices": [choice], "usage": write_usage(turn.usage)})

    def error(self, error: MidstreamError, *, mid_stream: bool = False) -> tuple[int, bytes]:
        return openai_refusal(error, mid_stream=mid_stream)

    def keep_alive(self) -> bytes:
        return COMMENT

    def _frame(self, kind: str) -> dict[str, Any]:
        context = self._context
        return {"id": context.response_id, "object": kind, "created": context.created, "model": context.model}

    def _delta(self, delta: bytes) -> bytes:
        if not self._head:
            # The frame of every chunk is the same: encoded once, and cut before its closing brace.
            self._head = json_value(self._frame("chat.completion.chunk"))[:-1]
        choice = b',"choices":[{"index":0,"delta":%b,"logprobs":null,"finish_reason":null}]' % delta
        return b"data: %b%b%b\n\n" % (self._head, choice, self._tail)

    def _reasoning(self, delta: str) -> bytes:
        if not self._context.thinking:
            return b""
        if self._habits.thinking_parts:
            return self._delta(json_value({"content": [_thought(delta)]}))
        return self._delta(b"{%b:%b}" % (json_text(self._field), json_text(delta)))

    def _open_call(self, event: ToolCallStart) -> bytes:
        self._calls += 1
        # The call is told when it is whole. Only its number is taken now.
        if self._habits.whole_calls or self._habits.calls_together:
            return b""
        self._freeform = event.kind == "freeform"
        return self._call_delta(self._call(event, "", self._freeform))

    def _end_call(self, block: ToolCall) -> bytes:
        if self._habits.calls_together:
            self._last_calls.append({"index": self._calls, **self._whole_call(block)})
            return b""
        if self._habits.whole_calls:
            return self._call_delta(self._whole_call(block))
        if self._freeform:  # its text may be wrapped in JSON, and is known when that is whole
            text = {"index": self._calls, "custom": {"input": freeform_input(block)}}
            return self._delta(json_value({"tool_calls": [text]}))
        if not block.arguments:
            return self._arguments("{}")  # no text is no JSON, and clients parse it
        return b""

    def _arguments(self, delta: str) -> bytes:
        if self._habits.whole_calls or self._habits.calls_together or self._freeform:
            return b""
        said = b'{"tool_calls":[{"index":%d,"function":{"arguments":%b}}]}' % (self._calls, json_text(delta))
        return self._delta(said)

    def _whole_call(self, call: ToolCall) -> dict[str, Any]:
        freeform = call.kind == "freeform"
        return self._call(call, freeform_input(call) if freeform else call.arguments or "{}", freeform)

    def _call(self, call: ToolCall | ToolCallStart, text: str, freeform: bool) -> dict[str, Any]:
        if self._ids is None:
            self._ids = CallIds(self._context, "standard")
        call_id = self._ids.of(call)
        named = {} if call_id is None else {"id": call_id}
        if freeform:
            return {**named, "type": "custom", "custom": {"name": call.name, "input": text}}
        return {**named, "type": "function", "function": {"name": call.name, "arguments": text}}

    def _call_delta(self, call: dict[str, Any]) -> bytes:
        return self._delta(json_value({"tool_calls": [{"index": self._calls, **call}]}))

    def _block(self, event: BlockEvent) -> bytes:
        own = own_block(event, DEFAULT.wire)
        if own is not None and own.kind in _FIELDS:
            return self._delta(json_value({own.kind: own.data}))
        return self._left_out.block(event.block)

    def _finish(self, turn: Turn) -> str:
        return stop_word(turn, FINISH, self._habits, self._left_out)

    def _end(self, turn: Turn) -> bytes:
        """The finish reason, the counts where this host puts them, and the end."""
        frame = self._frame("chat.completion.chunk")
        delta = {"tool_calls": self._last_calls} if self._last_calls else {}
        choice: dict[str, Any] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": self._finish(turn)}
        last: dict[str, Any] = {**frame, "choices": [choice]}
        usage = write_usage(turn.usage) if self._context.usage else None
        behind = b""
        if usage is not None:
            match self._habits.usage:
                case "chunk":
                    last["usage"] = None
                    behind = sse(json_value({**frame, "choices": [], "usage": usage}))
                case "finish":
                    last["usage"] = usage
                case "choice":
                    choice["usage"] = usage
                case "x_groq":
                    last["x_groq"] = {"id": self._context.response_id, "usage": usage}
        return sse(json_value(last)) + behind + sse(DONE)


def write_usage(usage: Usage | None) -> dict[str, Any] | None:
    """Cached tokens are a part of the prompt, reasoning is a part of the completion."""
    if usage is None:
        return None
    prompt: dict[str, Any] = {"cached_tokens": usage.cache_read}
    if usage.cache_write:
        prompt["cache_write_tokens"] = usage.cache_write
    written: dict[str, Any] = {
        "prompt_tokens": usage.read,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": prompt,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
    if usage.cost is not None:
        written["cost"] = usage.cost
    return written


def _thought(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def _is_refusal(block: Text) -> bool:
    return bool(block.extra and block.extra.get("refusal"))
