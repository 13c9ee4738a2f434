"""An answer's bytes driven through a decoder until its terminal event.

The stream is over when the decoder says so, not when the connection is. Whatever goes wrong after the first byte becomes
the decoder's own error event, with the turn so far; only the caller's cancellation is an exception. The idle timer starts
anew when the decoder got data: it gave events, or its `progress` count moved; comments do neither.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from ..core.errors import (
    ConnectFailed,
    EmptyAnswer,
    IdleTimeout,
    LimitExceeded,
    MalformedStream,
    MidstreamError,
    ProviderError,
    TimedOut,
    TransportError,
    TruncatedStream,
)
from ..core.events import ErrorEvent, ErrorInfo, Event
from ..wires.json_border import decode_leniently
from ..wires.provider_errors import error_info
from .answer import Answer

_KINDS: tuple[tuple[type[MidstreamError], str, str | None], ...] = (
    (TruncatedStream, "truncated", None),
    (EmptyAnswer, "empty", None),
    (MalformedStream, "malformed", None),
    (LimitExceeded, "limit", None),
    (IdleTimeout, "transport", "idle_timeout"),
    (TimedOut, "transport", "timed_out"),
    (ConnectFailed, "transport", "connect_failed"),
    (TransportError, "transport", None),
)


class Decoder(Protocol):
    """Bytes in, events out. A decoder may also count what it reads in an attribute `progress: int`."""

    @property
    def ended(self) -> bool:
        """Whether the terminal event, done or error, was given."""

    def feed(self, data: bytes) -> list[Event]: ...
    def close(self) -> list[Event]: ...
    def fail(self, error: ErrorInfo) -> list[Event]: ...


async def stream_events(
    answer: Answer,
    decoder: Decoder,
    *,
    whole: Callable[[bytes], list[Event]] | None = None,
    lines: bool = False,
) -> AsyncIterator[list[Event]]:
    """The events of an answer, in batches as they come; the last batch ends with `done` or `error`.

    `whole` reads an answer that came as one JSON document though a stream was asked for. `lines` says that the wire is
    one JSON document per line, so that a JSON body is the stream itself.
    Leave early through `contextlib.aclosing`: closing the iterator closes the connection.
    """
    try:
        events = await _impostor(answer, decoder, whole, lines)
        if events is not None:
            answer.close()
            yield events
            return
        seen = _progress(decoder)
        ended = False
        while not ended:
            events = await _step(answer, decoder)
            if events or _progress(decoder) != seen:
                seen = _progress(decoder)
                answer.progress()
            ended = decoder.ended
            if ended:
                _leave(answer, events)
            if events:
                yield events
    finally:
        answer.close()


def error_info_of(error: MidstreamError) -> ErrorInfo:
    """The same error as the payload of an `error` event."""
    if isinstance(error, ProviderError):
        return error_info(error)
    for kind, name, code in _KINDS:
        if isinstance(error, kind):
            return ErrorInfo(name, str(error), code=code, retryable=error.retryable)
    return ErrorInfo("aborted", str(error), retryable=error.retryable)


async def _step(answer: Answer, decoder: Decoder) -> list[Event]:
    """One chunk, or the end of the body; either way the decoder has the word."""
    try:
        data = await answer.chunk()
        if data:
            return decoder.feed(data)
        events = decoder.close()
        if decoder.ended:
            return events
        return events + decoder.fail(ErrorInfo("truncated", "the body ended before the answer did", retryable=True))
    except MidstreamError as error:
        return decoder.fail(error_info_of(error))


def _leave(answer: Answer, events: list[Event]) -> None:
    """After the terminal event: a good answer's connection may serve the next turn, a bad one's is closed."""
    if events and isinstance(events[-1], ErrorEvent):
        answer.close()
    else:
        answer.finish()


async def _impostor(
    answer: Answer, decoder: Decoder, whole: Callable[[bytes], list[Event]] | None, lines: bool
) -> list[Event] | None:
    """The events of a body that is no stream at all (a portal's page, one JSON document), or None for a stream."""
    try:
        head = (await answer.begin()).lstrip()
        if answer.content_type == "text/html" or head[:1] == b"<":
            return decoder.fail(ErrorInfo("malformed", "an HTML page came where a stream was expected"))
        if lines or head[:1] not in (b"{", b"["):
            return None
        body = await answer.read()
        if _tells_error(body):
            return decoder.fail(error_info(answer.error_of(body)))
        if whole is not None:
            return whole(body)
        return decoder.fail(ErrorInfo("malformed", "one JSON document came where a stream was expected"))
    except MidstreamError as error:
        return decoder.fail(error_info_of(error))


def _tells_error(body: bytes) -> bool:
    document = decode_leniently(body)
    return isinstance(document, dict) and bool(document.get("error") or document.get("type") == "error")


def _progress(decoder: Decoder) -> int:
    count = getattr(decoder, "progress", 0)
    return count if isinstance(count, int) else 0
