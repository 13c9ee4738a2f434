"""Ollama's chat answers -> events: lines of JSON, or one whole body, through one reading of their messages.

Calls come whole, their arguments an object whose numbers are kept digit for digit. The end is `done: true`; EOF before it is
`truncated`. An `error` line ends the answer with the provider's words.
"""

from __future__ import annotations

import msgspec

from ...core.blocks import Media, Origin, Usage
from ...core.dialect import Dialect
from ...core.errors import LimitExceeded, MalformedStream
from ...core.events import ErrorInfo, Event
from ...core.reduce import MAX_TURN_CHARS, TurnBuilder
from ...toolformats.apply import FilteredText
from ...toolformats.findings import TextFilter
from ..json_border import decode_leniently
from ..ndjson import DEFAULT_LIMIT, NDJSONParser
from ..provider_errors import error_info, provider_error
from .shapes import Call, Line, Message, counts, decode_line, read_line

STOP_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}


def stop_reason(raw: str | None, calls: int) -> str:
    """The host's word in ours; `load` and `unload` stay, for they answer no question. Old servers give no reason."""
    reason = STOP_REASONS.get(raw, raw) if raw else "end_turn"
    return "tool_use" if calls and reason == "end_turn" else reason


class OllamaDecoder:
    """Feed it the bytes of one answer; it gives events, and exactly one terminal one."""

    __slots__ = ("_builder", "_dialect", "_filter", "_held", "_limit", "_lines", "_names", "_seen", "progress")

    def __init__(
        self,
        dialect: Dialect,
        *,
        turn_key: str,
        model: str = "",
        tool_names: dict[str, str] | None = None,
        text_filter: TextFilter | None = None,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        self._dialect = dialect
        self._builder = TurnBuilder(turn_key, Origin(dialect.provider, dialect.wire, model))
        self._lines = NDJSONParser(limit=limit)
        self._limit = limit
        self._names = tool_names or {}
        self._filter = FilteredText(self._builder, text_filter) if text_filter is not None else None
        self._seen = False
        self._held = 0
        self.progress = 0

    @property
    def ended(self) -> bool:
        return self._builder.ended

    def feed(self, data: bytes) -> list[Event]:
        builder = self._builder
        if builder.ended:
            return []
        try:
            for text in self._lines.feed(data):
                self._text_line(text)
                if self.ended:
                    break
        except (MalformedStream, LimitExceeded) as error:
            self._fail(error)
        return builder.take()

    def close(self) -> list[Event]:
        """The bytes are over."""
        builder = self._builder
        if builder.ended:
            return []
        try:
            rest = self._lines.close()
            if rest:
                self._text_line(rest)
            if not builder.ended:
                what = "without `done`" if self._seen else "before anything came"
                builder.fail(ErrorInfo("truncated", f"the stream ended {what}", retryable=True))
        except (MalformedStream, LimitExceeded) as error:
            self._fail(error)
        return builder.take()

    def read_body(self, body: bytes) -> list[Event]:
        """A whole body: one object, however it is laid out, or all lines of a stream."""
        try:
            if len(body) > self._limit:
                raise LimitExceeded(f"the body is longer than {self._limit} bytes")
            line = decode_line(body)
            self.progress += 1
            self._line(line)
        except (MalformedStream, LimitExceeded) as error:
            self._fail(error)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return self.feed(body) + self.close()
        return self._builder.take() + self.close()

    def fail(self, error: ErrorInfo) -> list[Event]:
        """The transport lost the stream: keep what came, end with this error."""
        self._builder.fail(error)
        return self._builder.take()

    def _text_line(self, text: bytes) -> None:
        self.progress += 1
        try:
            line = decode_line(text)
        except (msgspec.DecodeError, RecursionError, ValueError):
            if text[:1] == b"<":
                raise MalformedStream("expected lines of JSON, got an HTML page") from None
            line = read_line(text.removeprefix(b"\xef\xbb\xbf"))
        self._line(line)

    def _line(self, line: Line) -> None:
        builder = self._builder
        if line.error is not None:
            failure = provider_error(None, {"error": line.error}, provider=self._dialect.provider)
            builder.fail(error_info(failure))
            return
        if not self._seen:
            self._seen = True
            builder.start(line.model or "")
        message = line.message
        if message is not None:
            if message.thinking:
                builder.thinking(message.thinking, "thinking")
            if message.content:
                if self._filter is None:
                    builder.text(message.content)
                else:
                    self._filter.feed(message.content)
            if message.tool_calls or message.images:
                self._rest(message)
        if line.done:
            self._end(line)

    def _rest(self, message: Message) -> None:
        for image in message.images or ():
            self._held += len(image)
            if self._held > MAX_TURN_CHARS:
                raise LimitExceeded(f"the answer holds more than {MAX_TURN_CHARS} characters of media")
            self._builder.whole(Media("image/*", data=image))
        for call in message.tool_calls or ():
            self._call(call)

    def _call(self, call: Call) -> None:
        function = call.function
        name = (function.name or "") if function is not None else ""
        piece = self._builder.open_call(call.id or None, self._names.get(name, name))
        self._builder.call_arguments(piece, _arguments(function.arguments) if function is not None else "{}")
        self._builder.close_call(piece)

    def _end(self, line: Line) -> None:
        if self._filter is not None:
            self._filter.close()
        builder = self._builder
        raw = counts(line)
        if raw is not None:
            builder.usage = Usage(max(0, line.prompt_eval_count or 0), max(0, line.eval_count or 0), raw=raw)
        builder.finish(stop_reason(line.done_reason, builder.calls), line.done_reason)

    def _fail(self, error: MalformedStream | LimitExceeded) -> None:
        kind = "limit" if isinstance(error, LimitExceeded) else "malformed"
        self._builder.fail(ErrorInfo(kind, str(error)))


def _arguments(raw: msgspec.Raw) -> str:
    """The arguments as compact JSON text, numbers untouched; a host that sends them as text is taken at its word."""
    data = bytes(raw)
    if not data or data == b"null":
        return "{}"
    if data[:1] == b'"':
        return str(decode_leniently(data)) or "{}"
    try:
        return msgspec.json.format(data, indent=-1).decode()
    except (msgspec.DecodeError, RecursionError, ValueError):
        return data.decode("utf-8", "replace")
