"""The calls of one turn while they run: steps to watch, a way to stop, and in the end a result for each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence

from ..core.blocks import ToolCall, ToolResponse, tool_result
from .progress import ToolFinished, ToolStarted
from .toolbox import Toolbox, failure, interrupted


class Round:
    """Started when it is made. `end` must be awaited: until then something may still run."""

    def __init__(self, toolbox: Toolbox, calls: Sequence[ToolCall], echoed: Collection[str] = ()) -> None:
        self._calls = calls
        self._results: dict[str, ToolResponse] = {}
        self._told: set[str] = set()
        self._stopped = ""
        self._steps: asyncio.Queue[ToolStarted | ToolFinished | None] = asyncio.Queue()
        for call in calls:
            if call.name in echoed:
                self._finished(call, tool_result(call, call.arguments))
        ours = [call for call in calls if call.name not in echoed]
        self._work = asyncio.ensure_future(
            toolbox.run_all(ours, self._finished, lambda call: self._steps.put_nowait(ToolStarted(call)))
        )
        self._work.add_done_callback(lambda _: self._steps.put_nowait(None))

    async def steps(self) -> AsyncGenerator[ToolStarted | ToolFinished, None]:
        """What happens, as it happens, until all is done."""
        while (step := await self._steps.get()) is not None:
            if isinstance(step, ToolFinished):
                self._told.add(step.response.call_id)
            yield step

    def stop(self, why: str) -> None:
        """Cut it short; the results of calls that have none yet will say why."""
        self._stopped = why
        self._work.cancel()

    async def end(self) -> tuple[ToolResponse, ...]:
        """All results in the order of the calls. What still runs is cancelled, and waited for until it is gone."""
        self._work.cancel()
        await asyncio.wait((self._work,))
        if not self._work.cancelled() and (error := self._work.exception()) is not None:
            raise error
        return tuple([self._results.get(call.id) or self._cut(call, started=False) for call in self._calls])

    def untold(self, results: Sequence[ToolResponse]) -> list[ToolFinished]:
        """The steps that `steps` did not come to tell."""
        return [ToolFinished(result) for result in results if result.call_id not in self._told]

    def _finished(self, call: ToolCall, response: ToolResponse) -> None:
        if self._stopped:
            for started in (True, False):  # the toolbox believes it was the user
                if response == interrupted(call, started=started):
                    response = self._cut(call, started=started)
                    break
        self._results[call.id] = response
        self._steps.put_nowait(ToolFinished(response))

    def _cut(self, call: ToolCall, *, started: bool) -> ToolResponse:
        if not self._stopped:
            return interrupted(call, started=started)
        if started:
            return failure(call, f"cut short while it ran, it may have done a part of its work: {self._stopped}")
        return failure(call, f"not run: {self._stopped}")
