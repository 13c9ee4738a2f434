"""A response that has begun: its status, its headers, and its body in bounded, decompressed chunks.

Whatever ends it badly (a cut connection, a deadline, a limit, the caller's cancellation) closes the connection at once.
An end of the body gives the connection back for the next turn, and so does `finish` if the end follows soon.
"""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from ..core.errors import IdleTimeout, LimitExceeded, LocalError, MidstreamError, TimedOut, TransportError
from ..core.modules import late_module
from .encoding import Inflater, inflater
from .options import TransportOptions
from .secrets import Secrets

if TYPE_CHECKING:
    import asyncio
else:
    asyncio = late_module("asyncio", globals())


class RawResponse(Protocol):
    """What a connection gives: a status, lower-case headers and raw chunks."""

    status: int
    headers: Mapping[str, str]

    @property
    def done(self) -> bool:
        """Whether all of the body has come, read or not."""

    def take(self) -> bytes | None:
        """All raw bytes that have come, empty at the end, None for nothing yet; RemoteError if the body was cut off."""

    def ready(self) -> Awaitable[None]:
        """To be awaited when `take` gave None."""

    def first_byte_by(self, moment: float) -> None:
        """The moment, by the loop's clock, by which the body must begin; inf once it has."""

    def close(self, reason: MidstreamError | None = None) -> None:
        """Close the connection; a read that waits ends with an error. `reason`: the limit that ended it."""

    def finish(self, grace: float) -> None:
        """Nothing more is wanted: reuse the connection if the body ends within `grace`, else close it."""


class HTTPResponse:
    """Use it as an async context manager, or call `aclose` yourself."""

    def __init__(
        self,
        raw: RawResponse,
        options: TransportOptions,
        deadline: float,
        attempts: tuple[MidstreamError, ...] = (),
        secrets: Secrets | None = None,
        began: float = 0.0,
        due: float | None = None,
    ) -> None:
        self._over = False
        self._inner = raw
        self._deadline = deadline
        self._watch: Watch | None = None
        self.status = raw.status
        self.headers = raw.headers
        self.attempts = attempts
        """The errors of the attempts before this one."""
        self.began = began
        """When its own attempt began, by `time.monotonic`."""
        self._due = due
        """The moment, by the loop's clock, by which the first data must be here."""
        self.options = options
        self.secrets = secrets or Secrets()
        """What no error read out of this response may quote."""
        self._ended: MidstreamError | None = None
        self._eof = False
        # `_head` has three states: None before the first byte was asked for, bytes that wait for the reader, b"" once
        # they were given. `_over` means that the connection was let go; `_eof`, that this was because the body ended.
        self._inflater: Inflater | None = None
        self._total = 0
        self._head: bytes | None = None

    def __del__(self) -> None:
        self.close()  # a response that was dropped must not keep its connection

    def __repr__(self) -> str:
        return f"<HTTPResponse {self.status} {self.content_type or 'without a type'}>"

    @property
    def content_type(self) -> str:
        """The media type alone, in lower case."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def begin(self) -> bytes:
        """Wait for the first bytes and keep them for the reader; empty if the body is."""
        if self._head is None:
            if "content-encoding" in self.headers:
                try:
                    self._inflater = inflater(self.headers["content-encoding"])
                except MidstreamError:
                    self.close()
                    raise
            # Set before `chunk`, which would otherwise call `begin` again.
            self._head = b""
            # Mostly the first bytes came with the headers: no coroutine for what is here already.
            first = self._taken() if self._inflater is None and not self._over else None
            self._head = await self.chunk() if first is None else first
            self._inner.first_byte_by(inf)
            if not self._over and not self._inner.done:
                self._watching().start(self._due)
        return self._head

    def first_byte_by(self, moment: float) -> None:
        """The moment, by the loop's clock, by which `begin` must have something, and the reader its first data; inf for no limit."""
        self._due = moment
        self._inner.first_byte_by(moment)

    def chunk(self) -> Coroutine[Any, Any, bytes]:
        """The next bytes, empty at the end. Does not restart the idle timer: only the caller knows what counts as data."""
        # Not an async function: the usual case (begun, not compressed)
        # goes straight to `_raw`, one coroutine fewer per chunk.
        return self._raw() if self._head == b"" and self._inflater is None else self._chunk()

    async def _chunk(self) -> bytes:
        if self._head is None:
            await self.begin()
        if self._head:
            head, self._head = self._head, b""
            return head
        return await (self._raw() if self._inflater is None else self._inflated())

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes. Blank chunks are keep-alives (DeepSeek sends empty lines) and do not restart the idle timer."""
        while data := await self.chunk():
            if data.isspace():
                self.heartbeat()
            else:
                self.progress()
            yield data

    async def read(self, limit: int | None = None) -> bytes:
        """The whole body; LimitExceeded if it is longer than `limit` (default: `options.max_body`)."""
        limit = self.options.max_body if limit is None else limit
        parts: list[bytes] = []
        size = 0
        data = self._head
        if data and self._inner.done and self._inflater is None and len(data) <= limit:
            # A short answer was here with its first bytes: what remains is to see its end.
            self._head = b""
            rest = self._after_the_end() if self._over else self._taken()
            if rest == b"":
                return data
            parts, size = [data], len(data)
            self._head = rest or b""
        while data := await self.chunk():
            if data.isspace():
                self.heartbeat()
            else:
                self.progress()
            parts.append(data)
            size += len(data)
            if size > limit:
                self.close()
                raise LimitExceeded(f"the response body is longer than {limit} bytes")
        return b"".join(parts)

    def progress(self) -> None:
        """Data came: restart the idle timer."""
        if self._watch is not None:
            self._watch.progress()

    def heartbeat(self) -> None:
        """Something came that is no data: a comment, a blank line."""
        if self._watch is not None:
            self._watch.heartbeat()

    def _watching(self) -> Watch:
        """The timers, made when there is first something to wait for: a short answer is all there when its head is."""
        if self._watch is None:
            self._watch = Watch(self.options, self._deadline, self._expire)
        return self._watch

    def finish(self) -> None:
        """Nothing more of the body is wanted; what follows within `options.linger` is thrown away."""
        if not self._over:
            self._over = True
            if self._watch is not None:
                self._watch.stop()
            self._inner.finish(self.options.linger)

    def close(self) -> None:
        """Close the connection now, unless the body has ended."""
        if not self._over:
            self._over = True
            if self._watch is not None:
                self._watch.stop()
            self._inner.close(self._ended)

    async def aclose(self) -> None:
        self.close()

    async def __aenter__(self) -> HTTPResponse:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def _inflated(self) -> bytes:
        assert self._inflater is not None
        try:
            while not (piece := self._inflater.piece()):
                raw = await self._raw()
                if not raw:
                    self._inflater.close()
                    return b""
                self._inflater.feed(raw)
        except BaseException:
            self.close()
            raise
        self._count(piece)
        return piece

    async def _raw(self) -> bytes:
        """In one frame, waiting included: each one more is paid at every chunk of a live stream."""
        if self._over:
            return self._after_the_end()
        inner = self._inner
        try:
            data = inner.take()
            if data is None:
                watch = self._watching()
                watch.wait()
                try:
                    while data is None:
                        await inner.ready()
                        data = inner.take()
                finally:
                    watch.rest()
        except BaseException as error:  # a cancelled caller's connection is closed before anything else happens
            self._fail(error)
            raise
        return self._seen(data)

    def _taken(self) -> bytes | None:
        """As `_raw` while the response is open, without waiting: None if nothing is here yet."""
        try:
            data = self._inner.take()
        except BaseException as error:
            self._fail(error)
            raise
        return None if data is None else self._seen(data)

    def _fail(self, error: BaseException) -> None:
        self.close()
        # A timer closed the connection, and the reader woke to
        # "connection lost". The timer's reason is the true one.
        if self._ended is not None and isinstance(error, MidstreamError):
            raise self._ended from None

    def _seen(self, data: bytes) -> bytes:
        if not data:
            self._over = self._eof = True
            if self._watch is not None:
                self._watch.stop()
        # Compressed bodies are counted after they were expanded, in `_inflated`: that is what is held.
        elif self._inflater is None:
            self._count(data)
        return data

    def _count(self, data: bytes) -> None:
        self._total += len(data)
        if self._total > self.options.max_stream:
            self.close()
            raise LimitExceeded(f"the response is longer than {self.options.max_stream} bytes")

    def _after_the_end(self) -> bytes:
        if self._ended is not None:
            raise self._ended
        if self._eof:
            return b""
        raise LocalError("the response was closed before it was read to the end")

    def _expire(self, error: TransportError) -> None:
        self._ended = error
        self.close()


# From the second heartbeat on it is known how often a host sends them, and three that are missing are a host that is gone.
_BEATS = 2
_MISSING = 3


class Watch:
    """The timers of a response: how long it may bring no data, and when it must end.

    Until the first data the limit is that of the first byte, however many comments a host sends while it thinks. It is cut
    earlier only if it sent heartbeats and then stops. From the first data on, the limit is `idle`.

    Only the peer's silence counts. While the caller is busy with what it got, the timers stand still (`rest`, `wait`):
    a slow reader must not be told that the host stalled.
    """

    __slots__ = (
        "_beats",
        "_begun",
        "_deadline",
        "_due",
        "_expire",
        "_handle",
        "_last",
        "_loop",
        "_options",
        "_paused",
        "_progress",
        "_spacing",
        "_time",
        "_waiting",
    )

    def __init__(self, options: TransportOptions, deadline: float, expire: Callable[[TransportError], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._time = self._loop.time
        self._options = options
        self._deadline = deadline
        # Weak, so that an answer someone dropped is collected, and its connection with it, before the timer ends.
        self._expire = weakref.WeakMethod(expire)
        self._last = self._paused = self._time()
        self._due = self._last + options.first_byte
        self._handle: asyncio.TimerHandle | None = None
        self._begun = self._waiting = self._progress = False
        self._beats = 0
        self._spacing = 0.0

    def start(self, due: float | None = None) -> None:
        """The first bytes came; the first data is `due` at a moment of the loop's clock."""
        self._last = self._paused = self._time()
        if due is not None:
            self._due = due
        self._arm()

    def progress(self) -> None:
        """Data came: the silence starts again when the reader next waits. No clock is read: this is called for every chunk."""
        self._progress = True

    def heartbeat(self) -> None:
        """Something came that is no data."""
        if not self._begun and not self._progress:
            now = self._time()
            if self._beats:
                self._spacing = max(self._spacing, now - self._last)
            self._beats += 1
            self._last = self._paused = now

    def wait(self) -> None:
        """The reader asks the peer for more; the time it was away is taken out of the silence."""
        now = self._time()
        if self._progress:
            self._progress, self._begun = False, True
            self._last = now
        else:
            self._last += now - self._paused
            self._due += now - self._paused
        self._waiting = True

    def rest(self) -> None:
        """The peer gave something, or failed; the reader is at work."""
        self._paused = self._time()
        self._waiting = False

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    @property
    def _has_data(self) -> bool:
        return self._begun or self._progress

    def _end(self) -> float:
        """The moment at which the silence has lasted too long."""
        idle = self._options.idle
        if self._has_data:
            return self._last + idle
        return self._due if self._beats < _BEATS else min(self._due, self._last + max(idle, _MISSING * self._spacing))

    def _arm(self) -> None:
        # The timer is not moved at every chunk, which would cost more than the chunk. It fires at the
        # earliest possible moment, and `_check` sets it again if data came meanwhile.
        now, idle = self._loop.time(), self._options.idle
        left = self._end() - now if self._waiting else max(self._end() - self._paused, idle / 100)
        self._handle = self._loop.call_at(min(self._deadline, now + min(left, idle)), self._check)

    def _check(self) -> None:
        expire = self._expire()
        if expire is None:
            return
        now = self._loop.time()
        if now >= self._deadline:
            expire(TimedOut(f"the response took longer than the {self._options.total:g} s allowed in total"))
        elif not self._waiting or now < self._end():
            self._arm()
        elif not self._has_data and now >= self._due:
            expire(TimedOut(f"no data arrived in the {self._options.first_byte:g} s allowed for the first of it"))
        else:
            expire(IdleTimeout(f"no data arrived for {now - self._last:.3g} s"))
