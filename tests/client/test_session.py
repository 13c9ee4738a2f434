"""A session: what it keeps, what it tells before a switch, what it costs, and what is left of a reply nobody read out."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import Config, ModelConfig, ProviderConfig
from midstream.client.session import Session
from midstream.core.blocks import Conversation, Origin, Text, Thinking, ToolCall, Turn, Usage, human, tool_result
from midstream.core.errors import (
    LengthConflict,
    LocalError,
    MissingReasoning,
    Overloaded,
    TruncatedStream,
    UnknownModel,
    UnknownToolFormat,
)
from midstream.core.events import Done, ErrorEvent, TextDelta
from midstream.core.tools import ToolSpec
from midstream.sim.answer import Answer, Call
from midstream.store import MemoryStore
from tests.client.scripted import Cut, Host, Item, Refusal, Stall, play

Act = Callable[[Session, Host], Coroutine[Any, Any, Any]]


def chat(items: list[Item], act: Act, **options: Any) -> Any:
    async def main(host: Host, client: Client) -> Any:
        async with Session("a/m", client=client, **options) as session:
            return await act(session, host)

    return play(items, main)


def offline(**options: Any) -> Session:
    model = options.pop("model", "moonshot/kimi-k2.5")
    return Session(model, client=Client(Catalog(options.pop("config", Config()), environ={})), **options)


def test_what_is_said_and_answered_is_kept_in_order_and_in_the_store() -> None:
    store = MemoryStore()

    async def act(session: Session, host: Host) -> None:
        assert (await session.send("one")).text == "first"
        assert "".join([part async for part in session.send("two").iter_text()]) == "second"
        assert [turn.text for turn in session.conversation.turns] == ["one", "first", "two", "second"]
        assert store.load(session.conversation.id) == session.conversation
        assert [m["content"] for m in host.bodies[1]["messages"]] == ["Be brief.", "one", "first", "two"]

    chat([Answer("first"), Answer("second")], act, store=store, system="Be brief.")


def test_with_nothing_to_say_the_model_goes_on() -> None:
    async def act(session: Session, host: Host) -> None:
        await session.add(human("hello"))
        await session.send()
        assert [turn.speaker for turn in session.conversation.turns] == ["human", "ai"]

    chat([Answer("hi")], act)


def test_an_empty_text_is_nothing_to_say() -> None:
    async def act(session: Session, host: Host) -> None:
        await session.add(human("hello"))
        await session.send("", Text(""))
        await session.send("", "so")
        assert [turn.text for turn in session.conversation.turns] == ["hello", "hi", "so", "hi"]
        assert session.conversation.turns[2].blocks == (Text("so"),)

    chat([Answer("hi")], act, store=MemoryStore())


def test_a_stored_conversation_is_taken_up_again() -> None:
    store = MemoryStore()

    async def first(session: Session, host: Host) -> None:
        await session.send("one")

    async def second(session: Session, host: Host) -> None:
        await session.send("two")
        assert len(store.load(kept.id).turns) == 4

    chat([Answer("x")], first, store=store)
    kept = store.load(store.list()[0].id)
    chat([Answer("y")], second, store=store, conversation=kept)


def test_a_failure_before_the_start_is_raised_and_the_next_turn_works() -> None:
    async def act(session: Session, host: Host) -> None:
        with pytest.raises(Overloaded):
            await session.send("one")
        await session.send("two")
        assert [turn.speaker for turn in session.conversation.turns] == ["human", "human", "ai"]

    chat([Refusal(503), Answer("x")], act)


def test_a_failed_answer_is_kept_and_not_replayed() -> None:
    async def act(session: Session, host: Host) -> None:
        reply = session.send("one")
        turn = await reply
        assert turn.failure == "truncated" and reply.error is not None and reply.error.kind == "truncated"
        await session.send("two")
        assert [turn.failure for turn in session.conversation.turns] == ["", "truncated", "", ""]
        assert "one two" not in str(host.bodies[1])

    chat([Cut(Answer("one two three"), 3), Answer("x")], act)


@pytest.mark.parametrize("how", ["aclose", "cancel", "drop", "drop and collect"])
def test_a_reply_left_in_the_middle_is_kept_marked_and_the_next_turn_works(how: str) -> None:
    store = MemoryStore()

    async def act(session: Session, host: Host) -> None:
        reply = session.send("one")
        if how == "cancel":
            task, started = _reading(reply)
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            async for event in reply:
                if isinstance(event, TextDelta):
                    break
        if how == "aclose":
            await reply.aclose()
            assert reply.turn is not None and reply.turn.failure == "aborted"
            assert reply.error is not None and reply.error.kind == "aborted"
            assert (await reply).failure == "aborted"
        if how == "drop and collect":
            del reply, event
        assert (await session.send("two")).text == "fine"
        assert [turn.failure for turn in session.conversation.turns] == ["", "aborted", "", ""]
        assert session.conversation.turns[1].text.startswith("one")
        assert session.conversation.turns[1].origin == Origin("a", "openai-chat", "m")
        assert store.load(session.conversation.id) == session.conversation

    chat([Stall(Answer("one two three"), 3), Answer("fine")], act, store=store)


def _reading(reply: Any) -> tuple[asyncio.Task[None], asyncio.Event]:
    """A task that reads a reply, and the moment its first words came."""
    started = asyncio.Event()

    async def read() -> None:
        async for event in reply:
            if isinstance(event, TextDelta):
                started.set()

    return asyncio.ensure_future(read()), started


def test_one_reply_at_a_time() -> None:
    async def act(session: Session, host: Host) -> None:
        reply = session.send("one")
        task, started = _reading(reply)
        await started.wait()
        with pytest.raises(LocalError, match="already answering"):
            await session.send("two")
        assert [turn.text for turn in session.conversation.turns] == ["one"]
        task.cancel()
        await asyncio.wait((task,))

    chat([Stall(Answer("one two three"), 3)], act)


def test_a_reply_closed_before_it_started_has_no_turn_and_said_nothing() -> None:
    async def act(session: Session, host: Host) -> None:
        reply = session.send("one")
        await reply.aclose()
        with pytest.raises(LocalError, match="before it started"):
            await reply
        assert session.conversation.turns == () and host.bodies == []

    chat([Answer("x")], act)


class FullStore(MemoryStore):
    """Takes `room` turns and then no more."""

    room = 1

    def append(self, conversation_id: str, turn: Turn, expected_length: int) -> int:
        if expected_length >= self.room:
            raise LengthConflict(conversation_id, expected_length, 99)
        return super().append(conversation_id, turn, expected_length)


def test_a_store_that_fails_after_the_start_is_told_by_an_event_with_the_turn() -> None:
    store = FullStore()

    async def act(session: Session, host: Host) -> None:
        reply = session.send("one")
        last = [event async for event in reply][-1]
        assert isinstance(last, ErrorEvent) and last.error.kind == "length_conflict"
        told = last.to_exception()
        assert isinstance(told, LengthConflict) and told.length == 99
        assert last.turn.text == "answer" and reply.error == last.error
        assert store.load(session.conversation.id) == session.conversation
        with pytest.raises(
            LengthConflict
        ):  # what the human says cannot be kept either: before the start, so it is raised
            await session.send("two")

    chat([Answer("answer")], act, store=store)


@pytest.mark.parametrize("by", ["the reader", "the next"])
def test_a_reply_that_could_not_be_kept_when_it_was_left_does_not_stand_in_the_way(by: str) -> None:
    store = FullStore()

    async def act(session: Session, host: Host) -> None:
        reply = session.send("one")
        async for event in reply:
            if isinstance(event, TextDelta):
                break
        with pytest.raises(LengthConflict):
            await (reply.aclose() if by == "the reader" else session.send("two"))
        store.room = 9
        assert (await asyncio.wait_for(session.send("three").result(), 20)).text == "fine"
        assert [turn.text for turn in session.conversation.turns] == ["one", "three", "fine"]
        await asyncio.wait_for(session.aclose(), 20)

    chat([Stall(Answer("one two three"), 3), Answer("fine")], act, store=store)


def test_a_reply_whose_close_was_cancelled_does_not_stand_in_the_way() -> None:
    store = SlowStore()
    store.let.set()

    async def act(session: Session, host: Host) -> None:
        reply = session.send("one")
        async for event in reply:
            if isinstance(event, TextDelta):
                break
        store.let.clear()
        store.entered.clear()
        closing = asyncio.ensure_future(reply.aclose())
        await asyncio.to_thread(store.entered.wait, 20)
        closing.cancel()
        store.let.set()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert (await asyncio.wait_for(session.send("two").result(), 20)).text == "fine"
        assert [turn.failure for turn in session.conversation.turns] == ["", "aborted", "", ""]

    chat([Stall(Answer("one two three"), 3), Answer("fine")], act, store=store)


class SlowStore(MemoryStore):
    """Appends when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.let = threading.Event()

    def append(self, conversation_id: str, turn: Turn, expected_length: int) -> int:
        self.entered.set()
        self.let.wait(20)
        return super().append(conversation_id, turn, expected_length)


def test_a_cancellation_while_storing_leaves_store_and_session_agreeing() -> None:
    store = SlowStore()

    async def act(session: Session, host: Host) -> None:
        task = asyncio.ensure_future(session.add(human("one")))
        await asyncio.to_thread(store.entered.wait, 20)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        store.let.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(session.conversation.turns) == 1
        assert store.load(session.conversation.id) == session.conversation

    chat([Answer("x")], act, store=store)


def test_turns_added_at_once_are_all_kept() -> None:
    store = MemoryStore()

    async def act(session: Session, host: Host) -> None:
        await asyncio.gather(*[session.add(human(str(number))) for number in range(8)])
        assert len(session.conversation.turns) == 8
        assert store.load(session.conversation.id) == session.conversation

    chat([Answer("x")], act, store=store)


KIMI = Origin("moonshot", "openai-chat", "kimi-k2.5")
CALL = ToolCall("hist_tool_" + "a" * 24, "look", "{}", raw_id="look:0", provider="moonshot")
HISTORY = Conversation(
    (
        human("look", key="t0"),
        Turn("ai", (Thinking("hm", "reasoning_content", origin=KIMI), CALL), key="t1", origin=KIMI),
        Turn("tool", (tool_result(CALL, "three lines"),), key="t2"),
        Turn("ai", (Text("three"),), key="t3", origin=KIMI),
    )
)


def test_a_switch_is_reported_before_anything_is_sent() -> None:
    async def act(session: Session, host: Host) -> None:
        report = session.use("anthropic/claude-sonnet-4-5")
        assert session.model == "anthropic/claude-sonnet-4-5" == report.model
        assert [note.what for note in report.dropped] == ["thinking"]
        assert report.kept == {"text": 2, "tool_call": 1, "tool_response": 1}
        assert report.tokens and report.context == 200_000 and report.fits is True
        assert host.bodies == []

    chat([Answer("x")], act, conversation=HISTORY)


def test_a_switch_says_when_the_conversation_does_not_fit() -> None:
    config = Config(models={"openai/gpt-4o": ModelConfig(context=5)})
    report = offline(conversation=HISTORY, config=config).use("openai/gpt-4o")
    assert report.context == 5 and report.fits is False
    assert any("will not fit" in line for line in report.lines())
    unknown = offline(conversation=HISTORY).use("openrouter/some/new-model")
    assert unknown.context is None and unknown.fits is None


def test_tools_count_to_what_is_read() -> None:
    spec = ToolSpec("look", "x" * 4000, {"type": "object"})
    bare, armed = offline(conversation=HISTORY), offline(conversation=HISTORY, tools=[spec])
    assert (armed.preview().tokens or 0) > (bare.preview().tokens or 0) + 900


def test_an_unusable_model_leaves_the_session_with_the_one_it_had() -> None:
    session = offline(conversation=HISTORY)
    with pytest.raises(UnknownModel):
        session.use("nowhere/x")
    with pytest.raises(UnknownModel):
        session.use(["openai/gpt-4o", "nowhere/x"])
    with pytest.raises(LocalError):
        session.use([])
    assert session.models == ("moonshot/kimi-k2.5",)
    silent = Conversation((HISTORY.turns[0], Turn("ai", (CALL,), key="t1"), *HISTORY.turns[2:]))
    strict = offline(model="openai/gpt-4o", conversation=silent)
    strict.set_missing_reasoning("fail")
    with pytest.raises(MissingReasoning):
        strict.use("moonshot/kimi-k2.5")
    assert strict.model == "openai/gpt-4o"


def test_the_policy_for_missing_reasoning_is_in_force() -> None:
    silent = Conversation((HISTORY.turns[0], Turn("ai", (CALL,), key="t1"), *HISTORY.turns[2:]))
    session = offline(conversation=silent)
    assert b'"reasoning_content":" "' in session.request().body
    session.set_missing_reasoning("disable-thinking")
    assert b'"thinking":{"type":"disabled"}' in session.request().body
    session.set_missing_reasoning("fail")
    with pytest.raises(MissingReasoning):
        session.request()


def test_a_switch_to_a_kimi_that_keeps_all_reasoning_says_what_stands_in_for_it() -> None:
    said = Conversation((human("Hi", key="t0"), Turn("ai", (Text("Hello."),), key="t1"), human("Go on", key="t2")))
    session = offline(model="openai/gpt-4o", conversation=said)
    assert any("sent a placeholder" in line for line in session.use("moonshot/kimi-k2.6").lines())


def test_the_tool_format_can_be_chosen_by_hand() -> None:
    session = offline(tools=[ToolSpec("look")])
    assert session.tool_format == ("kimi", True)
    assert session.set_tool_format("hermes") == "hermes"
    assert session.tool_format == ("hermes", False)
    with pytest.raises(UnknownToolFormat):
        session.set_tool_format("nonsense")
    assert session.set_tool_format("auto") == "kimi"
    assert session.set_tool_format("qwen") == "qwen" and session.options.tool_format == "qwen-json"


@pytest.mark.parametrize(
    ("format", "model", "said"),
    [
        ("kimi", "anthropic/claude-sonnet-4-5", "kimi cannot be spoken on anthropic; anthropic is used instead"),
        ("gemma", "ollama/gemma3", "takes no tools, so tool format gemma becomes gemma-text"),
        ("hermes", "openai/gpt-4o", "hermes, set by hand, stays; the own one of openai/gpt-4o is openai"),
        ("kimi", "openai/gpt-4o", "kimi, set by hand, stays; the own one of openai/gpt-4o is openai"),
        ("kimi", "moonshot/kimi-k2.6", ""),
        ("native", "openai/gpt-4o", ""),
        ("auto", "openai/gpt-4o", ""),
    ],
)
def test_a_tool_format_that_does_not_suit_the_next_model_is_reported(format: str, model: str, said: str) -> None:
    session = offline(tools=[])
    session.set_tool_format(format)
    report = session.switch_model(model)
    assert said in report.tool_format and bool(said) is bool(report.tool_format)
    assert [line for line in report.lines() if line.startswith("tool format: ")] == (
        [f"tool format: {report.tool_format}"] if said else []
    )


def test_a_switch_back_and_forth_over_two_hosts_keeps_one_conversation() -> None:
    async def main() -> None:
        said = Answer(calls=(Call("look"),), thinking="hm")
        async with Host([said, Answer("back")]) as one, Host([Answer("from b")]) as two:
            providers = {"a": ProviderConfig(base_url=one.base), "moonshot": ProviderConfig(base_url=two.base)}
            client = Client(Catalog(Config(providers=providers), environ={}))
            async with client, Session("a/m", client=client) as session:
                turn = await session.send("go")
                await session.add(Turn("tool", (tool_result(turn.tool_calls[0], "ok"),)))
                session.use("moonshot/kimi-k2.5")
                assert (await session.send()).text == "from b"
                session.use("a/m")
                assert (await session.send("and?")).text == "back"
            (call,) = two.bodies[0]["messages"][1]["tool_calls"]
            assert call["id"] == two.bodies[0]["messages"][2]["tool_call_id"] == "functions.look:0"
            assert [turn.origin.provider for turn in session.conversation.turns if turn.origin] == [
                "a",
                "moonshot",
                "a",
            ]

    asyncio.run(main())


def paid(key: str, dollars: float | None) -> Turn:
    usage = None if dollars is None else Usage(input=1, output=1, cost=dollars)
    return Turn("ai", (Text("x"),), key=key, origin=Origin("openrouter", "openai-chat", "some/model"), usage=usage)


@given(st.lists(st.none() | st.floats(0, 100), max_size=6), st.lists(st.integers(0, 20), max_size=4), st.booleans())
def test_what_was_spent_stays_spent_however_far_one_goes_back(
    costs: list[float | None], lengths: list[int], stored: bool
) -> None:
    async def main() -> None:
        store = MemoryStore()
        turns = [turn for number, cost in enumerate(costs) for turn in (human("?"), paid(f"k{number}", cost))]
        whole = Conversation(tuple(turns), "Be kind.")
        session = offline(conversation=store.load(store.create(whole)) if stored else whole, store=store)
        spent = session.spent()
        assert spent == (None if all(cost is None for cost in costs) else pytest.approx(sum(filter(None, costs))))
        for length in lengths:
            before = session.conversation
            await session.rewind(length)
            assert session.conversation.turns == before.turns[:length] and session.conversation.system == "Be kind."
            assert session.spent() == (None if spent is None else pytest.approx(spent, abs=1e-9))
            if stored:
                info = store.info(session.conversation.id)
                assert (info.parent, info.forked_at) == (before.id, len(session.conversation.turns))
                assert store.load(before.id) == before
                assert store.load(session.conversation.id) == session.conversation
        store.close()

    asyncio.run(main())


def test_a_successor_carries_what_its_turns_do_not_account_for() -> None:
    session = offline(conversation=Conversation((paid("a", 1.0), paid("b", 2.0))))
    successor = session.carry_costs(Conversation((paid("b", 2.0), paid("c", 0.5))))
    assert successor.undone_cost == 0.5
    session.conversation = successor
    assert session.spent() == 3.0


@pytest.mark.parametrize(
    ("origin", "name"),
    [
        (Origin("moonshot", "openai-chat", "kimi-k2.5"), "moonshot/kimi-k2.5"),
        (Origin("sim:moonshot", "openai-chat", "kimi-k2.5"), "sim/kimi-k2.5"),
        (Origin("", "", "kimi-k2.5"), "kimi-k2.5"),
        (Origin("moonshot"), "moonshot"),
        (Origin(), ""),
    ],
)
def test_the_name_of_an_origin_is_what_a_user_calls_the_model(origin: Origin, name: str) -> None:
    assert origin.name == name


def test_each_turn_costs_what_its_own_model_takes() -> None:
    def answered(provider: str, model: str, usage: Usage | None) -> Turn:
        return Turn("ai", (Text("x"),), key=model, origin=Origin(provider, "openai-chat", model), usage=usage)

    used = Usage(input=1_000_000, output=1_000_000)
    turns = (
        answered("moonshot", "kimi-k2.5", used),
        answered("openai", "gpt-4o", used),
        answered("openrouter", "some/model", Usage(input=1, output=1, cost=0.25)),
        answered("openrouter", "some/model", used),
        answered("nowhere", "x", used),
        answered("openai", "gpt-4o", None),
        answered("sim:moonshot", "kimi-k2.5", used),
        answered("", "imported", used),
    )
    config = Config(models={"openai/gpt-4o": ModelConfig(input_price=1.0, output_price=2.0)})
    costs = offline(conversation=Conversation(turns), config=config).costs()
    assert [(each.model, each.cost) for each in costs] == [
        ("moonshot/kimi-k2.5", pytest.approx(3.6)),
        ("openai/gpt-4o", 3.0),
        ("openrouter/some/model", 0.25),
        ("openrouter/some/model", None),
        ("nowhere/x", None),
        ("sim/kimi-k2.5", 0.0),  # a double, though none is running here
        ("imported", None),
    ]
    assert costs[1].source == "configuration" and costs[2].source == "reported by the host"
    assert costs[0].source.startswith("platform.kimi.ai/docs/pricing, ") and costs[3].source == "no price is known"
    assert len(offline(conversation=Conversation(turns)).costs(since=4)) == 3


def test_the_fallback_chain_of_a_session_answers_with_the_next() -> None:
    async def main() -> None:
        async with Host([Refusal(503)]) as bad, Host([Answer("from b")]) as good:
            providers = {"a": ProviderConfig(base_url=bad.base), "b": ProviderConfig(base_url=good.base)}
            client = Client(Catalog(Config(providers=providers), environ={}))
            client._transport._sleep = _no_wait
            async with client, Session(["a/m", "b/m"], client=client) as session:
                last = [event async for event in session.send("x")][-1]
            assert isinstance(last, Done) and last.turn.origin is not None and last.turn.origin.provider == "b"

    asyncio.run(main())


@pytest.mark.parametrize(
    ("first", "second"), [([Refusal(503)], [Stall(Answer("from b"), 2)]), ([Stall(Answer("from a"), 2)], [])]
)
def test_an_answer_of_a_chain_that_is_left_is_not_told_to_be_anyones(first: list[Item], second: list[Item]) -> None:
    """Only its end would say which of the two gave it: replayed as the first one's own, it would be a false history."""

    async def main() -> None:
        async with Host(first) as a, Host(second) as b:
            providers = {"a": ProviderConfig(base_url=a.base), "b": ProviderConfig(base_url=b.base)}
            client = Client(Catalog(Config(providers=providers), environ={}))
            client._transport._sleep = _no_wait
            async with client, Session(["a/m", "b/m"], client=client) as session:
                reply = session.send("x")
                async for event in reply:
                    if isinstance(event, TextDelta):
                        break
                await reply.aclose()
                left = session.conversation.turns[1]
            assert (left.failure, left.origin) == ("aborted", None)

    asyncio.run(main())


async def _no_wait(_: float) -> None:
    return None


def test_use_is_short_for_switch_model() -> None:
    one, other = offline(conversation=HISTORY), offline(conversation=HISTORY)
    assert one.switch_model("openai/gpt-4o") == other.use("openai/gpt-4o")
    assert one.models == other.models == ("openai/gpt-4o",)


@pytest.mark.parametrize("swapped", [HISTORY, HISTORY.turns[0]], ids=["conversation", "turn"])
def test_a_conversation_where_a_model_belongs_is_said(swapped: Any) -> None:
    with pytest.raises(TypeError, match=r"a model first .* swap the two arguments"):
        Session(swapped, client=Client(Catalog(Config(), environ={})))


@pytest.mark.parametrize("how", ["dropped", "read as text but never iterated"])
def test_a_reply_that_is_never_read_warns_and_sends_nothing(how: str) -> None:
    async def act(session: Session, host: Host) -> None:
        with pytest.warns(RuntimeWarning, match="a Reply was never used, so nothing was sent: await it"):
            session.send("one") if how == "dropped" else session.send("one").iter_text()
            gc.collect()
        assert host.bodies == [] and session.conversation.turns == ()

    chat([Answer("x")], act)


def test_a_failed_turn_can_be_raised() -> None:
    async def act(session: Session, host: Host) -> None:
        reply = session.send("one")
        with pytest.raises(TruncatedStream, match="the answer of m failed"):
            (await reply).raise_for_failure()
        assert reply.error is not None
        with pytest.raises(TruncatedStream, match="ended"):
            raise reply.error.to_exception()
        assert (await session.send("two")).raise_for_failure().text == "x"

    chat([Cut(Answer("one two three"), 3), Answer("x")], act)
