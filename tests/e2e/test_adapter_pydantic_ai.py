"""pydantic-ai's own agents on our model: tools, streams, structured output, stored histories, and a switch in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from midstream.core.ids import PREFIX as CANONICAL
from midstream.testing import Answer, Call, SimServer, sim_server
from tests.adapters.tour import MODELS, errand, judge, weather

pydantic_ai = pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed: run `make test-e2e`")

from pydantic_ai import Agent, BinaryContent, ModelRetry, NativeOutput, PromptedOutput, ToolOutput  # noqa: E402
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError  # noqa: E402
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, ToolCallPart  # noqa: E402
from pydantic_ai.models.fallback import FallbackModel  # noqa: E402

from midstream.adapters.backend import Backend  # noqa: E402
from midstream.adapters.pydantic_ai import MidstreamModel  # noqa: E402

KIMI = MODELS[0]


class CityLocation(BaseModel):
    """The output of pydantic-ai's documentation."""

    city: str
    country: str


@pytest.fixture
def sim() -> Iterator[SimServer]:
    with sim_server(strict="paranoid") as server:
        yield server


def agent_of(sim: SimServer, name: str, **options: Any) -> Agent[None, Any]:
    return Agent(MidstreamModel(name, catalog=sim.catalog()), **options)


def run(agent: Agent[Any, Any], *asked: Any, **options: Any) -> Any:
    """`run_sync` would leave an event loop open."""
    return asyncio.run(agent.run(*asked, **options))


def get_weather(city: str) -> str:
    """The weather in a city."""
    return weather(city)


async def drained(_: Any, events: Any) -> None:
    async for _event in events:
        pass


async def tour(sim: SimServer, *, stored: bool) -> None:
    history: list[Any] = []
    for number, name in enumerate(MODELS):
        # A model of its own for each turn: what the next one knows is what pydantic-ai kept.
        agent = agent_of(
            sim, name, tools=[get_weather], instructions="Be brief.", model_settings={"thinking": "medium"}
        )
        # With a handler the agent streams every answer. (`run_stream` takes the first text for the result, also one
        # that stands before a call.)
        result = await agent.run(
            errand(number), message_history=history, event_stream_handler=drained if number % 2 else None
        )
        text, history = result.output, result.all_messages()
        assert weather(f"Town {number}") in text
        if stored:
            history = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(history))
    calls = [
        part
        for message in history
        if isinstance(message, ModelResponse)
        for part in message.parts
        if isinstance(part, ToolCallPart)
    ]
    assert len(calls) == len(MODELS) and all(call.tool_call_id.startswith(CANONICAL) for call in calls)


@pytest.mark.parametrize("stored", [False, True], ids=["live", "stored as JSON"])
def test_a_conversation_goes_through_every_model(sim: SimServer, stored: bool) -> None:
    asyncio.run(tour(sim, stored=stored))
    judge(sim, requests=2 * len(MODELS))


@pytest.mark.parametrize("mode", [ToolOutput, NativeOutput, None], ids=["tool", "native", "default"])
@pytest.mark.parametrize("name", MODELS[:5])
def test_structured_output(name: str, mode: Any) -> None:
    with sim_server(strict="paranoid") as sim:
        output: Any = CityLocation if mode is None else mode(CityLocation)
        agent = agent_of(sim, name, output_type=output, retries=2)
        asked = "Where were the olympics held in 2012?"
        if mode in (ToolOutput, None):
            asked = "Call final_result with city 'London' and country 'UK'."
        assert isinstance(run(agent, asked).output, CityLocation)
        assert sim.refused == []


def test_prompted_output_is_told_in_words() -> None:
    with sim_server(Answer('{"city": "London", "country": "UK"}')) as sim:
        result = run(agent_of(sim, KIMI, output_type=PromptedOutput(CityLocation)), "Where?")
        assert result.output == CityLocation(city="London", country="UK")
        assert "json" in str(sim.seen[0].body["messages"][0]["content"]).lower()


def test_the_roulette_wheel(sim: SimServer) -> None:
    """The first example of pydantic-ai's documentation of tools, with its dependency and its run of two."""
    answers = (
        Answer(calls=(Call("roulette_wheel", {"square": 18}),)),
        Answer(calls=(Call("final_result", {"response": True}),)),
    )
    with sim_server(*answers) as scripted:
        agent: Agent[int, bool] = Agent(
            MidstreamModel(KIMI, catalog=scripted.catalog()), deps_type=int, output_type=bool,
            system_prompt="Use the `roulette_wheel` function to see if the customer has won based on the number they provide.",
        )  # fmt: skip

        @agent.tool
        async def roulette_wheel(ctx: pydantic_ai.RunContext[int], square: int) -> str:
            """check if the square is a winner"""
            return "winner" if square == ctx.deps else "loser"

        result = run(agent, "Put my money on square eighteen", deps=18)
        assert result.output is True
        assert result.usage.requests == 2 and result.usage.input_tokens and result.usage.output_tokens
        assert scripted.refused == []


def test_a_tool_that_asks_for_another_try(sim: SimServer) -> None:
    tried: list[str] = []

    def flaky(city: str) -> str:
        """A tool."""
        tried.append(city)
        if len(tried) == 1:
            raise ModelRetry("try again")
        return "fine"

    answers = [
        Answer(calls=(Call("flaky", {"city": "x"}),)),
        Answer(calls=(Call("flaky", {"city": "y"}),)),
        Answer("done"),
    ]
    with sim_server(*answers, strict="paranoid") as scripted:
        assert run(agent_of(scripted, MODELS[1], tools=[flaky]), "go").output == "done"
        results = [part for part in scripted.seen[1].body["messages"][-1]["content"] if part["type"] == "tool_result"]
        assert results[0]["is_error"] is True and tried == ["x", "y"] and scripted.refused == []


def test_events_of_a_stream(sim: SimServer) -> None:
    async def ask() -> set[str]:
        kinds: set[str] = set()
        agent = agent_of(sim, KIMI, tools=[get_weather])
        async with agent.iter(errand(1)) as run:
            async for node in run:
                if Agent.is_model_request_node(node):
                    async with node.stream(run.ctx) as stream:
                        async for event in stream:
                            kinds.add(type(event).__name__)
        return kinds

    kinds = asyncio.run(ask())
    assert {"PartStartEvent", "PartDeltaEvent", "PartEndEvent", "FinalResultEvent"} <= kinds


def test_images_and_settings(sim: SimServer) -> None:
    pixel = BinaryContent(data=b"\x89PNG\r\n\x1a\n" + b"0" * 40, media_type="image/png")
    agent = agent_of(sim, MODELS[1], model_settings={"max_tokens": 77, "temperature": 0.5, "stop_sequences": ["END"]})
    run(agent, ["What is this?", pixel])
    body = sim.seen[-1].body
    assert [part["type"] for part in body["messages"][0]["content"]] == ["text", "image"]
    assert (body["max_tokens"], body["temperature"], body["stop_sequences"]) == (77, 0.5, ["END"])


def test_a_setting_that_the_model_does_not_take_is_logged(sim: SimServer, caplog: Any) -> None:
    run(agent_of(sim, KIMI, model_settings={"temperature": 0.5}), "hello")
    assert f"not sent to {KIMI}: temperature" in caplog.text


def test_errors_and_fallback(sim: SimServer) -> None:
    with pytest.raises(ModelAPIError, match="unknown provider"):
        run(agent_of(sim, "nobody/x"), "hello")
    sim.inject(429, 3)
    with pytest.raises(ModelHTTPError) as exhausted:
        run(agent_of(sim, KIMI), "hello")
    assert exhausted.value.status_code == 429
    backend = Backend(sim.catalog())
    chain = FallbackModel(MidstreamModel("nobody/x", backend=backend), MidstreamModel(KIMI, backend=backend))
    assert run(Agent(chain), "hello").output
    with sim_server(key="right") as guarded:
        refused = Agent(MidstreamModel(KIMI, catalog=guarded.catalog()))
        with pytest.raises(ModelHTTPError) as caught:
            run(refused, "hello")
        assert caught.value.status_code == 401


def test_a_stream_can_be_left(sim: SimServer) -> None:
    async def leave() -> None:
        agent = agent_of(sim, KIMI)
        async with agent.run_stream("hello") as streamed:
            async for _ in streamed.stream_text(delta=True):
                break
        assert (await agent.run("hello")).output

    asyncio.run(leave())
    assert sim.refused == []


def test_a_stream_that_is_cancelled_while_it_is_read_ahead(sim: SimServer) -> None:
    async def cancel() -> Any:
        async with agent_of(sim, KIMI).run_stream("hello") as streamed:
            async for _ in streamed.stream_text():
                await streamed.cancel()
        return streamed.all_messages()

    sim.inject("stall")
    history = asyncio.run(asyncio.wait_for(cancel(), 20))
    assert history[-1].state == "interrupted"
    for name in MODELS[:5]:
        assert run(agent_of(sim, name), "go on", message_history=history).output
    assert sim.refused == []
