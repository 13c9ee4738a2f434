"""One timer per answer: it fires when the answer is silent for too long, or takes too long in all.

Only the time spent waiting for the peer counts as silence; a slow reader is not a stalled peer. `progress` is said by
whoever knows what data is: a keep-alive comment is bytes, but no progress. Setting a timestamp per chunk costs less than a
timer per chunk, so the one timer looks at the timestamp when it fires and goes back to sleep if there was progress.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable

from ..core.errors import IdleTimeout, TimedOut, TransportError


class Watch:
    __slots__ = ("_deadline", "_expire", "_handle", "_idle", "_last", "_loop", "_paused", "_total", "_waiting")

    def __init__(self, idle: float, total: float, deadline: float, expire: Callable[[TransportError], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle = idle
        self._total = total
        self._deadline = deadline
        # Weak, so that an answer someone dropped is collected, and its connection with it, before the timer ends.
        self._expire = weakref.WeakMethod(expire)
        self._last = self._paused = self._loop.time()
        self._handle: asyncio.TimerHandle | None = None
        self._waiting = False

    def start(self) -> None:
        self.progress()
        self._arm()

    def progress(self) -> None:
        """Data came: the silence begins anew."""
        self._last = self._paused = self._loop.time()

    def wait(self) -> None:
        """The reader asks the peer for more; the time it was away is taken out of the silence."""
        self._last += self._loop.time() - self._paused
        self._waiting = True

    def rest(self) -> None:
        """The peer gave something, or failed; the reader is at work."""
        self._paused = self._loop.time()
        self._waiting = False

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        since = self._last if self._waiting else self._loop.time()
        self._handle = self._loop.call_at(min(self._deadline, since + self._idle), self._check)

    def _check(self) -> None:
        expire = self._expire()
        if expire is None:
            return
        now = self._loop.time()
        if now >= self._deadline:
            expire(TimedOut(f"the answer took longer than {self._total:g} s in all"))
        elif self._waiting and now >= self._last + self._idle:
            expire(IdleTimeout(f"the answer brought no data for {self._idle:g} s"))
        else:
            self._arm()
