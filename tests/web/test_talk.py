"""What Talk tells the live traffic: the status that the host gave, or that the visitor left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import Config
from midstream.client.session import Session
from midstream.core.blocks import FAILED, Compacted, Text, ToolCall, ToolResponse, Turn, human
from midstream.core.errors import ConnectFailed, LocalError, MidstreamError, RateLimited
from midstream.core.events import ToolFinished
from midstream.sim.providers import sim_provider
from midstream.sim.server import Sim
from midstream.store import MemoryStore
from midstream.transport import RetryPolicy, Transport, TransportOptions
from midstream.web.archive import Archive
from midstream.web.guard import OWNER
from midstream.web.talk import Talk, _Watch, tell, waits
from midstream.web.traffic import Traffic, TrafficTap
from tests.gateway.serving import asynchronous
from tests.web.page import ask, opened


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (RateLimited("later", status=429), 429),
        (RateLimited("said in the stream"), 502),
        (RateLimited("said in a stream that began well", status=200), 502),
        (ConnectFailed("nobody is there"), 502),
    ],
)
def test_an_answer_that_failed_has_the_status_of_its_host(error: MidstreamError, status: int) -> None:
    @asynchronous
    async def play() -> None:
        traffic = Traffic()
        watch = _Watch(traffic, Session("moonshot/kimi-k2.5"), Archive())
        watch.begin()
        watch.fail(error)
        [told] = traffic.since(0, OWNER)
        assert (told.status, told.error) == (status, error.kind)

    play()


@asynchronous
async def test_an_answer_that_was_stopped_is_nobodys_fault() -> None:
    async with opened(sample=None, pace=0.05) as (app, session):
        body = {"text": "Say hello to all of the world.", "model": "sim/kimi-k2.5"}
        await ask(app, "/web/api/talk", body=body, session=session, until=b'"type":"text"')
        live = await ask(app, "/web/api/live", session=session, until=b"\n\n")
        [row] = json.loads(live.body.split(b"data: ")[1].split(b"\n")[0])
        assert (row["status"], row["error"]) == (499, "client_gone")


@asynchronous
async def test_who_stops_an_answer_goes_on_at_once() -> None:
    async with opened(sample=None, pace=0.05) as (app, _):
        assert app.talk is not None
        stopped = app.talk.say("Say hello to all of the world.", "sim/kimi-k2.5")
        begun = await anext(stopped)
        # The next message is here before the server knows that the first one's connection is closed.
        following = app.talk.say("Once more.", "sim/kimi-k2.5", begun["conversation"])
        first = asyncio.create_task(anext(following))
        await asyncio.sleep(0)
        await stopped.aclose()
        assert (await first)["type"] == "stored"
        # Another page is told that it has to wait.
        with pytest.raises(LocalError, match="still on its way"):
            await anext(app.talk.say("And I?", "sim/kimi-k2.5", begun["conversation"]))
        await following.aclose()


@pytest.mark.parametrize(
    ("response", "failed"),
    [
        (ToolResponse("c", "bash", (Text("ok"),)), False),
        (ToolResponse("c", "bash", (Text("not allowed"),), is_error=True), True),
        (ToolResponse("c", "bash", (Text("exit 1"),), extra={FAILED: True}), True),
    ],
)
def test_a_result_says_whether_it_is_bad_news(response: ToolResponse, failed: bool) -> None:
    told = tell(ToolFinished(response))
    assert told is not None and told["failed"] is failed


@asynccontextmanager
async def talking(**options: Any) -> AsyncIterator[tuple[Talk, MemoryStore, Sim]]:
    """Talk with doubles that misbehave, and what it keeps."""
    async with Sim(**options) as sim:
        # Nobody listens at the other one.
        nobody = replace(sim_provider("http://127.0.0.1:9"), name="nobody")
        catalog = Catalog(Config(), environ={}, providers=[sim_provider(sim.url), nobody])
        traffic, once = Traffic(), TransportOptions(retry=RetryPolicy(max_retries=0))
        async with Client(catalog, transport=Transport(once, tap=TrafficTap(traffic))) as client:
            store = MemoryStore()
            yield Talk(Archive(store, catalog=catalog), client, traffic=traffic), store, sim


async def said(talk: Talk, *words: str) -> tuple[str, list[str]]:
    """Say it to the end: the conversation, and the kinds of what happened."""
    happened = [each async for each in talk.say(*words)]
    return next(each["conversation"] for each in happened if each["type"] == "stored"), [
        each["type"] for each in happened
    ]


@pytest.mark.parametrize("fault", [429, 500, "cut", "nobody"])
def test_trying_again_does_not_say_it_twice(fault: str | int) -> None:
    @asynchronous
    async def play() -> None:
        async with talking(faults=[] if fault == "nobody" else [fault]) as (talk, store, sim):
            first = "nobody/kimi-k2.5" if fault == "nobody" else "sim/kimi-k2.5"
            place, kinds = await said(talk, "Which river is the longest?", first)
            assert "failed" in kinds and "done" not in kinds
            assert waits(store.load(place).turns)
            again, kinds = await said(talk, "", "sim/mistral-large-latest", place)
            assert again == place and kinds[-1] == "done"
            turns = store.load(place).turns
            assert [turn.text for turn in turns if turn.speaker == "human"] == ["Which river is the longest?"]
            assert not waits(turns) and turns[-1].text
            assert json.dumps(sim.seen[-1].body).count("Which river is the longest?") == 1
            assert [each["role"] for each in sim.seen[-1].body["messages"]] == ["user"]
            # It has its answer: another one would be to nothing.
            with pytest.raises(LocalError, match="has its answer already"):
                await said(talk, "", "sim/kimi-k2.5", place)

    play()


@asynchronous
async def test_stopped_before_the_host_accepts_it_can_be_tried_again() -> None:
    async with talking() as (talk, store, _):
        stopped = talk.say("Which river is the longest?", "sim/kimi-k2.5")
        place = (await anext(stopped))["conversation"]
        await stopped.aclose()
        assert [turn.speaker for turn in store.load(place).turns] == ["human"]
        assert (await said(talk, "", "sim/kimi-k2.5", place))[0] == place
        assert [turn.speaker for turn in store.load(place).turns] == ["human", "ai"]


@pytest.mark.parametrize(
    ("turns", "wait"),
    [
        ((), False),
        ((human("a"),), True),
        ((human("a"), Turn("ai", (Text("b"),))), False),
        ((human("a"), Turn("ai", (Text("b"),), failure="aborted")), True),
        ((human("a"), Turn("ai", (ToolCall("c", "f", "{}"),))), True),
        ((human("a"), Turn("ai", (ToolCall("c", "f", "{}"),)), Turn("tool", (ToolResponse("c", "f", ()),))), True),
        ((human("a"), Turn("ai", (Text("b"),)), Turn("system", (Text("s"),), compacted=Compacted("summary"))), False),
    ],
)
def test_what_waits_for_an_answer(turns: tuple[Turn, ...], wait: bool) -> None:
    assert waits(turns) is wait
