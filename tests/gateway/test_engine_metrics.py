"""What is counted, with labels that a client cannot multiply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from midstream.gateway.access_log import RequestRecord
from midstream.gateway.metrics import Metrics


def record(**fields: Any) -> RequestRecord:
    given = {"id": "r", "status": 200, "wire": "anthropic", "model": "sim/kimi", "duration_ms": 40.0}
    return RequestRecord(**(given | fields))


def read(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What a Prometheus would read."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return read(metrics)[name, tuple(sorted(labels.items()))]


def test_counts() -> None:
    metrics = Metrics(["sim/kimi", "sim/claude"])
    metrics.add(record(input=10, output=3, cache_read=2, cache_write=1, cost=0.5, ttft_ms=7.0, attempts=2, notes=3))
    metrics.add(record(input=1, output=1, cost=0.25, status=529, error="overloaded"))
    metrics.add(record(model="sim/claude", duration_ms=700_000.0))
    metrics.refused(431)
    metrics.refused(431)
    metrics.gauge("midstream_open_streams", "Streams.", lambda: 7)
    where = {"wire": "anthropic", "model": "sim/kimi"}
    assert value(metrics, "midstream_requests_total", **where, status="200") == 1
    assert value(metrics, "midstream_requests_total", **where, status="529") == 1
    assert value(metrics, "midstream_tokens_total", model="sim/kimi", kind="input") == 11
    assert value(metrics, "midstream_tokens_total", model="sim/kimi", kind="output") == 4
    assert value(metrics, "midstream_tokens_total", model="sim/kimi", kind="cache_read") == 2
    assert value(metrics, "midstream_tokens_total", model="sim/kimi", kind="cache_write") == 1
    assert value(metrics, "midstream_cost_dollars_total", model="sim/kimi") == 0.75
    assert value(metrics, "midstream_errors_total", kind="overloaded") == 1
    assert value(metrics, "midstream_refused_total", status="431") == 2
    assert value(metrics, "midstream_attempts_total") == 4
    assert value(metrics, "midstream_notes_total") == 3
    assert value(metrics, "midstream_open_streams") == 7
    assert value(metrics, "midstream_request_seconds_bucket", **where, le="0.025") == 0
    assert value(metrics, "midstream_request_seconds_bucket", **where, le="0.05") == 2
    assert value(metrics, "midstream_request_seconds_count", **where) == 2
    assert value(metrics, "midstream_request_seconds_sum", **where) == 0.08
    assert value(metrics, "midstream_first_token_seconds_count", **where) == 1
    slow = {"wire": "anthropic", "model": "sim/claude"}
    assert value(metrics, "midstream_request_seconds_bucket", **slow, le="600.0") == 0
    assert value(metrics, "midstream_request_seconds_bucket", **slow, le="+Inf") == 1


def test_labels_are_bounded() -> None:
    metrics = Metrics(["sim/kimi"])
    metrics.add(record())
    size = len(read(metrics))
    for number in range(500):
        metrics.add(record(model=f"made-up-{number}", wire=f"w{number}", status=1000 + number, asked=f"a{number}"))
    metrics.add(record(model='"}\n\\', wire="\n"))
    assert value(metrics, "midstream_requests_total", wire="other", model="other", status="0") == 500
    assert len(read(metrics)) < 3 * size
    for number in range(500):
        metrics.add(record(error=f"kind-{number}"))
    kinds = [labels for name, labels in read(metrics) if name == "midstream_errors_total"]
    assert len(kinds) <= 65


def test_models_are_known_after_a_reload() -> None:
    metrics = Metrics([])
    metrics.add(record())
    metrics.know(["sim/kimi"])
    metrics.add(record())
    assert value(metrics, "midstream_requests_total", wire="anthropic", model="other", status="200") == 1
    assert value(metrics, "midstream_requests_total", wire="anthropic", model="sim/kimi", status="200") == 1


def test_workers_tell_the_numbers_of_all(tmp_path: Path) -> None:
    first, second = Metrics(["sim/kimi"]), Metrics(["sim/kimi"])
    for number, each in enumerate((first, second)):
        each.share(tmp_path, number)
        each.gauge("midstream_open_streams", "Streams.", lambda: 3)
        each.add(record(input=5, output=5, cost=0.5, ttft_ms=1.0, error="overloaded", notes=1))
        each.refused(413)
        each.save()
    for each in (first, second):
        assert value(each, "midstream_requests_total", wire="anthropic", model="sim/kimi", status="200") == 2
        assert value(each, "midstream_request_seconds_count", wire="anthropic", model="sim/kimi") == 2
        assert value(each, "midstream_tokens_total", model="sim/kimi", kind="output") == 10
        assert value(each, "midstream_cost_dollars_total", model="sim/kimi") == 1.0
        assert value(each, "midstream_errors_total", kind="overloaded") == 2
        assert value(each, "midstream_refused_total", status="413") == 2
        assert value(each, "midstream_notes_total") == 2
        assert value(each, "midstream_open_streams") == 6
    successor = Metrics(["sim/kimi"])
    successor.share(tmp_path, 1)  # the second died
    assert value(successor, "midstream_requests_total", wire="anthropic", model="sim/kimi", status="200") == 2
    (tmp_path / "0.metrics").write_bytes(b"cut")
    assert value(successor, "midstream_requests_total", wire="anthropic", model="sim/kimi", status="200") == 1
