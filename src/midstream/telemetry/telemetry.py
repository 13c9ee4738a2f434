"""Spans and metrics of what this process asks of models and lets tools do.

What was said is on a span only if the environment asks for it (`conventions.CAPTURE_CONTENTS`), without any key that is
known; an error's message may quote what was said, so only its kind is told.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from ..core.blocks import Conversation, ToolCall, ToolResponse, Turn, Usage
from ..core.dialect import Options
from ..core.errors import MidstreamError
from ..core.events import Done, ErrorEvent, Event, Start, Stopped
from ..core.secret import Secret
from ..core.tools import parse_arguments
from ..dialects.registry import Resolved
from ..transport.secrets import Secrets
from . import ASKED
from . import conventions as names
from .contents import written, written_instructions, written_messages

if TYPE_CHECKING:
    from opentelemetry.metrics import Histogram, MeterProvider
    from opentelemetry.trace import Span, TracerProvider

T = TypeVar("T")
_SCOPE = "midstream"
"""The name of the package, which is what made the spans."""
_ABORTED = "aborted"
_UNKNOWN = "_OTHER"
"""The conventions' word for an error that has no better one, and ours for a tool that there is not."""


class Telemetry:
    """Makes spans and metrics with these providers, or with those that the program has set. `contents` says whether spans
    hold what was said; None leaves it to the environment."""

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        contents: bool | None = None,
    ) -> None:
        from opentelemetry import metrics, trace

        release = version(_SCOPE)
        self._trace = trace
        self._tracer = trace.get_tracer(_SCOPE, release, tracer_provider, names.SCHEMA_URL)
        meter = metrics.get_meter(_SCOPE, release, meter_provider, names.SCHEMA_URL)

        def histogram(name: str, unit: str, description: str, buckets: Sequence[float]) -> Histogram:
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=buckets)

        seconds = names.SECONDS_BUCKETS
        self._duration = histogram(names.OPERATION_DURATION, "s", "How long an operation took.", seconds)
        self._first_chunk = histogram(names.TIME_TO_FIRST_CHUNK, "s", "How long the first chunk took.", seconds)
        self._tokens = histogram(names.TOKEN_USAGE, "{token}", "Tokens read and written.", names.TOKEN_BUCKETS)
        self.contents = names.wants_contents() if contents is None else contents
        self._known: dict[str, str | Secret] = {}
        self._secrets = Secrets()

    def learn(self, secrets: Iterable[Secret]) -> None:
        """Keys that no span may hold from now on."""
        new = [secret for secret in secrets if secret not in self._known.values()]
        if new:
            self._known.update({f"key-{len(self._known) + number}": secret for number, secret in enumerate(new)})
            self._secrets = Secrets(self._known)

    def answer(self, target: Resolved | None, asked: str, conversation: Conversation, options: Options) -> Inference:
        """The span of one answer, from here on. `asked` is the model by the caller's word, where there is no target."""
        return Inference(self, target, asked, conversation, options)

    async def tool(
        self, call: ToolCall, description: str, run: Callable[[], Awaitable[ToolResponse]], *, known: bool
    ) -> ToolResponse:
        """The result of a tool run, inside of its span. `known`: there is such a tool."""
        # A name that stands for no tool is something that the model said.
        tool = call.qualified_name if known else _UNKNOWN
        attributes: dict[str, Any] = {
            names.OPERATION_NAME: names.EXECUTE_TOOL,
            names.TOOL_NAME: tool,
            names.TOOL_CALL_ID: call.id,
            names.TOOL_TYPE: "function",
        }
        if description:
            attributes[names.TOOL_DESCRIPTION] = description[:1000]
        if self.contents:
            attributes[names.TOOL_CALL_ARGUMENTS] = written(parse_arguments(call), self._secrets)
        name = f"{names.EXECUTE_TOOL} {tool}"
        with self._tracer.start_as_current_span(
            name, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                response = await run()
            except BaseException:
                self.fail(span, _ABORTED)
                raise
            if response.is_error:
                self.fail(span, "tool_error")
            if self.contents:
                span.set_attribute(names.TOOL_CALL_RESULT, written(response.text[:32_000], self._secrets))
            return response

    async def agent(
        self, events: AsyncGenerator[T, None], target: Resolved | None, conversation: Callable[[], Conversation]
    ) -> AsyncGenerator[T, None]:
        """The events of an agent's run, inside of its span; the spans of its answers and tools are below it."""
        attributes = {names.OPERATION_NAME: names.INVOKE_AGENT, **_of_target(target, "")}
        before = conversation()
        span = self._tracer.start_span(names.INVOKE_AGENT, attributes=attributes)
        stopped: Stopped | None = None
        try:
            async with aclosing(self._inside(span, events)) as inner:
                async for event in inner:
                    if isinstance(event, Stopped):
                        stopped = event
                    yield event
        except MidstreamError as error:
            self.fail(span, error.kind)
            raise
        finally:
            after = conversation()
            turns = after.turns[len(before.turns) :]
            if after.id:
                span.set_attribute(names.CONVERSATION_ID, after.id)
            for key, value in _of_usage(sum([turn.usage for turn in turns if turn.usage is not None], Usage())).items():
                span.set_attribute(key, value)
            if stopped is None or stopped.reason == "failed":
                self.fail(span, _ABORTED if stopped is None else stopped.reason)
            if self.contents and turns:
                said = [turn for turn in turns if turn.speaker == "human"]
                span.set_attribute(names.INPUT_MESSAGES, written_messages(said, self._secrets))
                span.set_attribute(names.OUTPUT_MESSAGES, written_messages(turns[-1:], self._secrets))
            span.end()

    async def _inside(self, span: Span, items: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """The same items, made while the span is the current one. Between two of them it is not: a generator runs in the
        context of whoever reads it."""
        from opentelemetry import context

        here = self._trace.set_span_in_context(span)
        try:
            while True:
                token, asked = context.attach(here), ASKED.set(self)
                try:
                    item = await anext(items)
                except StopAsyncIteration:
                    return
                finally:
                    ASKED.reset(asked)
                    context.detach(token)
                yield item
        finally:
            await items.aclose()

    def fail(self, span: Span, kind: str) -> None:
        """The span ended in an error of this kind."""
        span.set_attribute(names.ERROR_TYPE, kind or _UNKNOWN)
        span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, kind))

    def measure(
        self, attributes: dict[str, Any], seconds: float, usage: Usage | None, first_chunk: float | None = None
    ) -> None:
        """The metrics of one answer."""
        kept = {name: attributes[name] for name in _METRIC_ATTRIBUTES if attributes.get(name) is not None}
        self._duration.record(seconds, kept)
        # Only the duration is told apart by errors: first chunks and tokens came, whatever happened afterwards.
        kept.pop(names.ERROR_TYPE, None)
        if first_chunk is not None:
            self._first_chunk.record(first_chunk, kept)
        if usage is not None:
            self._tokens.record(usage.read, {**kept, names.TOKEN_TYPE: "input"})
            self._tokens.record(usage.output, {**kept, names.TOKEN_TYPE: "output"})

    @property
    def secrets(self) -> Secrets:
        return self._secrets

    def start_span(self, name: str, attributes: dict[str, Any]) -> Span:
        return self._tracer.start_span(name, kind=self._trace.SpanKind.CLIENT, attributes=attributes)


_METRIC_ATTRIBUTES = (
    names.OPERATION_NAME, names.PROVIDER_NAME, names.REQUEST_MODEL, names.RESPONSE_MODEL, names.SERVER_ADDRESS,
    names.SERVER_PORT, names.ERROR_TYPE,
)  # fmt: skip


class Inference:
    """One answer while it is asked for: a span of kind CLIENT."""

    def __init__(
        self, telemetry: Telemetry, target: Resolved | None, asked: str, conversation: Conversation, options: Options
    ) -> None:
        self._telemetry = telemetry
        self._began = time.monotonic()
        self._first: float | None = None
        self._ended = False
        self._streamed = options.stream
        self._attributes: dict[str, Any] = {
            names.OPERATION_NAME: names.CHAT,
            **_of_target(target, asked),
            **names.option_attributes(options),
        }
        if options.stream:
            self._attributes[names.REQUEST_STREAM] = True
        if conversation.id:
            self._attributes[names.CONVERSATION_ID] = conversation.id
        if telemetry.contents:
            self._attributes[names.INPUT_MESSAGES] = written_messages(conversation.turns, telemetry.secrets)
            if (instructions := written_instructions(conversation, telemetry.secrets)) is not None:
                self._attributes[names.SYSTEM_INSTRUCTIONS] = instructions
        model = self._attributes[names.REQUEST_MODEL]
        self._span = telemetry.start_span(f"{names.CHAT} {model}", self._attributes)

    def sending(self, target: Resolved) -> None:
        """Another model of a chain is asked."""
        # The first model of a chain comes by here too, and the span is named after it already.
        found = _of_target(target, "")
        if any(self._attributes.get(name) != value for name, value in found.items()):
            self._set(found)
            self._span.update_name(f"{names.CHAT} {target.model}")

    def attempted(self, model: str, host: str, status: int, error: str, ms: float) -> None:
        """A request to a host is over; there may be several before an answer."""
        self._span.add_event(names.ATTEMPT, names.attempt_attributes(model, host, status, error, ms))

    def batch(self, events: Sequence[Event]) -> None:
        """Events as they arrive. The last batch ends the span."""
        # Start only says that the host has accepted the request (docs/lifecycle.md): the wait for words is not over.
        if self._first is None and type(events[0]) is not Start:
            self._first = time.monotonic() - self._began
        last = events[-1]
        if type(last) is Done:
            self.done(last.turn)
        elif type(last) is ErrorEvent:
            self.done(last.turn, last.error.kind)

    def done(self, turn: Turn, failure: str = "") -> None:
        """The answer is there, whole or as far as it came."""
        found: dict[str, Any] = _of_usage(turn.usage)
        found[names.RESPONSE_MODEL] = turn.response_model or (turn.origin.model if turn.origin is not None else "")
        if turn.response_id:
            found[names.RESPONSE_ID] = turn.response_id
        if turn.stop_reason:
            found[names.RESPONSE_FINISH_REASONS] = (names.FINISH_REASONS.get(turn.stop_reason, turn.stop_reason),)
        if self._streamed and self._first is not None:
            found[names.RESPONSE_TIME_TO_FIRST_CHUNK] = self._first
        if self._telemetry.contents:
            found[names.OUTPUT_MESSAGES] = written_messages((turn,), self._telemetry.secrets)
        self._set({name: value for name, value in found.items() if value not in ("", None)})
        self._end(failure or turn.failure, turn.usage)

    def failed(self, error: BaseException) -> None:
        """The answer did not come."""
        self._end(error.kind if isinstance(error, MidstreamError) else _ABORTED, None)

    def _set(self, found: dict[str, Any]) -> None:
        self._attributes.update(found)
        self._span.set_attributes(found)

    def _end(self, failure: str, usage: Usage | None) -> None:
        # A reader may close the stream after its last event, and a failure may follow a cut answer: one span, ended once.
        if self._ended:
            return
        self._ended = True
        if failure:
            self._attributes[names.ERROR_TYPE] = failure
            self._telemetry.fail(self._span, failure)
        self._span.end()
        first = self._first if self._streamed else None
        self._telemetry.measure(self._attributes, time.monotonic() - self._began, usage, first)


def _of_target(target: Resolved | None, asked: str) -> dict[str, Any]:
    if target is None:
        return {names.REQUEST_MODEL: asked[:200]}
    place = urlsplit(target.endpoint.base_url)
    found: dict[str, Any] = {
        names.PROVIDER_NAME: names.provider_name(target.provider),
        names.REQUEST_MODEL: target.model,
    }
    if place.hostname:
        found[names.SERVER_ADDRESS] = place.hostname
        found[names.SERVER_PORT] = place.port or (443 if place.scheme == "https" else 80)
    return found


def _of_usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None or usage == Usage():
        return {}
    found = {names.USAGE_INPUT_TOKENS: usage.read, names.USAGE_OUTPUT_TOKENS: usage.output}
    beside = {
        names.USAGE_CACHE_READ: usage.cache_read,
        names.USAGE_CACHE_CREATION: usage.cache_write,
        names.USAGE_REASONING: usage.reasoning,
    }
    return {**found, **{name: count for name, count in beside.items() if count}}
