"""A pytest plugin: which test functions reach which lines. `pytest -p tests.mutants.reached` writes a file for each process.

The trace makes each test slow, so of a function with many cases a few are run, spread evenly, and more of them while they are quick; a
property tries few examples. Each line of a file is a `Reach`; beside it stands a file with the name of the test that is running.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest
from hypothesis import settings

import midstream

from ..long_run import SETTINGS

FOLDER = "MIDSTREAM_REACHED"
"""The variable that names the folder for the files."""
_CASES = 6
_SECONDS = 2.0
"""How long the cases of one function may take before no more than the few are run."""
_EXAMPLES = 8
_SOURCE = str(Path(midstream.__file__).parent) + os.sep


class Reach(msgspec.Struct):
    """What one test function reached, in one process."""

    function: str
    seconds: float
    ran: int
    """How many of its cases ran, of how many, counted as if each tried all its examples."""
    whole: float
    lines: dict[str, list[int]]
    """The lines of each module, by its path below the package."""


class Trace:
    """The lines of the package that run, in all threads.

    Not coverage.py's: it holds a lock while it clears what it has seen, and its tracer takes the same lock at each call. Garbage that is
    collected in between runs finalizers, these call traced code, and the thread waits for itself. A signal handler that raises under the
    tracer leaves the lock taken. Here nothing is locked: adding to a set is one step, and a switch replaces the sets.
    """

    def __init__(self, source: str = _SOURCE) -> None:
        self._source = source
        self._local: dict[str, Callable[[FrameType, str, Any], Any] | None] = {}
        self._lines: dict[str, set[int]] = {}

    def start(self) -> None:
        """Also again: Python takes the trace away from a thread in which it raised, as the handler of a signal may."""
        threading.settrace(self._call)
        sys.settrace(self._call)

    def stop(self) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]

    def taken(self) -> dict[str, list[int]]:
        """The lines that ran since this was last asked."""
        found = {}
        for path, lines in list(self._lines.items()):
            # The set stays the same one: traces that are under way hold it. What another thread adds here is counted to the next.
            ran = lines.copy()
            lines.difference_update(ran)
            if ran:
                found[path] = sorted(ran)
        return found

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        path = frame.f_code.co_filename
        try:
            return self._local[path]
        except KeyError:
            local = self._local[path] = self._traced(path) if path.startswith(self._source) else None
            return local

    def _traced(self, path: str) -> Callable[[FrameType, str, Any], Any]:
        add = self._lines.setdefault(path.removeprefix(self._source), set()).add

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                add(frame.f_lineno)
            return line

        return line


class _Reached:
    def __init__(self, folder: str) -> None:
        self._trace = Trace()
        self._file = Path(folder) / f"reached.{os.getpid()}.jsonl"
        self._running = Path(folder) / f"running.{os.getpid()}"
        self._seconds: dict[str, float] = {}
        self._cases: dict[str, int] = {}
        self._scale: dict[str, float] = {}
        self._few: set[str] = set()
        self._reach: Reach | None = None
        self._began = 0.0

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        cases: dict[str, list[pytest.Item]] = {}
        for item in items:
            cases.setdefault(_function(item), []).append(item)
        for name, found in cases.items():
            few = [found[place * len(found) // _CASES] for place in range(_CASES)] if len(found) > _CASES else found
            self._few.update([item.nodeid for item in few])
            self._cases[name] = len(found)
            function = getattr(found[0], "obj", None)
            function = getattr(function, "__func__", function)
            given = getattr(function, SETTINGS, None)
            if given is not None and given.max_examples > _EXAMPLES:
                setattr(function, SETTINGS, settings(given, max_examples=_EXAMPLES))
                self._scale[name] = given.max_examples / _EXAMPLES

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        function = _function(item)
        self._running.write_text(item.nodeid, "utf-8")
        self._began = time.perf_counter()
        if item.nodeid not in self._few and self._seconds.get(function, 0.0) > _SECONDS:
            pytest.skip("others of its cases have reached what it reaches")
        if self._reach is None or self._reach.function != function:
            self._write()
            whole = self._cases[function] * self._scale.get(function, 1.0)
            self._reach = Reach(function, 0.0, 0, whole, {})
        self._trace.start()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        assert self._reach is not None
        self._reach.ran += 1
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        try:
            return (yield)
        finally:
            self._trace.stop()
            seconds = time.perf_counter() - self._began
            self._seconds[_function(item)] = self._seconds.get(_function(item), 0.0) + seconds
            if self._reach is not None and self._reach.function == _function(item):
                self._reach.seconds += seconds

    def pytest_sessionfinish(self) -> None:
        self._write()

    def _write(self) -> None:
        """Function by function, so that a process that is ended loses no more than the last."""
        if self._reach is None:
            self._trace.taken()  # what runs before the first test belongs to none
            return
        self._reach.lines = self._trace.taken()
        with self._file.open("ab") as file:
            file.write(msgspec.json.encode(self._reach) + b"\n")
        self._reach = None


def _function(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def pytest_configure(config: pytest.Config) -> None:
    folder = os.environ.get(FOLDER)
    # The process that only hands out tests to others runs none.
    if folder and (os.environ.get("PYTEST_XDIST_WORKER") or not getattr(config.option, "numprocesses", None)):
        config.pluginmanager.register(_Reached(folder))
