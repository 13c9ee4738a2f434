"""`stream` and `complete` without async, for scripts and notebooks.

Each runs an event loop in a thread of its own, so it works where a loop is already running, and ends it with the answer:
nothing is left behind. Ctrl-C reaches the caller and cancels the request.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterator, Sequence
from typing import Any, TypeVar

from ..core.blocks import Conversation, Turn
from ..core.dialect import Options
from ..core.events import ErrorInfo, Event, TextDelta
from ..core.secret import Secret, hide
from ..core.tools import ToolSpec
from . import calls
from .catalog import Catalog
from .reply import ReplyState

T = TypeVar("T")


def complete_sync(
    model: str | Sequence[str],
    conversation: Conversation | str,
    *,
    tools: Sequence[ToolSpec] = (),
    options: Options | None = None,
    api_key: str | Secret | None = None,
    catalog: Catalog | None = None,
) -> Turn:
    """The next answer, whole."""
    api_key = hide(api_key)
    background = Background()
    try:
        return background.run(
            calls.complete(model, conversation, tools=tools, options=options, api_key=api_key, catalog=catalog)
        )
    finally:
        background.close()


def stream_sync(
    model: str | Sequence[str],
    conversation: Conversation | str,
    *,
    tools: Sequence[ToolSpec] = (),
    options: Options | None = None,
    api_key: str | Secret | None = None,
    catalog: Catalog | None = None,
) -> SyncReply:
    """The events of the next answer, in a plain `for`."""
    return SyncReply(calls.batches(model, conversation, tools=tools, options=options, api_key=api_key, catalog=catalog))


class SyncReply:
    """`for event in reply` streams; `reply.result()` gives the Turn, whole or as far as it came (see `error`).

    As with `Reply`, only what keeps an answer from starting is raised. Leave early with `close`, or use `with`.
    """

    def __init__(self, batches: AsyncGenerator[list[Event], None]) -> None:
        self._batches = batches
        self._events = self._run()
        self._heard = ReplyState()

    @property
    def turn(self) -> Turn | None:
        """The turn: whole after the end, before it what has come so far (its `failure` set), None before the start."""
        return self._heard.turn

    @property
    def error(self) -> ErrorInfo | None:
        return self._heard.error

    def __iter__(self) -> Iterator[Event]:
        return self._events

    def __enter__(self) -> SyncReply:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def result(self) -> Turn:
        """The Turn at the end; a failed one has `failure` set and `error` says why."""
        for _ in self._events:
            pass
        return self._heard.result()

    def text(self) -> Iterator[str]:
        """Only the words, as they come."""
        for event in self._events:
            if isinstance(event, TextDelta):
                yield event.delta

    def close(self) -> None:
        """Stop here: the connection is closed at once, and the thread ends."""
        self._events.close()

    def _run(self) -> Generator[Event, None, None]:
        background = Background()
        try:
            while (batch := background.run(_next(self._batches))) is not None:
                self._heard.add(batch)
                yield from batch
        finally:
            background.close()  # and with it the answer: a loop that ends cancels its tasks and closes its generators
            self._heard.left()


class Background:
    """An event loop in a thread. The thread is a daemon: a program that ends in the middle ends."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._thread = threading.Thread(target=self._main, name="midstream-loop", daemon=True)
        self._thread.start()
        self._ready.wait()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, done in the loop; an interruption of the caller cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            if not future.done():
                future.cancel()

    def close(self) -> None:
        """End the loop and wait for its thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            if self._thread is not threading.current_thread():
                self._thread.join()

    def _main(self) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            self._stop = asyncio.Event()
            self._ready.set()
            runner.run(self._stop.wait())


async def _next(batches: AsyncGenerator[list[Event], None]) -> list[Event] | None:
    return await anext(batches, None)
