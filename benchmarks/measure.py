"""How the benchmarks time things, and how they say it.

Time is the processor's, of this process only. Runs that are compared take turns, so that a busy machine slows all of them
alike; a small cost is the fastest of its runs, for noise only ever adds. A row holds a figure against its goal.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec


class Timing(msgspec.Struct, frozen=True):
    """Processor seconds of one run."""

    best: float
    median: float


def timing(seconds: Sequence[float]) -> Timing:
    return Timing(min(seconds), statistics.median(seconds))


def take_turns(runs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Timing]:
    """Each run, so many times, one after the other."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.process_time_ns()
            run()
            taken[name].append((time.process_time_ns() - start) / 1e9)
    return {name: timing(seconds) for name, seconds in taken.items()}


class Row(msgspec.Struct, frozen=True):
    """One figure. `goal` is the most it may be, or the least where `at_least`; None is a figure without one."""

    name: str
    value: float | None
    unit: str = ""
    goal: float | None = None
    at_least: bool = False
    aside: str = ""

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "-"
        if self.goal is None:
            return ""
        met = self.value >= self.goal if self.at_least else self.value <= self.goal
        return "ok" if met else "MISS"


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    lines = ["| | figure | goal | | |", "|:--|--:|--:|:--|:--|"]
    for row in rows:
        sign = "≥" if row.at_least else "≤"
        goal = "" if row.goal is None else f"{sign} {_number(row.goal)} {row.unit}".rstrip()
        value = "-" if row.value is None else f"{_number(row.value)} {row.unit}".rstrip()
        lines.append(f"| {row.name} | {value} | {goal} | {row.verdict} | {row.aside} |")
    return "\n".join(lines)


def misses(rows: Sequence[Row]) -> list[str]:
    return [row.name for row in rows if row.verdict == "MISS"]


def _number(value: float) -> str:
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:,.0f}"
