"""Streams dropped in the middle, five hundred of them: no connection, task or file descriptor stays behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from midstream.codec import make_decoder
from midstream.transport import Transport, stream_events

from .asking import AUTH, QUICK, asks, run
from .loopback import Server
from .test_stream import goes_silent

pytestmark = pytest.mark.usefixtures("each_loop")

TOTAL, AT_ONCE = 500, 50
FDS = Path("/proc/self/fd")


def _descriptors() -> int:
    return sum(1 for _ in FDS.iterdir())


async def _read_until_cancelled(transport: Transport, base: str, begun: asyncio.Semaphore) -> None:
    answer = await transport.open(asks(), base, AUTH)
    async for _ in stream_events(answer, make_decoder()):
        begun.release()


async def _drop(transport: Transport, server: Server, count: int) -> None:
    begun = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(_read_until_cancelled(transport, server.base, begun)) for _ in range(count)]
    for _ in tasks:
        await begun.acquire()
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(error, asyncio.CancelledError) for error in ended)
    await server.all_closed()


@pytest.mark.skipif(not FDS.exists(), reason="open descriptors are counted in /proc")
def test_five_hundred_dropped_streams_leave_nothing_behind() -> None:
    async def main() -> None:
        async with Server(goes_silent) as server, Transport(QUICK, environ={}) as transport:
            await _drop(transport, server, 1)
            descriptors, tasks = _descriptors(), len(asyncio.all_tasks())
            for _ in range(TOTAL // AT_ONCE):
                await _drop(transport, server, AT_ONCE)
            await asyncio.sleep(0)
            assert server.accepted == server.closed == TOTAL + 1
            assert _descriptors() <= descriptors
            assert len(asyncio.all_tasks()) <= tasks

    run(main())
