"""The outside of every decoder: bytes in, events out, whatever the wire means by them.

An answer's first visible byte tells whether it is the stream that was expected, another one, or no stream at all: then it is
held up to `limit` bytes and read whole. The wire's own reader is told event by event and raises what cannot go on: that ends
the answer, with all that came before it. An end that was said stands, even if the line drops behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Protocol

from ..core.blocks import Turn
from ..core.errors import (
    Aborted,
    LimitExceeded,
    MalformedStream,
    ProviderError,
    RemoteError,
    TransportError,
    TruncatedStream,
)
from ..core.events import Done, ErrorEvent, ErrorInfo, Event
from ..core.reduce import TurnBuilder
from .provider_errors import provider_error
from .sse import DONE, ServerSentEvent
from .stencil import ReadTemplate, Run, StencilMemory

# A large burst goes in slices: what is parsed stays in the processor's cache, and the cost a byte the same.
_SLICE = 64 * 1024
# Below this, looking for a stencil costs more than reading.
_TINY = 16
"""No event is as small as this."""
# Stencils (see stencil.py) pay for themselves by long runs only. These bounds say when to stop trying.
_LONG_RUN = 4
_TRIES = 8
"""What is read at once holds more than this many events, or shorter runs of them, that fit no stencil: then the rest is read in
full, for each try costs a copy of it."""
_ALIKE = 24
"""The first bytes that show whether two events are of the same kind: they include the event's name, or its first field."""
# The byte order mark counts as blank: it may stand before a body as well.
_BLANK = b"\xef\xbb\xbf \t\r\n"


class Framing(Protocol):
    """How bytes fall into events: server-sent events, lines of JSON, one JSON array.

    What came whole before a fault is delivered before the fault is raised.
    """

    @property
    def ends(self) -> tuple[bytes, ...]:
        """What an event ends with, where that never stands inside one; empty if events cannot be told apart so simply."""
        ...

    @property
    def between(self) -> bool:
        """Whether nothing is half read: the next byte begins an event."""
        ...

    def feed(self, data: bytes) -> Iterable[ServerSentEvent]: ...

    def close(self) -> Iterable[ServerSentEvent]: ...


# A host that was asked for a stream may send a whole body, an error page, or another framing
# (field-guide/streams.md#errors-inside-a-stream).
Instead = Mapping[bytes, Framing | None]
"""By the first visible byte: what an answer is instead of the stream that was expected. None is a whole body."""

NO_EVENT_STREAM: Instead = MappingProxyType({b"{": None, b"[": None, b"<": None})
"""An event stream starts with a field or a comment, never with one of these."""


class StreamReader(Protocol):
    """What one wire means. It speaks to its builder; a RemoteError or ProviderError it raises ends the answer."""

    builder: TurnBuilder

    @property
    def end_was_said(self) -> bool:
        """Whether nothing but the bytes' own end is due."""
        ...

    def event(self, data: bytes, name: str) -> None: ...

    def whole(self, body: bytes) -> None:
        """A body instead of a stream."""
        ...

    def end(self) -> None:
        """The bytes are over, or the peer said so: finish the turn, or raise TruncatedStream."""
        ...

    def settle(self) -> None:
        """An error ends the turn: give the builder what was kept for the end. May be asked again."""
        ...


class StreamDecoder:
    """Feed it the bytes of one answer; it gives events, and exactly one terminal one.

    `progress` counts data events (comments do not count); `ended` is set by the terminal event. Events that only repeat one
    another with another text are read by `stencils`, if the reader has a `template` of them; None reads each in full. What
    comes is given as `retell` tells it, if that is set.
    """

    __slots__ = (
        "_body", "_builder", "_framing", "_instead", "_limit", "_reader", "_sniffed", "progress", "retell", "stencils",
    )  # fmt: skip

    def __init__(
        self,
        reader: StreamReader,
        framing: Framing,
        *,
        limit: int,
        instead: Instead = NO_EVENT_STREAM,
        template: ReadTemplate | None = None,
    ) -> None:
        self._reader = reader
        self._builder = reader.builder
        self._framing = framing
        self._instead = instead
        self._limit = limit
        self._sniffed = False
        self._body: bytearray | None = None  # set when the answer turns out to be no stream
        self.progress = 0
        self.stencils = StencilMemory(template) if template is not None else None
        self.retell: Callable[[list[Event]], list[Event]] | None = None

    @property
    def ended(self) -> bool:
        return self._builder.ended

    def feed(self, data: bytes) -> list[Event]:
        builder = self._builder
        if builder.ended:
            return []
        # The one place where a fault becomes an event: readers raise, and everything told before it is kept.
        try:
            if not self._sniffed:
                self._sniff(data)
            if self._body is not None:
                self._hold(data)
                return []
            if len(data) <= _SLICE:
                self._take_in(data, 0, len(data))
            else:
                self._read_slices(data)
        except (RemoteError, ProviderError) as error:
            self._give_up(ErrorInfo.of(error))
        return builder.take() if self.retell is None else self.retell(builder.take())

    def close(self) -> list[Event]:
        """The bytes are over."""
        builder = self._builder
        if builder.ended:
            return []
        try:
            if self._body is not None:
                # Blanks before a body are layout; some hosts send them to keep a connection alive.
                ended = self._whole(bytes(self._body).lstrip(_BLANK))
            else:
                ended = self._read(self._framing.close())
            if not ended:
                self._reader.end()
        except (RemoteError, ProviderError) as error:
            self._give_up(ErrorInfo.of(error))
        return builder.take() if self.retell is None else self.retell(builder.take())

    def read_body(self, body: bytes) -> list[Event]:
        """A whole body instead of a stream."""
        # Only where its first byte means another framing, as an array does, is a body read like a stream.
        if self._instead.get(_first(body)) is None:
            self._sniffed = True
            self._body = bytearray()
        return self.feed(body) + self.close()

    def fail(self, error: ErrorInfo) -> list[Event]:
        """The transport lost the stream: keep what came, end with this error."""
        builder = self._builder
        # An end that was said stands if the line is lost afterwards.
        # Not if the caller ended it: then it was not waited for.
        lost = isinstance(error.to_exception(), TransportError | TruncatedStream) and error.kind != Aborted.kind
        if self._reader.end_was_said and lost and not builder.ended:
            try:
                self._reader.end()
            except RemoteError as fault:
                error = ErrorInfo.of(fault)
        self._give_up(error)
        return builder.take() if self.retell is None else self.retell(builder.take())

    def _sniff(self, data: bytes) -> None:
        first = _first(data)
        # Blanks alone tell nothing yet.
        if first:
            self._sniffed = True
            if first in self._instead:
                framing = self._instead[first]
                if framing is None:
                    self._body = bytearray()
                else:
                    self._framing = framing

    def _hold(self, data: bytes) -> None:
        assert self._body is not None
        self._body += data
        self.progress += 1  # a body that comes in pieces is no silence
        if len(self._body) > self._limit:
            raise LimitExceeded(f"the body is longer than {self._limit} bytes")

    def _read_slices(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            stop = at + _SLICE
            # A slice ends at the end of an event, so that the next one begins cleanly and the stencil fits.
            for end in self._framing.ends:  # an event that is cut in two is read in full
                found = data.rfind(end, at, stop)
                if found > at:
                    stop = found + len(end)
                    break
            stop = min(stop, len(data))
            if self._take_in(data, at, stop):
                return
            at = stop

    def _take_in(self, data: bytes, at: int, stop: int) -> bool:
        """What fits the stencil by it, the rest in full; whether the answer ended. Only what lies between these places."""
        framing, stencils = self._framing, self.stencils
        if stencils is None or stop - at < _TINY or not framing.ends:
            return self._read(framing.feed(data[at:stop]))
        last = stencils.last
        # A stencil compares bytes, so it can only be used where an event begins.
        if last is not None and not at and framing.between and len(data) <= self._limit:
            text = last.read_one(data)
            if text is not None:  # one read, one event: the live stream's case
                stencils.failures = 0
                self.progress += 1
                last.template.tell(text)
                return self._builder.ended
        # Read what fits by stencil, one event in full where none fits (and
        # learn from it), and give up on stencils where too much does not fit.
        tries = 0
        while at < stop:
            runs: list[Run] = []
            if framing.between and stop - at <= self._limit:
                runs, size = stencils.read(data, at, stop)
                if runs:
                    if self._tell(runs):
                        return True
                    at += size
                    if at == stop:
                        return False
                    # The run was long enough to be worth another try.
                    if len(runs) >= _LONG_RUN or len(runs[0][1]) >= _LONG_RUN:
                        continue
            tries += 1
            if stencils.is_waiting or tries > _TRIES:
                before = self.progress
                ended = self._read(framing.feed(data[at:stop]))
                # Events that were read in full shorten the wait until stencils are tried again.
                stencils.skip(self.progress - before)
                return ended
            if runs:
                continue
            end = _end(data, at, stop, framing.ends)
            piece, at = data[at:end], end
            began = framing.between
            events = list(framing.feed(piece))
            if self._read(events):
                return True
            # Exactly one whole event: only then do piece and event belong together. Where the next one is here and begins
            # in another way, there is nothing to repeat.
            repeats = at == stop or data.startswith(piece[:_ALIKE], at)
            if repeats and began and framing.between and len(events) == 1:
                stencils.learn(piece, events[0].data, events[0].event)
        return False

    def _tell(self, runs: list[Run]) -> bool:
        """One event for each text; whether the answer ended among them."""
        builder = self._builder
        for template, texts in runs:
            if len(texts) > 1 and template.tell_all is not None and template.tell_all(texts):
                # Progress is counted for the idle timer, which counts
                # events with data (field-guide/streams.md#silence).
                self.progress += len(texts)
                continue
            for text in texts:
                self.progress += 1
                template.tell(text)
                if builder.ended:
                    return True
        return False

    def _read(self, events: Iterable[ServerSentEvent]) -> bool:
        """Whether the answer ended among them."""
        builder, reader = self._builder, self._reader
        for event in events:
            data = event.data
            # Nearly every event is an object; only others are looked at more closely.
            if data[:1] != b"{":
                data = data.strip()
                # Whether `[DONE]` is a good end is the reader's to say: without
                # a finish reason it is not (field-guide/streams.md#endings).
                if data[:6] == DONE:
                    reader.end()
                    return True
                if not data:
                    continue
            self.progress += 1
            reader.event(data, event.event)
            if builder.ended:
                return True
        return False

    def _whole(self, body: bytes) -> bool:
        if body[:1] == b"<":
            raise MalformedStream("expected an answer in JSON, got an HTML page")
        self._reader.whole(body)
        return self._builder.ended

    def _give_up(self, error: ErrorInfo) -> None:
        if self._builder.ended:
            return
        try:
            # What was held back came before the fault.
            self._reader.settle()
        except LimitExceeded:
            pass  # what was held back does not fit; the error being told is the one that came first
        self._builder.fail(error)


def decode_chunks(decoder: StreamDecoder, chunks: Iterable[bytes]) -> Iterator[Event]:
    """All events of a stream; stops at the terminal one without reading on."""
    for data in chunks:
        yield from decoder.feed(data)
        # The terminal event ends it: hosts keep connections open behind it.
        if decoder.ended:
            return
    yield from decoder.close()


def decode_whole(decoder: StreamDecoder, body: bytes, *, status: int = 200, provider: str = "") -> Turn:
    """A whole answer as a Turn. An error the provider sent is raised; an answer that is only thinking has `failure` set."""
    if status >= 400:
        raise provider_error(status, body, provider=provider or None)
    last = decoder.read_body(body)[-1]
    # These two are told by the turn itself, which holds what came.
    if isinstance(last, ErrorEvent) and last.error.kind not in ("empty", "truncated"):
        raise last.to_exception()
    assert isinstance(last, (Done, ErrorEvent))
    return last.turn


def _end(data: bytes, at: int, stop: int, ends: tuple[bytes, ...]) -> int:
    """Where the first event that ends between these places ends; `stop` if none does."""
    for end in ends:
        found = data.find(end, at, stop)
        if found >= 0:
            return found + len(end)
    return stop


def _first(data: bytes) -> bytes:
    return data.lstrip(_BLANK)[:1]
