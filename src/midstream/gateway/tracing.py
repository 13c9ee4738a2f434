"""A span for each request, in the words of OpenTelemetry's conventions for generative AI (1.38, status: development).

Only the API package is used: whoever runs the gateway under an SDK (`opentelemetry-instrument midstream serve`) gets spans, and
without one nothing is done at all. A span is made when its request is over, with the times that were measured, so that answering
waits for nothing. What was said is in it only if the operator asks for that by the variable that the conventions name.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from ..core.blocks import Text, Turn
from ..wires.lenient_json import json_value
from .access_log import RequestRecord

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from .exchange import Exchange

CONTENTS = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_PROVIDERS = {
    "anthropic": "anthropic", "openai": "openai", "openai-responses": "openai", "gemini": "gcp.gemini", "vertex": "gcp.vertex_ai",
    "bedrock": "aws.bedrock", "azure": "azure.ai.openai", "azure-responses": "azure.ai.openai", "mistral": "mistral_ai",
    "xai": "x_ai", "cohere": "cohere", "deepseek": "deepseek", "groq": "groq", "perplexity": "perplexity",
}  # fmt: skip
"""Our names for providers, and the conventions' where theirs differ or are fixed."""
_LONGEST = 32_000  # characters of what was said


class Tracing:
    """Makes spans of requests."""

    def __init__(self, tracer: Tracer, *, contents: bool = False) -> None:
        self._tracer = tracer
        self.contents = contents
        """Whether spans hold what was said."""

    def add(self, exchange: Exchange, record: RequestRecord) -> None:
        """A span for a request that is over."""
        from opentelemetry import propagate
        from opentelemetry.trace import SpanKind, Status, StatusCode

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in exchange.scope["headers"]}
        ended = time.time_ns()
        span = self._tracer.start_span(
            f"chat {record.asked[:100]}",
            # The client's trace, if it has one, so that both halves of a request are one picture.
            context=propagate.extract(headers),
            kind=SpanKind.SERVER,
            start_time=ended - int(record.duration_ms * 1e6),
            attributes={name: value for name, value in self._attributes(exchange, record).items() if value is not None},
        )
        if record.error:
            span.set_status(Status(StatusCode.ERROR, record.error))
        span.end(ended)

    def _attributes(self, exchange: Exchange, record: RequestRecord) -> dict[str, Any]:
        turn, target = exchange.turn, exchange.target
        found: dict[str, Any] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": None if target is None else _PROVIDERS.get(target.provider, target.provider),
            "gen_ai.request.model": record.asked[:200],
            "gen_ai.response.model": record.model or None,
            "gen_ai.response.id": turn.response_id if turn is not None else None,
            "gen_ai.response.finish_reasons": [turn.stop_reason] if turn is not None and turn.stop_reason else None,
            "gen_ai.usage.input_tokens": record.input or None,
            "gen_ai.usage.output_tokens": record.output or None,
            "http.response.status_code": record.status,
            "error.type": record.error or None,
            "midstream.request.id": record.id,
            "midstream.client.wire": record.wire,
            "midstream.tenant": record.tenant,
            "midstream.attempts": record.attempts,
            "midstream.notes": record.notes,
            "midstream.first_token_ms": record.ttft_ms,
            "midstream.cost": record.cost,
        }
        if self.contents:
            asked = exchange.conversation
            found["gen_ai.input.messages"] = None if asked is None else _messages(asked.turns)
            found["gen_ai.output.messages"] = None if turn is None else _messages((turn,))
        return found


def start_tracing() -> Tracing | None:
    """Tracing, if this process runs under an SDK that takes spans; None otherwise."""
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None  # nobody set one: every span would be thrown away
    contents = os.environ.get(CONTENTS, "").strip().lower() in ("true", "1", "span", "span_only", "span_and_event")
    return Tracing(trace.get_tracer("midstream.gateway"), contents=contents)


_ROLES = {"human": "user", "ai": "assistant"}


def _messages(turns: tuple[Turn, ...]) -> str:
    """Texts of the newest turns as the conventions write messages; media and reasoning stay out."""
    told: list[dict[str, Any]] = []
    left = _LONGEST
    # The newest first, because there is an end to the size; written out in their order.
    for turn in reversed(turns):
        text = "".join([block.text for block in turn.blocks if type(block) is Text])[:left]
        left -= len(text)
        calls = [
            {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments[:_LONGEST]}
            for call in turn.tool_calls
        ]
        results = [
            {"type": "tool_call_response", "id": each.call_id, "result": each.text[:left]}
            for each in turn.tool_responses
        ]
        parts = [*([{"type": "text", "content": text}] if text else []), *calls, *results]
        told.append({"role": _ROLES.get(turn.speaker, turn.speaker), "parts": parts})
        if left <= 0:
            break
    return json_value(told[::-1]).decode()
