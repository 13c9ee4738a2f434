"""One run of the agent: its limits, its events and result, and the calls of one turn while they run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..client.reply import Stream
from ..client.session import Session
from ..client.tokens import estimate_conversation
from ..core.blocks import Conversation, ToolCall, ToolResponse, Turn, Usage, Value, tool_result
from ..core.errors import LocalError
from ..core.events import AgentEvent, Done, ErrorEvent, Stopped, ToolFinished, ToolStarted
from .toolbox import Toolbox, failure, interrupted

if TYPE_CHECKING:
    from ..client.answer_type import AnswerType

T = TypeVar("T")
_ANSWERED = ("text", "max_tokens")
"""How a run ends whose last answer is one: an answer that reached its limit may still be whole."""


class RunLimits(Value, frozen=True):
    """The limits of one run."""

    rounds: int | None = 50
    """How many answers the model may give."""
    tokens: int | None = None
    """Tokens read and written, as the hosts count them; estimated where a host does not."""
    cost: float | None = None
    """Dollars."""
    seconds: float | None = None
    """Wall-clock time of answers and tools together."""
    retries: int = 1
    """How often in a row an empty or truncated answer is requested again; such an answer does not count as a round. Requests that the
    client has made for the same answer count: an answer takes no more than the larger of this and `max_retries` allows."""
    retry_text: bool = True
    """Whether that also holds for an answer of which some text has arrived. False is for a caller who has shown that text for
    good, on a terminal for example: it would be shown twice."""


class RunResult(Value, frozen=True):
    """The result of a run. `reason` and `detail` say why it ended: see `Stopped`."""

    turn: Turn | None
    """The last answer; None if the time was up before one started."""
    rounds: int
    """How many answers the model gave; failed ones do not count."""
    reason: str
    detail: str = ""
    turns: tuple[Turn, ...] = ()
    """All turns that the run added to the conversation."""
    usage: Usage = Usage()
    """The tokens of all answers together, and of summaries of earlier turns."""
    cost: float | None = None
    """Dollars, or None if the price of a model is not known."""
    value: Any = None
    """The last answer as a value of the schema that was asked for; None if there was none, or no answer follows it."""

    @property
    def text(self) -> str:
        """The text of the last answer."""
        return "" if self.turn is None else self.turn.text

    def raise_for_failure(self) -> RunResult:
        """Raise what the last answer failed with, if the run ended for that (`reason == "failed"`); else return this."""
        if self.reason == "failed" and self.turn is not None:
            self.turn.raise_for_failure()
        return self


class Run(Stream[AgentEvent, RunResult]):
    """`async for event in run` gives events; `await run` works to the end and gives the RunResult.

    An error that keeps an answer from starting is raised, as by a Reply. Leave early with `aclose`. A run that is neither awaited nor
    iterated does nothing, and warns.
    """

    def __init__(
        self, session: Session, events: AsyncGenerator[AgentEvent, None], answer: AnswerType[Any] | None = None
    ) -> None:
        super().__init__(self._watched(events), self._result)
        self._session = session
        self._answer = answer
        self._first = 0
        self._last: Turn | None = None
        self._stopped: Stopped | None = None

    def _result(self) -> RunResult:
        stopped = self._stopped
        if stopped is None:
            raise LocalError("the run was closed before it ended, so there is no result")
        turns = self._session.conversation.turns[self._first :]
        answers = [turn for turn in turns if turn.speaker == "ai"]
        costs = [each.cost for each in self._session.costs(self._first)]
        known = [cost for cost in costs if cost is not None]
        return RunResult(
            self._last,
            sum(not turn.failure for turn in answers),
            stopped.reason,
            stopped.detail,
            turns,
            sum((turn.usage for turn in turns if turn.usage is not None), Usage()),
            # A sum with gaps would be taken for the whole bill.
            sum(known) if costs and len(known) == len(costs) else None,
            self._value(stopped),
        )

    def _value(self, stopped: Stopped) -> Any:
        if self._answer is None or self._last is None or stopped.reason not in _ANSWERED or self._last.tool_calls:
            return None
        return self._answer.read(self._last)

    async def _watched(self, events: AsyncGenerator[AgentEvent, None]) -> AsyncGenerator[AgentEvent, None]:
        self._first = len(self._session.conversation.turns)
        try:
            async for event in events:
                if isinstance(event, Done | ErrorEvent):
                    self._last = event.turn
                elif isinstance(event, Stopped):
                    self._stopped = event
                yield event
        finally:
            await events.aclose()


class Spent:
    """What a run has used so far."""

    def __init__(self, limits: RunLimits, session: Session, clock: Callable[[], float] = time.monotonic) -> None:
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
        """The limit that was reached and a sentence about it, or None."""
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
                # Ours, and not a TimeoutError that came out of a tool or a host.
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
        # A limit that cannot be kept ends the run: going on would be spending without knowing how much.
        if unknown is not None:
            return f"the price of {unknown} is unknown, so the limit of ${limit:g} cannot be enforced"
        turns = self._session.conversation.turns[self._first :]
        if any(turn.speaker == "ai" and turn.usage is None and not turn.failure for turn in turns):
            return f"the host does not report token usage, so the limit of ${limit:g} cannot be enforced"
        total = sum(each.cost or 0.0 for each in costs)
        return f"the limit of ${limit:g} was reached" if total >= limit else ""


def _tokens_of(turn: Turn, so_far: tuple[Turn, ...]) -> int:
    if turn.speaker != "ai" and turn.compacted is None:
        return 0
    if turn.usage is not None:
        return turn.usage.read + turn.usage.output
    return 0 if turn.failure or turn.compacted is not None else estimate_conversation(Conversation(so_far))


class Round:
    """The calls of one turn. They start when this is created; `end` must be awaited, until then something may still run."""

    def __init__(self, toolbox: Toolbox, calls: Sequence[ToolCall], echoed: Collection[str] = ()) -> None:
        self._calls = calls
        self._results: dict[str, ToolResponse] = {}
        self._reported: set[str] = set()
        self._stopped = ""
        self.fault: BaseException | None = None
        """What an approver or a hook of the program raised; the program's to hear, not the model's."""
        self._steps: asyncio.Queue[ToolStarted | ToolFinished | None] = asyncio.Queue()
        for call in calls:
            if call.name in echoed:
                self._finished(call, tool_result(call, call.arguments))
        ours = [call for call in calls if call.name not in echoed]
        self._work = asyncio.ensure_future(
            toolbox.run_all(
                ours, self._finished, lambda call: self._steps.put_nowait(ToolStarted(call)), self._cut, self._failed
            )
        )
        # None ends `steps`, also when the work was cancelled or failed.
        self._work.add_done_callback(lambda _: self._steps.put_nowait(None))

    async def steps(self) -> AsyncGenerator[ToolStarted | ToolFinished, None]:
        """Events as they happen, until all calls are done."""
        while (step := await self._steps.get()) is not None:
            if isinstance(step, ToolFinished):
                self._reported.add(step.response.call_id)
            yield step

    def stop(self, why: str) -> None:
        """Cancel what is left; the results of those calls will say why."""
        self._stopped = why
        self._work.cancel()

    async def end(self) -> tuple[ToolResponse, ...]:
        """All results in the order of the calls. Calls that still run are cancelled and waited for."""
        self._work.cancel()
        # Cancelling is not ending: a tool may still be cleaning up, and its result says how far it came.
        await asyncio.wait((self._work,))
        if not self._work.cancelled() and (error := self._work.exception()) is not None:
            raise error
        return tuple([self._results.get(call.id) or self._cut(call, started=False) for call in self._calls])

    def unreported(self, results: Sequence[ToolResponse]) -> list[ToolFinished]:
        """The events that `steps` did not get to yield."""
        return [ToolFinished(result) for result in results if result.call_id not in self._reported]

    def _finished(self, call: ToolCall, response: ToolResponse) -> None:
        self._results[call.id] = response
        self._steps.put_nowait(ToolFinished(response))

    def _failed(self, fault: BaseException) -> None:
        self.fault = fault

    def _cut(self, call: ToolCall, *, started: bool) -> ToolResponse:
        if not self._stopped:
            return interrupted(call, started=started)
        if started:
            return failure(call, f"stopped while it was running, part of its work may be done: {self._stopped}")
        return failure(call, f"not run: {self._stopped}")
