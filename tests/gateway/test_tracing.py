"""Spans of requests, taken by OpenTelemetry's own SDK."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from midstream.gateway.tracing import Tracing
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
    assert int(str(found["gen_ai.usage.output_tokens"])) > 0 and found["gen_ai.response.finish_reasons"] == (
        "end_turn",
    )
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
async def test_a_refusal_is_an_error() -> None:
    (span,) = await spans(False, asking("nobody/knows"))
    assert span.status.status_code is StatusCode.ERROR and (span.attributes or {})["error.type"] == "unknown_model"


@pytest.mark.parametrize("module", ["opentelemetry.trace", "opentelemetry.sdk"])
def test_nothing_is_loaded_where_nobody_takes_spans(module: str) -> None:
    program = (
        f"import sys, midstream.gateway.assembly as a, midstream.gateway.tracing as t; print({module!r} in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
