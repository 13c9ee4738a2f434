"""What Talk tells the live traffic: the status that the host gave, or that the visitor left."""

from __future__ import annotations

import json

import pytest

from midstream.client.session import Session
from midstream.core.errors import ConnectFailed, MidstreamError, RateLimited
from midstream.web.archive import Archive
from midstream.web.guard import OWNER
from midstream.web.talk import _Watch
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
