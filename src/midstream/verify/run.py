"""A suite carried out: probes side by side, each result written down as it comes, so that a run can be resumed.

`Journal` is a file of JSON lines, one for each probe and run that was finished. It holds verdicts, evidence and facts; never a
key, a prompt or an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec

from ..core.errors import LocalError, MidstreamError
from .checks import UNSURE, Finding, Findings
from .discovery import changed
from .interview import Interview, Tally, Unfinished
from .probes import Asking, Probe

PROBE: ContextVar[str] = ContextVar("probe", default="other")
"""The probe at work, for those who listen to its requests."""
Progress = Callable[[int], None]
"""Told of every finished probe, with the number of its requests."""


class Outcome(msgspec.Struct, frozen=True):
    """What one run of one probe found. `unfinished` says why it could not be carried out."""

    model: str
    probe: str
    run: int
    findings: tuple[Finding, ...] = ()
    facts: dict[str, Any] = {}
    unfinished: str = ""


class Journal:
    """The outcomes so far. With a path they are kept in a file; one that is there already is gone on with."""

    def __init__(self, path: Path | None = None, *, resume: bool = False) -> None:
        self._path = path
        self.done: dict[tuple[str, str, int], Outcome] = {}
        if path is None:
            return
        if resume and path.exists():
            self._load(path)
        elif path.exists():
            path.unlink()

    def _load(self, path: Path) -> None:
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                outcome = msgspec.json.decode(line, type=Outcome)
            except (msgspec.DecodeError, msgspec.ValidationError) as error:
                # The last line may be half written: whoever resumes was interrupted.
                if number == len(path.read_bytes().splitlines()):
                    break
                raise LocalError(f"{path}: line {number} is not of a run of verify: {error}") from None
            self.done[(outcome.model, outcome.probe, outcome.run)] = outcome

    def add(self, outcome: Outcome) -> None:
        # What could not be finished is tried again by the next run.
        if outcome.unfinished:
            return
        self.done[(outcome.model, outcome.probe, outcome.run)] = outcome
        if self._path is not None:
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(outcome) + b"\n")


class HostRun(msgspec.Struct, frozen=True):
    """All that was found out about one host."""

    model: str
    outcomes: tuple[Outcome, ...]
    tally: Tally = Tally()
    spent: float = 0.0

    @property
    def findings(self) -> list[Finding]:
        return [finding for outcome in self.outcomes for finding in outcome.findings]

    @property
    def facts(self) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for outcome in self.outcomes:
            merged.update(outcome.facts)
        return merged

    @property
    def unfinished(self) -> list[str]:
        return [f"{outcome.probe}: {outcome.unfinished}" for outcome in self.outcomes if outcome.unfinished]


async def run_probes(
    host: Interview,
    probes: Sequence[Probe],
    *,
    runs: int = 1,
    journal: Journal | None = None,
    progress: Progress | None = None,
) -> HostRun:
    """Carry out the probes, each `runs` times; what the journal has is not asked again."""
    journal = journal or Journal()
    wanted = [(probe, run) for probe in probes for run in range(runs)]

    async def one(probe: Probe, run: int) -> Outcome:
        known = journal.done.get((host.model, probe.name, run))
        outcome = known if known is not None else await run_probe(host, probe, run)
        if known is None:
            journal.add(outcome)
        if progress is not None:
            progress(probe.requests)
        return outcome

    first = [await one(probe, run) for probe, run in wanted if probe.first]
    for outcome in first:
        host.use(changed(host.client.catalog.resolve(host.model).dialect, outcome.facts.get("dialect") or {}))
    rest = await asyncio.gather(*[one(probe, run) for probe, run in wanted if not probe.first])
    outcomes = [*first, *rest]
    return HostRun(host.model, tuple(outcomes), host.tally, host.budget.spent)


async def run_probe(host: Interview, probe: Probe, run: int = 0) -> Outcome:
    """One run of one probe."""
    found = Findings(probe.name, host.clean)
    PROBE.set(probe.name)
    unfinished = ""
    try:
        await probe.run(Asking(host, found))
    except Unfinished as error:
        unfinished = str(error)
    # A missing key or an unknown model is for the user to mend; anything else is about this host.
    except MidstreamError as error:
        if isinstance(error, LocalError):
            raise
        unfinished = f"{type(error).__name__}: {error.summary}"
    if unfinished:
        judged = {finding.check for finding in found.found}
        for check in probe.checks:
            if check not in judged:
                found.add(check, UNSURE, f"could not finish: {unfinished}")
    return Outcome(host.model, probe.name, run, tuple(found.found), found.facts, unfinished)


def request_count(probes: Iterable[Probe], runs: int = 1) -> int:
    """How many requests the probes send where nothing is refused and nothing fails."""
    return runs * sum(probe.requests for probe in probes)
