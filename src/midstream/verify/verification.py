"""A whole verification: which suites, against whom, how often, at what cost at most; then the report.

async with make_client(catalog) as client:
    report = await Verification("moonshot/kimi-k2.5").run(client)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from ..client.catalog import Catalog
from ..client.client import Client
from ..client.tokens import estimate_text
from ..core.dialect import Options
from ..core.errors import LocalError
from ..core.plural import pluralize
from ..recording import Recorder
from ..transport.tap import ExchangeTap
from ..transport.target import Target
from .checks import FAIL, PASS, UNSURE, Finding, Findings, results
from .interview import EXPECTED_OUTPUT, Budget, Interview, OverBudget
from .probes import Probe
from .report import HostSection, Report
from .run import PROBE, HostRun, Journal, Outcome, Progress, request_count, run_probes
from .samples import (
    Comparison,
    Sample,
    SampleOutcome,
    compare,
    judge_samples,
    read_outcomes,
    read_samples,
    run_samples,
    summarize,
)
from .statistics import mcnemar
from .suites import SUITES
from .verified import Verified, make_verified

# Tokens of an average probe: a few are long (the cache's prefix, eight rounds), most are a sentence and a tool.
_EXPECTED_INPUT = 600
_SAMPLE = "line"
_SIGNIFICANT = 0.05


class Estimate(msgspec.Struct, frozen=True):
    """What a verification will send and cost; `dollars` is None where no price is known."""

    requests: int
    dollars: float | None


class Verification(msgspec.Struct, frozen=True):
    """`suites` are names of suites or paths of files; `reference` are outcomes of an earlier run of the same file."""

    model: str
    suites: tuple[str, ...] = ("quick",)
    against: str = ""
    runs: int = 1
    max_cost: float | None = None
    concurrency: int = 5
    reference: Path | None = None
    max_tokens: int = 4096
    """How many tokens an answer may have; a model that thinks needs some."""

    def __post_init__(self) -> None:
        for suite in self.suites:
            if suite not in SUITES and not Path(suite).is_file():
                raise LocalError(
                    f"unknown suite {suite!r}: expected {', '.join(SUITES)} or the path of a file of requests"
                )
        if len(self.files) > 1:
            raise LocalError("expected one file of requests at a time, since a comparison is about one")

    @property
    def probes(self) -> tuple[Probe, ...]:
        return tuple(dict.fromkeys([probe for suite in self.suites for probe in SUITES.get(suite, ())]))

    @property
    def files(self) -> list[Path]:
        return [Path(suite) for suite in self.suites if suite not in SUITES]

    @property
    def models(self) -> list[str]:
        return [self.model, *([self.against] if self.against else [])]

    def samples(self) -> list[Sample]:
        return [sample for path in self.files for sample in read_samples(path)]

    def estimate(self, catalog: Catalog) -> Estimate:
        """Before anything is sent: how many requests, and about what they cost."""
        samples = self.samples()
        read = sum(estimate_text(msgspec.json.encode(sample.request).decode("utf-8", "replace")) for sample in samples)
        probes = request_count(self.probes)
        requests = self.runs * (probes + len(samples))
        dollars: float | None = 0.0
        for model in self.models:
            price = catalog.price(catalog.resolve(model))
            if price is None or dollars is None:
                dollars = None
                continue
            # Lines of a file are counted as they are; of a probe nothing is encoded yet.
            tokens = (probes * _EXPECTED_INPUT + read, (probes + len(samples)) * EXPECTED_OUTPUT)
            dollars += self.runs * (tokens[0] * price.input + tokens[1] * price.output) / 1_000_000
        return Estimate(requests * len(self.models), dollars)

    async def run(
        self,
        client: Client,
        *,
        journal: Journal | None = None,
        progress: Progress | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> Verdicts:
        """Ask the host, and the one it is compared with, and judge."""
        journal = journal or Journal()
        samples = self.samples()
        asked = [await self._ask(client, model, samples, journal, progress, sleep) for model in self.models]
        reference = asked[1].outcomes if len(asked) > 1 else read_outcomes(self.reference, samples)
        comparison = compare(asked[0].outcomes, reference) if samples and reference else None
        sections = [
            _section(
                each, comparison if number == 0 else None, asked[1].run if number == 0 and len(asked) > 1 else None
            )
            for number, each in enumerate(asked)
        ]
        created = now().strftime("%Y-%m-%d %H:%M UTC")
        report = Report(
            sections[0], self.suites, self.runs, created, sections[1] if len(sections) > 1 else None, comparison
        )
        target = client.catalog.resolve(self.model)
        named = {result.check: result for result in sections[0].results}
        own = client.catalog.config.providers.get(target.provider)
        verified = make_verified(asked[0].run, target, own, named, self.suites, created)
        return Verdicts(report, verified, tuple(asked[0].outcomes))

    async def _ask(
        self,
        client: Client,
        model: str,
        samples: list[Sample],
        journal: Journal,
        progress: Progress | None,
        sleep: Callable[[float], Awaitable[None]],
    ) -> _Asked:
        budget = Budget(client.catalog.price(client.catalog.resolve(model)), self.max_cost)
        options = Options(max_tokens=self.max_tokens)
        host = Interview(client, model, options=options, concurrency=self.concurrency, budget=budget, sleep=sleep)
        run = await run_probes(host, self.probes, runs=self.runs, journal=journal, progress=progress)
        known = {
            (outcome.facts["line"], outcome.run): msgspec.convert(outcome.facts, SampleOutcome)
            for (named, probe, _), outcome in journal.done.items()
            if named == model and probe.startswith(_SAMPLE)
        }

        def done(outcome: SampleOutcome) -> None:
            # What failed is not in the journal, so that a resumed run asks it again.
            if outcome.status != "failed":
                name = f"{_SAMPLE} {outcome.line}"
                journal.add(
                    Outcome(model, name, outcome.run, facts={**msgspec.to_builtins(outcome), "line": outcome.line})
                )
            if progress is not None:
                progress(1)

        PROBE.set(_SAMPLE)
        outcomes: list[SampleOutcome] = []
        unfinished = ""
        try:
            outcomes = await run_samples(host, samples, runs=self.runs, known=known, done=done)
        except OverBudget as error:
            unfinished = str(error)
        failed = sum(1 for each in outcomes if each.status == "failed")
        if failed:
            unfinished = (
                f"{pluralize(failed, 'line')} failed: {next(each.why for each in outcomes if each.status == 'failed')}"
            )
        left = (Outcome(model, _SAMPLE, 0, unfinished=unfinished),) if unfinished else ()
        whole = HostRun(model, (*run.outcomes, *left), host.tally, host.budget.spent)
        return _Asked(whole, outcomes)


class Verdicts(msgspec.Struct, frozen=True):
    """What a verification gives: the report, the host as data, and the outcomes of the lines, if there were any."""

    report: Report
    verified: Verified
    outcomes: tuple[SampleOutcome, ...] = ()


class _Asked(msgspec.Struct, frozen=True):
    run: HostRun
    outcomes: list[SampleOutcome]


def _section(asked: _Asked, comparison: Comparison | None, other: HostRun | None) -> HostSection:
    run = asked.run
    found = Findings()
    told = summarize(asked.outcomes) if asked.outcomes else None
    if told is not None:
        judge_samples(told, comparison, found)
    if other is not None:
        _judge_against(run, other, found)
    judged = results([*run.findings, *found.found])
    return HostSection(run.model, tuple(judged.values()), run.tally, run.spent, run.facts, tuple(run.unfinished), told)


def _judge_against(run: HostRun, other: HostRun, found: Findings) -> None:
    """The same requests at two hosts: as many tokens, and as many checks passed?"""
    mine, theirs = run.facts, other.facts
    shared = [name for name in ("prompt_tokens", "hello_tokens") if mine.get(name) and theirs.get(name)]
    if shared:
        name = shared[0]
        counts = f"{_listed(mine[name])} tokens here, {_listed(theirs[name])} there"
        # Another model has another tokenizer, so different counts show nothing.
        same_weights = _basename(run.model) == _basename(other.model)
        verdict = PASS if mine[name] == theirs[name] else FAIL if same_weights else UNSURE
        words = counts if verdict != UNSURE else f"{counts}; the two may be different models"
        found.add("against.prompt-tokens", verdict, words)
    pairs = _pairs(run.findings, other.findings)
    if pairs:
        told = mcnemar([a for a, _ in pairs], [b for _, b in pairs])
        # Two-sided, and a failure only in one direction: being better than the other host is none.
        worse = told.p < _SIGNIFICANT and told.only_second > told.only_first
        words = f"of {len(pairs)} judgements {told.only_first} passed only here, {told.only_second} only there, p = {told.p:.3g}"
        found.add("against.difference", FAIL if worse else PASS, words)


def _pairs(mine: list[Finding], theirs: list[Finding]) -> list[tuple[bool, bool]]:
    """The checks that both were judged by: one pair for each, since judgements of one check hang together."""
    one, other = results(mine), results(theirs)
    decided = (PASS, FAIL)
    return [
        (one[name].verdict == PASS, other[name].verdict == PASS)
        for name in one
        if name in other and one[name].verdict in decided and other[name].verdict in decided
    ]


def _listed(value: Any) -> str:
    return ", ".join([str(each) for each in value]) if isinstance(value, list) else str(value)


def _basename(model: str) -> str:
    return model.rpartition("/")[2].lower()


class ProbeRecorder:
    """A tap that keeps the raw answers of each probe in a cassette named after it, so that a failure is a file to send."""

    def __init__(self, folder: Path, probe: ContextVar[str] = PROBE) -> None:
        self._folder = folder
        self._probe = probe
        self._recorders: dict[str, Recorder] = {}

    def sent(self, target: Target) -> ExchangeTap | None:
        name = self._probe.get()
        # Each probe has a recorder of its own, made at its first request; requests of several probes may be under way at once.
        if name not in self._recorders:
            self._recorders[name] = Recorder(self._folder / name)
        return self._recorders[name].sent(target)

    @property
    def problems(self) -> list[Exception]:
        return [problem for recorder in self._recorders.values() for problem in recorder.problems]

    @property
    def saved(self) -> Mapping[str, int]:
        return {name: len(recorder.saved) for name, recorder in self._recorders.items()}
