"""Raw completions -> events: the text of any flavour, cut at its stop texts and read through the model's text format.

The filter makes thinking and tool calls of the text; with `starts_inside` the prompt opened the thinking and no tag comes.
The text said once more at the end is used only where no piece of it came. The end is a finish reason; [DONE] or EOF without
one is `truncated`, unless the dialect's host never sends one. What is no event stream (a JSON body) is read as what it is.
"""

from __future__ import annotations

from typing import Any

from ...core.blocks import Origin, Usage
from ...core.dialect import Dialect
from ...core.errors import LimitExceeded, MalformedStream
from ...core.events import ErrorInfo, Event
from ...core.reduce import TurnBuilder
from ...toolformats.apply import FilteredText
from ...toolformats.findings import TextFilter
from ..json_border import decode_leniently
from ..provider_errors import error_info, provider_error
from ..sse import DEFAULT_LIMIT, SSEParser
from .flavours import FLAVOURS
from .portion import Portion
from .stops import StopText

STOP_REASONS = {
    "stop": "end_turn",
    "eos": "end_turn",
    "word": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "limit": "max_tokens",
    "content_filter": "refusal",
}


class CompletionDecoder:
    """Feed it the bytes of one answer; it gives events, and exactly one terminal one."""

    __slots__ = (
        "_body", "_builder", "_dialect", "_finish", "_flavour", "_limit", "_said", "_sniffed", "_sse", "_started", "_stop",
        "_text", "_usage", "progress",
    )  # fmt: skip

    def __init__(
        self,
        dialect: Dialect,
        *,
        turn_key: str,
        text_filter: TextFilter,
        model: str = "",
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        self._dialect = dialect
        self._flavour = FLAVOURS[dialect.completion]
        self._builder = TurnBuilder(turn_key, Origin(dialect.provider, dialect.wire, model))
        self._text = FilteredText(self._builder, text_filter)
        self._stop = StopText(dialect.stop)
        self._sse = SSEParser(limit=limit)
        self._limit = limit
        self._finish: str | None = None
        self._usage: Usage | None = None
        self._started = False
        self._said = False
        self._sniffed = False
        self._body: bytearray | None = None  # set when the answer turns out to be no event stream
        self.progress = 0

    @property
    def ended(self) -> bool:
        return self._builder.ended

    def feed(self, data: bytes) -> list[Event]:
        builder = self._builder
        if builder.ended:
            return []
        try:
            if not self._sniffed:
                self._sniff(data)
            if self._body is not None:
                self._hold_body(data)
                return []
            for event in self._sse.feed(data):
                self._event(event.data, event.event)
                if self.ended:
                    break
        except (MalformedStream, LimitExceeded) as error:
            self._fail(error)
        return builder.take()

    def close(self) -> list[Event]:
        """The bytes are over."""
        if self.ended:
            return []
        try:
            if self._body is not None:
                self._whole(bytes(self._body))
            else:
                for event in self._sse.close():
                    if not self.ended:
                        self._event(event.data, event.event)
            if not self.ended:
                self._end()
        except (MalformedStream, LimitExceeded) as error:
            self._fail(error)
        return self._builder.take()

    def read_body(self, body: bytes) -> list[Event]:
        """A whole JSON body instead of a stream."""
        self._sniffed = True
        self._body = bytearray(body)
        return self.close()

    def fail(self, error: ErrorInfo) -> list[Event]:
        """The transport lost the stream: keep what came, end with this error."""
        if self._finish and error.kind == "transport":
            return self.close()  # the end was said before the connection broke
        self._give_up(error)
        return self._builder.take()

    def _sniff(self, data: bytes) -> None:
        """Look at the first visible byte: an event stream starts with a field or a comment, never with `{`, `[` or `<`."""
        start = data.lstrip(b"\xef\xbb\xbf \t\r\n")
        if start:
            self._sniffed = True
            if start[:1] in b"{[<":
                self._body = bytearray()

    def _hold_body(self, data: bytes) -> None:
        assert self._body is not None
        self._body += data
        if len(self._body) > self._limit:
            raise LimitExceeded(f"the body is longer than {self._limit} bytes")

    def _whole(self, body: bytes) -> None:
        if body.lstrip()[:1] == b"<":
            raise MalformedStream("expected a completion, got an HTML page")
        self._portion(self._flavour.read_body(body))

    def _event(self, data: bytes, kind: str) -> None:
        if data[:1] != b"{":
            data = data.strip()
            if data[:6] == b"[DONE]":
                self._end()
                return
            if not data:
                return
        self.progress += 1
        if kind == "error":
            value = decode_leniently(data)
            self._refused(value.get("error", value) if isinstance(value, dict) else value)
            return
        self._portion(self._flavour.read_chunk(data))

    def _portion(self, portion: Portion) -> None:
        if portion.error is not None:
            self._refused(portion.error)
            return
        if not self._started:
            self._started = True
            self._builder.start(portion.model, portion.response_id)
        elif portion.response_id:
            self._builder.response_id = portion.response_id
        text = portion.text
        if not text and portion.whole and not self._said:
            text = portion.whole
        if text:
            self._said = True
            text = self._stop.feed(text)
            if text:
                self._text.feed(text)
        if portion.usage is not None:
            self._usage = portion.usage
        if portion.finish:
            self._finish = portion.finish

    def _end(self) -> None:
        self._settle()
        builder = self._builder
        if self._finish is None and self._dialect.sends_finish:
            what = "without a finish reason" if self._started else "before anything came"
            builder.fail(ErrorInfo("truncated", f"the stream ended {what}", retryable=True))
            return
        builder.finish(self._reason(), self._finish)

    def _reason(self) -> str:
        # An answer cut at its own end was finished, whatever the host went on to write.
        raw = "stop" if self._finish is None or self._stop.reached else self._finish
        reason = STOP_REASONS.get(raw, raw)
        return "tool_use" if self._builder.calls and reason == "end_turn" else reason

    def _settle(self) -> None:
        """Give what was held back, and the counts."""
        self._builder.usage = self._usage
        held = self._stop.close()
        if held:
            self._text.feed(held)
        self._text.close()

    def _refused(self, error: Any) -> None:
        self._give_up(error_info(provider_error(None, {"error": error}, provider=self._dialect.provider)))

    def _fail(self, error: MalformedStream | LimitExceeded) -> None:
        self._give_up(ErrorInfo("limit" if isinstance(error, LimitExceeded) else "malformed", str(error)))

    def _give_up(self, error: ErrorInfo) -> None:
        if self.ended:
            return
        try:
            self._settle()
        except LimitExceeded:
            pass  # what was held back does not fit; the error being told is the one that came first
        self._builder.fail(error)
