"""Any order of models over real HTTP: a four-round tool conversation that goes to another double in the middle and back."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import aiohttp
import pytest

from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import Config
from midstream.client.session import Session
from midstream.core.blocks import Text, Thinking, ToolResponse, Turn
from midstream.core.errors import BadRequest
from midstream.core.events import Done, ErrorEvent
from midstream.doctor import naive_body, with_raw_ids
from midstream.doctor.matrix import TOOLS
from midstream.sim.server import Sim
from tests.event_loops import run
from tests.long_run import each_once

pytestmark = pytest.mark.usefixtures("each_loop")

DOUBLES = (
    "moonshot/kimi-k2-0905-preview",
    "moonshot/kimi-k2-thinking",
    "moonshot/kimi-k2.5",
    "moonshot/kimi-k3",
    "openai/gpt-4o",
    "openai-responses/gpt-5.2",
    "anthropic/claude-sonnet-4-5",
    "mistral/mistral-large-latest",
    "deepseek/deepseek-reasoner",
    "gemini/gemini-3-pro-preview",
    "ollama/qwen3:4b",
    "deepinfra/moonshotai/Kimi-K2.5",
)
ASKED = "List the files and read a.txt, then read b.txt, then list the files and read c.txt, then read d.txt. What did you see?"
CONTENT = {"a.txt": "alpha", "b.txt": "bravo", "c.txt": "charlie", "d.txt": "delta", ".": "a.txt b.txt c.txt d.txt"}


def results(turn: Turn) -> Turn:

    responses = [
        ToolResponse(call.id, call.name, (Text(CONTENT[json.loads(call.arguments).get("path", ".")]),))
        for call in turn.tool_calls
    ]
    return Turn("tool", tuple(responses))


async def converse(client: Client, models: Sequence[str]) -> tuple[Session, list[Turn]]:
    """One question; each next request goes to the next model."""
    session = Session(models[0], tools=TOOLS[:2], client=client, system="Be brief.")
    turns = []
    words: tuple[str, ...] = (ASKED,)
    for model in models:
        session.use(model)
        reply = session.send(*words)
        turn = await reply
        assert reply.error is None, (model, reply.error)
        turns.append(turn)
        words = ()
        if turn.tool_calls:
            await session.add(results(turn))
    return session, turns


def on_stage(play: Callable[[Sim, Client], Awaitable[Any]], **options: Any) -> Any:
    async def main() -> Any:
        async with Sim(strict="paranoid", **options) as sim:
            catalog = Catalog(Config(), environ={}, providers=sim.providers())
            async with Client(catalog) as client:
                return await play(sim, client)

    return run(main(), limit=170)


def test_every_ordered_pair_switches_in_the_middle_and_back() -> None:
    pairs = list(itertools.product(DOUBLES, repeat=2))
    wrong: dict[str, str] = {}

    async def play(sim: Sim, client: Client) -> None:
        room = asyncio.Semaphore(16)

        async def one(a: str, b: str) -> None:
            async with room:
                try:
                    _, turns = await converse(client, (a, a, b, b, a))
                except Exception as error:  # every pair is to be named, not only the first that fails
                    wrong[f"{a} <-> {b}"] = repr(error)
                    return
            calls = [len(turn.tool_calls) for turn in turns]
            if calls != [2, 1, 2, 1, 0] or not all(word in turns[-1].text for word in CONTENT.values()):
                wrong[f"{a} <-> {b}"] = f"calls {calls}, said {turns[-1].text!r}"

        await asyncio.gather(*[one(a, b) for a, b in pairs])
        assert not wrong
        assert sim.refused == []
        assert sim.requests == 5 * len(pairs)

    on_stage(play)


def test_one_conversation_through_every_double_and_back_again() -> None:
    async def play(sim: Sim, client: Client) -> None:
        session, _ = await converse(client, (*DOUBLES[:4], DOUBLES[4]))
        for model in (*DOUBLES, *reversed(DOUBLES)):
            session.use(model)
            turn = await session.send(f"List the files, for {model}.")
            while turn.tool_calls:
                await session.add(results(turn))
                turn = await session.send()
            assert "a.txt b.txt" in turn.text, model
        assert sim.refused == []

    on_stage(play)


@each_once(("whole", [False, True]), ("model", DOUBLES))
def test_streamed_and_whole_answers_say_the_same(model: str, whole: bool) -> None:
    """The same tool conversation through `complete`, which asks for no stream."""

    async def play(sim: Sim, client: Client) -> None:
        session = Session(model, tools=TOOLS[:2], client=client)
        await session.add(Turn("human", (Text("Read a.txt."),)))
        turns = []
        for _ in range(2):
            conversation = session.conversation
            if whole:
                turn = await client.complete(model, conversation, tools=TOOLS[:2])
            else:
                turn = await client.stream(model, conversation, tools=TOOLS[:2])
            turns.append(turn)
            await session.add(turn)
            if turn.tool_calls:
                await session.add(results(turn))
        assert [call.name for call in turns[0].tool_calls] == ["read_file"]
        assert "alpha" in turns[1].text and turns[1].stop_reason == "end_turn"
        assert sim.refused == []

    on_stage(play)


# the same history, untranslated: each of these doubles refuses it, in these words
REFUSALS = {
    "moonshot/kimi-k2.5": "thinking is enabled but reasoning_content is missing in assistant tool call message at index",
    "moonshot/kimi-k3": "thinking is enabled but reasoning_content is missing in assistant tool call message at index",
    "anthropic/claude-sonnet-4-5": "String should match pattern '^[a-zA-Z0-9_-]+$'",
    "mistral/mistral-large-latest": "but must be a-z, A-Z, 0-9, with a length of 9.",
    "deepseek/deepseek-reasoner": "Missing `reasoning_content` field in the assistant message",
    "deepinfra/moonshotai/Kimi-K2.5": "is not the model's own",
    "openai-responses/gpt-5.2": "could not be verified",
}


@pytest.mark.parametrize("model", REFUSALS)
def test_without_the_mapper_the_doubles_refuse(model: str) -> None:
    """Planted: the ids and the reasoning go as they came. The doubles are strict, so the zero above means something."""

    async def play(sim: Sim, client: Client) -> None:
        makers = ("moonshot/kimi-k2.5", "openai/gpt-4o", "moonshot/kimi-k2.5", "openai/gpt-4o")
        session, _ = await converse(client, makers)
        target = client.catalog.resolve(model)
        sound = client.encode(model, session.conversation, TOOLS[:2])
        body = naive_body(with_raw_ids(session.conversation), target.dialect.wire, target.model)
        async with aiohttp.ClientSession() as http:
            async with http.post(target.endpoint.base_url + sound.path, json=body) as answer:
                text = await answer.text()
                assert answer.status == 400
                assert REFUSALS[model] in " ".join([problem.message for problem in sim.refused]), text
            sim.refused.clear()
            async with http.post(target.endpoint.base_url + sound.path, data=sound.body) as answer:
                assert answer.status == 200, await answer.text()
        assert sim.refused == []

    on_stage(play)


MISSING = "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1"


def test_reasoning_that_was_streamed_goes_back_with_the_tool_call() -> None:
    """The classic failure: reasoning not read from the deltas, so absent from the second request."""

    async def play(sim: Sim, client: Client) -> None:
        session = Session("moonshot/kimi-k2.5", tools=TOOLS[:1], client=client)
        turn = await session.send("List the files in the current directory.")
        thinking = next(block for block in turn.blocks if isinstance(block, Thinking))
        assert thinking.text and len(turn.tool_calls) == 1
        await session.add(results(turn))
        request = session.request()
        answer = await session.send()
        assert "a.txt" in answer.text
        second = sim.seen[-1]
        assert second.status == 200
        assert second.body["messages"][1]["reasoning_content"] == thinking.text
        broken = {**second.body, "messages": [dict(message) for message in second.body["messages"]]}
        del broken["messages"][1]["reasoning_content"]
        async with aiohttp.ClientSession() as http:
            url = session.target.endpoint.base_url + request.path
            async with http.post(url, json=broken) as reply:
                assert reply.status == 400
                assert await reply.json() == {"error": {"message": MISSING, "type": "invalid_request_error"}}

    on_stage(play)


def test_a_refusal_is_an_exception_with_the_hosts_words() -> None:
    async def play(sim: Sim, client: Client) -> None:
        session = Session("moonshot/kimi-k2.5", client=client)
        session.options = type(session.options)(extra_body={"thinking": True})
        with pytest.raises(BadRequest, match="bool is not acceptable") as caught:
            await session.send("Hello")
        assert caught.value.status == 400

    on_stage(play)


def test_events_end_once_on_every_double() -> None:
    async def play(sim: Sim, client: Client) -> None:
        for model in DOUBLES:
            session = Session(model, tools=TOOLS[:2], client=client)
            events = [event async for event in session.send("List the files and read a.txt")]
            assert [isinstance(event, (Done, ErrorEvent)) for event in events].count(True) == 1, model
            assert isinstance(events[-1], Done), (model, events[-1])

    on_stage(play)
