"""The doubles in a thread, with answers the test gives: usable from sync and async tests, gone afterwards."""

from __future__ import annotations

import asyncio
import threading
import urllib.error
import urllib.request
from typing import Any

import pytest

from midstream.client.session import Session
from midstream.client.sync import SyncSession
from midstream.core.errors import BadRequest, LocalError, ProviderError
from midstream.core.tools import ToolSpec
from midstream.testing import Answer, Call, ScriptedModel, sim_server

TIME = ToolSpec("get_time", "The time", {"type": "object", "properties": {}})


def test_scripted_answers_come_in_order_on_any_wire() -> None:
    lines = ("One.", Answer("", "Hm.", (Call("get_time"),)), lambda heard: f"{len(heard.turns)} turns")
    with sim_server(*lines) as sim:

        async def talk() -> list[str]:
            async with sim.client() as client:
                session = Session("openai/gpt-4o", tools=[TIME], client=client)
                said = [(await session.send("a")).text]
                session.use("anthropic/claude-sonnet-4-5")
                turn = await session.send("b")
                said.append(turn.tool_calls[0].name)
                session.use("moonshot/kimi-k2.5")
                said.append((await session.send("c")).text)
                return said

        assert asyncio.run(talk()) == ["One.", "get_time", "6 turns"]
        assert sim.requests == 3 and not sim.refused
        assert [seen.status for seen in sim.seen] == [200, 200, 200]
        assert sim.script is not None and sim.script.received[0].turns[0].text == "a"


def test_a_script_that_is_over_says_so() -> None:
    with sim_server("only this") as sim:

        async def talk() -> None:
            async with sim.client() as client:
                session = Session("mistral/mistral-large-latest", client=client)
                await session.send("a")
                with pytest.raises(BadRequest, match="all 1 scripted answers have been given"):
                    await session.send("b")

        asyncio.run(talk())


def test_faults_and_refusals_are_seen_from_the_test() -> None:
    with sim_server() as sim:
        sim.inject("500", times=3)

        async def talk() -> None:
            from midstream.transport import TransportOptions
            from midstream.transport.options import RetryPolicy

            async with sim.client(transport=TransportOptions(retry=RetryPolicy(max_retries=0))) as client:
                with pytest.raises(ProviderError):
                    await Session("openai/gpt-4o", client=client).send("a")

        asyncio.run(talk())
        request = urllib.request.Request(
            f"{sim.base_url('openai')}/chat/completions", b'{"model":"gpt-4o","messages":[]}', method="POST"
        )
        for _ in range(2):
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(request).close()
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request).close()
        assert caught.value.code == 400 and "empty array" in sim.refused[0].message
        caught.value.close()


def test_the_thread_and_the_port_are_gone_afterwards() -> None:
    before = threading.active_count()
    with sim_server() as sim:
        url = sim.url
        urllib.request.urlopen(url).close()
    assert threading.active_count() == before
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url)


def test_a_failure_in_the_test_still_stops_the_server() -> None:
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), sim_server():
        raise ZeroDivisionError
    assert threading.active_count() == before


def test_a_script_can_be_used_without_a_server() -> None:
    from midstream.core.blocks import Conversation

    script = ScriptedModel("x", Answer("y"))
    assert script(Conversation(), (), model="m", thinks=False).text == "x"
    assert script(Conversation(), (), model="m", thinks=False).text == "y"


_UNFIT: dict[str, tuple[object, str]] = {
    "a list of answers": (["One.", "Two."], r"sim_server\(\*answers\)"),
    "a bare call": (Call("get_time"), r"Answer\(calls=\(Call\('get_time', …\),\)\)"),
    "one call without its comma": (Answer(calls=Call("get_time")), "a tuple of Call"),  # type: ignore[arg-type]
    "something else as a call": (Answer(calls=("get_time",)), "a tuple of Call"),  # type: ignore[arg-type]
    "nothing": (None, "a scripted answer is a text, an Answer, or a function that gives one, not NoneType"),
}


@pytest.mark.parametrize(("line", "message"), _UNFIT.values(), ids=_UNFIT)
def test_an_answer_that_is_none_is_refused_where_it_is_written(line: Any, message: str) -> None:
    """In the thread of the doubles it would be a 500, which clients take for a bad day and try again: with the next answer."""
    with pytest.raises(LocalError, match=message), sim_server(line, "Two."):
        pass


@pytest.mark.parametrize(("line", "message"), _UNFIT.values(), ids=_UNFIT)
def test_so_is_one_that_a_function_gives(line: Any, message: str) -> None:
    with (
        sim_server(lambda heard: line, "Two.") as sim,
        SyncSession("openai/gpt-4o", client=sim.client()) as session,
        pytest.raises(BadRequest, match=message),
    ):
        session.send("a").result()


def test_the_headers_of_a_request_can_be_looked_at_and_are_not_shown_unasked() -> None:
    with sim_server("Hi.") as sim:
        url = sim.base_url("openai") + "/v1/chat/completions"
        body = b'{"model": "gpt-4o", "messages": [{"role": "user", "content": "a"}]}'
        urllib.request.urlopen(
            urllib.request.Request(url, body, {"Authorization": "Bearer k-1", "X-Team": "a"})
        ).close()
        (seen,) = sim.seen
    assert (seen.headers["authorization"], seen.headers["x-team"]) == ("Bearer k-1", "a")
    assert "k-1" not in repr(seen) and "authorization" in repr(seen)


def test_a_double_that_there_is_not_is_said_at_once() -> None:
    with sim_server() as sim:
        with pytest.raises(LocalError, match=r"no double of 'antropic'; did you mean anthropic or "):
            sim.base_url("antropic")
        assert sim.base_url("sim") == f"{sim.url}/sim"


@pytest.mark.parametrize("faults", ["429", ["429"], [429]], ids=repr)
def test_a_fault_may_be_written_as_a_number_or_alone(faults: Any) -> None:
    with sim_server("Hi.", faults=faults) as sim, SyncSession("openai/gpt-4o", client=sim.client()) as session:
        assert session.send("a").result().text == "Hi."
        assert [seen.status for seen in sim.seen] == [429, 200]
