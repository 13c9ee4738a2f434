"""Events -> Anthropic's Messages stream: message_start, content blocks that start, take deltas and stop, message_delta, message_stop.

Blocks keep their order and borders. A thinking block ends with its signature, an empty one where there is none, since
clients wait for it. `message_start` counts what the caller knows of the request; `message_delta` has the final counts. Media
and blocks of other wires have no place here. A call's input streams as it comes; in a body it must be an object.
"""

from __future__ import annotations

from typing import Any

from ...core.blocks import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn, Usage
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
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ..answer import AnswerContext, CallIds, LeftOut, json_arguments, own_block, refusal_of, sse, stop_word
from ..lenient_json import json_text, json_value
from .decode import STOP_REASONS
from .wire import DEFAULT

FINISH = {name: name for name in ("end_turn", "tool_use", "max_tokens", "refusal", "pause_turn")}
# What the real host begins such a message with, and clients search for.
_TOO_LONG = "prompt is too long"
# The host's own status for being overloaded (field-guide/anthropic-messages.md#errors), which clients retry by.
_OVERLOADED = 529


def make_writer(context: AnswerContext) -> MessagesWriter:
    return MessagesWriter(context)


class MessagesWriter:
    media_type = "text/event-stream"

    __slots__ = ("_context", "_delta", "_ids", "_index", "_left_out", "_opened", "notes")

    def __init__(self, context: AnswerContext) -> None:
        self._context = context
        self._ids = CallIds(context, "anthropic")
        self._left_out = LeftOut(DEFAULT.wire)
        self.notes = self._left_out.notes
        self._index = -1
        # Redacted thinking is another type of block, and only its end tells.
        self._opened = False  # the start of a thinking block has been written: it waits until its kind is known
        self._delta = b""

    def event(self, event: Event) -> bytes:
        if type(event) is TextDelta:
            return self._piece(b'"text_delta","text"', event.delta)
        if type(event) is ToolCallDelta:
            return self._piece(b'"input_json_delta","partial_json"', event.delta)
        match event:
            case ThinkingDelta():
                return self._thinking(event.delta)
            case ThinkingEnd():
                return self._end_thinking(event.block)
            case TextStart():
                return self._start({"type": "text", "text": ""})
            case TextEnd():
                return self._end_text(event.block)
            case ToolCallStart():
                # The input streams from an empty object on, as the host does it.
                return self._start({"type": "tool_use", "id": self._ids.of(event), "name": event.name, "input": {}})
            case ToolCallEnd():
                return self._stop()
            case BlockEvent():
                own = own_block(event, DEFAULT.wire)
                if own is None or not isinstance(own.data, dict):
                    return self._left_out.block(event.block)
                return self._start(own.data) + self._stop()
            case Start():
                # Clients show these counts before the answer is there. What the model wrote is counted at the end.
                counted = {"input_tokens": self._context.input_tokens, "output_tokens": 0}
                return _event("message_start", message={**self._message(None, None), "content": [], "usage": counted})
            case Done():
                return self._end(event.turn)
            case ErrorEvent():
                return self.error(event.to_exception(), mid_stream=True)[1]
        return b""

    def text_frame(self) -> tuple[bytes, bytes]:
        return b'event: content_block_delta\ndata: %b"text_delta","text":' % self._delta, b"}}\n\n"

    def body(self, turn: Turn) -> bytes:
        content = [written for block in turn.blocks if (written := self._block(block)) is not None]
        message = {**self._message(*self._stop_reason(turn)), "content": content, "usage": write_usage(turn.usage)}
        return json_value(message)

    def error(self, error: MidstreamError, *, mid_stream: bool = False) -> tuple[int, bytes]:
        refusal = refusal_of(error)
        message = refusal.message
        if refusal.code == "context_length_exceeded" and _TOO_LONG not in message:
            message = f"{_TOO_LONG}: {message}"  # clients know it by these words: this wire has no code for it
        told: dict[str, Any] = {"type": refusal.anthropic, "message": message}
        if refusal.own_code:
            told["details"] = {"error_code": refusal.own_code}
        data = json_value({"type": "error", "error": told, "request_id": self._context.request_id})
        status = _OVERLOADED if refusal.anthropic == "overloaded_error" and refusal.status == 503 else refusal.status
        return status, sse(data, "error") if mid_stream else data

    def keep_alive(self) -> bytes:
        # The wire has an event for it; a comment would do as well, but this is what clients expect.
        return _event("ping")

    def _message(self, reason: str | None, sequence: str | None) -> dict[str, Any]:
        context = self._context
        named = {"id": context.response_id, "type": "message", "role": "assistant", "model": context.model}
        return {**named, "stop_reason": reason, "stop_sequence": sequence}

    def _start(self, block: dict[str, Any]) -> bytes:
        self._index += 1
        self._delta = b'{"type":"content_block_delta","index":%d,"delta":{"type":' % self._index
        return _event("content_block_start", index=self._index, content_block=block)

    def _stop(self) -> bytes:
        return _event("content_block_stop", index=self._index)

    def _piece(self, kind: bytes, text: str) -> bytes:
        return b"event: content_block_delta\ndata: %b%b:%b}}\n\n" % (self._delta, kind, json_text(text))

    def _thinking(self, delta: str) -> bytes:
        if not self._context.thinking:
            return b""
        return self._open_thinking() + self._piece(b'"thinking_delta","thinking"', delta)

    def _open_thinking(self) -> bytes:
        if self._opened:
            return b""
        self._opened = True
        return self._start({"type": "thinking", "thinking": "", "signature": ""})

    def _end_thinking(self, block: Thinking) -> bytes:
        if not self._context.thinking:
            return b""
        if block.redacted and not self._opened:
            return self._start({"type": "redacted_thinking", "data": block.encrypted or ""}) + self._stop()
        start = self._open_thinking()
        self._opened = False
        # Always a signature, if an empty one: see the docstring.
        return start + self._piece(b'"signature_delta","signature"', block.signature or "") + self._stop()

    def _end_text(self, block: Text) -> bytes:
        """Citations belong to the text before them; those of other wires are not this wire's."""
        cited = b"".join(
            [
                _event(
                    "content_block_delta", index=self._index, delta={"type": "citations_delta", "citation": citation}
                )
                for citation in _citations(block)
            ]
        )
        return cited + self._stop()

    def _end(self, turn: Turn) -> bytes:
        reason, sequence = self._stop_reason(turn)
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        return _event("message_delta", delta=delta, usage=write_usage(turn.usage)) + _event("message_stop")

    def _stop_reason(self, turn: Turn) -> tuple[str, str | None]:
        # Which sequence it was is a field of its own on this wire.
        sequence = (turn.extra or {}).get("stop_sequence")
        if turn.raw_stop == "stop_sequence" and isinstance(sequence, str):
            return "stop_sequence", sequence
        return stop_word(turn, FINISH, self._context.habits, self._left_out, STOP_REASONS), None

    def _block(self, block: Block) -> dict[str, Any] | None:
        match block:
            case Text():
                cited = _citations(block)
                # The host leaves the key out where nothing is cited, and clients take null for a mistake.
                return {"type": "text", "text": block.text, **({"citations": cited} if cited else {})}
            case Thinking():
                if not self._context.thinking:
                    return None
                if block.redacted:
                    return {"type": "redacted_thinking", "data": block.encrypted or ""}
                return {"type": "thinking", "thinking": block.text, "signature": block.signature or ""}
            case ToolCall():
                given = {"id": self._ids.of(block), "name": block.name, "input": json_arguments(block)}
                return {"type": "tool_use", **given}
            case Opaque() | Media():
                own = own_block(BlockEvent(0, block), DEFAULT.wire)
                if own is not None and isinstance(own.data, dict):
                    return own.data
                self._left_out.block(block)
            case ToolResponse():
                self._left_out.note("tool_response", "misplaced_block", "a result is not a part of an answer")
        return None


def write_usage(usage: Usage | None) -> dict[str, Any]:
    """`input_tokens` leaves out what the cache served or stored."""
    if usage is None:
        return {"input_tokens": 0, "output_tokens": 0}
    written: dict[str, Any] = {
        "input_tokens": usage.fresh,
        "output_tokens": usage.output,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cache_read,
    }
    if usage.reasoning:
        written["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return written


def _citations(block: Text) -> list[dict[str, Any]]:
    found = (block.extra or {}).get("citations")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _event(kind: str, **fields: Any) -> bytes:
    return sse(json_value({"type": kind, **fields}), kind)
