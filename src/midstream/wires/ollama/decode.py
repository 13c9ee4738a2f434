"""Ollama's chat answers -> events: lines of JSON, or one whole body, through one reading of their messages.

Calls come whole, their arguments an object whose numbers are kept digit for digit. The end is `done: true`; EOF before it is
`truncated`. An `error` line ends the answer with the provider's words.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ...core.blocks import Media, Usage
from ...core.errors import LimitExceeded, TruncatedStream
from ...core.reduce import MAX_TURN_CHARS
from ...toolformats.apply import FilteredText
from ...toolformats.findings import TextFilter
from ..decode_context import DecodeContext
from ..lenient_json import decode_leniently, token_count
from ..ndjson import LineFraming
from ..provider_errors import is_error, provider_error
from ..stencil import Template, is_empty
from ..stop_reasons import settled_stop
from ..stream_decoder import StreamDecoder
from .shapes import Call, Line, Message, counts, decode_line, read_line

STOP_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}


def stop_reason(raw: str | None, calls: int) -> str:
    """The host's word in ours; `load` and `unload` stay, for they answer no question. Old servers give no reason."""
    return settled_stop(STOP_REASONS.get(raw, raw) if raw else "end_turn", calls)


def make_decoder(context: DecodeContext) -> StreamDecoder:
    reader = OllamaStreamReader(context, context.text_filter(), context.reasoning_filter())
    framing = LineFraming(limit=context.limit)
    # A line begins with a brace just as a body does, so only HTML can be told apart at the start.
    return StreamDecoder(reader, framing, limit=context.limit, instead={b"<": None}, template=reader.template)


class OllamaStreamReader:
    """Reads lines, or the one body that stands for them all."""

    __slots__ = (
        "_dialect", "_filter", "_held", "_make_thinking_filter", "_names", "_seen", "_thinking", "builder",
    )  # fmt: skip

    end_was_said = False  # `done` ends the turn at once

    def __init__(
        self,
        context: DecodeContext,
        text_filter: TextFilter | None = None,
        thinking_filter: Callable[[], TextFilter] | None = None,
    ) -> None:
        self._dialect = context.dialect
        self.builder = context.builder()
        self._names = context.tool_names
        self._filter = FilteredText(self.builder, text_filter) if text_filter is not None else None
        self._make_thinking_filter = thinking_filter
        self._thinking: FilteredText | None = None
        self._seen = False
        self._held = 0

    def event(self, data: bytes, name: str) -> None:
        try:
            line = decode_line(data)
        except (msgspec.DecodeError, RecursionError, ValueError):
            # A byte order mark may stand before the first line.
            line = read_line(data.removeprefix(b"\xef\xbb\xbf"))
            self.builder.split_surrogates = True
        self._line(line)

    def template(self, data: bytes, name: str) -> Template | None:
        """A line of one text, or of thinking, and nothing else."""
        try:
            line = decode_line(data)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return None
        message = line.message
        # Left out of the comparison, so that it does not stop a stencil.
        line.model = None  # not looked at once the answer has begun
        if not self._seen or message is None or not is_empty(line, but="message"):
            return None
        field = "content" if message.content else "thinking"
        if not getattr(message, field) or not is_empty(message, but=field):
            return None

        def tell(text: str) -> None:
            setattr(message, field, text)
            self._line(line)

        return Template(line, message, field, tell, self._all_content if field == "content" else self._all_thinking)

    def _all_content(self, texts: list[str]) -> bool:
        if self._thinking is not None:
            return False
        return self.builder.all_text(texts) if self._filter is None else self._filter.feed_all(texts)

    def _all_thinking(self, texts: list[str]) -> bool:
        if self._thinking is not None:
            return self._thinking.feed_all(texts)
        return self._make_thinking_filter is None and self.builder.all_thinking(texts) is not None

    def whole(self, body: bytes) -> None:
        """One object, however it is laid out, or all lines of a stream."""
        try:
            line = decode_line(body)
        except (msgspec.DecodeError, RecursionError, ValueError):
            # Not one object: the lines of a stream, read as a body.
            for text in body.split(b"\n"):
                if text.strip() and not self.builder.ended:
                    self.event(text, "")
        else:
            self._line(line)
            # `done: false` in a whole body would be a lie; missing, it only was not said.
            if line.done is None and line.message is not None and not self.builder.ended:
                self._finish(line)  # one whole body has come to its end, whether it says so or not

    def end(self) -> None:
        what = "without `done`" if self._seen else "before anything came"
        raise TruncatedStream(f"the stream ended {what}")

    def settle(self) -> None:
        """The counts come with `done` only; what a filter held back is due."""
        self._end_thinking()
        if self._filter is not None:
            self._filter.close()

    def _line(self, line: Line) -> None:
        builder = self.builder
        if line.error is not None and is_error(line.error, beside=line.message):
            raise provider_error(None, {"error": line.error}, provider=self._dialect.provider)
        if not self._seen:
            self._seen = True
            builder.start(line.model or "")
        message = line.message
        if message is not None:
            if message.thinking:
                if self._make_thinking_filter is None:
                    builder.thinking(message.thinking, "thinking")
                else:
                    self._filtered_thinking(message.thinking, self._make_thinking_filter)
            if message.content:
                self._end_thinking()
                if self._filter is None:
                    builder.text(message.content)
                else:
                    self._filter.feed(message.content)
            if message.tool_calls or message.images:
                self._rest(message)
        if line.done:
            self._finish(line)

    def _filtered_thinking(self, text: str, make: Callable[[], TextFilter]) -> None:
        if self._thinking is None:
            self._thinking = FilteredText(self.builder, make(), "thinking")
        self._thinking.feed(text)

    def _end_thinking(self) -> None:
        """Thinking is over: what its filter held back is due before anything else."""
        if self._thinking is not None:
            self._thinking.close()
            self._thinking = None

    def _rest(self, message: Message) -> None:
        self._end_thinking()
        for image in message.images or ():
            # Images count apart from text: they are not part of the turn's characters.
            self._held += len(image)
            if self._held > MAX_TURN_CHARS:
                raise LimitExceeded(f"the answer holds more than {MAX_TURN_CHARS} characters of media")
            self.builder.whole(Media("image/*", data=image))
        for call in message.tool_calls or ():
            self._call(call)

    def _call(self, call: Call) -> None:
        function = call.function
        name = (function.name or "") if function is not None else ""
        piece = self.builder.open_call(call.id or None, self._names.get(name, name))
        # A call without a function is reported as one without a name.
        self.builder.call_arguments(piece, _arguments(function.arguments) if function is not None else "{}")
        self.builder.close_call(piece)

    def _finish(self, line: Line) -> None:
        self._end_thinking()
        if self._filter is not None:
            self._filter.close()
        builder = self.builder
        raw = counts(line)
        if raw is not None:
            builder.usage = Usage(token_count(line.prompt_eval_count), token_count(line.eval_count), raw=raw)
        builder.finish(stop_reason(line.done_reason, builder.calls), line.done_reason)


def _arguments(raw: msgspec.Raw) -> str:
    """The arguments as compact JSON text, numbers untouched; a host that sends them as text is taken at its word."""
    data = bytes(raw)
    if not data or data == b"null":
        return "{}"
    # Some hosts of this wire send arguments as text.
    if data[:1] == b'"':
        return str(decode_leniently(data)) or "{}"
    try:
        # Formatted without being parsed: numbers keep their digits (field-guide/ollama.md#tools).
        return msgspec.json.format(data, indent=-1).decode()
    except (msgspec.DecodeError, RecursionError, ValueError):
        return data.decode("utf-8", "replace")
