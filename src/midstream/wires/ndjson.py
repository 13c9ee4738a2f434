"""Newline-delimited JSON: bytes in, lines out, any split the same.

Blank lines are passed over, CRLF is a line end, and a line over `limit` bytes is LimitExceeded. `feed` is lazy, so that what
comes before a line that is too long is delivered before the error is raised.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..core.errors import LimitExceeded
from .sse import DEFAULT_LIMIT, ServerSentEvent

_BLANK = b" \t\r"


class NDJSONParser:
    """`feed` bytes, get the lines they complete; `close` for what is left without a line end."""

    __slots__ = ("_buffer", "_limit")

    def __init__(self, *, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()  # an unfinished line

    @property
    def between(self) -> bool:
        """Whether the next byte begins a line."""
        return not self._buffer

    def feed(self, data: bytes) -> Iterator[bytes]:
        if b"\n" not in data:
            self._hold(data)
            return
        *lines, rest = data.split(b"\n")
        for line in lines:
            if self._buffer:
                self._buffer += line
                line = bytes(self._buffer)
                self._buffer.clear()
            if len(line) > self._limit:
                self._too_long()
            line = line.strip(_BLANK)
            if line:
                yield line
        self._hold(rest)

    def close(self) -> bytes:
        """The last line, if it lacks its end; empty otherwise."""
        rest = bytes(self._buffer).strip(_BLANK)
        self._buffer.clear()
        return rest

    # Checked as it grows, so that a peer that never ends a line cannot fill memory.
    def _hold(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) > self._limit:
            self._too_long()

    def _too_long(self) -> None:
        self._buffer.clear()
        raise LimitExceeded(f"a line of the stream is longer than {self._limit} bytes")


class LineFraming:
    """Lines as a server-sent event without a name would come."""

    # A raw line break cannot stand inside JSON, so every one of them ends an event.
    ends = (b"\n",)

    __slots__ = ("_lines",)

    def __init__(self, *, limit: int) -> None:
        self._lines = NDJSONParser(limit=limit)

    @property
    def between(self) -> bool:
        return self._lines.between

    def feed(self, data: bytes) -> Iterator[ServerSentEvent]:
        return map(ServerSentEvent, self._lines.feed(data))

    def close(self) -> list[ServerSentEvent]:
        return [ServerSentEvent(self._lines.close())]
