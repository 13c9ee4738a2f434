"""The agent without async: events in a plain `for`, a result, and what is said of a run nobody read."""

from __future__ import annotations

import gc

import pytest

from midstream.agent.loop import Agent
from midstream.agent.run import RunLimits, RunResult
from midstream.agent.sync import SyncAgent
from midstream.client.client import Client
from midstream.client.sync import SyncSession
from midstream.core.errors import LocalError
from midstream.core.events import Stopped, ToolFinished
from midstream.sim.answer import Answer, Call
from tests.client import scripted
from tests.client.scripted import served


def look(path: str) -> str:
    """Look at a file."""
    return f"{path} holds 3 lines"


def test_an_agent_without_async() -> None:
    call = Answer(calls=(Call("look", {"path": "x"}),))
    with (
        served(call, Answer("three"), call, Answer("three")) as catalog,
        SyncSession("a/m", client=Client(catalog)) as session,
    ):
        agent = SyncAgent(session, [look])
        run = agent.run("how long is x?")
        events = list(run)
        assert [event.response.text for event in events if isinstance(event, ToolFinished)] == ["x holds 3 lines"]
        assert events[-1] == Stopped("text")
        result = run.result()
        assert isinstance(result, RunResult) and (result.text, result.rounds) == ("three", 2)
        assert agent.run("again").result().rounds == 2
        with agent.run("once more") as left:
            next(iter(left))
        with agent.run("not at all") as unused:
            pass
        with pytest.raises(LocalError, match="before it started"):
            unused.result()


def test_a_run_that_is_never_read_warns() -> None:
    session = SyncSession("a/m", client=Client(scripted.catalog(a="http://127.0.0.1:9/v1")))
    agent = SyncAgent(session, [look])
    with pytest.warns(RuntimeWarning, match="a SyncRun was never used, so nothing was sent: iterate it"):
        agent.run("hi")
        gc.collect()
    assert session.conversation.turns == ()


def test_it_has_every_public_name_of_an_agent() -> None:
    with SyncSession("moonshot/kimi-k2.5") as session:
        sync = SyncAgent(session, [])
        names = {name for name in {*dir(Agent), *vars(sync.agent)} if not name.startswith("_")}
        assert names <= {name for name in {*dir(SyncAgent), *vars(sync)} if not name.startswith("_")}
        assert sync.toolbox is sync.agent.toolbox and sync.session is session
        sync.limits = RunLimits(rounds=3)
        assert sync.agent.limits == sync.limits == RunLimits(rounds=3)
