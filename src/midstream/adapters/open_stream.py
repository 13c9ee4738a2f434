"""A stream that can be closed while somebody else waits for its next item: from another task, or from another thread.

An async generator refuses that, and other libraries do it: pydantic-ai reads ahead in a task of its own, and a user who presses
"stop" is seldom where the answer is read. Whoever waits then finds that the stream has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from typing import Generic, Self, TypeVar

from ..client.sync import Background

T = TypeVar("T")


class OpenStream(Generic[T]):
    """The items of an async generator, in one event loop."""

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        self._items = items
        self._waiting: asyncio.Future[T] | None = None
        self._closed = False
        self._closing = asyncio.Lock()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        if self._closed:
            raise StopAsyncIteration
        # In a task of its own, which can be cancelled without the one that waits for it.
        self._waiting = asyncio.ensure_future(anext(self._items))
        try:
            return await self._waiting
        except asyncio.CancelledError:
            self._end_if_closed()
            raise

    def _end_if_closed(self) -> None:
        task = asyncio.current_task()
        if self._closed and task is not None and not task.cancelling():
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        self._closed = True
        # One after the other: a generator that still cleans up cannot be closed again, and the reader's end closes it too.
        async with self._closing:
            if self._waiting is not None and not self._waiting.done():
                self._waiting.cancel()
                await asyncio.wait([self._waiting])
            await self._items.aclose()


class SyncOpenStream(Generic[T]):
    """The same in a plain `for`."""

    def __init__(self, items: AsyncGenerator[T, None], background: Background) -> None:
        self._open = OpenStream(items)
        self._background = background
        self._items: Generator[T, None, None] = background.iterate(self._open)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        return next(self._items)

    def close(self) -> None:
        with suppress(ValueError):  # another thread is in it
            self._items.close()
        # A generator that has not begun closes nothing.
        self._background.end(self._open)
