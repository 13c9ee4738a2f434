"""What an approver, a hook or another callable of the program raises reaches the program, and no model ever hears of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from midstream.agent.approval import ALWAYS, NO, ONCE, Approval, Decision
from midstream.agent.approval_request import ApprovalRequest
from midstream.agent.loop import Agent
from midstream.agent.progress import report_progress
from midstream.agent.sync import SyncAgent
from midstream.agent.tool import Tool
from midstream.agent.toolbox import Toolbox
from midstream.client.client import Client
from midstream.client.session import Session
from midstream.client.sync import SyncSession
from midstream.core.blocks import ToolCall, ToolResponse
from midstream.core.errors import BadArguments, ToolFailed
from midstream.core.tools import ToolSpec
from midstream.sim.answer import Answer, Call
from midstream.store import MemoryStore
from tests.client.scripted import Host, play, served


class Fault(Exception):
    """A mistake in the program."""


SECRET = "the program's own words"


def breaks(*_: Any, **__: Any) -> Any:
    raise Fault(SECRET)


async def breaks_later(*_: Any) -> Any:
    raise Fault(SECRET)


ran: list[str] = []


def look() -> str:
    ran.append("look")
    return "3 lines"


def write() -> str:
    report_progress("half done")
    ran.append("write")
    return "written"


class Source:
    """Breaks once, after the first call has run."""

    broken = False

    async def ready(self) -> None: ...

    def tools(self) -> list[Tool]:
        if ran and not self.broken:
            self.broken = True
            breaks()
        return []


def box(*, ask: Any = lambda _: ONCE, **options: Any) -> Toolbox:
    return Toolbox([look, Tool.from_function(write, writes=True, **options)], approve=Approval(ask))


def hooked(name: str, hook: Callable[..., Any]) -> Toolbox:
    made = box()
    setattr(made, name, hook)
    return made


def with_source() -> Toolbox:
    made = box()
    made.add(Source())
    return made


def checking() -> Toolbox:
    return Toolbox([look, Tool(ToolSpec("write"), write, check=breaks)])


# Each: the toolbox, and what the model is told of the call of `write`.
NOT_RUN = "not run: the program that runs the tools stopped before it started"
FAULTS: dict[str, tuple[Callable[[], Toolbox], str]] = {
    "an approver": (lambda: box(ask=breaks), NOT_RUN),
    "an async approver": (lambda: box(ask=breaks_later), NOT_RUN),
    "an approver that gives no decision": (lambda: box(ask=lambda _: True), NOT_RUN),
    "an approver that refuses as a tool does": (lambda: box(ask=lambda _: breaks_as(ToolFailed)), NOT_RUN),
    "a preview": (lambda: box(preview=breaks), NOT_RUN),
    "a preview that gives none": (lambda: box(preview=lambda: "a file"), NOT_RUN),
    "a check": (checking, NOT_RUN),
    "watch": (lambda: hooked("watch", breaks_later), NOT_RUN),
    "a plain watch": (lambda: hooked("watch", breaks), NOT_RUN),
    "a source of tools": (with_source, NOT_RUN),
    # The tool is not at fault: it has worked to its end, and that is in the history.
    "progress": (lambda: hooked("progress", breaks), "written"),
}


def breaks_as(kind: type[Exception]) -> Any:
    raise kind(SECRET)


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_of_the_program_is_raised_and_what_ran_is_kept(case: str) -> None:
    make, told = FAULTS[case]
    ran.clear()
    expected = (Fault, TypeError, ToolFailed)

    async def act(host: Host, client: Client) -> None:
        session = Session("a/m", client=client, store=MemoryStore())
        agent = Agent(session, make())
        with pytest.raises(expected) as raised:
            await agent.run("do it")
        assert raised.value.__cause__ is None and not isinstance(raised.value.__context__, Fault)
        results = [response for turn in session.conversation.turns for response in turn.tool_responses]
        assert [response.text for response in results] == ["3 lines", told, NOT_RUN]
        assert (await agent.run("go on")).text == "Fine."
        for body in host.server.seen:
            assert SECRET.encode() not in body.body and b"Fault" not in body.body and b"TypeError" not in body.body

    play([Answer(calls=(Call("look"), Call("write"), Call("write"))), Answer("Fine.")], act)


def test_one_call_by_itself_raises_too() -> None:
    with pytest.raises(Fault):
        asyncio.run(box(ask=breaks).run(ToolCall("c", "write")))
    with pytest.raises(Fault):
        asyncio.run(box(ask=breaks).run_all([ToolCall("c", "write")]))


def test_an_approver_that_ends_the_program_ends_it() -> None:
    async def exit_now(_: ApprovalRequest) -> Decision:
        raise SystemExit(3)

    async def act(host: Host, client: Client) -> None:
        session = Session("a/m", client=client)
        with pytest.raises(SystemExit):
            await Agent(session, box(ask=exit_now)).run("do it")
        assert session.conversation.turns[-1].tool_responses[0].text == NOT_RUN

    play([Answer(calls=(Call("write"),)), Answer("Fine.")], act)


@pytest.mark.parametrize("answer", [ONCE, ALWAYS, NO, Decision(False, reason="not today")], ids=str)
def test_an_approver_may_be_a_plain_function(answer: Decision) -> None:
    """Also in a program without async, where it may wait for a person: it runs in a thread."""
    threads: list[str] = []

    def ask(request: ApprovalRequest) -> Decision:
        threads.append(threading.current_thread().name)
        assert request.tool == "write"
        return answer

    call = Answer(calls=(Call("write"),))
    with served(call, Answer("Fine.")) as catalog, SyncSession("a/m", client=Client(catalog)) as session:
        assert SyncAgent(session, box(ask=ask)).run("do it").result().text == "Fine."
        response: ToolResponse = session.conversation.turns[2].tool_responses[0]
    assert response.text == ("written" if answer.allowed else response.text) and response.is_error != answer.allowed
    assert answer.reason in response.text
    assert threads and "midstream-loop" not in threads


def test_a_fault_reaches_a_program_without_async() -> None:
    with (
        served(Answer(calls=(Call("write"),)), Answer("Fine.")) as catalog,
        SyncSession("a/m", client=Client(catalog)) as session,
    ):
        run = SyncAgent(session, box(ask=breaks)).run("do it")
        with pytest.raises(Fault, match=SECRET):
            run.result()


def test_what_a_preview_or_a_check_says_to_the_model_is_told() -> None:
    async def act(host: Host, client: Client) -> None:
        for made in (
            box(preview=lambda: breaks_as(ToolFailed)),
            Toolbox([Tool(ToolSpec("write"), write, check=lambda _: breaks_as(BadArguments))]),
        ):
            session = Session("a/m", client=client)
            assert (await Agent(session, made).run("do it")).text == "Fine."
            assert session.conversation.turns[2].tool_responses[0].text == SECRET

    call = Answer(calls=(Call("write"),))
    play([call, Answer("Fine."), call, Answer("Fine.")], act)


def test_a_plain_watch_is_called() -> None:
    seen: list[str] = []
    made = hooked("watch", lambda request: seen.append(request.tool))

    async def act(host: Host, client: Client) -> None:
        assert (await Agent(Session("a/m", client=client), made).run("do it")).text == "Fine."

    play([Answer(calls=(Call("write"),)), Answer("Fine.")], act)
    assert seen == ["write"]
