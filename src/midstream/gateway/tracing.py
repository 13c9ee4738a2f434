"""A span for each request, in the words of OpenTelemetry's conventions for generative AI, and its metrics.

Only the API package is used: a gateway that runs under an SDK (`opentelemetry-instrument midstream serve`) gets spans, and
without one nothing is done at all. A span is made when its request is over, with the times that were measured, so that answering
waits for nothing. What was said is in it only if the operator asks for that by the variable that the conventions name, and
without the keys that the gateway uses.
"""

from __future__ import annotations

import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from ..core.blocks import Turn
from ..telemetry import conventions as names
from ..telemetry import current_telemetry
from ..telemetry.contents import written_messages
from .access_log import RequestRecord

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from ..telemetry import Telemetry
    from .exchange import Exchange


class Tracing:
    """Makes spans of requests."""

    def __init__(self, tracer: Tracer, *, contents: bool = False, telemetry: Telemetry | None = None) -> None:
        self._tracer = tracer
        self._telemetry = telemetry
        self.contents = contents
        """Whether spans hold what was said."""

    def add(self, exchange: Exchange, record: RequestRecord) -> None:
        """A span for a request that is over."""
        from opentelemetry import propagate
        from opentelemetry.trace import SpanKind, Status, StatusCode

        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in exchange.scope["headers"]}
        found = self._attributes(exchange, record)
        attributes = {name: value for name, value in found.items() if value is not None}
        ended = time.time_ns()
        span = self._tracer.start_span(
            f"{_operation(exchange)} {record.asked[:100]}",
            # The client's trace, if it has one, so that both halves of a request are one picture.
            context=propagate.extract(headers),
            kind=SpanKind.SERVER,
            start_time=ended - int(record.duration_ms * 1e6),
            attributes=attributes,
        )
        for each in record.tried:
            attributes_of_it = names.attempt_attributes(each.model, each.host, each.status, each.error, each.ms)
            span.add_event(names.ATTEMPT, attributes_of_it, int(each.at * 1e9))
        if record.error:
            span.set_status(Status(StatusCode.ERROR, record.error))
        span.end(ended)
        if self._telemetry is not None:
            usage = exchange.usage
            first = None if record.ttft_ms is None else record.ttft_ms / 1000
            self._telemetry.measure(attributes, record.duration_ms / 1000, usage, first)

    def _attributes(self, exchange: Exchange, record: RequestRecord) -> dict[str, Any]:
        turn, target = exchange.turn, exchange.target
        found: dict[str, Any] = {
            names.OPERATION_NAME: _operation(exchange),
            names.PROVIDER_NAME: None if target is None else names.provider_name(target.provider),
            names.REQUEST_MODEL: record.asked[:200],
            names.RESPONSE_MODEL: record.model or None,
            names.RESPONSE_ID: turn.response_id if turn is not None else None,
            names.RESPONSE_FINISH_REASONS: None if turn is None else _finish_reasons(turn),
            names.USAGE_INPUT_TOKENS: record.input or None,
            names.USAGE_OUTPUT_TOKENS: record.output or None,
            names.HTTP_STATUS: record.status,
            names.ERROR_TYPE: record.error or None,
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
            secrets = exchange.secrets()
            found[names.INPUT_MESSAGES] = None if asked is None else written_messages(asked.turns, secrets)
            found[names.OUTPUT_MESSAGES] = None if turn is None else written_messages((turn,), secrets)
        return found


def _operation(exchange: Exchange) -> str:
    return names.PASSED_ON.get(exchange.passed, exchange.passed.strip("/")) or names.CHAT


def _finish_reasons(turn: Turn) -> list[str] | None:
    return [names.FINISH_REASONS.get(turn.stop_reason, turn.stop_reason)] if turn.stop_reason else None


def start_tracing() -> Tracing | None:
    """Tracing, if this process runs under an SDK that takes spans; None otherwise."""
    telemetry = current_telemetry()
    if telemetry is None:
        return None
    from opentelemetry import trace

    tracer = trace.get_tracer("midstream.gateway", version("midstream"), schema_url=names.SCHEMA_URL)
    return Tracing(tracer, contents=telemetry.contents, telemetry=telemetry)
