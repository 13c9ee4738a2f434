"""Raw completions -> events: the text of any flavour, cut at its stop texts and read through the model's text format.

The filter makes thinking and tool calls of the text; with `starts_inside` the prompt opened the thinking and no tag comes.
The text said once more at the end is used only where no piece of it came. The end is a finish reason; [DONE] or EOF without
one is `truncated`, unless the dialect's host never sends one or the answer is one whole body.
"""

from __future__ import annotations

from typing import Any

from ...core.blocks import Usage
from ...core.errors import ProviderError, TruncatedStream
from ...core.surrogates import has_half
from ...toolformats.apply import FilteredText
from ...toolformats.findings import TextFilter
from ...toolformats.reader import markers
from ...toolformats.registry import get_filter, think_filter
from ..decode_context import DecodeContext
from ..provider_errors import provider_error, told_error
from ..sse import SSEParser
from ..stop_reasons import later_stop, settled_stop
from ..stream_decoder import StreamDecoder
from .flavours import FLAVOURS
from .shapes import CompletionChunk

# Words of three hosts; `word` and `limit` are llama.cpp's.
STOP_REASONS = {
    "stop": "end_turn",
    "eos": "end_turn",
    "word": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "limit": "max_tokens",
    "content_filter": "refusal",
}


def make_decoder(context: DecodeContext) -> StreamDecoder:
    rules, written = context.dialect.reasoning, context.text_format or context.dialect.leaks
    # Writing a call as text is how a raw model calls: it is no leak, and one of an unknown tool is a call all the same.
    text_filter = (
        think_filter(rules.tags, rules.starts_inside)
        if written is None
        else get_filter(written, context.declared, tags=rules.tags, starts_inside=rules.starts_inside)
    )
    reader = CompletionStreamReader(context, text_filter)
    return StreamDecoder(reader, SSEParser(limit=context.limit), limit=context.limit)


class CompletionStreamReader:
    """Reads the chunks of a text, or the one body that holds it all."""

    __slots__ = (
        "_dialect",
        "_finish",
        "_flavour",
        "_is_whole",
        "_said",
        "_started",
        "_stop",
        "_text",
        "_usage",
        "builder",
    )

    def __init__(self, context: DecodeContext, text_filter: TextFilter) -> None:
        self._dialect = context.dialect
        self._flavour = FLAVOURS[context.dialect.completion]
        self.builder = context.builder()
        self._text = FilteredText(self.builder, text_filter)
        self._stop = StopText(context.dialect.stop)
        self._finish: str | None = None
        self._usage: Usage | None = None
        self._started = False
        self._is_whole = False
        # Whether any piece of the text has come: then the whole at the end is a repetition.
        self._said = False

    @property
    def end_was_said(self) -> bool:
        return bool(self._finish)

    def event(self, data: bytes, name: str) -> None:
        if name == "error":
            raise told_error(data, self._dialect.provider)
        self._chunk(self._flavour.read_chunk(data))

    def whole(self, body: bytes) -> None:
        self._is_whole = True
        self._chunk(self._flavour.read_body(body))

    def _chunk(self, chunk: CompletionChunk) -> None:
        if chunk.error is not None:
            raise self._refusal(chunk.error)
        if not self._started:
            self._started = True
            self.builder.start(chunk.model, chunk.response_id)
        elif chunk.response_id:
            self.builder.response_id = chunk.response_id
        text = chunk.text
        if not text and chunk.whole and not self._said:
            text = chunk.whole
        if text:
            # A cheap look at nearly every piece, and a search only where it may find something.
            if not text.isascii() and has_half(text):
                self.builder.split_surrogates = True
            self._said = True
            # Cut at the stop texts before the filter sees it: a host may send them, and more behind them.
            text = self._stop.feed(text)
            if text:
                self._text.feed(text)
        # A later count that says nothing does not replace one that did.
        if chunk.usage is not None and (self._usage is None or chunk.usage.input or chunk.usage.output):
            self._usage = chunk.usage
        if chunk.finish:
            self._finish = later_stop(self._finish, chunk.finish, STOP_REASONS)
            # A call at the end of the text is complete now. The counts may be a while in coming.
            if self._text.in_call:
                self._give_held()

    def end(self) -> None:
        self.settle()
        builder = self.builder
        if self._finish is None and self._dialect.sends_finish and not self._is_whole:
            what = "without a finish reason" if self._started else "before anything came"
            raise TruncatedStream(f"the stream ended {what}")
        builder.finish(self._reason(), self._finish)

    def _reason(self) -> str:
        # An answer cut at its own end was finished, whatever the host went on to write.
        raw = "stop" if self._finish is None or self._stop.reached else self._finish
        return settled_stop(STOP_REASONS.get(raw, raw), self.builder.calls)

    def settle(self) -> None:
        """Give what was held back, and the counts."""
        self.builder.usage = self._usage
        self._give_held()

    def _give_held(self) -> None:
        held = self._stop.close()
        if held:
            self._text.feed(held)
        self._text.close()

    def _refusal(self, error: Any) -> ProviderError:
        return provider_error(None, {"error": error}, provider=self._dialect.provider)


class StopText:
    __slots__ = ("_held", "_stops", "reached")

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = markers(*stops) if stops else None
        self._held = ""
        self.reached = False

    def feed(self, text: str) -> str:
        """What of this, and of what was held back, belongs to the answer for sure."""
        if self._stops is None:
            return text
        if self.reached:
            return ""
        text = self._held + text if self._held else text
        found = self._stops.search(text, 0)
        if found is not None:
            self.reached = True
            self._held = ""
            return text[: found.start()]
        # The end of this piece may be the beginning of a stop text.
        end = len(text) - self._stops.held(text, 0)
        self._held = text[end:]
        return text[:end]

    def close(self) -> str:
        """What was held back and became nothing."""
        held, self._held = self._held, ""
        return held
