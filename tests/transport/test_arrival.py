"""A reader is resumed within the call that brings its data, and is a task like any other beside that."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from midstream.transport.arrival import Arrival
from tests.event_loops import run

pytestmark = pytest.mark.usefixtures("each_loop")


def wait(arrival: Arrival) -> Arrival:
    arrival.waiting = True
    return arrival


def test_the_reader_is_resumed_at_once() -> None:
    async def main() -> list[str]:
        loop = asyncio.get_running_loop()
        arrival, seen = Arrival(loop), list[str]()
        name = contextvars.ContextVar("name", default="none")

        async def reader() -> None:
            name.set("reader's")
            for _ in range(2):
                await wait(arrival)
                seen.append(f"resumed in the {name.get()} context")

        def bring() -> None:
            arrival.now()
            seen.append(f"brought in the {name.get()} context")

        task = asyncio.create_task(reader())
        for _ in range(2):
            await asyncio.sleep(0)
            loop.call_soon(bring)
            await asyncio.sleep(0)
        await task
        return seen

    assert run(main()) == 2 * ["resumed in the reader's context", "brought in the none context"]


def test_no_task_runs_within_another() -> None:
    """Brought by a task, the data resumes the reader in the loop's next turn."""

    async def main() -> list[str]:
        arrival, seen = Arrival(asyncio.get_running_loop()), list[str]()

        async def reader() -> None:
            await wait(arrival)
            seen.append("resumed")

        task = asyncio.create_task(reader())
        await asyncio.sleep(0)
        arrival.now()
        seen.append("brought")
        await task
        return seen

    assert run(main()) == ["brought", "resumed"]


@pytest.mark.parametrize("message", [None, "why"])
def test_a_reader_that_waits_can_be_cancelled_and_wait_again(message: str | None) -> None:
    async def main() -> tuple[tuple[str, ...], str]:
        loop = asyncio.get_running_loop()
        arrival = Arrival(loop)

        async def reader() -> tuple[tuple[str, ...], str]:
            try:
                await wait(arrival)
            except asyncio.CancelledError as error:
                told = error.args
            loop.call_soon(arrival.now)
            await wait(arrival)
            return told, "resumed"

        task = asyncio.create_task(reader())
        await asyncio.sleep(0)
        assert arrival.waiting
        task.cancel(message)
        assert not arrival.waiting and not arrival.cancel()
        return await task

    assert run(main()) == ((message,) if message else (), "resumed")


def test_data_that_came_before_anyone_waits_is_not_waited_for() -> None:
    async def main() -> None:
        arrival = wait(Arrival(asyncio.get_running_loop()))
        arrival.soon()
        await arrival

    run(main())
