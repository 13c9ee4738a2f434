"""The OpenAI Agents SDK on our provider: tools, streams, outputs, handoffs, sessions in a file, and a switch in the middle."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from midstream.core.ids import PREFIX as CANONICAL
from midstream.testing import Answer, Call, SimServer, sim_server
from tests.adapters.tour import MODELS, errand, judge, weather

agents = pytest.importorskip("agents", reason="openai-agents is not installed: run `make test-e2e`")

from agents import Agent, ModelSettings, MultiProvider, RunConfig, Runner, SQLiteSession, function_tool  # noqa: E402
from agents.models.multi_provider import MultiProviderMap  # noqa: E402
from openai.types.shared import Reasoning  # noqa: E402

from midstream.adapters.openai_agents import MidstreamModel, MidstreamProvider  # noqa: E402
from midstream.errors import LocalError  # noqa: E402

KIMI = MODELS[0]
THINKING = ModelSettings(reasoning=Reasoning(effort="medium"))


@pytest.fixture(autouse=True)
def no_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK sends its traces to OpenAI by default."""
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    agents.set_tracing_disabled(True)


@pytest.fixture
def sim() -> Iterator[SimServer]:
    with sim_server(strict="paranoid") as server:
        yield server


@function_tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return weather(city)


class CalendarEvent(BaseModel):
    """The output of the SDK's documentation."""

    name: str
    date: str
    participants: list[str]


async def ran(sim: SimServer, agent: Any, asked: Any, provider: MidstreamProvider | None = None, **options: Any) -> Any:
    """A run, with a provider of its own unless one is given: what it knows is what came with the input."""
    own = provider or MidstreamProvider(catalog=sim.catalog())
    try:
        return await Runner.run(agent, asked, run_config=RunConfig(model_provider=own), **options)
    finally:
        await own.aclose()


async def streamed(sim: SimServer, agent: Any, asked: Any, **options: Any) -> tuple[Any, list[str]]:
    own = MidstreamProvider(catalog=sim.catalog())
    try:
        result = Runner.run_streamed(agent, asked, run_config=RunConfig(model_provider=own), **options)
        kinds = [
            event.data.type if event.type == "raw_response_event" else event.type
            async for event in result.stream_events()
        ]
        return result, kinds
    finally:
        await own.aclose()


@pytest.mark.parametrize("kept", ["input list", "session in a file"])
def test_a_conversation_goes_through_every_model(sim: SimServer, kept: str, tmp_path: Path) -> None:
    """A new provider for each turn, as after a restart: reasoning comes back with the items that the SDK kept."""

    async def tour() -> list[Any]:
        items: list[Any] = []
        for number, model in enumerate(MODELS):
            agent = Agent(
                "Assistant", instructions="Be brief.", model=model, tools=[get_weather], model_settings=THINKING
            )
            session = SQLiteSession("tour", tmp_path / "sessions.db") if kept != "input list" else None
            asked: Any = (
                errand(number) if session is not None else [*items, {"role": "user", "content": errand(number)}]
            )
            if number % 2:
                result, kinds = await streamed(sim, agent, asked, session=session)
                assert {"response.output_text.delta", "response.completed", "run_item_stream_event"} <= set(kinds)
            else:
                result = await ran(sim, agent, asked, session=session)
            assert weather(f"Town {number}") in result.final_output
            items = json.loads(json.dumps(result.to_input_list(), default=str))
            if session is not None:
                items = await session.get_items()
                session.close()
        return items

    items = asyncio.run(tour())
    judge(sim, requests=2 * len(MODELS))
    calls = [item for item in items if item.get("type") == "function_call"]
    assert len(calls) == len(MODELS) and all(call["call_id"].startswith(CANONICAL) for call in calls)


@pytest.mark.parametrize("model", MODELS[:5])
def test_output_types(sim: SimServer, model: str) -> None:
    agent = Agent("Calendar extractor", instructions="Extract events.", model=model, output_type=CalendarEvent)
    result = asyncio.run(ran(sim, agent, "Dinner on Friday with Ada."))
    assert isinstance(result.final_output, CalendarEvent) and sim.refused == []


def test_a_handoff_to_an_agent_with_another_model() -> None:
    """The SDK's triage example: the first agent calls the tool that hands over, the second answers."""
    answers = (Answer(calls=(Call("transfer_to_history_tutor", {}),)), Answer("In 1861."))
    with sim_server(*answers, strict="paranoid") as scripted:
        tutor = Agent("History Tutor", handoff_description="Answers questions about history.", model=MODELS[1])
        triage = Agent("Triage", instructions="Pick an agent.", model=KIMI, handoffs=[tutor])
        result = asyncio.run(ran(scripted, triage, "When did the civil war begin?"))
        assert result.final_output == "In 1861." and result.last_agent is tutor
        assert [seen.path.split("/")[1] for seen in scripted.seen] == [
            "moonshot",
            "anthropic",
        ] and scripted.refused == []


@pytest.mark.parametrize("stream", [False, True])
def test_handoffs_with_a_summary_of_the_conversation(stream: bool) -> None:
    """`nest_handoff_history` sends the next agent one message, an assistant's, which Mistral refuses unless it is marked."""
    order = MODELS[:6]
    answers = [Answer(calls=(Call(f"transfer_to_a{number}", {}),)) for number in range(1, len(order))]
    with sim_server(*answers, Answer("In 1861."), strict="paranoid") as scripted:
        agent: Any = None
        for number, model in reversed(list(enumerate(order))):
            agent = Agent(f"a{number}", model=model, handoffs=[agent] if agent else [])
        provider = MidstreamProvider(catalog=scripted.catalog())
        config = RunConfig(model_provider=provider, nest_handoff_history=True)

        async def hand_over() -> Any:
            if not stream:
                result: Any = await Runner.run(agent, "When did the civil war begin?", run_config=config)
            else:
                result = Runner.run_streamed(agent, "When did the civil war begin?", run_config=config)
                async for _ in result.stream_events():
                    pass
            await provider.aclose()
            return result

        assert asyncio.run(hand_over()).final_output == "In 1861."
        assert scripted.refused == [] and scripted.requests == len(order)


def test_usage_and_names(sim: SimServer) -> None:
    async def ask() -> None:
        provider = MidstreamProvider(KIMI, catalog=sim.catalog())
        result = await ran(sim, Agent("A", model=f"midstream/{KIMI}"), "hello", provider)
        assert result.context_wrapper.usage.total_tokens > 0
        assert provider.get_model(None).model == KIMI  # type: ignore[attr-defined]
        routed = MultiProviderMap()
        routed.add_provider("midstream", provider)
        config = RunConfig(model_provider=MultiProvider(provider_map=routed, openai_api_key="none"))
        again = await Runner.run(Agent("A", model=f"midstream/{KIMI}"), "hello", run_config=config)
        assert again.final_output == result.final_output
        await provider.aclose()

    asyncio.run(ask())
    with pytest.raises(LocalError, match="names no model"):
        MidstreamProvider().get_model(None)
    assert MidstreamModel(f"midstream/{KIMI}").model == KIMI


@pytest.mark.parametrize("whole", [True, False])
def test_an_agent_that_names_no_model_asks_for_nothing_else(sim: SimServer, whole: bool, caplog: Any) -> None:
    """The SDK's settings for its own default model would turn thinking off, and be logged as dropped."""

    async def ask(settings: dict[str, Any]) -> dict[str, Any]:
        provider = MidstreamProvider(KIMI, catalog=sim.catalog())
        agent = Agent("A", **settings)
        config = RunConfig(model_provider=provider)
        if whole:
            await Runner.run(agent, "hello", run_config=config)
        else:
            async for _ in Runner.run_streamed(agent, "hello", run_config=config).stream_events():
                pass
        await provider.aclose()
        body: dict[str, Any] = sim.seen[-1].body
        return body

    assert "thinking" not in asyncio.run(ask({})) and "not sent" not in caplog.text
    off = ModelSettings(reasoning=Reasoning(effort="none"))
    assert asyncio.run(ask({"model_settings": off}))["thinking"] == {"type": "disabled"}


def test_a_setting_that_the_model_does_not_take_is_logged(sim: SimServer, caplog: Any) -> None:
    agent = Agent("A", model=KIMI, model_settings=ModelSettings(verbosity="low"))
    asyncio.run(ran(sim, agent, "hello"))
    assert f"not sent to {KIMI}: 'text'" in caplog.text


def test_errors_are_the_package_s(sim: SimServer) -> None:
    import openai

    with pytest.raises(openai.NotFoundError, match="unknown provider"):
        asyncio.run(ran(sim, Agent("A", model="nobody/x"), "hello"))
