"""Without async: in a script, inside a running loop, left early, interrupted; no thread stays behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from midstream.client.catalog import Catalog
from midstream.client.sync import Background, complete_sync, stream_sync
from midstream.core.errors import LocalError, Overloaded
from midstream.core.events import TextDelta
from midstream.core.lifecycle import check
from midstream.sim.answer import Answer
from tests.client import scripted
from tests.client.scripted import Cut, Host, Item, Refusal, Stall


@contextmanager
def served(*items: Item) -> Iterator[Catalog]:
    """A scripted host in a loop of its own; afterwards only the threads of before are left."""
    before = set(threading.enumerate())
    background = Background()
    host = Host(items)
    background.run(host.__aenter__())
    inside = set(threading.enumerate())
    try:
        yield scripted.catalog(a=host.base)
        assert set(threading.enumerate()) == inside
    finally:
        background.run(host.__aexit__())
        background.close()
    assert set(threading.enumerate()) == before


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
        assert "".join(run(lambda: list(stream_sync("a/m", "hi", catalog=catalog).text()))) == "hello you"
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
