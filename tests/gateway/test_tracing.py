"""Spans of requests, taken by OpenTelemetry's own SDK."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from midstream.gateway.tracing import Tracing
from midstream.telemetry import Telemetry
from midstream.telemetry.conventions import SCHEMA_URL
from tests.gateway.serving import asynchronous, gate

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def spans(contents: bool, *bodies: dict[str, Any]) -> tuple[ReadableSpan, ...]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with gate() as gateway:
        gateway.app._tracing = Tracing(provider.get_tracer("test"), contents=contents)
        assert gateway.app.gateway is not None
        gateway.app.gateway.keep_contents = contents
        for body in bodies:
            await gateway.post("/v1/chat/completions", body, traceparent=PARENT)
    return exporter.get_finished_spans()


def asking(model: str) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "what I said"}]}


@asynchronous
async def test_a_span_says_what_was_asked_and_used_but_not_what_was_said() -> None:
    (span,) = await spans(False, asking("sim/kimi-k2.5"))
    found = dict(span.attributes or {})
    assert span.name == "chat sim/kimi-k2.5"
    assert found["gen_ai.operation.name"] == "chat" and found["gen_ai.response.model"] == "sim/kimi-k2.5"
    assert int(str(found["gen_ai.usage.output_tokens"])) > 0 and found["gen_ai.response.finish_reasons"] == ("stop",)
    assert found["midstream.client.wire"] == "openai-chat" and found["http.response.status_code"] == 200
    assert span.parent is not None and f"{span.parent.trace_id:032x}" in PARENT
    assert span.start_time is not None and span.end_time is not None and span.start_time < span.end_time
    assert "what I said" not in str(found)


@asynchronous
async def test_contents_are_there_if_they_were_asked_for() -> None:
    (span,) = await spans(True, asking("sim/kimi-k2.5"))
    found = dict(span.attributes or {})
    assert "what I said" in str(found["gen_ai.input.messages"]) and "This is" in str(found["gen_ai.output.messages"])


@asynchronous
async def test_no_key_is_in_a_span() -> None:
    canary = "sk-canary-0123456789abcdef"
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    async with gate() as gateway:
        telemetry = Telemetry(provider, MeterProvider([reader]), contents=True)
        gateway.app._tracing = Tracing(provider.get_tracer("test"), contents=True, telemetry=telemetry)
        assert gateway.app.gateway is not None
        gateway.app.gateway.keep_contents = True
        body = {"model": "sim/kimi-k2.5", "messages": [{"role": "user", "content": f"what I said: {canary}"}]}
        await gateway.post("/v1/chat/completions", body, authorization=f"Bearer {canary}")
    (span,) = exporter.get_finished_spans()
    assert "what I said" in str(span.attributes) and "canary" not in str((span.attributes, span.events, span.status))
    # One span for a request, and its metrics: the gateway's own client makes none beside it.
    told = str(reader.get_metrics_data())
    assert "gen_ai.client.token.usage" in told and "gen_ai.client.operation.duration" in told and "canary" not in told


@asynchronous
async def test_a_refusal_is_an_error() -> None:
    (span,) = await spans(False, asking("nobody/knows"))
    assert span.status.status_code is StatusCode.ERROR and (span.attributes or {})["error.type"] == "unknown_model"


SERVED = """
import asyncio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
from tests.gateway.serving import gate
async def main():
    async with gate() as gateway:
        body = {"model": "sim/kimi-k2.5", "messages": [{"role": "user", "content": "what I said"}]}
        await gateway.post("/v1/chat/completions", body)
asyncio.run(main())
for span in exporter.get_finished_spans():
    scope = span.instrumentation_scope
    print(span.name, span.kind.name, scope.name, scope.schema_url, "what I said" in str(span.attributes))
"""


def test_a_gateway_under_an_sdk_makes_one_span_for_a_request() -> None:
    """As `opentelemetry-instrument midstream serve` starts it: nothing has to be said to the gateway."""
    told = subprocess.run([sys.executable, "-c", SERVED], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == f"chat sim/kimi-k2.5 SERVER midstream.gateway {SCHEMA_URL} False"


@pytest.mark.parametrize("module", ["opentelemetry.trace", "opentelemetry.sdk"])
def test_nothing_is_loaded_where_nobody_takes_spans(module: str) -> None:
    program = (
        f"import sys, midstream.gateway.assembly as a, midstream.gateway.tracing as t; print({module!r} in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
