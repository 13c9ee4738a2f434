"""The loop: stream a turn, run the tools it called, append their results, and repeat until text, a limit or the user ends it.

Every call gets a result, whatever happens: a call of an answer that failed or reached its token limit is not run, because
its arguments may be truncated; a call stopped by a limit or an interruption gets a result that says so. So the stored
conversation is valid after every step, any model can continue it, and an interruption at any moment (cancelling the task,
or `aclose` of the iterator) loses nothing that was finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from ..client.attempts import Tries
from ..client.cancellation import Turnstile, shield
from ..client.reply import ABORTED, Reply
from ..client.session import Session, is_refused_as_too_long
from ..core.blocks import Conversation, Media, Text, ToolResponse, Turn
from ..core.errors import ContextTooLong, EmptyAnswer, TruncatedStream
from ..core.events import AgentEvent, CompactionFinished, Stopped, ToolFinished
from ..core.modules import late_module
from .run import Round, Run, RunLimits, Spent
from .tool import Tool
from .toolbox import Toolbox, ToolSource, failure, interrupted

if TYPE_CHECKING:
    from ..client import answer_type
    from ..client.answer_type import AnswerType
else:
    # Most answers are plain text.
    answer_type = late_module("..client.answer_type", globals())

# Failures that are worth another try (field-guide/reasoning.md#answers-that-are-only-reasoning,
# field-guide/streams.md#endings).
_RETRIED = (EmptyAnswer.kind, TruncatedStream.kind)
_CUT = ("max_tokens", "refusal")


class Agent:
    """A session that runs the tools its model calls. One run at a time; between two runs the session may change its model.

    `tools` is a Toolbox, or what one is made of: functions, Tools, names of built-in tools, McpServers. Tools that write
    or run need approval: without a Toolbox that has an `approve`, nobody can be asked, so their calls are refused.
    """

    def __init__(
        self,
        session: Session,
        tools: Toolbox | Iterable[Tool | Callable[..., Any] | ToolSource | str],
        limits: RunLimits = RunLimits(),  # noqa: B008  (frozen)
    ) -> None:
        self.session = session
        self.toolbox = tools if isinstance(tools, Toolbox) else Toolbox(tools)
        self.limits = limits
        self._declared = frozenset([spec.qualified_name for spec in self.toolbox.specs()])
        self._turnstile = Turnstile("the agent is already running; iterate that run to its end, or close it, first")

    def run(self, *content: str | Text | Media, schema: Any = None) -> Run:
        """Send a message and work until the model has answered: iterate the Run for events, or await it for a RunResult.

        With a `schema`, as `Session.send` takes it, the last answer follows it, and the RunResult has its `value`. Without
        content, continue the conversation as it is. Leave early with `aclose` (or `contextlib.aclosing`); a run that was
        merely dropped is ended before the next.
        """
        answer: AnswerType[Any] | None = None if schema is None else answer_type.AnswerType.of(schema)
        return Run(self.session, self._turnstile.through(self._traced(self._run(content, answer))), answer)

    def _traced(self, events: AsyncGenerator[AgentEvent, None]) -> AsyncGenerator[AgentEvent, None]:
        """The events of a run, inside a span if telemetry is on."""
        telemetry = self.session.client.telemetry
        return events if telemetry is None else telemetry.agent(events, self.session.target, self._conversation)

    def _conversation(self) -> Conversation:
        return self.session.conversation

    async def _run(
        self, content: Sequence[str | Text | Media], answer: AnswerType[Any] | None
    ) -> AsyncGenerator[AgentEvent, None]:
        await self._pair_open_calls()  # left by a program that was killed
        spent = Spent(self.limits, self.session)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.limits.seconds):
                await self.toolbox.ready()
        try:
            async with aclosing(self._rounds(content, spent, answer)) as events:
                async for event in events:
                    yield event
        finally:
            await self._pair_open_calls()

    async def _rounds(
        self, content: Sequence[str | Text | Media], spent: Spent, answer: AnswerType[Any] | None
    ) -> AsyncGenerator[AgentEvent, None]:
        retries, tries = self.limits.retries, Tries()
        while True:
            replies: list[Reply] = []
            self._declare()
            async with aclosing(self._ask(content, spent, answer, replies, tries)) as events:
                async for event in events:
                    yield event
            # Said once: the next rounds continue from the results.
            content, reply = (), replies[-1]
            turn = reply.turn
            if turn is None:  # time was up before the answer began
                yield Stopped("time", spent.time_is_up)
                return
            may_retry = retries > 0 and tries.allow(self.limits.retries)
            stop = self._verdict(turn, reply, spent, may_retry)
            calls = turn.tool_calls if self._is_kept(turn) else ()
            # Answered without being run, because a history with an open call is refused by every host.
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
            # In a row: an answer that succeeds gives all of them back.
            if turn.failure:
                retries -= 1
            else:
                retries, tries = self.limits.retries, Tries()

    def _declare(self) -> None:
        """Declare the current tools; a source's may have changed since the last answer."""
        ours = self.toolbox.specs()
        names = frozenset([spec.qualified_name for spec in ours])
        # Tools that the caller declared without running them here, such as a host's own, stay declared.
        others = [spec for spec in self.session.tools if spec.qualified_name not in names | self._declared]
        self._declared = names
        declared = (*others, *ours)
        if declared != self.session.tools:
            self.session.tools = declared

    async def _ask(
        self,
        content: Sequence[str | Text | Media],
        spent: Spent,
        answer: AnswerType[Any] | None,
        replies: list[Reply],
        tries: Tries,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Ask for one answer, which goes into `replies`. If its host refuses the conversation as too long, summarise earlier
        turns and ask once more."""
        async with aclosing(spent.timed(self.session.make_room(*content))) as steps:
            async for step in steps:
                yield step
        for attempt in (1, 2):
            reply = Reply(self.session.batches(*content, schema=answer, make_room=False, tries=tries))
            replies.append(reply)
            # The message is in the conversation by now; a second attempt must not say it twice.
            content = ()
            refused: ContextTooLong | None = None
            told: AgentEvent | None = None
            try:
                async with reply, aclosing(spent.timed(aiter(reply))) as events:
                    async for event in events:
                        # Not told yet: if room can be made, nobody needs to hear of it.
                        if attempt == 1 and is_refused_as_too_long(event):
                            told, refused = event, ContextTooLong("the conversation is too long")
                        else:
                            yield event
            except ContextTooLong as error:
                if attempt == 2:
                    raise
                refused = error
            if refused is None:
                return
            made = False
            async with aclosing(spent.timed(self.session.make_room(refused=refused))) as steps:
                async for step in steps:
                    made = isinstance(step, CompactionFinished) and step.turn is not None
                    yield step
            if not made:
                # Told in the form in which it came: as an exception before the answer began, as an event after that.
                if told is None:
                    raise refused
                yield told
                return

    def _is_kept(self, turn: Turn) -> bool:
        """Whether the conversation ends with this turn; one that could not be stored is not part of it."""
        turns = self.session.conversation.turns
        return bool(turns) and turns[-1].key == turn.key

    def _verdict(self, turn: Turn, reply: Reply, spent: Spent, may_retry: bool) -> Stopped | None:
        """Whether this answer is the last."""
        if turn.failure:
            if turn.failure == ABORTED:  # the caller's own interruption does not come here
                return Stopped("time", spent.time_is_up)
            if self._may_repeat(turn) and may_retry and not spent.time_is_up:
                return None
            return Stopped("failed", reply.error.message if reply.error is not None else turn.failure)
        spent.rounds += 1
        # Limits are not looked at for a last answer: it is there, and stopping would gain nothing.
        if not turn.tool_calls:
            return Stopped(turn.stop_reason if turn.stop_reason in _CUT else "text")
        limit = spent.reached()
        return None if limit is None else Stopped(*limit)

    def _may_repeat(self, turn: Turn) -> bool:
        """Whether an answer that failed like this may be requested again."""
        return turn.failure in _RETRIED and (self.limits.retry_text or not turn.text)

    async def _work(self, turn: Turn, spent: Spent) -> AsyncGenerator[AgentEvent, None]:
        """Run the calls of a turn and keep their results, all of them, however this ends."""
        # A host's own tool is answered with its arguments; the host runs it when it reads them (field-guide/kimi.md#tools).
        echoed = {spec.name for spec in self.session.tools if spec.builtin and spec.name not in self.toolbox}
        work = Round(self.toolbox, turn.tool_calls, echoed)
        try:
            async with aclosing(work.steps()) as steps, aclosing(spent.timed(steps)) as timed:
                async for step in timed:
                    yield step
            if spent.time_is_up:
                work.stop(spent.time_is_up)
        finally:
            # In `finally` and shielded: what tools have done must be
            # in the history, also when the run is being cancelled.
            results = await shield(self._keep(work))
        for late in work.unreported(results):
            yield late
        # Last, with every result in the history: what has run stays run.
        if work.fault is not None:
            raise work.fault

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
        return f"the answer with this call failed ({turn.failure}), so the arguments may be truncated"
    if turn.stop_reason == "max_tokens":
        return "the answer reached its token limit, so the arguments may be truncated; try again with less in one call"
    if turn.stop_reason in _CUT:
        return f"the host ended the answer ({turn.stop_reason}), so the arguments may be truncated"
    return stop.detail if stop is not None else ""
