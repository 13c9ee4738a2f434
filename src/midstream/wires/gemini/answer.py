"""Events -> Gemini's stream: chunks of whole parts, as server-sent events or as one JSON array, the last with the counts.

A call is a part, so it is sent when it is whole. A signature comes behind its text as an empty part, as the host's own do;
one that is not base64 has no place here (the host's clients decode it), and blocks of other wires have none either.
"""

from __future__ import annotations

import re
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
    ThinkingDelta,
    ThinkingEnd,
    ToolCallEnd,
)
from ..answer import AnswerContext, CallIds, LeftOut, json_arguments, own_block, refusal_of, sse, stop_word
from ..lenient_json import json_text, json_value
from .decode import SIGNATURE, STOP_REASONS
from .wire import DEFAULT

FINISH = {"end_turn": "STOP", "tool_use": "STOP", "max_tokens": "MAX_TOKENS", "refusal": "SAFETY"}
# Both alphabets: Google's SDK writes the one for URLs.
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/_-]{4})*(?:[A-Za-z0-9+/_-]{2}==|[A-Za-z0-9+/_-]{3}=)?\Z")
# CRLF, as the host itself ends its events.
_END = b"\r\n\r\n"


def make_writer(context: AnswerContext) -> GeminiWriter:
    return GeminiWriter(context)


class GeminiWriter:
    __slots__ = ("_context", "_ids", "_in_array", "_left_out", "_tail", "media_type", "notes")

    def __init__(self, context: AnswerContext) -> None:
        self._context = context
        self.media_type = "application/json" if context.array else "text/event-stream"
        self._ids = CallIds(context, "standard")
        self._left_out = LeftOut(DEFAULT.wire)
        self.notes = self._left_out.notes
        self._in_array = False  # an element has been written, so a comma is due before the next
        # The same in every chunk: encoded once.
        self._tail = b"," + json_value({"modelVersion": context.model, "responseId": context.response_id})[1:]

    def event(self, event: Event) -> bytes:
        match event:
            case TextDelta():
                return self._said(b'{"text":%b}' % json_text(event.delta)) if event.delta else b""
            case ThinkingDelta():
                if not self._context.thinking or not event.delta:
                    return b""
                return self._said(b'{"text":%b,"thought":true}' % json_text(event.delta))
            case TextEnd():
                signed = self._signed((event.block.extra or {}).get(SIGNATURE))
                # A signature belongs to the text before it, and arrives when that has streamed.
                return self._said(json_value({"text": "", **signed})) if signed else b""
            case ThinkingEnd():
                signed = self._signed(event.block.signature) if self._context.thinking else {}
                return self._said(json_value({"text": "", "thought": True, **signed})) if signed else b""
            case ToolCallEnd() | BlockEvent():
                part = self._part(event.block)
                return self._said(json_value(part)) if part is not None else b""
            case Start():
                # No part yet, but a name for the answer, and proof that it has begun.
                begun = b'{"candidates":[{"content":{"role":"model"},"index":0}]' + self._tail
                return (b"[" if self._context.array else b"") + self._frame(begun)
            case Done():
                last = self._response([{"text": ""}], event.turn)
                return self._frame(last) + (b"\n]" if self._context.array else b"")
            case ErrorEvent():
                return self.error(event.to_exception(), mid_stream=True)[1]
        return b""

    def body(self, turn: Turn) -> bytes:
        parts = [part for block in turn.blocks if (part := self._part(block)) is not None]
        return self._response(parts, turn)

    def error(self, error: MidstreamError, *, mid_stream: bool = False) -> tuple[int, bytes]:
        refusal = refusal_of(error)
        told = {"code": refusal.status, "message": refusal.message, "status": refusal.google}
        data = json_value({"error": told})
        if mid_stream:
            return refusal.status, self._frame(data) + (b"\n]" if self._context.array else b"")
        return refusal.status, data

    def keep_alive(self) -> bytes:
        """A blank line. The host's own client takes a comment for JSON."""
        return b"\r\n"

    def _said(self, part: bytes) -> bytes:
        candidate = b'{"candidates":[{"content":{"role":"model","parts":[%b]},"index":0}]%b'
        return self._frame(candidate % (part, self._tail))

    def _frame(self, data: bytes) -> bytes:
        if not self._context.array:
            return sse(data, end=_END)
        comma, self._in_array = (b",\r\n" if self._in_array else b""), True
        return comma + data

    def _response(self, parts: list[dict[str, Any]], turn: Turn) -> bytes:
        reason = stop_word(turn, FINISH, self._context.habits, self._left_out, STOP_REASONS)
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": reason, "index": 0}
        response: dict[str, Any] = {"candidates": [candidate]}
        if turn.usage is not None:
            response["usageMetadata"] = write_usage(turn.usage)
        return json_value(response)[:-1] + self._tail

    def _part(self, block: Block) -> dict[str, Any] | None:
        match block:
            case Text():
                return {"text": block.text, **self._signed((block.extra or {}).get(SIGNATURE))}
            case Thinking():
                if not self._context.thinking:
                    return None
                return {"text": block.text, "thought": True, **self._signed(block.signature)}
            case ToolCall():
                call_id = self._ids.of(block)
                named = {} if call_id is None else {"id": call_id}
                call = {**named, "name": block.name, "args": json_arguments(block)}
                return {"functionCall": call, **self._signed((block.extra or {}).get(SIGNATURE))}
            case Media():
                return self._media(block)
            case Opaque():
                own = own_block(BlockEvent(0, block), DEFAULT.wire)
                if own is not None and isinstance(own.data, dict):
                    return own.data
                self._left_out.block(block)
            case ToolResponse():
                self._left_out.note("tool_response", "misplaced_block", "a result is not a part of an answer")
        return None

    def _media(self, media: Media) -> dict[str, Any]:
        extra = media.extra or {}
        fields = self._signed(extra.get(SIGNATURE)) | ({"thought": True} if extra.get("thought") else {})
        if media.data is not None:
            return {"inlineData": {"mimeType": media.mime, "data": media.data}, **fields}
        return {"fileData": {"mimeType": media.mime, "fileUri": media.url or ""}, **fields}

    def _signed(self, signature: Any) -> dict[str, Any]:
        if not isinstance(signature, str) or not signature:
            return {}
        if _BASE64.match(signature) is None:
            self._left_out.note("thinking", "foreign_signature", "a signature on this wire is base64")
            return {}
        return {SIGNATURE: signature}


def write_usage(usage: Usage) -> dict[str, Any]:
    """Thoughts are counted apart from what was said."""
    written = {
        "promptTokenCount": usage.read,
        "candidatesTokenCount": max(0, usage.output - usage.reasoning),
        "totalTokenCount": usage.total,
    }
    if usage.reasoning:
        written["thoughtsTokenCount"] = usage.reasoning
    if usage.cache_read:
        written["cachedContentTokenCount"] = usage.cache_read
    return written
