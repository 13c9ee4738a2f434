"""`python -m tests.plain_clone`: which test functions do not run at all where the shared recordings and vectors are missing.

Only the modules that read them are run, with `MIDSTREAM_SHARED` leading nowhere; all others run anyway. A function counts as run if one of
its cases does. The goal is 95 % of all functions; the rest is listed with what was missing.
"""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
GOAL = 95.0
_ELSEWHERE = ("e2e", "clients")
"""Folders that `make test` leaves to commands of their own."""
_READS = ("shared_data", "recordings", "edge_case_table")


class _Ran:
    def __init__(self) -> None:
        self.ran: set[str] = set()
        self.why: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        function = report.nodeid.partition("[")[0]
        if report.skipped:
            self.why.setdefault(function, str(report.longrepr[-1]) if isinstance(report.longrepr, tuple) else "")
        elif report.when == "call":
            self.ran.add(function)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self.why[report.nodeid] = str(report.longrepr[-1]) if isinstance(report.longrepr, tuple) else ""


def functions(path: Path) -> list[str]:
    """The names of a module's tests, as pytest names them."""
    found = []
    for node in ast.parse(path.read_bytes()).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        owner = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found += [
            f"{path.relative_to(ROOT)}::{owner}{each.name}"
            for each in inner
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test_")
        ]
    return found


def modules() -> list[Path]:
    """Every module of tests that `make test` runs."""
    found = sorted((ROOT / "tests").rglob("test_*.py"))
    return [path for path in found if path.relative_to(ROOT).parts[1] not in _ELSEWHERE]


def main() -> int:
    every = {path: functions(path) for path in modules()}
    reading = [path for path in every if any(word in path.read_text("utf-8") for word in _READS)]
    os.environ["MIDSTREAM_LONG"] = "1"
    os.environ["MIDSTREAM_SHARED"] = str(ROOT / "no-shared-data-here")
    ran = _Ran()
    pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", "--no-header", "-r", "", *map(str, reading)], plugins=[ran])
    missing = [name for path in reading for name in every[path] if name not in ran.ran]
    for name in missing:
        print(f"{name}: {ran.why.get(name) or ran.why.get(name.partition('::')[0], '?')}")
    whole = sum(map(len, every.values()))
    share = 100 * (whole - len(missing)) / whole
    print(f"{whole - len(missing)} of {whole} test functions run without shared data, {share:.1f} % (goal {GOAL:g} %)")
    return 0 if share >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
