"""The agent's loop against a scripted host: what it runs, when it stops, and what an interruption leaves behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
import pytest

from midstream.agent.loop import Agent
from midstream.agent.run import RunLimits, RunResult
from midstream.agent.tool import Tool
from midstream.agent.toolbox import Toolbox
from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import Config, ModelConfig, ProviderConfig
from midstream.client.session import Session
from midstream.codec import encode_request
from midstream.core.blocks import Conversation, ToolCall, ToolResponse, Turn, Usage, human
from midstream.core.errors import LocalError, Overloaded, StoreError, TruncatedStream
from midstream.core.events import (
    AgentEvent,
    Done,
    ErrorEvent,
    Start,
    Stopped,
    TextDelta,
    TextStart,
    ThinkingStart,
    ToolCallStart,
    ToolFinished,
    ToolStarted,
)
from midstream.core.history import repair
from midstream.core.tools import ToolSpec
from midstream.sim.answer import Answer, Call
from midstream.sim.players import make_players
from midstream.sim.rules.hosts import judge
from midstream.sim.server import Sim
from midstream.store import MemoryStore
from midstream.testing import sim_server
from tests.client.scripted import Cut, Host, Item, Refusal, Said, Stall, play

T = TypeVar("T")
MODEL = "a/m"


def look(path: str) -> str:
    """Look at a file."""
    return f"{path} holds 3 lines"


def fail() -> str:
    """Never works."""
    raise ValueError("it is broken")


def tools(*more: Tool | Callable[..., Any]) -> Toolbox:
    return Toolbox([look, fail, *more])


def calls(*named: str, **said: Any) -> Answer:
    return Answer(calls=tuple([Call(name, {"path": "a.txt"} if name == "look" else {}) for name in named]), **said)


def work(
    items: Sequence[Item],
    act: Callable[[Agent], Coroutine[Any, Any, T]],
    *,
    toolbox: Toolbox | None = None,
    limits: RunLimits | None = None,
    session: dict[str, Any] | None = None,
) -> tuple[T, Session, Host]:
    async def main(host: Host, client: Client) -> tuple[T, Session, Host]:
        kept = Session(MODEL, client=client, **{"store": MemoryStore(), **(session or {})})
        agent = Agent(kept, toolbox or tools(), limits or RunLimits())
        result = await act(agent)
        assert kept._store is not None
        assert kept._store.load(kept.conversation.id) == kept.conversation
        return result, kept, host

    return play(items, main)


async def go(agent: Agent) -> list[AgentEvent]:
    return [event async for event in agent.run("do it")]


def responses(conversation: Conversation) -> list[ToolResponse]:
    return [response for turn in conversation.turns for response in turn.tool_responses]


def speakers(conversation: Conversation) -> list[str]:
    return [turn.speaker for turn in conversation.turns]


def check_lawful(conversation: Conversation) -> None:
    """Every call has its one result behind it; repair drops nothing but failed turns, with their results."""
    for turn, after in zip(conversation.turns, (*conversation.turns[1:], None), strict=False):
        wanted = [call.id for call in turn.tool_calls]
        if wanted:
            assert after is not None
            assert [response.call_id for response in after.tool_responses] == wanted
    for note in repair(conversation.turns).notes:
        assert note.action == "dropped"
        assert note.what == "turn" or note.code == "orphan_result", str(note)
        assert note.turn is not None
        assert conversation.turns[note.turn].failure or conversation.turns[note.turn - 1].failure


READERS = list({player.target.dialect.wire: player for player in make_players().values()}.values()) + [
    player for name, player in make_players().items() if name in ("moonshot-k2.5", "mistral", "deepseek-reasoner")
]


def check_encodes_everywhere(conversation: Conversation, toolbox: Toolbox) -> None:
    """A reader on every wire takes it, by the rules of its strict double."""
    for reader in READERS:
        asked = conversation.add(human("and now?", key="next"))
        request = encode_request(reader.target, asked, tools=toolbox.specs(), cache=None)
        assert judge(request.body, reader.host, "paranoid") == [], reader.name


def test_tools_run_and_their_results_go_back_until_text_comes() -> None:
    events, session, host = work([calls("look"), calls("look", "look"), Answer("all done")], go)
    assert speakers(session.conversation) == ["human", "ai", "tool", "ai", "tool", "ai"]
    assert [r.text for r in responses(session.conversation)] == ["a.txt holds 3 lines"] * 3
    assert events[-1] == Stopped("text")
    assert sum(isinstance(event, ToolStarted) for event in events) == 3
    assert [e.response for e in events if isinstance(e, ToolFinished)] == responses(session.conversation)
    assert [body["messages"][-1]["role"] for body in host.bodies] == ["user", "tool", "tool"]
    assert {tool["function"]["name"] for tool in host.bodies[0]["tools"]} == {"look", "fail"}
    check_lawful(session.conversation)


def test_a_failing_an_unknown_and_an_ill_called_tool_leave_results_and_the_run_goes_on() -> None:
    said = Answer(calls=(Call("fail"), Call("nothing_like_it"), Call("look", {"wrong": 1})))
    events, session, _ = work([said, Answer("I see")], go)
    broken, unknown, ill = responses(session.conversation)
    assert broken.is_error and "it is broken" in broken.text
    assert unknown.is_error and "there is no tool" in unknown.text
    assert ill.is_error and "'wrong'" in ill.text
    assert events[-1] == Stopped("text")


def test_arguments_that_are_no_json_are_told_and_nothing_runs() -> None:
    ran: list[str] = []

    def touch(path: str = "") -> str:
        ran.append(path)
        return "touched"

    async def act(agent: Agent) -> None:
        await agent.session.add(human("go"))
        bad = ToolCall("hist_tool_" + "a" * 24, "touch", '{"path": ')
        turn = Turn("ai", (bad,), key="k", stop_reason="tool_use")
        await agent.session.add(turn)
        assert [step async for step in agent._work(turn, _spent(agent))]

    _, session, _ = work([Answer("x")], act, toolbox=tools(touch))
    (response,) = responses(session.conversation)
    assert response.is_error and "_parse_error" in response.text
    assert ran == []


def _spent(agent: Agent) -> Any:
    from midstream.agent.run import Spent

    return Spent(agent.limits, agent.session)


def test_safe_calls_run_beside_each_other() -> None:
    meeting = asyncio.Barrier(2)

    async def meet() -> str:
        """Waits for the other."""
        async with asyncio.timeout(20):
            await meeting.wait()
        return "met"

    events, session, _ = work([calls("meet", "meet"), Answer("ok")], go, toolbox=tools(meet))
    assert [r.text for r in responses(session.conversation)] == ["met", "met"]
    steps = [type(e).__name__ for e in events if isinstance(e, ToolStarted | ToolFinished)]
    assert steps == ["ToolStarted", "ToolStarted", "ToolFinished", "ToolFinished"]


def test_a_call_of_an_answer_cut_by_its_token_limit_is_never_run_and_the_model_hears_why() -> None:
    events, session, host = work([calls("look", length_stop=True), Answer("shorter then")], go)
    (response,) = responses(session.conversation)
    assert response.is_error and "token limit" in response.text
    assert not any(isinstance(event, ToolStarted) for event in events)
    assert "token limit" in host.bodies[1]["messages"][-1]["content"]
    assert events[-1] == Stopped("text")


def test_a_text_that_was_cut_says_so() -> None:
    events, _, _ = work([Answer("and then", length_stop=True)], go)
    assert events[-1] == Stopped("max_tokens")


def test_a_call_of_a_failed_answer_is_never_run_and_has_a_result() -> None:
    events, session, _ = work([Cut(calls("look"), 3), Answer("here")], go)
    assert [turn.failure for turn in session.conversation.turns] == ["", "truncated", "", ""]
    (response,) = responses(session.conversation)
    assert response.is_error and "failed (truncated)" in response.text
    assert not any(isinstance(event, ToolStarted) for event in events)
    check_lawful(session.conversation)


def told(*chunks: Any, end: bytes = b"data: [DONE]\n\n") -> Said:
    """A stream with one whole call of `look` in it, and then this."""
    call = {"index": 0, "id": "a", "function": {"name": "look", "arguments": '{"path":"a.txt"}'}}
    first = {"id": "r", "choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]}
    return Said(b"".join([b"data: " + msgspec.json.encode(chunk) + b"\n\n" for chunk in (first, *chunks)]) + end)


def ended(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "r", "choices": [{"index": 0, "delta": {}, "finish_reason": finish, **fields}]}


def unnamed(arguments: str, name: str = "") -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}}]}


NO_END = {
    "no finish reason": told(),
    "no finish reason and no [DONE]": told(end=b""),
    "an empty finish reason": told(ended("")),
    "an error inside the choice": told(ended("error", error={"message": "upstream is gone", "code": 502})),
    "an error for a reason": told(ended("error")),
    "an error chunk": told({"error": {"message": "overloaded"}}),
    "an error behind the finish reason": told(ended("tool_calls"), {"error": {"message": "overloaded"}}),
    "no JSON behind the finish reason": told(ended("tool_calls"), end=b"data: {nope\n\n"),
    "cut, then a stop": told(ended("length"), ended("stop")),
    "cut, then a stop for tools": told(ended("length"), ended("tool_calls")),
    "filtered": told(ended("content_filter")),
    "arguments of nobody": told({"choices": [{"delta": {"tool_calls": [{"index": 5, "function": {"arguments": "{}"}}]}}]}, ended("tool_calls")),
    "arguments that fit two calls": told(unnamed('{"path":', "look"), unnamed('{"path":"', "fail"), unnamed("1}"), unnamed('"}'), ended("tool_calls")),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_END)
def test_nothing_runs_of_an_answer_whose_end_was_not_said(case: str) -> None:
    ran: list[str] = []

    def look(path: str) -> str:
        """Look at a file."""
        ran.append(path)
        return "it ran"

    events, session, _ = work([NO_END[case], Answer("here")], go, toolbox=Toolbox([look, fail]))
    assert ran == [] and not any(isinstance(event, ToolStarted) for event in events)
    found = [call for turn in session.conversation.turns for call in turn.tool_calls]
    assert found and len(responses(session.conversation)) == len(found)
    assert all(response.is_error and "not run" in response.text for response in responses(session.conversation))
    check_lawful(session.conversation)


def test_the_same_answer_runs_once_its_end_was_said() -> None:
    events, _, _ = work([told(ended("tool_calls")), Answer("here")], go)
    assert sum(isinstance(event, ToolStarted) for event in events) == 1


def test_an_empty_or_cut_answer_is_asked_for_again_once() -> None:
    events, session, host = work([Answer(thinking="hm"), Answer("now")], go)
    assert events[-1] == Stopped("text")
    assert len(host.bodies) == 2
    assert host.bodies[0]["messages"] == host.bodies[1]["messages"]  # the failed answer is not replayed
    assert session.conversation.turns[1].failure == "empty"


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_retries_are_counted(retries: int) -> None:
    events, session, host = work([Cut(Answer("one two three"), 3)], go, limits=RunLimits(retries=retries))
    assert isinstance(events[-1], Stopped) and events[-1].reason == "failed"
    assert len(host.bodies) == retries + 1
    check_lawful(session.conversation)


@pytest.mark.parametrize(("answer", "requests"), [(Answer("one two three"), 1), (calls("look"), 3)])
def test_text_that_was_shown_is_not_requested_again(answer: Answer, requests: int) -> None:
    events, _, host = work([Cut(answer, 3)], go, limits=RunLimits(retries=2, retry_text=False))
    assert isinstance(events[-1], Stopped) and events[-1].reason == "failed"
    assert len(host.bodies) == requests


def test_a_good_answer_gives_the_retries_back() -> None:
    script = [Answer(thinking="hm"), calls("look"), Answer(thinking="hm"), Answer("done")]
    events, _, host = work(script, go)
    assert events[-1] == Stopped("text") and len(host.bodies) == 4


def test_what_keeps_an_answer_from_starting_is_raised_and_the_conversation_goes_on() -> None:
    async def act(agent: Agent) -> list[AgentEvent]:
        with pytest.raises(Overloaded):
            await go(agent)
        check_lawful(agent.session.conversation)
        return [event async for event in agent.run()]

    events, session, _ = work([calls("look"), Refusal(500), Answer("back")], act)
    assert events[-1] == Stopped("text")
    assert speakers(session.conversation) == ["human", "ai", "tool", "ai"]


def test_rounds_are_limited_and_open_calls_answered() -> None:
    events, session, host = work([calls("look")], go, limits=RunLimits(rounds=2))
    assert events[-1] == Stopped("rounds", "the limit of 2 rounds was reached")
    assert len(host.bodies) == 2
    first, second = responses(session.conversation)
    assert not first.is_error
    assert second.is_error and second.text == "not run: the limit of 2 rounds was reached"
    check_lawful(session.conversation)


def test_an_answer_in_words_is_no_limit() -> None:
    events, _, _ = work([Answer("hi")], go, limits=RunLimits(rounds=1, tokens=1))
    assert events[-1] == Stopped("text")


def test_tokens_are_limited_over_the_rounds_of_this_run_only() -> None:
    async def act(agent: Agent) -> tuple[list[AgentEvent], list[AgentEvent]]:
        return await go(agent), await go(agent)

    said = calls("look", input_tokens=100)
    (first, second), session, host = work([said], act, limits=RunLimits(tokens=250))
    assert first[-1] == second[-1] == Stopped("tokens", "the limit of 250 tokens was reached")
    assert len(host.bodies) == 6
    check_lawful(session.conversation)


def test_a_cost_limit_counts_at_known_prices_and_stops_at_unknown_ones() -> None:
    from midstream.client.config import Config, ModelConfig

    async def priced(agent: Agent) -> list[AgentEvent]:
        config = agent.session.client.catalog.config
        models = {MODEL: ModelConfig(input_price=1_000_000.0, output_price=0.0)}
        agent.session.client.catalog.config = Config(providers=config.providers, models=models)
        return await go(agent)

    events, _, host = work([calls("look", input_tokens=2)], priced, limits=RunLimits(cost=5.0))
    assert events[-1] == Stopped("cost", "the limit of $5 was reached") and len(host.bodies) == 3
    events, session, host = work([calls("look")], go, limits=RunLimits(cost=5.0))
    assert events[-1] == Stopped("cost", "the price of a/m is unknown, so the limit of $5 cannot be enforced")
    assert len(host.bodies) == 1
    check_lawful(session.conversation)


async def forever() -> str:
    """Never returns."""
    await asyncio.Event().wait()
    return "never"


def test_time_ends_a_tool_and_keeps_what_was_finished() -> None:
    events, session, _ = work(
        [calls("look", "forever"), Answer("x")], go, toolbox=tools(forever), limits=RunLimits(seconds=0.3)
    )
    assert events[-1] == Stopped("time", "the limit of 0.3 s was reached")
    done, late = responses(session.conversation)
    assert not done.is_error
    assert late.is_error and "stopped while it was running" in late.text and "0.3 s" in late.text
    assert [e.response for e in events if isinstance(e, ToolFinished)] == [done, late]
    check_lawful(session.conversation)


def test_time_ends_an_answer_that_does_not_come_to_its_end() -> None:
    events, session, _ = work([Stall(calls("look", "look"), 6)], go, limits=RunLimits(seconds=0.3))
    assert events[-1] == Stopped("time", "the limit of 0.3 s was reached")
    assert session.conversation.turns[1].failure == "aborted"
    assert responses(session.conversation)
    check_lawful(session.conversation)


def test_time_may_be_up_before_an_answer_begins() -> None:
    events, session, _ = work([Stall(Answer("x"), 0)], go, limits=RunLimits(seconds=1.0))
    assert isinstance(events[0], Start)  # the host has accepted the request, and says nothing
    assert events[1:] == [Stopped("time", "the limit of 1 s was reached")]
    assert speakers(session.conversation) == ["human"]


def test_a_hosts_own_tool_is_answered_with_its_arguments() -> None:
    web = ToolSpec("$web_search", builtin="$web_search")
    said = Answer(calls=(Call("$web_search", {"query": "kimi"}), Call("look", {"path": "b"})))
    _, session, _ = work([said, Answer("found")], go, session={"tools": (web,)})
    echoed, looked = responses(session.conversation)
    assert echoed.text == '{"query":"kimi"}' and not echoed.is_error
    assert looked.text == "b holds 3 lines"
    assert [tool.name for tool in session.tools] == ["$web_search", "look", "fail"]


def test_calls_left_open_by_a_killed_program_are_answered_first() -> None:
    async def act(agent: Agent) -> list[AgentEvent]:
        await agent.session.add(human("before"))
        await agent.session.add(Turn("ai", (ToolCall("hist_tool_" + "b" * 24, "look"),), key="k1"))
        return await go(agent)

    _, session, _ = work([Answer("hi")], act)
    assert speakers(session.conversation) == ["human", "ai", "tool", "human", "ai"]
    check_lawful(session.conversation)


class ForgetfulStore(MemoryStore):
    """Refuses the answers of a model."""

    def append(self, conversation_id: str, turn: Turn, expected_length: int) -> int:
        if turn.speaker == "ai":
            raise StoreError("the disk is full")
        return super().append(conversation_id, turn, expected_length)


def test_an_answer_that_cannot_be_stored_ends_the_run_and_nothing_of_it_is_run() -> None:
    events, session, _ = work([calls("look")], go, session={"store": ForgetfulStore()})
    assert events[-1] == Stopped("failed", "the answer could not be stored: the disk is full")
    assert not any(isinstance(event, ToolStarted | ToolFinished) for event in events)
    assert speakers(session.conversation) == ["human"]


def test_one_run_at_a_time() -> None:
    async def act(agent: Agent) -> None:
        async def other() -> None:
            with pytest.raises(LocalError, match="already running"):
                await go(agent)

        started = asyncio.Event()

        async def first() -> None:
            async for event in agent.run("one"):
                if isinstance(event, ToolStarted):
                    started.set()

        task = asyncio.ensure_future(first())
        await started.wait()
        await other()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    _, session, _ = work([calls("forever")], act, toolbox=tools(forever))
    check_lawful(session.conversation)
    assert "interrupted by the user" in responses(session.conversation)[0].text


def test_a_run_that_was_dropped_is_ended_before_the_next() -> None:
    async def act(agent: Agent) -> list[AgentEvent]:
        left = agent.run("one")
        async for event in left:
            if isinstance(event, ToolStarted):
                break
        return [event async for event in agent.run("two")]

    events, session, _ = work([calls("forever"), Answer("fine")], act, toolbox=tools(forever))
    assert events[-1] == Stopped("text")
    assert speakers(session.conversation) == ["human", "ai", "tool", "human", "ai"]
    check_lawful(session.conversation)


SCRIPT = [
    Answer("Let me look.", "thinking first", (Call("look", {"path": "a"}), Call("fail"), Call("slow"))),
    calls("look", "slow", "look", thinking="more"),
    Answer("That is all.", "at last"),
]


async def slow() -> str:
    """Takes a few turns of the loop."""
    for _ in range(3):
        await asyncio.sleep(0)
    return "slept"


def _length() -> int:
    events, session, _ = work(SCRIPT, go, toolbox=tools(slow))
    assert events[-1] == Stopped("text")
    check_lawful(session.conversation)
    return len(events)


@pytest.mark.parametrize("how", ["close", "cancel"])
def test_an_interruption_after_any_event_leaves_a_conversation_that_goes_on(how: str) -> None:
    """After the k-th event, for every k: by `aclose`, and by cancelling the task that reads."""
    interrupt = _closed_after if how == "close" else _cancelled_after
    for k in range(1, _length()):

        async def act(agent: Agent, k: int = k) -> list[AgentEvent]:
            seen = await interrupt(agent, k)
            check_lawful(agent.session.conversation)
            _nothing_finished_is_lost(seen, agent.session.conversation)
            check_encodes_everywhere(agent.session.conversation, agent.toolbox)
            return [event async for event in agent.run("go on")]

        events, session, _ = work([*SCRIPT, Answer("after all")], act, toolbox=tools(slow))
        assert events[-1] == Stopped("text"), f"after event {k}"
        check_lawful(session.conversation)
        # No call ran twice, and none was left running.
        assert len({response.call_id for response in responses(session.conversation)}) == len(
            responses(session.conversation)
        )


def test_a_cancellation_at_any_step_of_the_event_loop_leaves_a_conversation_that_goes_on() -> None:
    """Not only between events: while it connects, while it stores, while tools run and while they end."""
    for steps in range(0, 120, 4):

        async def act(agent: Agent, steps: int = steps) -> list[AgentEvent]:
            task = asyncio.ensure_future(go(agent))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait((task,))
            check_lawful(agent.session.conversation)
            return [event async for event in agent.run("go on")]

        events, session, _ = work([*SCRIPT, Answer("after all")], act, toolbox=tools(slow))
        assert events[-1] == Stopped("text"), f"after {steps} steps"
        check_lawful(session.conversation)


async def _closed_after(agent: Agent, k: int) -> list[AgentEvent]:
    seen: list[AgentEvent] = []
    async with aclosing(agent.run("do it")) as events:
        async for event in events:
            seen.append(event)
            if len(seen) == k:
                break
    return seen


async def _cancelled_after(agent: Agent, k: int) -> list[AgentEvent]:
    seen: list[AgentEvent] = []
    reached = asyncio.Event()

    async def read() -> None:
        async for event in agent.run("do it"):
            seen.append(event)
            if len(seen) == k:
                reached.set()

    task = asyncio.ensure_future(read())
    waiter = asyncio.ensure_future(reached.wait())
    await asyncio.wait((task, waiter), return_when=asyncio.FIRST_COMPLETED)
    waiter.cancel()
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        assert isinstance(seen[-1], Stopped)  # it had ended before the cancellation came
    return seen


def _nothing_finished_is_lost(seen: list[AgentEvent], conversation: Conversation) -> None:
    """Every answer and every result the caller has seen is in the conversation; of a begun answer, what came of it."""
    kept = responses(conversation)
    keys = [turn.key for turn in conversation.turns]
    key = ""
    for event in seen:
        if isinstance(event, ToolFinished):
            assert event.response in kept
        elif isinstance(event, Done | ErrorEvent):
            assert event.turn in conversation.turns
        elif isinstance(event, Start):
            key = event.turn_key
        elif isinstance(event, TextStart | ThinkingStart | ToolCallStart):
            assert key in keys  # an answer without a block has nothing to keep
    said = "".join(event.delta for event in seen if isinstance(event, TextDelta))
    assert "".join(turn.text for turn in conversation.turns if turn.speaker == "ai").startswith(said)


def test_a_switch_while_tools_run_does_not_call_their_results_lost() -> None:
    async def main(client: Client) -> list[str]:
        lines: list[str] = []
        async with Session("moonshot/kimi-k2.5", client=client) as session:
            async for event in Agent(session, [look]).run("Call look with path 'a.txt'."):
                if isinstance(event, ToolFinished):
                    lines += session.switch_model("anthropic/claude-sonnet-4-5").lines()
        return lines

    with sim_server() as sim:
        lines = asyncio.run(main(sim.client()))
        assert sim.seen[-1].body["messages"][-1]["content"][0]["content"] == "a.txt holds 3 lines"
    (told,) = [line for line in lines if "result" in line]
    assert "has no result yet" in told and "sent an error" not in told


def test_calls_that_were_left_are_reported_as_before() -> None:
    left = Conversation((human("a"), Turn("ai", (ToolCall("hist_tool_1", "look", "{}"),)), human("b")))
    report = Session("openai/gpt-4o", conversation=left, client=Client(Catalog(Config(), environ={}))).preview()
    assert "look has no result; sent an error result instead" in "\n".join(report.lines())


MODELS = ("moonshot/kimi-k2.5", "anthropic/claude-sonnet-4-5", "openai/gpt-4.1", "gemini/gemini-2.5-flash",
          "mistral/mistral-large-latest", "openai-responses/gpt-5.1", "deepseek/deepseek-reasoner", "moonshot/kimi-k3")  # fmt: skip


def test_one_conversation_through_strict_doubles_of_many_models_with_an_interruption_at_each() -> None:
    async def main() -> None:
        async with Sim(strict="paranoid") as sim:
            catalog = Catalog(Config(), environ={}, providers=sim.providers())
            async with Client(catalog, api_key="sk-canary") as client:
                session = Session(MODELS[0], client=client, store=MemoryStore())
                agent = Agent(session, tools(slow))
                for number, model in enumerate(MODELS):
                    session.use(model)
                    await _closed_after(agent, 3 + 4 * number)
                    check_lawful(session.conversation)
                    events = [event async for event in agent.run("Please look at a.txt and slow, then fail")]
                    assert events[-1] == Stopped("text"), model
                    assert sum(isinstance(event, ToolFinished) for event in events) == 3, model
                assert sim.refused == []
                check_lawful(session.conversation)
                check_encodes_everywhere(session.conversation, agent.toolbox)

    asyncio.run(main())


def test_an_agent_takes_plain_functions() -> None:
    async def main(host: Host, client: Client) -> list[str]:
        agent = Agent(Session(MODEL, client=client), [look, Tool.from_function(fail)])
        assert [spec.name for spec in agent.toolbox.specs()] == ["look", "fail"]
        return [event.response.text async for event in agent.run("go") if isinstance(event, ToolFinished)]

    assert play([calls("look"), Answer("done")], main) == ["a.txt holds 3 lines"]


def test_a_run_that_is_awaited_gives_its_result() -> None:
    async def act(agent: Agent) -> RunResult:
        return await agent.run("do it")

    result, session, _ = work([calls("look"), Cut(Answer("one two"), 3), Answer("done")], act)
    assert (result.text, result.rounds, result.reason, result.detail) == ("done", 2, "text", "")
    assert result.turn == session.conversation.turns[-1] and result.turns == session.conversation.turns
    used = [turn.usage for turn in result.turns if turn.usage is not None]
    assert (
        len(used) >= 2 and result.usage == sum(used, Usage()) and result.usage.read == sum(each.read for each in used)
    )
    assert result.cost is None  # nobody knows what the host `a` costs
    assert result.raise_for_failure() is result


def test_the_result_is_there_after_iterating_and_counts_this_run_only() -> None:
    async def act(agent: Agent) -> None:
        await agent.run("first")
        run = agent.run("second")
        events = [event async for event in run]
        result = await run
        assert isinstance(events[-1], Stopped) and result.rounds == 1 and len(result.turns) == 2

    work([Answer("x")], act)


def test_the_cost_of_a_run_is_known_where_every_price_is() -> None:
    config = Config(models={MODEL: ModelConfig(input_price=1_000_000, output_price=0)})

    async def main() -> RunResult:
        async with Host([Answer("x")]) as host:
            providers = {"a": ProviderConfig(base_url=host.base)}
            catalog = Catalog(msgspec.structs.replace(config, providers=providers), environ={})
            async with Client(catalog) as client:
                return await Agent(Session(MODEL, client=client), tools()).run("hi")

    result = asyncio.run(main())
    assert result.cost == result.usage.read > 0


def test_a_failed_run_can_be_raised() -> None:
    async def act(agent: Agent) -> RunResult:
        return await agent.run("do it")

    result, _, _ = work([Cut(Answer("one two"), 3)], act)
    assert result.reason == "failed" and result.detail and result.rounds == 0
    with pytest.raises(TruncatedStream):
        result.raise_for_failure()


def test_a_run_that_is_left_or_never_read_has_no_result() -> None:
    async def act(agent: Agent) -> None:
        run = agent.run("do it")
        async with aclosing(run):
            async for _ in run:
                break
        with pytest.raises(LocalError, match="closed before it ended"):
            await run
        with pytest.warns(RuntimeWarning, match="a Run was never used"):
            agent.run("not me")
            gc.collect()

    work([Answer("x")], act)


@pytest.mark.parametrize(
    ("limits", "passed", "expected"),
    [
        (RunLimits(rounds=None), 1e9, None),
        (RunLimits(seconds=5), 4.9, None),
        (RunLimits(seconds=5), 5, ("time", "the limit of 5 s was reached")),
        (RunLimits(seconds=5), 99, ("time", "the limit of 5 s was reached")),
        (RunLimits(rounds=3, seconds=5), 99, ("rounds", "the limit of 3 rounds was reached")),
        (RunLimits(rounds=4, seconds=5), 99, ("time", "the limit of 5 s was reached")),
        (RunLimits(rounds=4, seconds=100), 99, None),
        (RunLimits(rounds=9, tokens=0), 0, ("tokens", "the limit of 0 tokens was reached")),
        (RunLimits(rounds=9, tokens=1), 0, None),
    ],
)
def test_the_first_limit_that_is_reached_is_named(
    limits: RunLimits, passed: float, expected: tuple[str, str] | None
) -> None:
    from midstream.agent.run import Spent

    now = [1000.0]
    spent = Spent(limits, Session("moonshot/kimi-k2.5"), lambda: now[0])
    spent.rounds = 3
    now[0] += passed
    assert spent.reached() == expected
