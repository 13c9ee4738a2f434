"""How far one run of the agent may go, and how far it has gone. None sets no limit.

A limit is looked at after each answer, before its tools run: what they would do, no model would read. Only time also cuts
an answer or a tool short. A cost that cannot be counted, for no price is known, stops a run that has a limit on it: a
budget that nobody keeps is worse than none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TypeVar

from ..client.estimate import estimate_conversation
from ..client.session import Session
from ..core.blocks import Conversation, Turn, Value

T = TypeVar("T")


class Limits(Value, frozen=True):
    """The limits of one run."""

    rounds: int | None = 50
    """Answers of the model."""
    tokens: int | None = None
    """Tokens read and written, as the hosts count them; estimated where a host does not."""
    cost: float | None = None
    """Dollars."""
    seconds: float | None = None
    """Wall clock, answers and tools together."""
    retries: int = 1
    """How often in a row an answer that came empty or cut is asked for again; such an answer is no round."""


class Spent:
    """What a run has used so far."""

    def __init__(self, limits: Limits, session: Session, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._session = session
        self._clock = clock
        self._began = clock()
        self._first = self._counted = len(session.conversation.turns)
        self._tokens = 0
        self.rounds = 0

    @property
    def time_is_up(self) -> str:
        """A sentence if the time is up, else nothing."""
        left = self._time_left()
        return "" if left is None or left > 0 else f"the limit of {self._limits.seconds:g} s was reached"

    def reached(self) -> tuple[str, str] | None:
        """The limit that was reached and a sentence about it, if one was."""
        limits = self._limits
        if limits.rounds is not None and self.rounds >= limits.rounds:
            return "rounds", f"the limit of {limits.rounds} rounds was reached"
        if limits.tokens is not None and self._count_tokens() >= limits.tokens:
            return "tokens", f"the limit of {limits.tokens:,} tokens was reached"
        if limits.cost is not None and (why := self._over_cost(limits.cost)):
            return "cost", why
        return ("time", self.time_is_up) if self.time_is_up else None

    async def timed(self, items: AsyncIterator[T]) -> AsyncGenerator[T, None]:
        """The same items, until the time is up."""
        while True:
            deadline = asyncio.timeout(self._time_left())
            try:
                async with deadline:
                    item = await anext(items)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if deadline.expired():
                    return
                raise
            yield item

    def _time_left(self) -> float | None:
        seconds = self._limits.seconds
        return None if seconds is None else max(0.0, self._began + seconds - self._clock())

    def _count_tokens(self) -> int:
        turns = self._session.conversation.turns
        for place in range(self._counted, len(turns)):
            self._tokens += _tokens_of(turns[place], turns[: place + 1])
        self._counted = len(turns)
        return self._tokens

    def _over_cost(self, limit: float) -> str:
        costs = self._session.costs(self._first)
        unknown = next((each.model for each in costs if each.cost is None), None)
        if unknown is not None:
            return f"no price is known for {unknown}, so the limit of ${limit:g} cannot be kept"
        turns = self._session.conversation.turns[self._first :]
        if any(turn.speaker == "ai" and turn.usage is None and not turn.failure for turn in turns):
            return f"the host counts no tokens, so the limit of ${limit:g} cannot be kept"
        total = sum(each.cost or 0.0 for each in costs)
        return f"the limit of ${limit:g} was reached" if total >= limit else ""


def _tokens_of(turn: Turn, so_far: tuple[Turn, ...]) -> int:
    if turn.speaker != "ai":
        return 0
    if turn.usage is not None:
        return turn.usage.read + turn.usage.output
    return 0 if turn.failure else estimate_conversation(Conversation(so_far))
