"""A test that hangs is a test that failed: each part of one (setup, call, teardown) ends after a time no healthy one needs.

The limit interrupts the main thread, and again each time a clean-up hangs in its turn. Where Python itself is stuck and
no interrupt comes through, the process ends, with the stacks of all threads. `MIDSTREAM_TEST_LIMIT` sets the seconds; 0 is
none, for debuggers.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

LIMIT = float(os.environ.get("MIDSTREAM_TEST_LIMIT", "180"))
_AGAIN = min(5.0, LIMIT)
_STUCK = 60.0
_stderr = -1


def pytest_configure() -> None:
    global _stderr
    _stderr = os.dup(2)  # pytest captures the one we have while a test runs


@contextmanager
def _limited(item: pytest.Item) -> Iterator[None]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"{item.name} hung: it did not end in {LIMIT:g} s (MIDSTREAM_TEST_LIMIT)")

    if not LIMIT or not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, LIMIT, _AGAIN)
    faulthandler.dump_traceback_later(LIMIT + _STUCK, exit=True, file=_stderr)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    with _limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    with _limited(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    with _limited(item):
        return (yield)
