"""An answer's bytes driven through a decoder until its terminal event.

The stream is over when the decoder says so, not when the connection is. Whatever goes wrong after the first byte becomes
the decoder's own error event, with the turn so far; only the caller's cancellation is an exception. The idle timer starts
anew when the decoder got data: it gave events, or its count of data events moved; comments do neither.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from ..core.errors import MidstreamError, TruncatedStream
from ..core.events import ErrorEvent, ErrorInfo, Event
from ..wires.stream_decoder import StreamDecoder
from .response import HTTPResponse


class EventReader:
    """Reads an answer batch by batch until `ended`. Close it to close the connection, wherever the answer is left."""

    __slots__ = ("_answer", "_decoder", "_progress", "ended")

    def __init__(self, answer: HTTPResponse, decoder: StreamDecoder) -> None:
        self._answer = answer
        self._decoder = decoder
        # The decoder's count of data events. Bytes would not do: hosts send keep-alive comments while
        # nothing happens, and a timer that counts them never fires (field-guide/streams.md#silence).
        self._progress = decoder.progress
        self.ended = False

    async def batch(self) -> list[Event]:
        """The next events, in the batch in which they came; the last batch ends with `done` or `error`."""
        answer, decoder = self._answer, self._decoder
        while True:
            try:
                data = await answer.chunk()
                events = decoder.feed(data) if data else _end(decoder)
            except MidstreamError as error:
                # Not raised: what was said so far is in the decoder, and its error event carries the turn.
                events = decoder.fail(ErrorInfo.of(error))
            if events or decoder.progress != self._progress:
                self._progress = decoder.progress
                answer.progress()
            elif data:
                answer.heartbeat()
            # The terminal event ends it, not the close of the connection, which may come much later
            # (field-guide/streams.md#endings).
            if decoder.ended:
                self.ended = True
                _leave(answer, events)
                _scrub(answer, events)
                return events
            if events:
                return events

    def close(self) -> None:
        self._answer.close()


async def stream_events(answer: HTTPResponse, decoder: StreamDecoder) -> AsyncGenerator[list[Event], None]:
    """The batches of an EventReader. Leave early through `contextlib.aclosing`: closing the iterator closes the connection."""
    reader = EventReader(answer, decoder)
    try:
        while not reader.ended:
            if events := await reader.batch():
                yield events
    finally:
        reader.close()


def _end(decoder: StreamDecoder) -> list[Event]:
    """The body is over; the decoder has the last word."""
    events = decoder.close()
    if decoder.ended:
        return events
    # A body that ends in good order without a terminal event was cut all the same.
    return events + decoder.fail(ErrorInfo.of(TruncatedStream("the body ended before the answer did")))


def _leave(answer: HTTPResponse, events: list[Event]) -> None:
    """After the terminal event: a good answer's connection may serve the next turn, a bad one's is closed."""
    if events and isinstance(events[-1], ErrorEvent):
        answer.close()
    else:
        answer.finish()


def _scrub(answer: HTTPResponse, events: list[Event]) -> None:
    """An error told after a good status may quote our key as well as any other."""
    if events and isinstance(last := events[-1], ErrorEvent):
        events[-1] = answer.secrets.scrub_event(last)
