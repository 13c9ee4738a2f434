"""Server-sent events, as the WHATWG specification reads them: bytes in, events out, any split the same.

Two deviations an LLM client needs are options: `lenient_end` delivers a last event that lacks its blank line (hosts that
close right after it), and a line or event over `limit` bytes is LimitExceeded. `data` stays bytes, for the JSON decoder;
invalid UTF-8 becomes U+FFFD where it is read as text.
"""

from __future__ import annotations

import msgspec

from ..core.errors import LimitExceeded

# Far above any event seen; images and whole reasoning items come as one.
DEFAULT_LIMIT = 16 * 1024 * 1024
DONE = b"[DONE]"
"""The data of a last event that only says that it is the last."""
# The standard says that one at the very start is ignored (field-guide/streams.md#framing).
_BOM = b"\xef\xbb\xbf"


class ServerSentEvent(msgspec.Struct, frozen=True, gc=False):
    data: bytes
    event: str = "message"
    id: str = ""
    retry: int | None = None

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class SSEParser:
    """`feed` bytes, get the events they complete; `close` at the end of the stream."""

    ends = (b"\n\n", b"\r\n\r\n")

    __slots__ = (
        "_after_cr", "_at_start", "_buffer", "_data", "_error", "_event", "_id", "_lenient_end", "_limit", "_pending", "_retry",
        "_size", "between",
    )  # fmt: skip

    def __init__(self, *, lenient_end: bool = True, limit: int = DEFAULT_LIMIT) -> None:
        self._lenient_end = lenient_end
        self._limit = limit
        self._buffer = bytearray()  # an unfinished line
        # Bytes may arrive one at a time, so "the start" lasts until it is known whether it was a mark.
        self._at_start = True
        self.between = False  # nothing half read: the next byte begins an event
        self._after_cr = False
        self._pending = False  # fields of an unfinished event have been read
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._id = ""
        self._retry: int | None = None
        # Raised at the next call.
        self._error: LimitExceeded | None = None

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        # Three shortcuts, and nothing else: each takes exactly what the full parser
        # would, one whole event per read, and is tried only where nothing is half read.
        # The first line break is found where the event ends, so there is no other.
        if (
            self.between
            and data[:6] == b"data: "
            and data.find(b"\n") == len(data) - 2
            and data[-1:] == b"\n"
            and b"\r" not in data
            and len(data) <= self._limit
        ):
            return [ServerSentEvent(data[6:-2], "message", self._id)]  # one read, one event: the live stream's case
        if (
            self.between
            and data[:6] == b"data: "
            and data[-4:] == b"\r\n\r\n"
            and data.find(b"\r") == len(data) - 4
            and data.find(b"\n") == len(data) - 3
            and len(data) <= self._limit
        ):
            return [ServerSentEvent(data[6:-4], "message", self._id)]  # the same, as Google and Azure send it
        if self.between and data[:7] == b"event: " and data[-2:] == b"\n\n" and b"\r" not in data:
            named = self._named_event(data[:-2])
            if named is not None:
                return [named]
        out: list[ServerSentEvent] = []
        if self._error is not None:
            raise self._error
        try:
            self._feed(data, out)
        except LimitExceeded as error:
            if not out:
                raise
            self._error = error  # what came before it is delivered first, so that every split tells the same
        self.between = not (
            self._buffer or self._pending or self._after_cr or self._at_start or self._error or self._retry is not None
        )
        return out

    def _feed(self, data: bytes, out: list[ServerSentEvent]) -> None:
        # A mark of three bytes can be cut in two places.
        if self._at_start:
            if not data:
                return
            data = self._strip_bom(data)
        # A CRLF cut between two reads is one line break: its CR has ended the line already.
        if self._after_cr and data:
            self._after_cr = False
            if data[:1] == b"\n":
                data = data[1:]
        if b"\r" in data:
            # After this, every line break is an LF, whatever the host uses.
            self._after_cr = data[-1:] == b"\r"
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        elif b"\n" not in data:
            # A piece without any line break only grows the line.
            self._hold(data)
            return
        if self._buffer:
            self._buffer += data
            data = bytes(self._buffer)
            self._buffer.clear()
        # In the middle of an event each line has to be looked at.
        if self._pending:
            self._feed_lines(data, out)
        else:
            self._feed_events(data, out)

    def close(self) -> list[ServerSentEvent]:
        """The end of the stream. What was left unfinished is delivered only with `lenient_end`."""
        out: list[ServerSentEvent] = []
        if self._error is not None:
            raise self._error
        if self._lenient_end:
            if self._at_start and self._buffer.startswith(_BOM):
                del self._buffer[:3]
            if self._buffer:
                self._line(bytes(self._buffer))
            self._dispatch(out)
        self._buffer.clear()
        self._data = []
        return out

    def _strip_bom(self, data: bytes) -> bytes:
        """Hold the first bytes until it is sure whether they are a byte order mark."""
        data = bytes(self._buffer) + data
        self._buffer.clear()
        if len(data) < 3 and _BOM.startswith(data):
            self._buffer += data
            return b""
        self._at_start = False
        return data[3:] if data.startswith(_BOM) else data

    def _hold(self, data: bytes) -> None:
        self._buffer += data
        # The buffer goes, so that the memory is free even if somebody keeps the parser.
        if len(self._buffer) > self._limit:
            self._buffer.clear()
            raise self._too_long()

    def _feed_events(self, data: bytes, out: list[ServerSentEvent]) -> None:
        """The everyday case: no event is half read, so whole events can be cut out at their blank lines."""
        end = data.rfind(b"\n\n")
        # Hundreds of events in one read: one split instead of a loop over lines. The
        # count of line breaks proves that every event was a single line of data.
        if data[:6] == b"data: " and end > 0 and self._retry is None and len(data) <= self._limit:
            payloads = data[6:end].split(b"\n\ndata: ")
            if data.count(b"\n") == 2 * len(
                payloads
            ):  # each event is one line of data, and no line has begun behind them
                out.extend([ServerSentEvent(payload, "message", self._id) for payload in payloads])
                self._hold(data[end + 2 :])
                return
        blocks = data.split(b"\n\n")
        rest = blocks.pop()
        limit = self._limit
        for block in blocks:
            # `_retry` of an event without data waits for the next event, so it has to go the long way.
            if block[:6] == b"data: " and b"\n" not in block and len(block) <= limit and self._retry is None:
                out.append(ServerSentEvent(block[6:], "message", self._id))
            elif block[:7] == b"event: " and (named := self._named_event(block)) is not None:
                out.append(named)
            else:
                for line in block.split(b"\n"):
                    if line:
                        self._line(line)
                    else:
                        self._dispatch(out)
                self._dispatch(out)
        if b"\n" in rest:
            self._feed_lines(rest, out)
        else:
            self._hold(rest)

    def _too_long(self) -> LimitExceeded:
        return LimitExceeded(f"a line or an event of the stream is longer than {self._limit} bytes")

    def _named_event(self, block: bytes) -> ServerSentEvent | None:
        """An event of a name and one line of data, read in one go; None for what needs its lines looked at."""
        start = block.find(b"\n") + 1
        if not start or block[start : start + 6] != b"data: " or block.find(b"\n", start) >= 0:
            return None
        if len(block) > self._limit or self._retry is not None:
            return None
        name = block[7 : start - 1].decode("utf-8", "replace")
        return ServerSentEvent(block[start + 6 :], name or "message", self._id)

    def _feed_lines(self, data: bytes, out: list[ServerSentEvent]) -> None:
        lines = data.split(b"\n")
        rest = lines.pop()
        for line in lines:
            if line:
                self._line(line)
            else:
                self._dispatch(out)
        self._hold(rest)

    def _line(self, line: bytes) -> None:
        # The limit is for the event: thousands of short lines are as bad as a long one.
        self._size += len(line)
        if self._size > self._limit:
            raise self._too_long()
        # Also for a comment: something has been read since the last blank line.
        self._pending = True
        field, colon, value = line.partition(b":")
        if colon and not field:
            self._size -= len(line)  # a comment: read past, never kept
            return
        if value[:1] == b" ":
            value = value[1:]
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._event = value.decode("utf-8", "replace")
        elif field == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        # Digits only, as the standard has it; and few, because `int` of many digits is slow.
        elif field == b"retry" and value.isdigit() and len(value) < 16:
            self._retry = int(value)

    def _dispatch(self, out: list[ServerSentEvent]) -> None:
        """A blank line: deliver the event if it has data, and forget its fields either way."""
        # The standard: without data there is no event.
        if self._data:
            event = ServerSentEvent(b"\n".join(self._data), self._event or "message", self._id, self._retry)
            out.append(event)
            self._retry = None
            self._data = []
        self._event = ""
        self._size = 0
        self._pending = False
