"""What the gateway counts, for Prometheus.

A request adds to plain numbers; prometheus_client only writes them out when somebody asks. Every label has a bounded set of
values: models are those of the configuration, and what a client makes up is "other".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from operator import add
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from .access_log import RequestRecord
from .protocol import STATUS_LINE

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "other"

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_BOUNDS = tuple([str(bound) for bound in _SECONDS] + ["+Inf"])
_WIRES = ("openai-chat", "openai-responses", "anthropic", "gemini")
_TOKENS = ("input", "output", "cache_read", "cache_write")
_KINDS = 64  # of errors: they are names of ours, this is only the end of a mistake


class _Counts:
    """All numbers of one wire, model and status: one lookup finds them."""

    __slots__ = ("cost", "first", "first_total", "requests", "seconds", "seconds_total", "tokens")

    def __init__(self) -> None:
        self.requests = 0
        self.seconds = [0] * len(_BOUNDS)
        self.seconds_total = 0.0
        self.first = [0] * len(_BOUNDS)
        self.first_total = 0.0
        self.tokens = [0] * len(_TOKENS)
        self.cost = 0.0


def _buckets(counts: list[int]) -> list[tuple[str, float]]:
    return list(zip(_BOUNDS, [float(reached) for reached in accumulate(counts)], strict=True))


class Metrics:
    """The numbers of one process."""

    def __init__(self, models: Iterable[str] = (), wires: Iterable[str] = _WIRES) -> None:
        self._models = frozenset(models)
        self._wires = frozenset(wires)
        self._counts: dict[tuple[str, str, int], _Counts] = {}
        self._errors: dict[str, int] = {}
        self._refused: dict[int, int] = {}
        self._attempts = 0
        self._notes = 0
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def know(self, models: Iterable[str]) -> None:
        """The models that are told apart from now on, as after a reload."""
        self._models = frozenset(models)

    def gauge(self, name: str, help: str, read: Callable[[], float]) -> None:
        """A number that is read when somebody asks, such as the open streams."""
        self._gauges[name] = (help, read)

    def add(self, record: RequestRecord) -> None:
        """Count one request."""
        counts = self._counts.get((record.wire, record.model, record.status)) or self._bounded(record)
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
            kind = record.error if record.error in self._errors or len(self._errors) < _KINDS else OTHER
            self._errors[kind] = self._errors.get(kind, 0) + 1
        self._attempts += record.attempts
        self._notes += record.notes

    def _bounded(self, record: RequestRecord) -> _Counts:
        """The numbers of a record whose labels were not seen yet, or are not told apart."""
        model = record.model if record.model in self._models else OTHER
        wire = record.wire if record.wire in self._wires else OTHER
        status = record.status if record.status in STATUS_LINE else 0
        return self._counts.setdefault((wire, model, status), _Counts())

    def refused(self, status: int) -> None:
        """Count one request that was refused before the application saw it."""
        self._refused[status] = self._refused.get(status, 0) + 1

    def exposition(self) -> bytes:
        """All of it as Prometheus reads it."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Any]:
        """What prometheus_client asks for."""
        requests = CounterMetricFamily("midstream_requests", "Requests answered.", labels=["wire", "model", "status"])
        seconds = HistogramMetricFamily(
            "midstream_request_seconds", "Until the end of an answer.", labels=["wire", "model"]
        )
        first = HistogramMetricFamily(
            "midstream_first_token_seconds", "Until the first piece of it.", labels=["wire", "model"]
        )
        tokens = CounterMetricFamily("midstream_tokens", "Tokens of requests and answers.", labels=["model", "kind"])
        cost = CounterMetricFamily(
            "midstream_cost_dollars", "What answers cost, where that is known.", labels=["model"]
        )
        for (wire, model, status), counts in self._counts.items():
            requests.add_metric([wire, model, str(status)], counts.requests)
        for where, group in _sums(self._counts, lambda key: key[:2]).items():
            seconds.add_metric(where, _buckets(group.seconds), group.seconds_total)
            first.add_metric(where, _buckets(group.first), group.first_total)
        for (model,), group in _sums(self._counts, lambda key: key[1:2]).items():
            for kind, count in zip(_TOKENS, group.tokens, strict=True):
                tokens.add_metric([model, kind], count)
            cost.add_metric([model], group.cost)
        yield from (requests, seconds, first, tokens, cost)
        errors = CounterMetricFamily("midstream_errors", "Requests that failed, by the kind of error.", labels=["kind"])
        for kind, count in self._errors.items():
            errors.add_metric([kind], count)
        yield errors
        refused = CounterMetricFamily(
            "midstream_refused", "Requests refused as HTTP, before anything else.", labels=["status"]
        )
        for status, count in self._refused.items():
            refused.add_metric([str(status)], count)
        yield refused
        yield CounterMetricFamily("midstream_attempts", "Requests sent to models.", value=self._attempts)
        yield CounterMetricFamily(
            "midstream_notes", "Changes made to conversations for their readers.", value=self._notes
        )
        for name, (help, read) in self._gauges.items():
            yield GaugeMetricFamily(name, help, value=read())


def _sums(
    found: dict[tuple[str, str, int], _Counts], by: Callable[[tuple[str, str, int]], tuple[Any, ...]]
) -> dict[tuple[str, ...], _Counts]:
    sums: dict[tuple[str, ...], _Counts] = {}
    for key, counts in found.items():
        total = sums.setdefault(by(key), _Counts())
        total.seconds = list(map(add, total.seconds, counts.seconds))
        total.first = list(map(add, total.first, counts.first))
        total.tokens = list(map(add, total.tokens, counts.tokens))
        total.seconds_total += counts.seconds_total
        total.first_total += counts.first_total
        total.cost += counts.cost
    return sums
