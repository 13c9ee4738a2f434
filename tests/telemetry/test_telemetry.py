"""Spans and metrics as OpenTelemetry's own SDK takes them: names, contents, keys, and what it costs to have none."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.trace import SpanKind, StatusCode

from midstream import Agent, Approval, Catalog, Client, McpServers, Options, Session, SyncSession, Toolbox
from midstream.agent.mcp.offer_cache import OfferCache
from midstream.client.config import Config
from midstream.errors import MidstreamError
from midstream.telemetry import Telemetry, conventions, current_telemetry
from midstream.testing import Answer, Call, SimServer, sim_server
from tests.agent.mcp.servers import scripted

KIMI = "moonshot/kimi-k2.5"
CANARY = "sk-canary-0123456789abcdef"


class Taken:
    """What an SDK was given."""

    def __init__(self, *, contents: bool | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        tracers = TracerProvider()
        tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.telemetry = Telemetry(tracers, MeterProvider([self._reader]), contents=contents)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def points(self, name: str) -> list[Any]:
        data = self._reader.get_metrics_data()
        assert data is not None
        found = [
            metric
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
        ]
        return [point for metric in found for point in metric.data.data_points]

    def client(self, sim: SimServer) -> Client:
        return Client(sim.catalog(), telemetry=self.telemetry)


@pytest.fixture
def sim() -> Iterator[SimServer]:
    with sim_server() as server:
        yield server


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_every_name_is_the_conventions_own() -> None:
    """Judged by the package that OpenTelemetry makes of its conventions; what it calls replaced or removed is not used."""
    theirs = {
        str(value)
        for module in (gen_ai_attributes, gen_ai_metrics)
        for name, value in vars(module).items()
        if name.startswith("GEN_AI")
    }
    old = {
        "gen_ai.system",
        "gen_ai.prompt",
        "gen_ai.completion",
        "gen_ai.usage.prompt_tokens",
        "gen_ai.usage.completion_tokens",
    }
    ours = {value for value in vars(conventions).values() if isinstance(value, str) and value.startswith("gen_ai.")}
    assert len(ours) > 30 and ours <= theirs - old
    operations = {each.value for each in gen_ai_attributes.GenAiOperationNameValues}
    assert {conventions.CHAT, conventions.EXECUTE_TOOL, conventions.INVOKE_AGENT} <= operations
    providers = {each.value for each in gen_ai_attributes.GenAiProviderNameValues}
    assert set(conventions._PROVIDERS.values()) - providers == {"moonshot_ai"}


@pytest.mark.parametrize("streamed", [False, True])
def test_the_span_and_the_metrics_of_an_answer(sim: SimServer, streamed: bool) -> None:
    taken = Taken()

    async def ask() -> None:
        async with taken.client(sim) as client:
            options = Options(max_tokens=500, temperature=0.5, stop=("END",))
            if streamed:
                await client.stream(KIMI, "what I said", options=options)
            else:
                await client.complete(KIMI, "what I said", options=options)

    asyncio.run(ask())
    [span] = taken.spans
    found = attributes(span)
    assert (span.name, span.kind) == ("chat kimi-k2.5", SpanKind.CLIENT)
    assert span.instrumentation_scope is not None and span.instrumentation_scope.schema_url == conventions.SCHEMA_URL
    assert found["gen_ai.operation.name"] == "chat" and found["gen_ai.provider.name"] == "moonshot_ai"
    assert found["gen_ai.request.model"] == "kimi-k2.5" and found["gen_ai.request.max_tokens"] == 500
    assert found["gen_ai.request.temperature"] == 0.5 and found["gen_ai.request.stop_sequences"] == ("END",)
    assert found["gen_ai.response.finish_reasons"] == ("stop",)
    assert found["gen_ai.response.model"] and found["gen_ai.response.id"]
    assert found["gen_ai.usage.input_tokens"] > 0 and found["gen_ai.usage.output_tokens"] > 0
    assert found["server.address"] == "127.0.0.1" and found["server.port"] > 0
    assert found.get("gen_ai.request.stream") is (True if streamed else None)
    assert ("gen_ai.response.time_to_first_chunk" in found) is streamed
    assert "what I said" not in str(found) and "This is" not in str(found)

    tokens = {point.attributes["gen_ai.token.type"]: point for point in taken.points("gen_ai.client.token.usage")}
    assert tokens["input"].sum == found["gen_ai.usage.input_tokens"]
    assert tokens["output"].sum == found["gen_ai.usage.output_tokens"]
    assert tuple(tokens["input"].explicit_bounds) == (
        1,
        4,
        16,
        64,
        256,
        1024,
        4096,
        16384,
        65536,
        262144,
        1048576,
        4194304,
        16777216,
        67108864,
    )
    [duration] = taken.points("gen_ai.client.operation.duration")
    assert duration.count == 1 and duration.attributes["gen_ai.request.model"] == "kimi-k2.5"
    assert tuple(duration.explicit_bounds) == pytest.approx(
        (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
    )
    assert len(taken.points("gen_ai.client.operation.time_to_first_chunk")) == int(streamed)
    for point in (*tokens.values(), duration):
        assert {"gen_ai.operation.name", "gen_ai.provider.name", "server.address"} <= set(point.attributes)


def get_weather(city: str) -> str:
    """The weather in a city."""
    if city == "nowhere":
        raise ValueError(f"{city} has none")
    return f"It rains in {city}. {CANARY}"


def run_agent(taken: Taken, *answers: Answer, prompt: str) -> None:
    with sim_server(*answers) as sim:
        catalog = Catalog(Config(), environ={"MOONSHOT_API_KEY": CANARY, "MOONSHOT_BASE_URL": sim.base_url("moonshot")})

        async def work() -> None:
            async with Client(catalog, telemetry=taken.telemetry) as client:
                session = Session(KIMI, client=client, system=f"Be brief. {CANARY}")
                await Agent(session, [get_weather]).run(prompt)

        asyncio.run(work())


CALLS = (Answer("Let me see.", calls=(Call("get_weather", {"city": "Oslo"}), Call("get_weather", {"city": "nowhere"}))), Answer(f"Done. {CANARY}"))  # fmt: skip


def test_the_spans_of_an_agent_s_run() -> None:
    taken = Taken()
    run_agent(taken, *CALLS, prompt="go")
    by_name = {span.name: span for span in taken.spans}
    agent = by_name["invoke_agent"]
    below = [span for span in taken.spans if span is not agent]
    assert sorted(span.name for span in below) == ["chat kimi-k2.5"] * 2 + ["execute_tool get_weather"] * 2
    assert agent.context is not None and agent.kind is SpanKind.INTERNAL
    assert all(span.parent is not None and span.parent.span_id == agent.context.span_id for span in below)
    usage = [attributes(span).get("gen_ai.usage.input_tokens", 0) for span in below]
    assert attributes(agent)["gen_ai.usage.input_tokens"] == sum(usage) > 0
    tools = [attributes(span) for span in below if span.name.startswith("execute_tool")]
    assert {tool["gen_ai.tool.name"] for tool in tools} == {"get_weather"}
    assert all(tool["gen_ai.tool.call.id"].startswith("hist_tool_") for tool in tools)
    assert {tool["gen_ai.tool.type"] for tool in tools} == {"function"}
    assert sorted(tool.get("error.type", "") for tool in tools) == ["", "tool_error"]
    told = str([attributes(span) for span in taken.spans])
    assert "Oslo" not in told and "Let me see" not in told and "Be brief" not in told


def test_a_tool_that_a_model_makes_up_is_not_quoted() -> None:
    """Its name is the model's words, of any length."""
    taken = Taken()
    run_agent(taken, Answer(calls=(Call("my diary " * 500, {}),)), Answer("Done."), prompt="go")
    (tool,) = [span for span in taken.spans if span.name.startswith("execute_tool")]
    assert tool.name == "execute_tool _OTHER" and attributes(tool)["error.type"] == "tool_error"
    assert "diary" not in str([(span.name, attributes(span)) for span in taken.spans])


def test_contents_are_there_if_they_were_asked_for_and_no_key_is() -> None:
    taken = Taken(contents=True)
    run_agent(taken, *CALLS, prompt=f"What about Oslo? {CANARY}")
    everything = str([(span.name, attributes(span), span.events, span.status.description) for span in taken.spans])
    assert "canary" not in everything.lower()
    chats = [attributes(span) for span in taken.spans if span.name.startswith("chat")]
    assert json.loads(chats[0]["gen_ai.system_instructions"])[0]["content"].startswith("Be brief.")
    asked, said, results = json.loads(chats[1]["gen_ai.input.messages"])
    assert asked["role"] == "user" and asked["parts"][0]["content"].startswith("What about Oslo?")
    assert [part["type"] for part in said["parts"]][-2:] == ["tool_call", "tool_call"]
    assert said["parts"][-1]["arguments"] == {"city": "nowhere"} and said["finish_reason"] == "tool_call"
    assert results["role"] == "tool" and results["parts"][0]["response"].startswith("It rains in Oslo.")
    [answer] = json.loads(chats[1]["gen_ai.output.messages"])
    assert answer["finish_reason"] == "stop" and answer["parts"][-1]["content"].startswith("Done.")
    # Whatever is on a span has a name of the conventions, which another test holds against OpenTelemetry's own package.
    known = {value for value in vars(conventions).values() if isinstance(value, str)}
    assert {name for span in taken.spans for name in attributes(span)} <= known
    tools = [attributes(span) for span in taken.spans if span.name.startswith("execute_tool")]
    assert {json.loads(tool["gen_ai.tool.call.arguments"])["city"] for tool in tools} == {"Oslo", "nowhere"}
    assert any("It rains in Oslo" in tool["gen_ai.tool.call.result"] for tool in tools)


@pytest.mark.parametrize("behaviour", ["works", "fails"])
def test_what_an_mcp_server_was_given_is_on_no_span(tmp_path: Path, behaviour: str) -> None:
    """Its tool gives back its whole environment, a token among it, as its result or as the reason of its failure."""
    taken = Taken(contents=True)
    server = scripted(behaviour, env={"SECRET_OF_SERVER": "${TOKEN_OF_SERVER}"})

    async def work(sim: SimServer) -> None:
        environ = {"TOKEN_OF_SERVER": "server-canary-0123456789"}
        async with (
            taken.client(sim) as client,
            McpServers([server], cache=OfferCache(tmp_path), environ=environ) as servers,
        ):
            session = Session(KIMI, client=client)
            await Agent(session, Toolbox([servers], approve=Approval(yolo=True))).run(
                "Call mcp__toy__environment with x 1"
            )
            assert "server-canary" in str(session.conversation)

    with sim_server() as sim:
        asyncio.run(work(sim))
    (tool,) = [attributes(span) for span in taken.spans if span.name.startswith("execute_tool")]
    assert tool["gen_ai.tool.name"] == "mcp__toy__environment"
    assert "SECRET_OF_SERVER" in tool["gen_ai.tool.call.result"]
    assert ("error.type" in tool) is (behaviour == "fails")
    assert "server-canary" not in str([attributes(span) for span in taken.spans])


@pytest.mark.parametrize(
    ("said", "expected"),
    [("", False), ("false", False), ("NO_CONTENT", False), ("EVENT_ONLY", False), ("true", True), ("SPAN_ONLY", True), ("span_and_event", True)],
)  # fmt: skip
def test_the_variable_that_asks_for_contents(said: str, expected: bool) -> None:
    assert conventions.wants_contents({conventions.CAPTURE_CONTENTS: said}) is expected


def test_long_histories_are_cut(sim: SimServer) -> None:
    taken = Taken(contents=True)

    async def ask() -> None:
        async with taken.client(sim) as client:
            await client.complete(KIMI, "x" * 200_000)

    asyncio.run(ask())
    [span] = taken.spans
    assert 30_000 < len(attributes(span)["gen_ai.input.messages"]) < 34_000


def test_an_answer_that_fails_says_which_kind_of_error(sim: SimServer) -> None:
    taken = Taken()

    async def ask(model: str) -> None:
        async with taken.client(sim) as client:
            with pytest.raises(MidstreamError):
                await client.complete(model, "what I said")
            with pytest.raises(MidstreamError):
                await client.stream(model, "what I said")

    asyncio.run(ask("nobody/knows"))
    sim.inject(429, 6)
    asyncio.run(ask(KIMI))
    kinds = [attributes(span)["error.type"] for span in taken.spans]
    assert kinds[:2] == ["unknown_model"] * 2 and len(set(kinds[2:])) == 1
    assert all(span.status.status_code is StatusCode.ERROR for span in taken.spans)
    assert "what I said" not in str([(attributes(span), span.status.description) for span in taken.spans])
    assert {point.attributes["error.type"] for point in taken.points("gen_ai.client.operation.duration")} == set(kinds)


def test_an_answer_that_breaks_off_or_is_left(sim: SimServer) -> None:
    taken = Taken()

    async def work() -> None:
        async with taken.client(sim) as client:
            sim.inject("cut", 9)
            await client.stream(KIMI, "hello")
            sim.inject("cut", 0)
            async with client.stream(KIMI, "hello") as reply:
                async for _ in reply:
                    break

    asyncio.run(work())
    assert [attributes(span)["error.type"] for span in taken.spans] == ["truncated", "aborted"]


def test_a_chain_s_span_names_the_model_that_answered(sim: SimServer) -> None:
    taken = Taken()

    async def ask() -> None:
        async with taken.client(sim) as client:
            sim.inject(500, 3)
            await client.stream([KIMI, "anthropic/claude-sonnet-4-5"], "hello")

    asyncio.run(ask())
    [span] = taken.spans
    assert span.name == "chat claude-sonnet-4-5" and attributes(span)["gen_ai.provider.name"] == "anthropic"


def test_an_answer_without_async_is_below_its_caller_s_span(sim: SimServer) -> None:
    taken = Taken()
    tracer = taken.telemetry._tracer
    with tracer.start_as_current_span("mine") as mine, SyncSession(KIMI, client=taken.client(sim)) as session:
        session.send("hello").result()
    answer = next(span for span in taken.spans if span.name.startswith("chat"))
    assert answer.parent is not None and answer.parent.span_id == mine.get_span_context().span_id


def test_a_client_that_wants_none_has_none(sim: SimServer) -> None:
    assert Client(sim.catalog(), telemetry=False).telemetry is None
    assert current_telemetry() is None  # the API is loaded here, and nobody has set a provider


PROGRAM = """
import asyncio, sys
from midstream import Agent, Session
from midstream.testing import sim_server
{setup}
def get_time() -> str:
    "The time."
    return "noon"
async def main():
    with sim_server() as sim:
        async with Session("moonshot/kimi-k2.5", client=sim.client()) as session:
            await Agent(session, [get_time]).run("Call get_time.")
asyncio.run(main())
{end}
"""
SETUP = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
"""


def run(setup: str, end: str) -> str:
    code = PROGRAM.format(setup=setup, end=end)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_nothing_is_loaded_where_nobody_takes_spans() -> None:
    loaded = "print([name for name in sys.modules if name.startswith(('opentelemetry', 'midstream.telemetry.'))])"
    assert run("", loaded) == "[]"


def test_a_program_that_has_set_up_an_sdk_gets_spans_by_itself() -> None:
    names = run(SETUP, "print(*sorted(span.name for span in exporter.get_finished_spans()), sep=', ')")
    assert names == "chat kimi-k2.5, chat kimi-k2.5, execute_tool get_time, invoke_agent"
