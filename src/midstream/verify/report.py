"""The report of a run: checks with their verdicts and evidence, as a value, as lines for a terminal, and as an exit code."""

from __future__ import annotations

from typing import Any

import msgspec

from ..core.plural import pluralize
from .checks import ABSENT, FAIL, PASS, UNSURE, Result, Verdict
from .interview import Tally
from .samples import Comparison, SampleReport
from .statistics import zero_failures_bound

VERSION = 1
ALL_PASS, A_FAILURE, UNFINISHED = 0, 1, 75
MARKS: dict[Verdict, str] = {PASS: "ok  ", FAIL: "FAIL", ABSENT: "-   ", UNSURE: "?   "}


class HostSection(msgspec.Struct, frozen=True):
    """One host: what was found, how the requests went, and what it cost."""

    model: str
    results: tuple[Result, ...]
    tally: Tally
    spent: float = 0.0
    facts: dict[str, Any] = {}
    unfinished: tuple[str, ...] = ()
    samples: SampleReport | None = None

    def verdict(self, check: str) -> Verdict | None:
        return next((result.verdict for result in self.results if result.check == check), None)

    def count(self, verdict: Verdict) -> int:
        return sum(1 for result in self.results if result.verdict == verdict)


class Report(msgspec.Struct, frozen=True):
    """`against` is the host that was asked the same; `comparison` is about the lines of a file."""

    host: HostSection
    suites: tuple[str, ...]
    runs: int = 1
    created: str = ""
    against: HostSection | None = None
    comparison: Comparison | None = None
    version: int = VERSION

    @property
    def exit_code(self) -> int:
        """0 if nothing failed, 1 if a check failed, 75 if the run could not be finished and nothing failed in it."""
        if self.host.count(FAIL):
            return A_FAILURE
        return UNFINISHED if self.unfinished else ALL_PASS

    @property
    def unfinished(self) -> list[str]:
        """What could not be carried out, at either host: without its reference, a comparison says nothing."""
        there = () if self.against is None else self.against.unfinished
        return [*self.host.unfinished, *[f"{self.against.model}: {why}" for why in there if self.against is not None]]

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self)) + b"\n"


def is_comparison(result: Result) -> bool:
    return result.check.startswith("against.")


def counted(result: Result) -> str:
    """How often a check was judged, with the interval of its rate where that says something."""
    n = result.passed + result.failed
    # A comparison is no rate: it may be made by probes and by lines, which have nothing in common.
    if n < 2 or is_comparison(result):
        return ""
    if not result.failed:
        return f"{n} of {n}, fails at most {100 * zero_failures_bound(n):.0f} %"
    return str(result.rate)


def text_lines(report: Report) -> list[str]:
    """The report for a terminal, a line a check."""
    host, other = report.host, report.against
    width = max([len(result.check) for result in host.results], default=0)
    lines = [f"{host.model}: {', '.join(report.suites)}, {pluralize(host.tally.requests, 'request')}"]
    for result in host.results:
        beside = ""
        if other is not None:
            verdict = other.verdict(result.check)
            beside = f"[{MARKS[verdict].strip() if verdict else ' '}] "
        told = counted(result)
        how = f" ({told})" if told else ""
        lines.append(f"{MARKS[result.verdict]} {result.check:{width}}  {beside}{result.evidence}{how}")
    if other is not None:
        lines.append(f"In brackets: {other.model}.")
    lines += _sample_lines(report)
    tally = host.tally
    lines.append(
        f"Requests: {tally.first_try} answered at the first try, {tally.later_try} at a later one, {tally.refused} refused, "
        f"{tally.failed} failed."
    )
    lines += [f"Not finished: {why}" for why in report.unfinished[:5]]
    counts = ", ".join([f"{host.count(verdict)} {verdict}" for verdict in (PASS, FAIL, ABSENT, UNSURE)])
    return [*lines, f"{host.model}: {counts}"]


def _sample_lines(report: Report) -> list[str]:
    told = report.host.samples
    if told is None:
        return []
    finishes = ", ".join([f"{word} {count}" for word, count in told.finishes.items()])
    calls = ", ".join([f"{calls}: {count}" for calls, count in told.calls_each.items()])
    lines = [
        f"Lines: {told.lines}, runs {told.runs}. Answered: {told.answered}.",
        f"Tools called: {told.called}. Arguments fit: {told.schema}.",
        f"Finish reasons: {finishes or 'none'}. Calls in an answer: {calls or 'none'}.",
    ]
    if report.comparison is not None:
        found = report.comparison.triggers
        lines.append(
            f"Called only here on {pluralize(found.only_first, 'line')}, only there on {found.only_second}: p = {found.p:.3g}."
        )
    return lines
