"""A pytest plugin: which test functions reach which lines. `pytest -p tests.mutants.reached` writes a file for each process.

The trace makes each test slow, so of a function with many cases a few are run, spread evenly, and more of them while they are quick; a
property tries few examples. A line of the file says how long they took, how many cases ran, how many there are, and the function's name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import coverage
import pytest
from hypothesis import settings

from ..long_run import SETTINGS

FOLDER = "MIDSTREAM_REACHED"
"""The variable that names the folder for the files."""
_CASES = 6
_SECONDS = 2.0
"""How long the cases of one function may take before no more than the few are run."""
_EXAMPLES = 8


class _Reached:
    def __init__(self, folder: str) -> None:
        self._coverage = coverage.Coverage(
            data_file=f"{folder}/reached.{os.getpid()}", source_pkgs=["midstream"], messages=False, config_file=False
        )
        self._coverage.set_option("run:disable_warnings", ["module-not-measured", "no-data-collected"])
        self._coverage.start()
        self._seconds: dict[str, float] = {}
        self._cases: dict[str, int] = {}
        self._ran: dict[str, int] = {}
        self._scale: dict[str, float] = {}
        self._few: set[str] = set()
        self._file = f"{folder}/seconds.{os.getpid()}"

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        cases: dict[str, list[pytest.Item]] = {}
        for item in items:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
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
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        function = item.nodeid.partition("[")[0]
        self._ran[function] = self._ran.get(function, 0) + 1
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        function = item.nodeid.partition("[")[0]
        self._began = time.perf_counter()
        if item.nodeid not in self._few and self._seconds.get(function, 0.0) > _SECONDS:
            pytest.skip("others of its cases have reached what it reaches")
        self._coverage.switch_context(function)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        function = item.nodeid.partition("[")[0]
        try:
            return (yield)
        finally:
            self._seconds[function] = self._seconds.get(function, 0.0) + time.perf_counter() - self._began
            self._coverage.switch_context("")

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        with open(self._file, "w", encoding="utf-8") as file:  # noqa: PTH123
            for function, seconds in self._seconds.items():
                whole = self._cases[function] * self._scale.get(function, 1.0)
                file.write(f"{seconds:.4f} {self._ran.get(function, 0)} {whole:.1f} {function}\n")


def pytest_configure(config: pytest.Config) -> None:
    folder = os.environ.get(FOLDER)
    # The process that only hands out tests to others runs none.
    if folder and (os.environ.get("PYTEST_XDIST_WORKER") or not getattr(config.option, "numprocesses", None)):
        config.pluginmanager.register(_Reached(folder))
