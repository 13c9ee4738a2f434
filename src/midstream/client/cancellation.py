"""Cancellation: run to completion even if the caller is cancelled, or in a thread that can be left; one generator at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeVar

from ..core.errors import LocalError

T = TypeVar("T")


async def shield(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to completion even if the caller is cancelled. Then the result, or CancelledError if the caller was."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    # A second Ctrl-C cancels again; the loop goes on waiting,
    # since half a write to a store is worse than a late exit.
    while not task.done():
        try:
            # `wait`, unlike awaiting the task, does not pass the cancellation on to it.
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from task.exception()
    return task.result()


def in_daemon_thread(work: Callable[[], T], name: str) -> asyncio.Future[T]:
    """What `work` gives or raises, from a thread of its own.

    Not in the loop's executor: work that never returns would then keep the program from ending, and a few of them would
    starve everybody else.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def deliver(settle: Callable[[Any], None], value: Any) -> None:
        # The caller may have been cancelled while the thread was at work.
        if not outcome.done():
            settle(value)

    def run() -> None:
        try:
            found: tuple[Callable[[Any], None], Any] = (outcome.set_result, work())
        except BaseException as error:
            # A future takes no StopIteration, and an exit of the work must not end the program.
            fits = isinstance(error, Exception) and not isinstance(error, StopIteration)
            found = (outcome.set_exception, error if fits else _wrapped(error))
        try:
            loop.call_soon_threadsafe(deliver, *found)
        except RuntimeError:
            pass  # the loop has ended, and nobody waits for this any more

    threading.Thread(target=run, name=name, daemon=True).start()
    return outcome


def _wrapped(error: BaseException) -> RuntimeError:
    wrapped = RuntimeError(f"{type(error).__name__}: {error}")
    wrapped.__cause__ = error
    return wrapped


U = TypeVar("U")


class Turnstile:
    """Lets one generator through at a time. `busy` is the message for a second one while the first is being read."""

    def __init__(self, busy: str) -> None:
        self._busy = busy
        self._inside: AsyncGenerator[Any, None] | None = None
        self._left: asyncio.Event | None = None

    async def through(self, inner: AsyncGenerator[U, None]) -> AsyncGenerator[U, None]:
        """The same items. A generator that was dropped before its end is closed first."""
        await self.clear()
        self._inside = inner
        try:
            async for item in inner:
                yield item
        finally:
            left = asyncio.Event()
            # A newer generator may already be inside by the time an old one is closed by the collector.
            if self._inside is inner:
                self._left = left
            try:
                await inner.aclose()
            finally:  # a close that fails or is cancelled has still left: nobody waits for it again
                if self._inside is inner:
                    self._inside = self._left = None
                left.set()

    async def clear(self) -> None:
        """Close the generator inside, or wait for it if it is already closing."""
        while (inner := self._inside) is not None:
            if self._left is not None:
                await self._left.wait()
                continue
            try:
                await inner.aclose()
            # Python's own check: `aclose` of an async generator that is being awaited elsewhere raises.
            except RuntimeError:  # it is running: somebody reads it
                raise LocalError(self._busy) from None
            except BaseException:
                self._forget(inner)
                raise
            self._forget(inner)

    def _forget(self, inner: AsyncGenerator[Any, None]) -> None:
        if self._inside is inner:
            self._inside = None
