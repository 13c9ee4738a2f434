"""A stream that is one JSON array of objects: bytes in, elements out as each one closes, any split the same.

Only what frames is read (brackets, braces, strings and their escapes); what stands inside an element is the decoder's matter.
Whatever is no object is MalformedStream, an element over `limit` bytes LimitExceeded. `feed` is lazy, so that the elements
before a fault are delivered before the error is raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from ...core.errors import LimitExceeded, MalformedStream
from ...core.patterns import late_pattern
from ..sse import DEFAULT_LIMIT, DONE, ServerSentEvent

# Possessive quantifiers throughout: a stranger's bytes must not find a slow way through.
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_SKIP = rb'(?:[^"{}\[\]]++|' + _STRING + rb")*+"
_FRAME = late_pattern(_SKIP + rb"[{}\[\]]", re.S)  # all up to the next brace or bracket, whole strings among it
_TAIL = late_pattern(_SKIP, re.S)
_IN_STRING = late_pattern(rb'["\\]')
_BETWEEN = b" \t\r\n,"
_BEFORE = b"\xef\xbb\xbf \t\r\n"

_skip_value = msgspec.json.Decoder(msgspec.Raw).decode


def _is_json(data: bytes) -> bool:
    try:
        _skip_value(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return False
    return True


class JSONArrayParser:
    """`feed` bytes, get the elements they complete. `closed` is set by the array's own end."""

    __slots__ = ("_buffer", "_depth", "_escaped", "_in_string", "_limit", "closed")

    def __init__(self, *, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._buffer = bytearray()  # an unfinished element
        # Depth counts brackets and braces alike; the two outermost levels are the frame.
        self._depth = 0  # 0 before the array, 1 between elements
        self._in_string = False
        self._escaped = False
        self.closed = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._depth == 1:
            whole = data.strip(_BETWEEN)
            # The whole read is one element: then one skip by the JSON parser replaces the walk.
            if whole[:1] == b"{" and _is_json(whole):  # one read, one element: the live stream's case
                yield self._take(whole)
                return
        at = start = 0
        end = len(data)
        while at < end and not self.closed:
            if self._in_string:
                at = self._string(data, at)
                continue
            found = _FRAME.match(data, at)
            if found is None:
                at = self._tail(data, at)
                continue
            place = found.end() - 1
            if self._depth < 2:
                self._check_gap(data[at:place])
            at = found.end()
            if data[place] in b"{[":
                self._depth += 1
                # The outermost must be an array, and its elements objects.
                if self._depth < 3 and (self._depth == 1) != (data[place] == 0x5B):
                    raise MalformedStream(f"expected an array of objects, got {chr(data[place])!r}")
                if self._depth == 2:
                    start = place
            else:
                self._depth -= 1
                if self._depth == 1:
                    yield self._take(data[start:at])
                elif self._depth < 1:
                    if self._depth < 0 or data[place] != 0x5D:
                        raise MalformedStream(f"expected an array of objects, got {chr(data[place])!r}")
                    self.closed = True
        if self._depth > 1:
            self._buffer += data[start:]
            if len(self._buffer) > self._limit:
                self._too_long()

    def _tail(self, data: bytes, at: int) -> int:
        """No frame is left: read on to the end, or into the string that is open there."""
        found = _TAIL.match(data, at)
        assert found is not None
        if self._depth < 2:
            self._check_gap(data[at:])
        # No quote is left open: all of it was skipped.
        if found.end() == len(data):
            return len(data)
        self._in_string = True
        return found.end() + 1

    def _string(self, data: bytes, at: int) -> int:
        """Go on inside a string; the place behind what was read."""
        if self._escaped:
            self._escaped = False
            return at + 1
        found = _IN_STRING.search(data, at)
        if found is None:
            return len(data)
        if found[0] == b'"':
            self._in_string = False
        else:
            self._escaped = True
        return found.end()

    def _check_gap(self, gap: bytes) -> None:
        if gap.strip(_BETWEEN if self._depth else _BEFORE):
            raise MalformedStream("expected an array of objects, got something else between them")

    def _take(self, tail: bytes) -> bytes:
        if len(self._buffer) + len(tail) > self._limit:
            self._too_long()
        element = bytes(self._buffer) + tail
        self._buffer.clear()
        return element

    def _too_long(self) -> None:
        self._buffer.clear()
        raise LimitExceeded(f"an element of the array is longer than {self._limit} bytes")


class ArrayFraming:
    """Elements as server-sent events without a name would come; an array that closes says `[DONE]`, as other hosts do."""

    # An element ends with a brace, which also stands inside of it: no stencil can be cut by it.
    ends: tuple[bytes, ...] = ()
    between = False

    __slots__ = ("_array",)

    def __init__(self, *, limit: int) -> None:
        self._array = JSONArrayParser(limit=limit)

    def feed(self, data: bytes) -> Iterator[ServerSentEvent]:
        yield from map(ServerSentEvent, self._array.feed(data))
        if self._array.closed:
            yield ServerSentEvent(DONE)

    def close(self) -> list[ServerSentEvent]:
        return []
