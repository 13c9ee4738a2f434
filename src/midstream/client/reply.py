"""An answer on its way: iterate it for events, or await its Turn. Once it has started it never raises."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator

from msgspec.structs import replace

from ..core.blocks import Turn
from ..core.errors import LocalError
from ..core.events import Done, ErrorEvent, ErrorInfo, Event, TextDelta
from ..core.reduce import reduce

ABORTED = "aborted"
"""The `failure` of a turn that its caller left before its end."""


class Reply:
    """`async for event in reply` streams; `await reply` gives the Turn, whole or as far as it came (see `error`).

    What keeps an answer from starting (no key, no connection, a refusal of the request) is raised by the first step.
    Leave early with `aclose`, or use it as an async context manager.
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

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events

    def __await__(self) -> Generator[object, None, Turn]:
        return self.result().__await__()

    async def __aenter__(self) -> Reply:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def result(self) -> Turn:
        """The Turn at the end; a failed one has `failure` set and `error` says why."""
        async for _ in self._events:
            pass
        return self._heard.result()

    async def text(self) -> AsyncIterator[str]:
        """Only the words, as they come."""
        async for event in self._events:
            if isinstance(event, TextDelta):
                yield event.delta

    async def aclose(self) -> None:
        """Stop here: the connection is closed at once."""
        await self._events.aclose()
        await self._batches.aclose()

    async def _run(self) -> AsyncGenerator[Event, None]:
        try:
            async for batch in self._batches:
                self._heard.add(batch)
                for event in batch:
                    yield event
        finally:
            self._heard.left()
            await self._batches.aclose()


class ReplyState:
    """What has come of an answer: nothing, a part that its caller may leave, or all of it."""

    def __init__(self) -> None:
        self._seen: list[Event] = []
        self._turn: Turn | None = None
        self.error: ErrorInfo | None = None

    @property
    def turn(self) -> Turn | None:
        if self._turn is None and self._seen:
            return aborted(self._seen)
        return self._turn

    def add(self, batch: list[Event]) -> None:
        last = batch[-1]
        if isinstance(last, (Done, ErrorEvent)):
            self._turn = last.turn
            self.error = last.error if isinstance(last, ErrorEvent) else None
            self._seen.clear()
        else:
            self._seen += batch

    def left(self) -> None:
        """No more will be heard."""
        if self._turn is None and self._seen:
            self.error = ErrorInfo(ABORTED, "the reply was closed before its end")

    def result(self) -> Turn:
        turn = self.turn
        if turn is None:
            raise LocalError("the reply was closed before it started: there is no turn")
        return turn


def aborted(events: list[Event]) -> Turn:
    """What came of an answer that its caller left: kept, marked, and never replayed."""
    return replace(reduce(events), failure=ABORTED)
