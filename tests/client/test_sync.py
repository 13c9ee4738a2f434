"""Without async: in a script, inside a running loop, left early, interrupted; no thread stays behind."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from typing import Any

import pytest

from midstream.client.client import Client
from midstream.client.compaction import Compaction
from midstream.client.session import Session
from midstream.client.sync import Background, SyncSession, complete_sync, stream_sync
from midstream.core.blocks import Conversation, human
from midstream.core.dialect import Options
from midstream.core.errors import LocalError, Overloaded
from midstream.core.events import CompactionFinished, TextDelta
from midstream.core.lifecycle import check
from midstream.core.tools import ToolSpec
from midstream.sim.answer import Answer
from midstream.store import MemoryStore
from tests.client import scripted
from tests.client.scripted import Cut, Refusal, Stall, served


def _in_a_loop(work: Callable[[], Any]) -> Any:
    async def main() -> Any:
        return work()

    return asyncio.run(main())


@pytest.mark.parametrize("run", [lambda work: work(), _in_a_loop], ids=["script", "notebook"])
def test_both_work_in_a_script_and_inside_a_running_loop(run: Callable[[Callable[[], Any]], Any]) -> None:
    with served(Answer("hello you", "hm")) as catalog:
        assert run(lambda: complete_sync("a/m", "hi", catalog=catalog)).text == "hello you"
        events = run(lambda: list(stream_sync("a/m", "hi", catalog=catalog)))
        check(events)
        assert "".join(run(lambda: list(stream_sync("a/m", "hi", catalog=catalog).iter_text()))) == "hello you"
        assert run(lambda: stream_sync("a/m", "hi", catalog=catalog).result()).text == "hello you"


def test_a_reply_left_early_is_closed_with_what_came() -> None:
    with served(Stall(Answer("one two three"), 3)) as catalog, stream_sync("a/m", "hi", catalog=catalog) as reply:
        for event in reply:
            if isinstance(event, TextDelta):
                break
        reply.close()
        assert reply.turn is not None and reply.turn.failure == "aborted" and reply.turn.text.startswith("one")
        assert reply.error is not None and reply.error.kind == "aborted"
        assert reply.result() == reply.turn


def test_a_failure_before_the_start_is_raised_after_it_told() -> None:
    catalog_error = Refusal(400, "no")
    with served(catalog_error) as catalog:
        with pytest.raises(Exception, match="a 400: no"):
            complete_sync("a/m", "hi", catalog=catalog)
        with pytest.raises(Exception, match="a 400: no"):
            stream_sync("a/m", "hi", catalog=catalog).result()
    with served(Cut(Answer("one two three"), 3)) as catalog:
        reply = stream_sync("a/m", "hi", catalog=catalog)
        assert reply.result().failure == "truncated"
        assert reply.error is not None and reply.error.kind == "truncated"


def test_an_interrupted_caller_cancels_the_work_and_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes while the caller waits for the next events."""

    async def wait() -> None:
        await asyncio.Event().wait()

    def interrupted(self: Any, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    before = set(threading.enumerate())
    background = Background()
    with monkeypatch.context() as patched:
        patched.setattr("concurrent.futures.Future.result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            background.run(wait())
    background.close()
    assert set(threading.enumerate()) == before


def test_a_reply_nobody_reads_starts_no_thread() -> None:
    before = set(threading.enumerate())
    reply = stream_sync("a/m", "hi", catalog=scripted.catalog(a="http://127.0.0.1:9/v1"))
    reply.close()
    with pytest.raises(LocalError, match="before it started"):
        reply.result()
    assert set(threading.enumerate()) == before


def test_an_error_of_the_work_comes_back_and_the_loop_can_be_closed_twice() -> None:
    async def fail() -> None:
        raise Overloaded("busy")

    background = Background()
    with pytest.raises(Overloaded):
        background.run(fail())
    background.close()
    background.close()


def test_what_was_entered_is_left_with_the_loop_and_what_went_wrong_then_is_raised() -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def context() -> AsyncIterator[str]:
        yield threading.current_thread().name
        seen.append(threading.current_thread().name)
        raise Overloaded("busy")

    background = Background()
    assert background.enter(context()) == "midstream-loop" and seen == []
    with pytest.raises(Overloaded):
        background.close()
    assert seen == ["midstream-loop"] and not background.is_alive
    background.close()


@pytest.mark.parametrize("run", [lambda work: work(), _in_a_loop], ids=["script", "notebook"])
def test_a_session_without_async_keeps_its_conversation_and_switches_models(
    run: Callable[[Callable[[], Any]], Any],
) -> None:
    def talk() -> None:
        with SyncSession("a/m", client=Client(catalog), store=store) as session:
            assert session.send("one").result().text == "hello you"
            assert "".join(session.send("two").iter_text()) == "hello you"
            check(list(session.send("three")))
            session.add(human("four"))
            assert session.preview("openai/gpt-4o").model == "openai/gpt-4o" and session.model == "a/m"
            assert session.switch_model("moonshot/kimi-k2.5").model == session.model == "moonshot/kimi-k2.5"
            assert session.use("a/m").model == "a/m"
            assert len(session.costs()) == 3
            assert [turn.text for turn in session.conversation.turns][::2] == ["one", "two", "three", "four"]
            assert store.load(session.conversation.id) == session.conversation
        session.close()
        with pytest.raises(LocalError, match="closed"):
            session.send("five").result()

    store = MemoryStore()
    with served(Answer("hello you", "hm")) as catalog:
        before = set(threading.enumerate())
        run(talk)
        assert set(threading.enumerate()) == before


def test_a_session_that_is_closed_in_the_middle_of_an_answer_keeps_what_came() -> None:
    with served(Stall(Answer("one two three"), 3), Answer("fine")) as catalog:
        with SyncSession("a/m", client=Client(catalog)) as session:
            reply = session.send("hi")
            next(iter(reply.iter_text()))
            assert session.send("again").result().text == "fine"  # what came of the first is kept before
            assert [turn.failure for turn in session.conversation.turns] == ["", "aborted", "", ""]
            reply.close()
        with SyncSession("a/m", client=Client(catalog)) as session:
            left = session.send("hi")
            next(iter(left))
        left.close()


def test_a_session_that_sent_nothing_needs_no_thread_and_no_close() -> None:
    before = set(threading.enumerate())
    session = SyncSession("moonshot/kimi-k2.5", client=Client(scripted.catalog()))
    assert session.preview().model == "moonshot/kimi-k2.5"
    assert set(threading.enumerate()) == before
    del session
    gc.collect()


def test_a_session_that_is_not_closed_warns_and_ends_its_thread() -> None:
    before = set(threading.enumerate())
    session = SyncSession("a/m", client=Client(scripted.catalog(a="http://127.0.0.1:9/v1")))
    session.add(human("hi"))
    with pytest.warns(ResourceWarning, match="SyncSession was not closed"):
        del session
        gc.collect()
    assert set(threading.enumerate()) == before


def test_work_that_comes_while_the_loop_ends_is_refused_instead_of_waiting_for_ever() -> None:
    background = Background()
    ends, late = threading.Event(), threading.Event()

    async def until_the_end() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ends.set()
            await asyncio.to_thread(late.wait, 10)

    async def nothing() -> None: ...

    refused: list[Exception] = []

    def ask(work: Callable[[], Any]) -> None:
        try:
            background.run(work())
        except (LocalError, CancelledError) as error:
            refused.append(error)

    waiting = [threading.Thread(target=ask, args=(until_the_end,), daemon=True)]
    waiting[0].start()
    background.run(asyncio.sleep(0.01))
    closing = threading.Thread(target=background.close, daemon=True)
    closing.start()
    assert ends.wait(10)
    waiting.append(threading.Thread(target=ask, args=(nothing,), daemon=True))
    waiting[1].start()
    waiting[1].join(10)
    late.set()
    for thread in (*waiting, closing):
        thread.join(10)
        assert not thread.is_alive()
    assert [type(error) for error in refused] == [LocalError, CancelledError]


def test_waiting_inside_the_loop_is_refused_instead_of_blocking_for_ever() -> None:
    async def inner() -> None:
        background.run(asyncio.sleep(0))

    background = Background()
    with pytest.raises(LocalError, match="async API"):
        background.run(inner())
    background.close()


def test_an_interrupt_in_the_middle_of_a_session_leaves_it_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes while the caller waits for more of an answer that has begun."""

    def interrupted(self: Any, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    with (
        served(Stall(Answer("one two three"), 3), Answer("fine")) as catalog,
        SyncSession("a/m", client=Client(catalog)) as session,
    ):
        words = session.send("hi").iter_text()
        next(words)
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr("concurrent.futures.Future.result", interrupted)
            list(words)
        assert session.send("again").result().text == "fine"
        assert [turn.failure for turn in session.conversation.turns] == ["", "aborted", "", ""]


def test_a_reply_that_is_never_read_warns() -> None:
    session = SyncSession("a/m", client=Client(scripted.catalog(a="http://127.0.0.1:9/v1")))
    with pytest.warns(RuntimeWarning, match="a SyncReply was never used, so nothing was sent: iterate it"):
        session.send("hi")
        gc.collect()
    assert session.conversation.turns == ()


def public(kind: type, made: object) -> set[str]:
    return {name for name in {*dir(kind), *vars(made)} if not name.startswith("_")}


def test_it_has_every_public_name_of_a_session() -> None:
    """And each that needs no waiting does the same."""
    with SyncSession("moonshot/kimi-k2.5", tools=[ToolSpec("look")], conversation=Conversation((human("Hi"),))) as sync:
        own = sync.session
        assert public(Session, own) <= public(SyncSession, sync)
        for name in (
            "model",
            "models",
            "client",
            "target",
            "conversation",
            "tools",
            "options",
            "compaction",
            "tool_format",
        ):
            assert getattr(sync, name) == getattr(own, name), name
        assert sync.set_tool_format("qwen-text") == "qwen-text" == sync.tool_format_choice.name
        assert sync.request() == own.request() and b"<tools>" in sync.request().body
        assert sync.context("more") == own.context("more") and sync.context().tokens
        sync.set_missing_reasoning("fail")
        assert own.options.missing_reasoning == "fail"
        sync.options, sync.tools, sync.compaction = Options(thinking="off"), [], Compaction()  # type: ignore[assignment]
        assert (own.options.thinking, own.tools, own.compaction) == ("off", (), Compaction())
        sync.conversation = Conversation((human("Other"),))
        assert own.conversation.turns[0].text == "Other" and sync.carry_costs(own.conversation) == own.conversation


def test_batches_and_compaction_are_iterated_without_async() -> None:
    with (
        served(Answer("one two"), Answer("In short.")) as catalog,
        SyncSession("a/m", client=Client(catalog)) as session,
    ):
        events = [event for batch in session.batches("hi") for event in batch]
        check(events)
        assert session.conversation.turns[-1].text == "one two"
        assert list(session.make_room()) == []
        last = list(session.compacting())[-1]
        assert isinstance(last, CompactionFinished) and last.error is not None  # there is nothing to summarise
        session.aclose()
    with pytest.raises(LocalError, match="closed"):
        list(session.batches("hi"))
