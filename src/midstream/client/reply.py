"""An answer on its way: iterate it for events, or await it for the Turn. Once it has started it never raises."""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from msgspec.structs import replace

from ..core.blocks import Turn
from ..core.errors import Aborted, LocalError
from ..core.events import Done, ErrorEvent, ErrorInfo, Event, TextDelta
from ..core.reduce import reduce

if TYPE_CHECKING:
    from .answer_type import AnswerType

ABORTED = Aborted.kind
"""The `failure` of a turn that its caller left before its end."""


E = TypeVar("E")
R = TypeVar("R")


class Stream(Generic[E, R]):
    """What a Reply and an agent's Run have in common: one pass of events, and a result at the end. Leave early with `aclose`,
    or use it as an async context manager."""

    # On the class, so that `__del__` works for an object whose `__init__` never finished.
    _used = False

    def __init__(self, events: AsyncGenerator[E, None], outcome: Callable[[], R]) -> None:
        self._events = events
        self.outcome = outcome

    def __aiter__(self) -> AsyncGenerator[E, None]:
        self._used = True
        return self._events

    def __await__(self) -> Generator[object, None, R]:
        return self.result().__await__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        if not self._used:
            warn_unused(self, "await it, or iterate it with `async for`")

    async def result(self) -> R:
        """Work to the end and give the result. After iterating to the end, it is there at once."""
        async for _ in self:
            pass
        return self.outcome()

    async def aclose(self) -> None:
        """Stop here: connections are closed at once, running tools are cancelled, and what came is kept."""
        self._used = True
        await self._events.aclose()


class Reply(Stream[Event, Turn]):
    """`async for event in reply` gives events; `await reply` gives the Turn, whole or as far as it came (see `error`).

    What keeps an answer from starting (no key, no connection, a refused request) is raised by the first step; nothing is
    raised after that: a turn that failed has `failure` set, and `turn.raise_for_failure()` raises it. Leave early with
    `aclose`, or use the reply as an async context manager. A reply that is neither awaited nor iterated sends nothing, and
    warns.
    """

    def __init__(self, batches: AsyncGenerator[list[Event], None]) -> None:
        self._state = ReplyState()
        super().__init__(_followed(batches, self._state), self._state.result)

    @property
    def turn(self) -> Turn | None:
        """The whole turn after the end; before it, what has come so far with `failure` set; None before the start."""
        return self._state.turn

    @property
    def error(self) -> ErrorInfo | None:
        """What ended the answer early, or None. `error.to_exception()` is the exception to raise for it."""
        return self._state.error

    async def iter_text(self) -> AsyncIterator[str]:
        """Only the text of the answer, piece by piece as it comes."""
        async for event in self:
            if isinstance(event, TextDelta):
                yield event.delta

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            # The first thing that people try; a plain AttributeError would not say what to write instead.
            hint = ": await it first, (await reply).text, or iterate iter_text()" if name == "text" else ""
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}")


class ParsedReply(Reply, Generic[R]):
    """A Reply to a request with a schema: `await reply.value()` gives the answer as a value of it.

    An answer that does not follow its schema ends with an error event and is asked for once more: the events then begin
    again with `start`. The text of `iter_text` comes when it is known to be right.
    """

    def __init__(self, batches: AsyncGenerator[list[Event], None], answer: AnswerType[R]) -> None:
        super().__init__(batches)
        self._answer = answer

    async def value(self) -> R:
        """Work to the end and give the value. SchemaMismatch says what is wrong with an answer that has none."""
        turn = await self
        return self._state.value(turn, self._answer)

    async def iter_text(self) -> AsyncIterator[str]:
        """The text of the answer, in one piece, once it is known to follow the schema."""
        turn = await self
        if self.error is None:
            yield turn.text


class ReplyState:
    """What has come of an answer: nothing, a part that its caller may leave, or all of it."""

    def __init__(self) -> None:
        # Kept only until the end, for a caller who leaves in the middle; then the decoder's own turn takes its place.
        self._seen: list[list[Event]] = []
        self._turn: Turn | None = None
        self.error: ErrorInfo | None = None

    @property
    def turn(self) -> Turn | None:
        if self._turn is None and self._seen:
            return aborted([event for batch in self._seen for event in batch])
        return self._turn

    def add(self, batch: list[Event]) -> None:
        last = batch[-1]
        if isinstance(last, (Done, ErrorEvent)):
            self._turn = last.turn
            self.error = last.error if isinstance(last, ErrorEvent) else None
            self._seen.clear()
        else:
            self._seen.append(batch)

    def left(self) -> None:
        """No more will be read."""
        if self._turn is None and self._seen:
            self.error = ErrorInfo.of(Aborted("the reply was closed before its end"))

    def value(self, turn: Turn, answer: AnswerType[R]) -> R:
        """What a turn means, if all went well; else what went wrong is raised."""
        if self.error is not None:
            raise self.error.to_exception()
        return answer.last_word(turn)

    def result(self) -> Turn:
        turn = self.turn
        if turn is None:
            raise LocalError("the reply was closed before it started: there is no turn")
        return turn


async def _followed(batches: AsyncGenerator[list[Event], None], state: ReplyState) -> AsyncGenerator[Event, None]:
    try:
        async for batch in batches:
            state.add(batch)
            for event in batch:
                yield event
    finally:
        # Before closing: whoever looks at the reply while its connection is being closed already sees how it ended.
        state.left()
        await batches.aclose()


def aborted(events: list[Event]) -> Turn:
    """What came of an answer that its caller left: kept, marked, and never sent again."""
    return replace(reduce(events), failure=ABORTED)


def warn_unused(thing: object, remedy: str) -> None:
    """As Python warns of a coroutine that was never awaited: forgetting `await` would otherwise go unnoticed."""
    warnings.warn(
        f"a {type(thing).__name__} was never used, so nothing was sent: {remedy}", RuntimeWarning, stacklevel=3
    )
