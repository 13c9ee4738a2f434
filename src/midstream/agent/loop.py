"""The loop: stream a turn, run the tools it asked for, append their results, and again, until text, a limit or the user.

Every call gets a result, whatever happens: a call of an answer that failed or ran into its token limit is not run, for its
arguments may be cut; a call that a limit or an interruption caught gets a result that says so. So the stored conversation
is lawful after every step, any model can go on from it, and an interruption (cancelling the task, or `aclose` of the
iterator) at any moment loses nothing that was finished.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Sequence
from contextlib import aclosing
from typing import Any

from ..client.reply import ABORTED, Reply, warn_unused
from ..client.session import Session
from ..client.shield import Turnstile, shield
from ..core.blocks import Media, Text, ToolResponse, Turn, Usage, Value
from ..core.errors import EmptyAnswer, LocalError, TruncatedStream
from ..core.events import Done, ErrorEvent
from .functions import Tool
from .run import AgentEvent, Limits, Round, Spent, Stopped, ToolFinished
from .toolbox import Toolbox, failure, interrupted

_RETRIED = (EmptyAnswer.kind, TruncatedStream.kind)
_CUT = ("max_tokens", "refusal")


class RunResult(Value, frozen=True):
    """What came of a run. `reason` and `detail` say why it ended: see `Stopped`."""

    turn: Turn | None
    """The last answer; None if the time was up before one began."""
    rounds: int
    """How many answers the model gave; failed ones do not count."""
    reason: str
    detail: str = ""
    turns: tuple[Turn, ...] = ()
    """All turns that the run added to the conversation."""
    usage: Usage = Usage()
    """The tokens of all answers together."""
    cost: float | None = None
    """Dollars, or None if the price of a model is not known."""

    @property
    def text(self) -> str:
        """The text of the last answer."""
        return "" if self.turn is None else self.turn.text

    def raise_for_failure(self) -> RunResult:
        """Raise what the last answer failed with, if the run ended for that (`reason == "failed"`); else return this."""
        if self.reason == "failed" and self.turn is not None:
            self.turn.raise_for_failure()
        return self


class Run:
    """`async for event in run` gives events; `await run` works to the end and gives the RunResult.

    What keeps an answer from starting is raised, as by a Reply. Leave early with `aclose`. A run that is neither awaited nor
    iterated does nothing, and warns.
    """

    _used = False

    def __init__(self, session: Session, events: AsyncGenerator[AgentEvent, None]) -> None:
        self._session = session
        self._work = events
        self.events = self._watch()
        self._first = 0
        self._last: Turn | None = None
        self._stopped: Stopped | None = None

    def __aiter__(self) -> AsyncIterator[AgentEvent]:
        return self.events

    def __await__(self) -> Generator[object, None, RunResult]:
        return self.result().__await__()

    def __del__(self) -> None:
        if not self._used:
            warn_unused(self, "await it, or iterate it with `async for`")

    async def result(self) -> RunResult:
        """Work to the end and say what came of it. After iterating to the end, it is there at once."""
        async for _ in self.events:
            pass
        stopped = self._stopped
        if stopped is None:
            raise LocalError("the run was closed before its end: there is no result")
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
            sum((turn.usage for turn in answers if turn.usage is not None), Usage()),
            sum(known) if costs and len(known) == len(costs) else None,
        )

    async def aclose(self) -> None:
        """Stop here: the answer is closed, running tools are cancelled, and what came is kept."""
        self._used = True
        await self.events.aclose()
        await self._work.aclose()

    async def _watch(self) -> AsyncGenerator[AgentEvent, None]:
        self._used = True
        self._first = len(self._session.conversation.turns)
        try:
            async for event in self._work:
                if isinstance(event, Done | ErrorEvent):
                    self._last = event.turn
                elif isinstance(event, Stopped):
                    self._stopped = event
                yield event
        finally:
            await self._work.aclose()


class Agent:
    """A session that runs the tools its model calls. One run at a time; between two runs the session may change its model.

    `tools` is a Toolbox, or what one is made of: functions, Tools, names of built-in tools. Tools that write or execute need
    an approval: without a Toolbox that has an `approve`, nobody can be asked, and they are refused.
    """

    def __init__(
        self,
        session: Session,
        tools: Toolbox | Iterable[Tool | Callable[..., Any] | str],
        limits: Limits = Limits(),  # noqa: B008  (frozen)
    ) -> None:
        self.session = session
        self.toolbox = tools if isinstance(tools, Toolbox) else Toolbox(tools)
        self.limits = limits
        self._turnstile = Turnstile("the agent is already working: read that run to its end, or close it, first")

    def run(self, *content: str | Text | Media) -> Run:
        """Say something and work until the model has answered: iterate the Run for events, or await it for a RunResult.

        With no content, continue from where the conversation is. Leave early with `aclose` (or `contextlib.aclosing`); a run
        that was merely dropped is ended before the next.
        """
        return Run(self.session, self._turnstile.through(self._run(content)))

    async def _run(self, content: Sequence[str | Text | Media]) -> AsyncGenerator[AgentEvent, None]:
        await self._pair_open_calls()  # of a program that was killed
        ours = self.toolbox.specs()
        self.session.tools = (*[spec for spec in self.session.tools if spec.name not in self.toolbox], *ours)
        spent = Spent(self.limits, self.session)
        try:
            async with aclosing(self._rounds(content, spent)) as events:
                async for event in events:
                    yield event
        finally:
            await self._pair_open_calls()

    async def _rounds(self, content: Sequence[str | Text | Media], spent: Spent) -> AsyncGenerator[AgentEvent, None]:
        retries = self.limits.retries
        while True:
            reply = self.session.send(*content)
            content = ()
            async with reply, aclosing(spent.timed(aiter(reply))) as events:
                async for event in events:
                    yield event
            turn = reply.turn
            if turn is None:  # time was up before the answer began
                yield Stopped("time", spent.time_is_up)
                return
            stop = self._verdict(turn, reply, spent, retries)
            calls = turn.tool_calls if self._is_kept(turn) else ()
            if calls and (why := _unfit(turn, stop)):
                for refused in await self._refuse(turn, why):
                    yield refused
            elif calls:
                async with aclosing(self._work(turn, spent)) as steps:
                    async for step in steps:
                        yield step
                if spent.time_is_up:
                    stop = Stopped("time", spent.time_is_up)
            if stop is not None:
                yield stop
                return
            retries = retries - 1 if turn.failure else self.limits.retries

    def _is_kept(self, turn: Turn) -> bool:
        """Whether the conversation ends with this turn; one that could not be stored is no part of it."""
        turns = self.session.conversation.turns
        return bool(turns) and turns[-1].key == turn.key

    def _verdict(self, turn: Turn, reply: Reply, spent: Spent, retries: int) -> Stopped | None:
        """Whether this answer is the last."""
        if turn.failure:
            if turn.failure == ABORTED:  # the caller's own interruption does not come here
                return Stopped("time", spent.time_is_up)
            if turn.failure in _RETRIED and retries > 0 and not spent.time_is_up:
                return None
            return Stopped("failed", reply.error.message if reply.error is not None else turn.failure)
        spent.rounds += 1
        if not turn.tool_calls:
            return Stopped(turn.stop_reason if turn.stop_reason in _CUT else "text")
        limit = spent.reached()
        return None if limit is None else Stopped(*limit)

    async def _work(self, turn: Turn, spent: Spent) -> AsyncGenerator[AgentEvent, None]:
        """Run the calls of a turn and keep their results, all of them, however this ends."""
        # A host's own tool is answered with its arguments, and run by the host when it reads them (facts/kimi.md §4).
        echoed = {spec.name for spec in self.session.tools if spec.builtin and spec.name not in self.toolbox}
        work = Round(self.toolbox, turn.tool_calls, echoed)
        try:
            async with aclosing(work.steps()) as steps, aclosing(spent.timed(steps)) as timed:
                async for step in timed:
                    yield step
            if spent.time_is_up:
                work.stop(spent.time_is_up)
        finally:
            results = await shield(self._keep(work))
        for late in work.untold(results):
            yield late

    async def _keep(self, work: Round) -> tuple[ToolResponse, ...]:
        results = await work.end()
        await self.session.add(Turn("tool", results))
        return results

    async def _refuse(self, turn: Turn, why: str) -> list[ToolFinished]:
        """Answer the calls of a turn without running them."""
        results = tuple([failure(call, f"not run: {why}") for call in turn.tool_calls])
        await self.session.add(Turn("tool", results))
        return [ToolFinished(result) for result in results]

    async def _pair_open_calls(self) -> None:
        """Calls at the end of the conversation that nothing answered were interrupted."""
        turns = self.session.conversation.turns
        if turns and turns[-1].speaker == "ai" and turns[-1].tool_calls:
            results = tuple([interrupted(call, started=False) for call in turns[-1].tool_calls])
            await self.session.add(Turn("tool", results))


def _unfit(turn: Turn, stop: Stopped | None) -> str:
    """Why the calls of this turn may not be run, if they may not."""
    if turn.failure == ABORTED and stop is not None and stop.detail:
        return stop.detail
    if turn.failure:
        return f"the answer that asked for it failed ({turn.failure}), and its arguments may be cut"
    if turn.stop_reason == "max_tokens":
        return "the answer ran into its token limit, and the arguments may be cut; ask again with less in one call"
    if turn.stop_reason in _CUT:
        return f"the answer was ended by the host ({turn.stop_reason}), and the arguments may be cut"
    return stop.detail if stop is not None else ""
