"""Streams that are closed while somebody waits for their next item."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator

import pytest

from midstream.adapters.backend import Backend
from midstream.adapters.open_stream import OpenStream


class Source:
    """One item, and then a long wait."""

    def __init__(self) -> None:
        self.waits = threading.Event()
        self.ended = False

    async def items(self) -> AsyncGenerator[int, None]:
        try:
            yield 1
            self.waits.set()
            await asyncio.sleep(60)
            yield 2
        finally:
            self.ended = True


async def begun(source: Source) -> tuple[OpenStream[int], asyncio.Task[list[int]]]:
    """A stream, and the task that waits for its second item."""
    stream = OpenStream(source.items())

    async def read() -> list[int]:
        return [item async for item in stream]

    reader = asyncio.create_task(read())
    assert await asyncio.to_thread(source.waits.wait, 10)
    return stream, reader


def test_closed_by_another_task() -> None:
    async def main() -> None:
        source = Source()
        stream, reader = await begun(source)
        await stream.aclose()
        assert await reader == [1] and source.ended
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    asyncio.run(main())


def test_the_reader_s_end_and_another_close_wait_for_the_first() -> None:
    async def main() -> None:
        cleans = asyncio.Event()

        async def slow() -> AsyncGenerator[int, None]:
            try:
                yield 1
            finally:
                cleans.set()
                await asyncio.sleep(0.01)

        stream = OpenStream(slow())
        assert await anext(stream) == 1
        closing = asyncio.create_task(stream.aclose())
        await cleans.wait()
        assert [item async for item in stream] == []
        await stream.aclose()
        assert closing.done()
        await closing

    asyncio.run(main())


@pytest.mark.parametrize("close", [False, True], ids=["alone", "closed at the same time"])
def test_a_reader_that_is_cancelled_is_cancelled(close: bool) -> None:
    async def main() -> None:
        source = Source()
        stream, reader = await begun(source)
        reader.cancel()
        if close:
            await stream.aclose()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert source.ended

    asyncio.run(main())


def test_closed_by_another_thread() -> None:
    source, backend = Source(), Backend()
    stream = backend.iterate(source.items())
    found: list[int] = []
    reader = threading.Thread(target=lambda: found.extend(stream))
    reader.start()
    assert source.waits.wait(10)
    stream.close()
    reader.join(10)
    assert not reader.is_alive() and found == [1] and source.ended
    stream.close()
    backend.close()


def test_closed_before_anybody_read_in_a_plain_for() -> None:
    source, backend = Source(), Backend()

    async def begun_items() -> AsyncGenerator[int, None]:
        items = source.items()
        await anext(items)
        return items

    backend.iterate(backend.run(begun_items())).close()
    assert source.ended
    backend.close()
