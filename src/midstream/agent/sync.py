"""The agent without async: `SyncAgent` on a `SyncSession`, in the session's own thread."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

from ..client.sync import SyncSession, SyncStream
from ..core.blocks import Media, Text
from ..core.errors import LocalError
from ..core.events import AgentEvent
from .loop import Agent
from .run import Run, RunLimits, RunResult
from .tool import Tool
from .toolbox import Toolbox


class SyncAgent:
    """An Agent without async: `run` gives a SyncRun. Every public name of `Agent` is here too. Closing the session (or
    `with session`) ends its thread."""

    def __init__(
        self,
        session: SyncSession,
        tools: Toolbox | Iterable[Tool | Callable[..., Any] | str],
        limits: RunLimits = RunLimits(),  # noqa: B008  (frozen)
    ) -> None:
        self.session = session
        self.agent = Agent(session.session, tools, limits)

    @property
    def toolbox(self) -> Toolbox:
        """The tools, and who may run what."""
        return self.agent.toolbox

    @property
    def limits(self) -> RunLimits:
        """How far a run may go."""
        return self.agent.limits

    @limits.setter
    def limits(self, limits: RunLimits) -> None:
        self.agent.limits = limits

    def run(self, *content: str | Text | Media, schema: Any = None) -> SyncRun:
        """Send a message and work until the model has answered: iterate the run for events, or call its `result()`. A
        `schema` is for the last answer, as with `Agent.run`."""
        return SyncRun(self.session, lambda: self.agent.run(*content, schema=schema))


class SyncRun(SyncStream[AgentEvent, RunResult]):
    """`for event in run` gives events; `run.result()` runs to the end and returns the RunResult. Leave early with `close`.

    A run that is neither iterated nor asked for its result does nothing, and warns.
    """

    _run: Run | None = None

    def __init__(self, session: SyncSession, start: Callable[[], Run]) -> None:
        super().__init__(self._iterated(session, start), self._result)

    def _result(self) -> RunResult:
        if self._run is None:
            raise LocalError("the run was closed before it started, so there is no result")
        return self._run.outcome()

    def _iterated(self, session: SyncSession, start: Callable[[], Run]) -> Generator[AgentEvent, None, None]:
        # Made when it is first iterated, in this thread; its work is done in the session's loop.
        self._run = start()
        yield from session.background.iterate(aiter(self._run))
