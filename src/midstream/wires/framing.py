"""How the bytes of an answer fall into events, whatever frames them: server-sent events, lines of JSON, one JSON array.

Lines and elements have no name; they come as a server-sent event without one would. An array that closes says so as other
hosts do, with `[DONE]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from .json_array import JSONArrayParser
from .ndjson import NDJSONParser
from .sse import ServerSentEvent

DONE = b"[DONE]"


class Framing(Protocol):
    """What came whole before a fault is delivered before the fault is raised."""

    def feed(self, data: bytes) -> Iterable[ServerSentEvent]: ...

    def close(self) -> Iterable[ServerSentEvent]: ...


class LineFraming:
    __slots__ = ("_lines",)

    def __init__(self, *, limit: int) -> None:
        self._lines = NDJSONParser(limit=limit)

    def feed(self, data: bytes) -> Iterator[ServerSentEvent]:
        return map(ServerSentEvent, self._lines.feed(data))

    def close(self) -> list[ServerSentEvent]:
        return [ServerSentEvent(self._lines.close())]


class ArrayFraming:
    __slots__ = ("_array",)

    def __init__(self, *, limit: int) -> None:
        self._array = JSONArrayParser(limit=limit)

    def feed(self, data: bytes) -> Iterator[ServerSentEvent]:
        yield from map(ServerSentEvent, self._array.feed(data))
        if self._array.closed:
            yield ServerSentEvent(DONE)

    def close(self) -> list[ServerSentEvent]:
        return []
