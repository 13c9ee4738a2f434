"""A file of requests as a suite: the format of K2-Vendor-Verifier and MiniMax-Provider-Verifier, a whole chat request a line.

A line goes to a chat host as it is: only the model is named, the role `_input` becomes `system`, and usage is asked for. To a host
of another wire it is translated. Of an answer the finish reason, the names of the calls and whether their arguments fit are
kept, never a text; so a run can be shipped as the reference of another. A refused or failed request is no "no call": it is
counted apart. What is measured is the first try; that a retry helped is told beside it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from ..core.blocks import Value
from ..core.errors import LocalError, MidstreamError
from ..core.plural import pluralize
from ..wires.request import Request, parse_request
from .answers import valid_calls
from .checks import ABSENT, FAIL, PASS, UNSURE, Findings, Verdict
from .interview import Exchange, Interview, OverBudget, Unfinished
from .statistics import Agreement, Interval, McNemar, Rate, agreement, bootstrap, mcnemar, percent

_CHAT = "openai-chat"
_WANTED = 0.98
"""The share of fitting arguments that MiniMax and Moonshot ask of their vendors."""
# The usual level; docs/field-guide/vendor-verifiers.md#numbers-that-can-be-trusted says what it can show.
_SIGNIFICANT = 0.05


class Sample(msgspec.Struct, frozen=True):
    """One line of a file: its number, the request, and a digest by which runs of the same file know each other."""

    number: int
    request: dict[str, Any]
    digest: str


class SampleOutcome(Value, frozen=True):
    """What came of one line in one run. No text of it is kept."""

    line: int
    digest: str
    run: int = 0
    status: Literal["ok", "refused", "failed"] = "ok"
    finish: str = ""
    names: tuple[str, ...] = ()
    valid: bool | None = None
    """Whether the arguments of all calls fit; None without a call."""
    said: bool = True
    """Whether there was text or a call."""
    tries: int = 1
    first: str = ""
    """What went wrong at the first try."""
    why: str = ""

    @property
    def triggered(self) -> bool:
        """K2VV's positive: the answer ended with `tool_calls`; calls that were lost behind another word are counted as lost."""
        return self.finish in ("tool_calls", "tool_use", "TOOL_CALL") or (bool(self.names) and not self.finish)


def read_samples(path: Path) -> list[Sample]:
    """The lines of a file; LocalError names one that is not a chat request."""
    samples: list[Sample] = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise LocalError(f"{path}: {error.strerror or error}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            request = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise LocalError(f"{path}: line {number} is not JSON: {error}") from None
        if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
            raise LocalError(f"{path}: line {number}: expected a chat request, an object with `messages`")
        # Of the line as it is in the file: the digest also fits results of other programs on the same file.
        samples.append(Sample(number, _as_chat(request), sha256(line.strip()).hexdigest()[:16]))
    if not samples:
        raise LocalError(f"{path}: expected a chat request on each line, and there is none")
    return samples


def _as_chat(request: dict[str, Any]) -> dict[str, Any]:
    messages = [
        # K2-Vendor-Verifier's own word: docs/field-guide/vendor-verifiers.md#k2-vendor-verifier
        {**message, "role": "system"} if isinstance(message, dict) and message.get("role") == "_input" else message
        for message in request["messages"]
    ]
    return {**request, "messages": messages}


def make_request(host: Interview, sample: Sample) -> Request:
    """The line as a request to this host."""
    target = host.target
    body = {**sample.request, "model": target.model}
    if body.get("stream") and target.dialect.stream_usage:
        body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
    raw = msgspec.json.encode(body)
    parsed = parse_request(_CHAT, raw)
    options = replace(parsed.options, stream=bool(body.get("stream")))
    request = host.client.encode(target, parsed.conversation, parsed.tools, options)
    # The line itself: what a verifier measures is the host, with nothing mended on the way.
    return replace(request, body=raw) if request.wire == _CHAT and request.text_format is None else request


async def run_samples(
    host: Interview,
    samples: Sequence[Sample],
    *,
    runs: int = 1,
    known: Mapping[tuple[int, int], SampleOutcome] | None = None,
    done: Callable[[SampleOutcome], None] | None = None,
) -> list[SampleOutcome]:
    """Every line, `runs` times, side by side; those that are `known` are not asked again. OverBudget ends the run."""

    async def one(sample: Sample, run: int) -> SampleOutcome:
        found = (known or {}).get((sample.number, run))
        # A file that was changed since has other lines under the same numbers.
        if found is not None and found.digest == sample.digest:
            return found
        outcome = await _asked(host, sample, run)
        if done is not None:
            done(outcome)
        return outcome

    # All of them end before the first problem is told: nothing is sent behind the back of a run that was given up.
    found = await asyncio.gather(
        *[one(sample, run) for run in range(runs) for sample in samples], return_exceptions=True
    )
    outcomes = [each for each in found if not isinstance(each, BaseException)]
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return outcomes


async def _asked(host: Interview, sample: Sample, run: int) -> SampleOutcome:
    try:
        exchange = await host.send(host.target, make_request(host, sample), _most_tokens(sample))
    except OverBudget:
        raise
    except Unfinished as error:
        return SampleOutcome(sample.number, sample.digest, run, "failed", tries=host.tries, why=str(error))
    # A line that cannot be read or written is a fault of the file for this host, and no answer.
    except MidstreamError as error:
        return SampleOutcome(sample.number, sample.digest, run, "refused", why=error.summary)
    outcome = outcome_of(sample, run, exchange)
    names = tuple([host.clean(name) for name in outcome.names])
    return replace(outcome, names=names, finish=host.clean(outcome.finish), why=host.clean(outcome.why))


def _most_tokens(sample: Sample) -> int | None:
    # A line is another program's request: it may have the old name, the new one, or both.
    limits = [sample.request.get(name) for name in ("max_tokens", "max_completion_tokens")]
    return max([limit for limit in limits if isinstance(limit, int)], default=None)


def outcome_of(sample: Sample, run: int, exchange: Exchange) -> SampleOutcome:
    if exchange.refused:
        return SampleOutcome(
            sample.number,
            sample.digest,
            run,
            "refused",
            tries=exchange.tries,
            first=exchange.first_failure,
            why=exchange.why,
        )
    seen = exchange.seen
    return SampleOutcome(
        sample.number,
        sample.digest,
        run,
        finish=seen.finish or "",
        names=tuple([call.name for call in seen.calls]),
        valid=valid_calls(exchange) if seen.calls else None,
        said=bool(seen.text.strip() or seen.calls),
        tries=exchange.tries,
        first=exchange.first_failure,
    )


def read_outcomes(path: Path | None, samples: Sequence[Sample] = ()) -> list[SampleOutcome]:
    """The outcomes of an earlier run: as `--outcomes` wrote them, or the results of K2-Vendor-Verifier on the same file."""
    if path is None:
        return []
    try:
        lines = [msgspec.json.decode(line) for line in path.read_bytes().splitlines() if line.strip()]
        if lines and all(isinstance(line, dict) and "data_index" in line for line in lines):
            return _vendor_outcomes(lines, samples)
        return msgspec.convert(lines, list[SampleOutcome])
    except (OSError, msgspec.DecodeError, msgspec.ValidationError) as error:
        raise LocalError(f"{path}: expected outcomes that `midstream verify --outcomes` wrote: {error}") from None


def _vendor_outcomes(lines: Sequence[dict[str, Any]], samples: Sequence[Sample]) -> list[SampleOutcome]:
    """By the place in the file, which is all that both have; whether that is counted from 0 or 1, the least one shows."""
    first = min([line["data_index"] for line in lines if isinstance(line["data_index"], int)], default=1)
    digests = {number: sample.digest for number, sample in enumerate(samples, min(first, 1))}
    return [
        SampleOutcome(
            line["data_index"],
            digests[line["data_index"]],
            status="ok" if line.get("status") == "success" else "failed",
            finish=str(line.get("finish_reason") or ""),
            valid=line.get("tool_calls_valid"),
        )
        for line in lines
        if line["data_index"] in digests
    ]


class SampleReport(msgspec.Struct, frozen=True):
    """A run in numbers, each with n and an interval."""

    lines: int
    runs: int
    answered: Rate
    first_try: Rate
    refused: int
    failed: int
    called: Rate
    """Of the answers, those that ended with calls: K2VV's trigger, MiniMax's Finish-ToolCalls-Rate."""
    schema: Rate
    """Of those with calls, those whose arguments all fit: ToolCall-Schema Accuracy."""
    finish_fits: Rate
    said: Rate
    finishes: dict[str, int]
    calls_each: dict[int, int]
    """How many answers had so many calls."""


def summarize(outcomes: Sequence[SampleOutcome]) -> SampleReport:
    ok = [each for each in outcomes if each.status == "ok"]
    with_calls = [each for each in ok if each.valid is not None]
    return SampleReport(
        len({each.line for each in outcomes}),
        len({each.run for each in outcomes}),
        _share(outcomes, lambda each: each.status == "ok"),
        _share(outcomes, lambda each: each.status == "ok" and each.tries == 1),
        sum(1 for each in outcomes if each.status == "refused"),
        sum(1 for each in outcomes if each.status == "failed"),
        _share(ok, lambda each: each.triggered),
        _share(with_calls, lambda each: bool(each.valid)),
        _share(ok, lambda each: bool(each.names) == each.triggered),
        _share(ok, lambda each: each.said),
        dict(Counter([each.finish or "none" for each in ok]).most_common()),
        dict(sorted(Counter([len(each.names) for each in ok]).items())),
    )


def _share(outcomes: Sequence[SampleOutcome], holds: Callable[[SampleOutcome], bool]) -> Rate:
    lines = len({each.line for each in outcomes})
    return Rate(sum(1 for each in outcomes if holds(each)), len(outcomes), lines if lines < len(outcomes) else None)


class Comparison(msgspec.Struct, frozen=True):
    """A host beside its reference, on the lines that both answered."""

    lines: int
    agreement: Agreement
    f1: float | None
    interval: Interval | None
    floor: float | None
    """The lowest F1 of the reference against itself, over all pairs of its runs; None with one run."""
    triggers: McNemar
    """Lines on which one of the two called."""
    schemas: McNemar
    """Of the lines on which both called, those on which the arguments of one fit."""


def compare(host: Sequence[SampleOutcome], reference: Sequence[SampleOutcome], *, seed: int = 1) -> Comparison:
    """The host's first run against the reference's first run, line by line; the reference's other runs give the floor."""
    mine, theirs = _first_run(host), _first_run(reference)
    shared = [digest for digest in mine if digest in theirs]
    pairs = [(mine[digest].triggered, theirs[digest].triggered) for digest in shared]
    both = [digest for digest in shared if mine[digest].valid is not None and theirs[digest].valid is not None]
    found = agreement(pairs)
    return Comparison(
        len(shared),
        found,
        found.f1,
        bootstrap(pairs, lambda drawn: agreement(drawn).f1, seed=seed),
        noise_floor(reference),
        mcnemar([a for a, _ in pairs], [b for _, b in pairs]),
        mcnemar([bool(mine[each].valid) for each in both], [bool(theirs[each].valid) for each in both]),
    )


def _first_run(outcomes: Sequence[SampleOutcome]) -> dict[str, SampleOutcome]:
    answered = [each for each in outcomes if each.status == "ok"]
    first = min([each.run for each in answered], default=0)
    return {each.digest: each for each in answered if each.run == first}


def noise_floor(reference: Sequence[SampleOutcome]) -> float | None:
    """What the reference scores against itself at the worst: below it, and only below it, a difference is the host's."""
    runs: dict[int, dict[str, bool]] = {}
    for each in reference:
        if each.status == "ok":
            runs.setdefault(each.run, {})[each.digest] = each.triggered
    ordered = [runs[run] for run in sorted(runs)]
    scores = [
        score
        for at, one in enumerate(ordered)
        for other in ordered[at + 1 :]
        if (score := agreement([(one[digest], other[digest]) for digest in one if digest in other]).f1) is not None
    ]
    return min(scores) if scores else None


def judge_samples(report: SampleReport, comparison: Comparison | None, found: Findings) -> None:
    """The checks of a file. A share is judged by its interval: where that reaches over the limit, the lines are too few."""
    whys = f"{report.answered}; at the first try {report.first_try}; refused {report.refused}, failed {report.failed}"
    found.add("samples.answered", PASS if report.first_try.hits == report.first_try.n else FAIL, whys)
    found.add(
        "samples.schema", _by_interval(report.schema, _WANTED), f"{report.schema} fit; {percent(_WANTED)} are wanted"
    )
    found.add(
        "samples.finish",
        PASS if report.finish_fits.hits == report.finish_fits.n else FAIL,
        f"{report.finish_fits} agree",
    )
    found.add("samples.said", PASS if report.said.hits == report.said.n else FAIL, f"{report.said} have text or a call")
    if comparison is None:
        found.add("samples.trigger", ABSENT, f"{report.called} called; without a reference that says nothing")
        return
    _judge_trigger(comparison, found)
    _judge_difference(comparison, found)


def _by_interval(rate: Rate, wanted: float) -> Verdict:
    if not rate.n:
        return UNSURE
    interval = rate.interval
    return PASS if interval.low >= wanted else FAIL if interval.high < wanted else UNSURE


def _judge_trigger(comparison: Comparison, found: Findings) -> None:
    f1, interval, floor = comparison.f1, comparison.interval, comparison.floor
    if f1 is None or interval is None:
        found.add(
            "samples.trigger", UNSURE, f"neither of the two called on {pluralize(comparison.lines, 'shared line')}"
        )
        return
    score = f"F1 {percent(f1)} on {pluralize(comparison.lines, 'line')} (95 %: {interval})"
    if floor is None:
        found.add("samples.trigger", UNSURE, f"{score}; the reference was not run against itself: --runs 2")
    elif f1 >= floor:
        found.add("samples.trigger", PASS, f"{score}; the reference against itself: at least {percent(floor)}")
    else:
        verdict = FAIL if interval.high < floor else UNSURE
        found.add("samples.trigger", verdict, f"{score}; the reference against itself: at least {percent(floor)}")


def _judge_difference(comparison: Comparison, found: Findings) -> None:
    told = comparison.schemas
    words = f"arguments fit on {pluralize(told.only_first, 'line')} only here, on {told.only_second} only there, p = {told.p:.3g}"
    worse = told.p < _SIGNIFICANT and told.only_second > told.only_first
    found.add("against.difference", FAIL if worse else PASS, words)
