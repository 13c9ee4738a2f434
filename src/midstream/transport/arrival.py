"""What a reader waits for: the next data of its connection.

A Future resumes its waiting task in the next turn of the event loop, and each turn asks the operating system for news: at every
chunk of a live stream that is as much as reading it. An Arrival resumes the task within the callback that brought the data. It
is awaited by one task, and serves again and again. It is a Future to asyncio's tasks, by the protocol that `asyncio.isfuture`
looks for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any

_Callback = Callable[[Any], object]


class Arrival:
    __slots__ = ("_asyncio_future_blocking", "_callback", "_cancelled", "_context", "_loop", "_message", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asyncio_future_blocking = False
        self._callback: _Callback | None = None
        self._context: Context | None = None
        self._cancelled = False
        self._message: Any = None
        self.waiting = False
        """Whether a task waits, or is about to."""

    def __await__(self) -> Generator[Arrival, None, None]:
        if self.waiting:
            self._asyncio_future_blocking = True
            yield self
        self.result()

    def now(self) -> None:
        """Resume the task before this returns. Call it last: the task may do anything, such as close the connection."""
        callback, context = self._callback, self._context
        # asyncio does not allow one task to be stepped inside another's step. Within
        # a task (a reader that closes its own answer, for one) the slower way is the
        # only safe one; from the callback of a socket there is no current task.
        if callback is None or context is None or asyncio.current_task(self._loop) is not None:
            self.soon()
            return
        self.waiting = False
        self._callback = self._context = None
        # The callback is the task's own wakeup, so it must see the context variables of that task, not
        # those of the socket's callback.
        context.run(callback, self)

    def soon(self) -> None:
        """Resume the task in the next turn of the loop, as a Future does."""
        self.waiting = False
        # Taken before it is scheduled: an Arrival serves many
        # waits, and a second `soon` must not wake the task twice.
        callback, self._callback = self._callback, None
        if callback is not None and not self._loop.is_closed():
            self._loop.call_soon(callback, self, context=self._context)

    # for asyncio's tasks

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, callback: _Callback, *, context: Context | None = None) -> None:
        self._callback, self._context = callback, context
        # Data came between `ready` and the task's `await`: nothing will call this back later, so do it now.
        if not self.waiting:
            self.soon()

    def cancel(self, msg: Any = None) -> bool:
        if not self.waiting:
            return False
        # Not raised here: a task cancels what it waits for from outside, and expects the error when it is
        # stepped and asks for `result`.
        self._cancelled, self._message = True, msg
        self.soon()
        return True

    def result(self) -> None:
        if self._cancelled:
            self._cancelled = False
            raise asyncio.CancelledError if self._message is None else asyncio.CancelledError(self._message)
