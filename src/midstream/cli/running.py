"""Run a coroutine as the program: SIGTERM and a closed terminal cancel it, so that nothing is lost. Also handles Ctrl-C."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from .main import TERMINATED

T = TypeVar("T")
ARMED_SECONDS = 2.0


def run(main: Coroutine[Any, Any, T]) -> T:
    """The result of the coroutine; KeyboardInterrupt after a SIGINT, when everything is closed."""
    received: list[signal.Signals] = []
    if not os.environ.get("MIDSTREAM_DEBUG"):
        # Without a handler Python writes log warnings with tracebacks to standard error, over what is shown there.
        logging.getLogger().addHandler(logging.NullHandler())

    async def watched() -> T:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None
        # Cancelled, not killed: the turn so far is stored, and commands that were started are ended.
        for each in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(each, _end, task, received, each)
        return await main

    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(watched())
    except asyncio.CancelledError:
        sys.exit(TERMINATED if received else 1)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed (the extra `fast`), else asyncio's own. Only the program chooses; the library runs on the
    loop it is called in."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _end(task: asyncio.Task[Any], received: list[signal.Signals], which: signal.Signals) -> None:
    received.append(which)
    task.cancel()


@contextmanager
def interrupts(act: Callable[[], object]) -> Iterator[None]:
    """Call `act` on SIGINT while the context is open."""
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, act)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


class DoublePress:
    """Ctrl-C twice quits: the first press arms for two seconds, and typing anything disarms it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._armed_until: float | None = None

    def press(self) -> bool:
        """Whether this press follows another closely. If not, it arms."""
        now = self._clock()
        if self._armed_until is not None and now <= self._armed_until:
            return True
        self._armed_until = now + ARMED_SECONDS
        return False

    def disarm(self) -> None:
        self._armed_until = None
