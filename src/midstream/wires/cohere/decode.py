"""Cohere's chat answers -> events: streams and whole bodies through one reading of their messages.

Thinking comes in parts of the content, a plan beside calls as `tool_plan`: both are thinking, and each block remembers its
field. Calls are announced, filled by deltas and ended by the host; arguments after the end are malformed. Citations are
gathered and kept as one block behind the text. The end is `message-end`; EOF before it is `truncated`. A finish reason that is
an error ends the answer with it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...core.blocks import Opaque, Usage
from ...core.errors import MalformedStream, ProviderError, TruncatedStream
from ..decode_context import DecodeContext
from ..lenient_json import decode_object, text_of, token_count
from ..provider_errors import provider_error
from ..sse import SSEParser
from ..stencil import Template, is_empty
from ..stop_reasons import settled_stop
from ..stream_decoder import StreamDecoder
from ..tool_deltas import ToolDelta, ToolDeltaRouter
from .shapes import (
    Body,
    Call,
    CallDelta,
    CallEnd,
    CallStart,
    CitationEnd,
    CitationStart,
    ContentDelta,
    ContentEnd,
    ContentStart,
    Failure,
    MessageEnd,
    MessageStart,
    PlanDelta,
    StreamEvent,
    Words,
    decode_event,
    inner,
    read_call,
    read_event,
    read_words,
    text,
)
from .wire import PLAN, THINKING

STOP_REASONS = {
    "COMPLETE": "end_turn",
    "STOP_SEQUENCE": "end_turn",
    "TOOL_CALL": "tool_use",
    "MAX_TOKENS": "max_tokens",
    "ERROR_LIMIT": "max_tokens",
    "ERROR_TOXIC": "refusal",
}
# A timeout is worth another try, which its status says.
_FAILURES = {"ERROR": None, "TIMEOUT": 504}
"""Finish reasons that are no answer, with the HTTP status that says the same."""


def stop_reason(raw: str | None, calls: int) -> str:
    """The host's word in ours."""
    return settled_stop(STOP_REASONS.get(raw, raw) if raw else "end_turn", calls)


def make_decoder(context: DecodeContext) -> StreamDecoder:
    reader = CohereStreamReader(context)
    return StreamDecoder(reader, SSEParser(limit=context.limit), limit=context.limit, template=reader.template)


class CohereStreamReader:
    """Reads the events of a message, or a whole one."""

    __slots__ = ("_calls", "_citations", "_dialect", "_field", "_seen", "_usage", "builder")

    end_was_said = False  # `message-end` ends the turn at once

    def __init__(self, context: DecodeContext) -> None:
        self._dialect = context.dialect
        self.builder = context.filtered_builder()
        self._calls = ToolDeltaRouter(self.builder, context.wire_names, context.tool_names)
        # Plan and thinking are both reasoning, and must not become one block: they go back under different fields.
        self._field = ""  # of the thinking that came last
        self._citations: list[Any] = []
        self._usage: dict[str, Any] | None = None
        self._seen = False

    def event(self, data: bytes, name: str) -> None:
        event: StreamEvent | Failure | Body
        try:
            event = decode_event(data)
        except (msgspec.DecodeError, RecursionError, ValueError):
            event = read_event(data, name)
            self.builder.split_surrogates = True
        self._seen = True
        self._event(event)

    def template(self, data: bytes, name: str) -> Template | None:
        """A piece of text, of thinking, of a plan or of arguments, and nothing else."""
        try:
            event = decode_event(data)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return None
        owner: msgspec.Struct | None = None
        if type(event) is ContentDelta:
            owner = event.delta.message.content
            # A content delta has either; the one that is there names the field.
            field = "text" if event.delta.message.content.text else "thinking"
        elif type(event) is PlanDelta:
            owner, field = event.delta.message, "tool_plan"
        elif type(event) is CallDelta:
            owner, field = event.delta.message.tool_calls.function, "arguments"
        if owner is None or not is_empty(owner, but=field):
            return None

        def tell(text: str) -> None:
            setattr(owner, field, text)
            self._event(event)

        return Template(event, owner, field, tell)

    def _event(self, event: StreamEvent | Failure | Body) -> None:
        if type(event) is ContentDelta:
            self._words(event.delta.message.content)
        else:
            self._other(event)

    def _other(self, event: StreamEvent | Failure | Body) -> None:
        match event:
            case PlanDelta():
                self._think(event.delta.message.tool_plan, PLAN)
            case CallDelta():
                self._arguments(event.delta.message.tool_calls, event.index)
            case CallStart():
                self._calls.open(_delta(event.delta.message.tool_calls, event.index))
            case CallEnd():
                # Ended by the host's own word, so that a call does not wait for the next one.
                piece = self._calls.find(event.index, None)
                if piece is not None:
                    self.builder.close_call(piece)
            case ContentStart():
                # Each part is a block of its own, with its border.
                self.builder.end_block()
                self._words(read_words(inner(event.delta, "message").get("content")))
            case ContentEnd():
                self.builder.end_block()
            case CitationStart():
                self._cite(inner(event.delta, "message").get("citations"))
            case MessageStart():
                self.builder.start("", event.id)
            case MessageEnd():
                self._finish(event.delta or {})
            case Failure():
                raise self._refusal(event.error)
            case Body():
                self._whole(event.body)
            case CitationEnd() | ContentDelta():
                pass

    def whole(self, body: bytes) -> None:
        self.builder.split_surrogates = True
        self._whole(decode_object(body, "a message object"))

    def _whole(self, body: dict[str, Any]) -> None:
        message = body.get("message")
        if not isinstance(message, dict):
            if message or body.get("error"):
                raise self._refusal(body)
            raise MalformedStream("expected an answer with a message")
        self._seen = True
        self.builder.start("", text(body.get("id")))
        content = message.get("content")
        for part in content if isinstance(content, list) else (content,):
            kind = part.get("type") if isinstance(part, dict) else None
            # A part without a type is text on this wire.
            if kind is None or kind in ("text", "thinking"):
                self._words(read_words(part))
            else:
                self._opaque(str(kind), part)
            self.builder.end_block()
        self._think(text_of(message.get("tool_plan")), PLAN)
        calls = message.get("tool_calls")
        self._calls.whole([_delta(read_call(call), None) for call in calls] if isinstance(calls, list) else ())
        self._cite(message.get("citations"))
        self._finish(body)

    def _words(self, words: Words) -> None:
        if words.thinking:
            self._think(words.thinking, THINKING)
        if words.text:
            self.builder.text(words.text)

    def _think(self, thought: str, field: str) -> None:
        if thought:
            if field != self._field:
                self.builder.end_block()
                self._field = field
            self.builder.thinking(thought, field)

    def _arguments(self, call: Call, index: int | None) -> None:
        delta = _delta(call, index)
        # The everyday piece goes by its index; anything with a label asks the table.
        if index is None or delta.name or delta.id or not self._calls.more(index, delta.arguments):
            self._calls.array([delta])

    def _cite(self, citations: Any) -> None:
        if citations:
            self._citations += citations if isinstance(citations, list) else [citations]
            # Held until the end, so they count towards the limit.
            self.builder.count(len(text_of(citations)))

    def _finish(self, end: dict[str, Any]) -> None:
        raw = text(end.get("finish_reason"))
        usage = end.get("usage")
        self._usage = usage if isinstance(usage, dict) else None
        if raw in _FAILURES or (raw is None and end.get("error")):
            why = end.get("error") or f"the host ended the answer with {raw} and gave no reason"
            raise self._refusal({"error": why}, _FAILURES.get(raw or ""))
        # Filters first: a call that is still held back in the text belongs before the end of the calls.
        self.builder.settle()
        self.settle()
        self._calls.end()
        builder = self.builder
        # Nothing before a stop sequence is an answer too: asking again would give the same.
        is_silent = raw == "STOP_SEQUENCE" and not builder.has_output
        builder.finish("stop_sequence" if is_silent else stop_reason(raw, builder.calls), raw)

    def end(self) -> None:
        what = "without `message-end`" if self._seen else "before anything came"
        raise TruncatedStream(f"the stream ended {what}")

    def settle(self) -> None:
        self._calls.settle()
        if self._citations:
            found, self._citations = self._citations, []
            self._opaque("citations", found)
        if self._usage:
            self.builder.usage = read_usage(self._usage)

    def _opaque(self, kind: str, data: Any) -> None:
        self.builder.whole(Opaque(kind, data, self.builder.origin))

    def _refusal(self, error: Any, status: int | None = None) -> ProviderError:
        return provider_error(status, error, provider=self._dialect.provider)


def _delta(call: Call, index: int | None) -> ToolDelta:
    function = call.function
    if function is None:
        return ToolDelta(index, call.id)
    return ToolDelta(index, call.id, function.name or "", function.arguments or "")


def read_usage(raw: dict[str, Any]) -> Usage:
    """The tokens the model saw and wrote; what is billed leaves the host's own prompt out, and stands in `raw`."""
    # Billed units leave out the host's own prompt, so the model's tokens come first (field-guide/cohere.md#stream).
    tokens = inner(raw, "tokens") or inner(raw, "billed_units")
    return Usage(
        input=token_count(tokens.get("input_tokens")),
        output=token_count(tokens.get("output_tokens")),
        cache_read=token_count(raw.get("cached_tokens")),
        reasoning=token_count(tokens.get("reasoning_tokens")),
        raw=raw,
    )
