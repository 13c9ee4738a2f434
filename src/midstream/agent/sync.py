"""The agent without async: `SyncAgent` on a `SyncSession`, in the session's own thread."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

from ..client.reply import warn_unused
from ..client.sync import SyncSession
from ..core.blocks import Media, Text
from ..core.errors import LocalError
from ..core.events import AgentEvent
from .loop import Agent
from .run import Run, RunLimits, RunResult
from .tool import Tool
from .toolbox import Toolbox


class SyncAgent:
    """An Agent without async: `run` gives a SyncRun. Closing the session (or `with session`) ends its thread."""

    def __init__(
        self,
        session: SyncSession,
        tools: Toolbox | Iterable[Tool | Callable[..., Any] | str],
        limits: RunLimits = RunLimits(),  # noqa: B008  (frozen)
    ) -> None:
        self.session = session
        self.agent = Agent(session.session, tools, limits)

    def run(self, *content: str | Text | Media) -> SyncRun:
        """Send a message and work until the model has answered: iterate the run for events, or call its `result()`."""
        return SyncRun(self.session, lambda: self.agent.run(*content))


class SyncRun:
    """`for event in run` gives events; `run.result()` runs to the end and returns the RunResult. Leave early with `close`.

    A run that is neither iterated nor asked for its result does nothing, and warns.
    """

    _used = False
    _run: Run | None = None

    def __init__(self, session: SyncSession, start: Callable[[], Run]) -> None:
        self._session = session
        self._start = start
        self._events = self._iterate()

    def __iter__(self) -> Iterator[AgentEvent]:
        return self._events

    def __enter__(self) -> SyncRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._used:
            warn_unused(self, "iterate it, or call result()")

    def result(self) -> RunResult:
        """Run to the end and return the result. After iterating to the end, it is there at once."""
        for _ in self._events:
            pass
        if self._run is None:
            raise LocalError("the run was closed before it started, so there is no result")
        return self._session.background.run(self._run.result())

    def close(self) -> None:
        """Stop here: the answer is closed, running tools are cancelled, and what came is kept."""
        self._used = True
        self._events.close()

    def _iterate(self) -> Generator[AgentEvent, None, None]:
        self._used = True
        self._run = self._start()
        yield from self._session.background.iterate(self._run.events)
