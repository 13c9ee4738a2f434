"""A pytest plugin: which test functions reach which lines. `pytest -p tests.mutants.reached` writes a file for each process.

Of a function with many cases some are run, spread evenly, and a property tries few examples: the trace makes each slow, and a few reach
nearly all that many do. The time is counted as if all had been run.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import coverage
import pytest
from hypothesis import settings

FOLDER = "MIDSTREAM_REACHED"
"""The variable that names the folder for the files."""
_CASES = 6
_EXAMPLES = 8
_SETTINGS = "_hypothesis_internal_use_settings"
"""Where hypothesis keeps the settings of a property."""


class _Reached:
    def __init__(self, folder: str) -> None:
        self._coverage = coverage.Coverage(
            data_file=f"{folder}/reached.{os.getpid()}", source_pkgs=["midstream"], messages=False, config_file=False
        )
        self._coverage.set_option("run:disable_warnings", ["module-not-measured", "no-data-collected"])
        self._coverage.start()
        self._seconds: dict[str, float] = {}
        self._scale: dict[str, float] = {}
        self._file = f"{folder}/seconds.{os.getpid()}"

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        cases: dict[str, list[pytest.Item]] = {}
        for item in items:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        kept: set[pytest.Item] = set()
        for name, found in cases.items():
            some = [found[place * len(found) // _CASES] for place in range(_CASES)] if len(found) > _CASES else found
            kept.update(some)
            scale = len(found) / len(some)
            function = getattr(found[0], "obj", None)
            function = getattr(function, "__func__", function)
            given = getattr(function, _SETTINGS, None)
            if given is not None and given.max_examples > _EXAMPLES:
                setattr(function, _SETTINGS, settings(given, max_examples=_EXAMPLES))
                scale *= given.max_examples / _EXAMPLES
            self._scale[name] = scale
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        function = item.nodeid.partition("[")[0]
        self._coverage.switch_context(function)
        began = time.perf_counter()
        found = yield
        took = (time.perf_counter() - began) * self._scale.get(function, 1.0)
        self._seconds[function] = self._seconds.get(function, 0.0) + took
        self._coverage.switch_context("")
        return found

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()
        with open(self._file, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.writelines([f"{seconds:.4f} {function}\n" for function, seconds in self._seconds.items()])


def pytest_configure(config: pytest.Config) -> None:
    folder = os.environ.get(FOLDER)
    # The process that only hands out tests to others runs none.
    if folder and (os.environ.get("PYTEST_XDIST_WORKER") or not getattr(config.option, "numprocesses", None)):
        config.pluginmanager.register(_Reached(folder))
