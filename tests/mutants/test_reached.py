"""The trace sees every line that runs and never waits for itself; a run that is stuck is ended and says where."""

from __future__ import annotations

import gc
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from midstream.core.ids import from_own_id

from .__main__ import Map, run_watched
from .points import Mutant
from .reached import Reach, Trace

SOURCE = """\
def chosen(value):
    if value:
        return "yes"
    return "no"
def interrupted():
    raise_signal()
"""


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[tuple[Trace, dict[str, object]]]:
    trace = Trace(f"{tmp_path}/")
    module: dict[str, object] = {}
    exec(compile(SOURCE, f"{tmp_path}/choice.py", "exec"), module)
    before, before_in_threads = sys.gettrace(), threading.gettrace()
    trace.start()
    try:
        yield trace, module
    finally:
        sys.settrace(before)
        threading.settrace(before_in_threads)  # type: ignore[arg-type]


def test_each_switch_tells_the_lines_since_the_last(traced: tuple[Trace, dict[str, object]]) -> None:
    trace, module = traced
    module["chosen"](1)  # type: ignore[operator]
    assert trace.taken() == {"choice.py": [2, 3]}
    module["chosen"](0)  # type: ignore[operator]
    thread = threading.Thread(target=module["chosen"], args=(1,))  # type: ignore[arg-type]
    thread.start()
    thread.join()
    assert trace.taken() == {"choice.py": [2, 3, 4]}
    assert trace.taken() == {}


def test_a_finalizer_in_the_midst_of_a_switch_is_traced(traced: tuple[Trace, dict[str, object]]) -> None:
    """coverage.py hangs here: its tracer takes the lock that the switch holds."""
    trace, module = traced

    class Cycle:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            module["chosen"](0)  # type: ignore[operator]

    before = gc.get_threshold()
    gc.set_threshold(1)  # so that a switch meets a collection
    try:
        lines: set[int] = set()
        for _ in range(500):
            Cycle()
            module["chosen"](1)  # type: ignore[operator]
            lines.update(trace.taken().get("choice.py", []))
    finally:
        gc.set_threshold(*before)
    assert lines == {2, 3, 4}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer here")
def test_a_handler_that_raises_under_the_trace_leaves_the_next_test_traced(
    traced: tuple[Trace, dict[str, object]],
) -> None:
    trace, module = traced

    def raises(number: int, frame: object) -> None:
        raise InterruptedError

    before = signal.signal(signal.SIGUSR1, raises)
    module["raise_signal"] = lambda: signal.raise_signal(signal.SIGUSR1)
    try:
        with pytest.raises(InterruptedError):
            module["interrupted"]()  # type: ignore[operator]
    finally:
        signal.signal(signal.SIGUSR1, before)
    trace.taken()
    trace.start()
    module["chosen"](0)  # type: ignore[operator]
    assert trace.taken() == {"choice.py": [2, 4]}


def test_a_map_joins_what_several_processes_saw(tmp_path: Path) -> None:
    first = from_own_id.__code__.co_firstlineno + 2  # within the function: lines of a module concern more tests
    slow, quick = "tests/test_a.py::test_slow", "tests/test_a.py::test_quick"
    seen = [
        Reach(slow, 4.0, 2, 4.0, {"core/ids.py": [first]}),
        Reach(slow, 2.0, 1, 4.0, {"core/ids.py": [first + 1]}),
        Reach(quick, 0.5, 1, 1.0, {"core/ids.py": [first + 1]}),
    ]
    for number, reach in enumerate(seen):
        (tmp_path / f"reached.{number}.jsonl").write_bytes(msgspec.json.encode(reach) + b"\n")
    reached = Map(tmp_path)
    found = [reached.tests(Mutant("src/midstream/core/ids.py", first + place, "", ""), 60.0) for place in (0, 1)]
    assert found == [([slow], 8.0), ([quick, slow], 8.5)]


def test_a_run_that_is_stuck_is_ended_and_says_what_it_was_doing(tmp_path: Path) -> None:
    (tmp_path / "running.1").write_text("tests/test_a.py::test_slow", "utf-8")
    with pytest.raises(SystemExit, match=r"stuck for 0.1 s(.|\n)*test_slow"):
        run_watched([sys.executable, "-c", "import signal; signal.pause()"], tmp_path, patience=0.1)


def test_a_run_that_ends_gives_its_code(tmp_path: Path) -> None:
    assert run_watched([sys.executable, "-c", "raise SystemExit(1)"], tmp_path) == 1
