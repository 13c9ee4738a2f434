"""What the gateway counts, for Prometheus.

A request adds to plain numbers; prometheus_client only writes them out when somebody asks. Every label has a bounded set of
values: models are those of the configuration, and what a client makes up is "other". Several workers keep their numbers in one
folder, so that whichever of them is asked tells those of all; only `process_*` are of the one that answers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .access_log import RequestRecord
from .protocol import STATUS_LINE

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"

# From what a refusal takes to what a model that thinks for minutes takes.
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_BOUNDS = tuple([str(bound) for bound in _SECONDS] + ["+Inf"])
_WIRES = ("openai-chat", "openai-responses", "anthropic", "gemini")
_TOKENS = ("input", "output", "cache_read", "cache_write")
_HOSTS = (
    1_024  # outcomes at hosts that are told apart: models, hosts and errors are ours, this is only the end of a mistake
)
_KINDS = 64  # of errors: they are names of ours, this is only the end of a mistake


def _buckets() -> list[int]:
    return [0] * len(_BOUNDS)


class _Counts(msgspec.Struct):
    """All numbers of one wire, model and status: one lookup finds them."""

    requests: int = 0
    seconds: list[int] = msgspec.field(default_factory=_buckets)
    seconds_total: float = 0.0
    first: list[int] = msgspec.field(default_factory=_buckets)
    first_total: float = 0.0
    tokens: list[int] = msgspec.field(default_factory=lambda: [0] * len(_TOKENS))
    cost: float = 0.0

    def add(self, other: _Counts) -> None:
        self.requests += other.requests
        self.seconds = list(map(add, self.seconds, other.seconds))
        self.seconds_total += other.seconds_total
        self.first = list(map(add, self.first, other.first))
        self.first_total += other.first_total
        self.tokens = list(map(add, self.tokens, other.tokens))
        self.cost += other.cost


class _Totals(msgspec.Struct):
    """The numbers of one process, or of several."""

    counts: dict[tuple[str, str, int], _Counts] = {}
    errors: dict[str, int] = {}
    refused: dict[int, int] = {}
    attempts: int = 0
    tried: dict[tuple[str, str, int, str], tuple[int, float]] = {}
    """By model, host, status and error: how many attempts, and how many seconds they took."""
    notes: int = 0
    gauges: dict[str, float] = {}

    def add(self, other: _Totals) -> None:
        for key, counts in other.counts.items():
            self.counts.setdefault(key, _Counts()).add(counts)
        for kind, count in other.errors.items():
            self.errors[kind] = self.errors.get(kind, 0) + count
        for status, count in other.refused.items():
            self.refused[status] = self.refused.get(status, 0) + count
        for name, value in other.gauges.items():
            self.gauges[name] = self.gauges.get(name, 0.0) + value
        for where, (count, seconds) in other.tried.items():
            self.try_at(where, count, seconds)
        self.attempts += other.attempts
        self.notes += other.notes

    def try_at(self, where: tuple[str, str, int, str], count: int, seconds: float) -> None:
        if where not in self.tried and len(self.tried) >= _HOSTS:
            where = (OTHER, OTHER, 0, OTHER)
        before = self.tried.get(where, (0, 0.0))
        self.tried[where] = (before[0] + count, before[1] + seconds)


class Metrics:
    """The numbers of one process."""

    def __init__(self, models: Iterable[str] = (), wires: Iterable[str] = _WIRES) -> None:
        self._models = frozenset(models)
        self._wires = frozenset(wires)
        self._totals = _Totals()
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self._file: Path | None = None
        self._registry: CollectorRegistry | None = None

    def know(self, models: Iterable[str]) -> None:
        """The models that are told apart from now on, as after a reload."""
        self._models = frozenset(models)

    def gauge(self, name: str, help: str, read: Callable[[], float]) -> None:
        """A number that is read when somebody asks, such as the open streams."""
        self._gauges[name] = (help, read)

    def add(self, record: RequestRecord) -> None:
        """Count one request."""
        totals = self._totals
        # The labels as they are, which nearly always exist already; `_bounded` only sees what is new or made up.
        counts = totals.counts.get((record.wire, record.model, record.status)) or self._bounded(record)
        counts.requests += 1
        seconds = record.duration_ms / 1000
        counts.seconds[bisect_left(_SECONDS, seconds)] += 1
        counts.seconds_total += seconds
        if record.ttft_ms is not None:
            seconds = record.ttft_ms / 1000
            counts.first[bisect_left(_SECONDS, seconds)] += 1
            counts.first_total += seconds
        if record.input or record.output:
            tokens = counts.tokens
            tokens[0] += record.input
            tokens[1] += record.output
            tokens[2] += record.cache_read
            tokens[3] += record.cache_write
        if record.cost:
            counts.cost += record.cost
        if record.error:
            errors = totals.errors
            # Labels are forever in a time series, so even names of ours have an end.
            kind = record.error if record.error in errors or len(errors) < _KINDS else OTHER
            errors[kind] = errors.get(kind, 0) + 1
        totals.attempts += record.attempts
        for each in record.tried:
            model = each.model if each.model in self._models else OTHER
            totals.try_at((model, each.host, each.status, each.error), 1, each.ms / 1000)
        totals.notes += record.notes

    def _bounded(self, record: RequestRecord) -> _Counts:
        """The numbers of a record whose labels were not seen yet, or are not told apart."""
        model = record.model if record.model in self._models else OTHER
        wire = record.wire if record.wire in self._wires else OTHER
        # A status that HTTP does not know would be a label of its own.
        status = record.status if record.status in STATUS_LINE else 0
        return self._totals.counts.setdefault((wire, model, status), _Counts())

    def refused(self, status: int) -> None:
        """Count one request that was refused before it was read."""
        refused = self._totals.refused
        refused[status] = refused.get(status, 0) + 1

    def share(self, folder: Path, number: int) -> None:
        """Be one of several workers, who keep their numbers in this folder. One that replaces another goes on from its numbers."""
        self._file = folder / f"{number}.metrics"
        before = _read(self._file)
        if before is not None:
            # Counters go on, or Prometheus would see a reset; gauges are of a process that has gone.
            before.gauges = {}
            self._totals.add(before)

    def save(self) -> None:
        """Let the other workers see our numbers. The server calls it every second."""
        if self._file is not None:
            self._totals.gauges = self._read_gauges()
            fresh = self._file.with_suffix(".new")
            fresh.write_bytes(msgspec.msgpack.encode(self._totals))
            # A rename is atomic: another worker reads the old numbers or the new ones, never half a file.
            fresh.replace(self._file)

    def exposition(self) -> bytes:
        """All of it as Prometheus reads it."""
        # Loaded when somebody asks: a start would wait for it longer than for all of the gateway's own modules.
        from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

        if self._registry is None:
            self._registry = CollectorRegistry()
            self._registry.register(self)
            ProcessCollector(registry=self._registry)
        return generate_latest(self._registry)

    def _read_gauges(self) -> dict[str, float]:
        return {name: float(read()) for name, (_, read) in self._gauges.items()}

    def _all(self) -> _Totals:
        """Our numbers, and those of the other workers."""
        every = _Totals()
        every.add(self._totals)
        every.gauges = self._read_gauges()
        if self._file is not None:
            # A worker that has died counts on with its last numbers; its successor takes them over.
            for path in self._file.parent.glob("*.metrics"):
                if path != self._file and (theirs := _read(path)) is not None:
                    every.add(theirs)
        return every

    def collect(self) -> Iterator[Any]:
        """What prometheus_client asks for."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
            SummaryMetricFamily,
        )

        every = self._all()
        requests = CounterMetricFamily("midstream_requests", "Requests answered.", labels=["wire", "model", "status"])
        for (wire, model, status), counts in every.counts.items():
            requests.add_metric([wire, model, str(status)], counts.requests)
        seconds = HistogramMetricFamily(
            "midstream_request_seconds", "Until the end of an answer.", labels=["wire", "model"]
        )
        first = HistogramMetricFamily(
            "midstream_first_token_seconds", "Until the first piece of it.", labels=["wire", "model"]
        )
        for where, counts in _sums(every, lambda key: key[:2]).items():
            seconds.add_metric(where, _reached(counts.seconds), counts.seconds_total)
            first.add_metric(where, _reached(counts.first), counts.first_total)
        tokens = CounterMetricFamily("midstream_tokens", "Tokens of requests and answers.", labels=["model", "kind"])
        cost = CounterMetricFamily(
            "midstream_cost_dollars", "What answers cost, where that is known.", labels=["model"]
        )
        for (model,), counts in _sums(every, lambda key: key[1:2]).items():
            for kind, count in zip(_TOKENS, counts.tokens, strict=True):
                tokens.add_metric([model, kind], count)
            cost.add_metric([model], counts.cost)
        errors = CounterMetricFamily("midstream_errors", "Requests that failed, by the kind of error.", labels=["kind"])
        for kind, count in every.errors.items():
            errors.add_metric([kind], count)
        refused = CounterMetricFamily("midstream_refused", "Requests refused before they were read.", labels=["status"])
        for status, count in every.refused.items():
            refused.add_metric([str(status)], count)
        yield from (requests, seconds, first, tokens, cost, errors, refused)
        yield CounterMetricFamily(
            "midstream_attempts", "Requests to hosts, and models that could not be asked.", value=every.attempts
        )
        tried = SummaryMetricFamily(
            "midstream_attempt_seconds",
            "How long each request to a host took, and what came of it: error is empty for an answer.",
            labels=["model", "host", "status", "error"],
        )
        for (model, host, status, error), (count, total) in every.tried.items():
            tried.add_metric([model, host, str(status or ""), error], count, total)
        yield tried
        yield CounterMetricFamily(
            "midstream_notes", "Changes made to conversations for their readers.", value=every.notes
        )
        for name, (help, _) in self._gauges.items():
            yield GaugeMetricFamily(name, help, value=every.gauges.get(name, 0.0))


def _reached(counts: list[int]) -> list[tuple[str, float]]:
    return list(zip(_BOUNDS, [float(reached) for reached in accumulate(counts)], strict=True))


def _sums(totals: _Totals, by: Callable[[tuple[str, str, int]], tuple[Any, ...]]) -> dict[tuple[str, ...], _Counts]:
    sums: dict[tuple[str, ...], _Counts] = {}
    for key, counts in totals.counts.items():
        sums.setdefault(by(key), _Counts()).add(counts)
    return sums


def _read(path: Path) -> _Totals | None:
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=_Totals)
    except (FileNotFoundError, msgspec.DecodeError):  # a worker that has not begun, or of another version
        return None
