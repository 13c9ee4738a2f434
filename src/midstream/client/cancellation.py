"""Cancellation: run to completion even if the caller is cancelled, and one generator at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar

from ..core.errors import LocalError

T = TypeVar("T")


async def shield(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to completion even if the caller is cancelled. Then the result, or CancelledError if the caller was."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from task.exception()
    return task.result()


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
            except RuntimeError:  # it is running: somebody reads it
                raise LocalError(self._busy) from None
            except BaseException:
                self._forget(inner)
                raise
            self._forget(inner)

    def _forget(self, inner: AsyncGenerator[Any, None]) -> None:
        if self._inside is inner:
            self._inside = None
