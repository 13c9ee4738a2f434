"""An answer on its way: iterate it for events, or await its Turn. Once it has started it never raises."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator

from ..core.blocks import Turn
from ..core.events import Done, ErrorEvent, ErrorInfo, Event, TextDelta


class Reply:
    """`async for event in reply` streams; `await reply` gives the Turn, whole or as far as it came (see `error`).

    What keeps an answer from starting (no key, no connection, a refusal of the request) is raised by the first step.
    """

    def __init__(self, batches: AsyncGenerator[list[Event], None]) -> None:
        self._batches = batches
        self._events = self._run()
        self.turn: Turn | None = None
        self.error: ErrorInfo | None = None

    def __aiter__(self) -> AsyncIterator[Event]:
        return self._events

    def __await__(self) -> Generator[object, None, Turn]:
        return self.result().__await__()

    async def result(self) -> Turn:
        """The Turn at the end; a failed one has `failure` set and `error` says why."""
        async for _ in self._events:
            pass
        assert self.turn is not None
        return self.turn

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
                last = batch[-1]
                if isinstance(last, (Done, ErrorEvent)):
                    self.turn = last.turn
                    self.error = last.error if isinstance(last, ErrorEvent) else None
                for event in batch:
                    yield event
        finally:
            await self._batches.aclose()
