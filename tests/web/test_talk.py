"""What Talk tells the live traffic: the status that the host gave, or that the visitor left."""

from __future__ import annotations

import asyncio
import json

import pytest

from midstream.client.session import Session
from midstream.core.blocks import FAILED, Text, ToolResponse
from midstream.core.errors import ConnectFailed, LocalError, MidstreamError, RateLimited
from midstream.core.events import ToolFinished
from midstream.web.archive import Archive
from midstream.web.guard import OWNER
from midstream.web.talk import _Watch, tell
from midstream.web.traffic import Traffic
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
        assert (await first)["type"] == "start"
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
