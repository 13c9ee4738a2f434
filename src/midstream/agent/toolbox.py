"""The tools of one session, and the running of calls: every call gets a result, whatever happens.

An unknown tool, invalid arguments, a refused approval, a failure, a timeout: each becomes a result with `is_error` that
tells the model what to do, so the conversation can continue with any model. A fault in the program itself (an approver, a hook,
a preview, a source of tools) is no news for a model: `run` raises it, as it raises CancelledError, when everything the call had
started is gone. Calls run in order; neighbours that are all `parallel_safe` run at once.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from ..client.cancellation import shield
from ..core.blocks import FAILED, Text, ToolCall, ToolResponse, tool_result
from ..core.errors import ConfigError, ToolFailed
from ..core.modules import late_module
from ..core.nearest import nearest
from ..core.tools import ToolSpec, parse_arguments
from ..telemetry import current_telemetry
from .approval import Approval
from .approval_request import ApprovalRequest
from .files import Files, OpenFiles
from .paths import Folder
from .progress import listening
from .tool import Checked, Content, Tool

if TYPE_CHECKING:
    from . import bash, search
    from .sandbox import Sandbox
else:
    # A question without tools runs no command and searches nothing.
    bash = late_module(".bash", globals())
    search = late_module(".search", globals())

BUILTIN = ("bash", "read_file", "write_file", "edit_file", "glob", "grep")
# A bound for any tool, also somebody else's: a result goes into every later request of the conversation.
MAX_RESULT = 256 * 1024
MAX_PARALLEL = 8
MAX_MESSAGE = 500

OnStart: TypeAlias = Callable[[ToolCall], None]
OnResult: TypeAlias = Callable[[ToolCall, ToolResponse], None]


class CutShort(Protocol):
    """Makes the result of a call that was cut short."""

    def __call__(self, call: ToolCall, /, *, started: bool) -> ToolResponse: ...


class ProgramFault(Exception):
    """Something that the program's own code raised on the way to a tool: never told to a model."""

    def __init__(self, fault: BaseException) -> None:
        super().__init__(str(fault))
        self.fault = fault


class ToolSource(Protocol):
    """Tools that may change while they are in a Toolbox, such as those of MCP servers (`McpServers`)."""

    def tools(self) -> Sequence[Tool]:
        """The current tools."""
        ...

    async def ready(self) -> None:
        """Wait until the tools are known, up to a limit of its own."""
        ...


class Toolbox:
    """The tools of an agent: Tools, plain functions, sources of tools, or names of built-in tools, which work in `workdir`.

    Without `approve`, calls of tools that write or run are refused, because there is nobody to ask. `sandbox` confines bash; `opened`
    is a program that has files open, such as an editor.
    """

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any] | ToolSource | str] = BUILTIN,
        *,
        approve: Approval | None = None,
        workdir: str | os.PathLike[str] = ".",
        sandbox: Sandbox | None = None,
        opened: OpenFiles | None = None,
        max_result: int = MAX_RESULT,
    ) -> None:
        self.approve = approve or Approval()
        self.watch: Callable[[ApprovalRequest], Awaitable[None] | None] | None = None
        """Told of each call that writes or runs, when it is allowed and has not begun."""
        self.progress: Callable[[ToolCall, str], None] | None = None
        """Called with each report of progress from a running tool."""
        self._sources: list[ToolSource] = []
        self._max_result = max_result
        self._tools: dict[str, Tool] = {}
        builtin: dict[str, Tool] = {}
        for each in tools:
            if isinstance(each, str):
                # Made when one is named: a program with tools of its own needs no folder.
                builtin = builtin or {made.name: made for made in builtin_tools(Folder(workdir), sandbox, opened)}
                if each not in builtin:
                    raise ConfigError(f"no built-in tool {each!r}; expected one of {', '.join(BUILTIN)}")
                self.add(builtin[each])
            else:
                self.add(each)

    def add(self, tool: Tool | Callable[..., Any] | ToolSource) -> None:
        """Add a tool, or a source of tools."""
        if not isinstance(tool, Tool) and not callable(tool):
            self._sources.append(tool)
            return
        made = tool if isinstance(tool, Tool) else Tool.from_function(tool)
        if made.name in self._tools:
            raise ConfigError(f"two tools are named {made.name!r}")
        self._tools[made.name] = made

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._all().values())

    def __len__(self) -> int:
        return len(self._all())

    def __contains__(self, name: str) -> bool:
        return name in self._all()

    async def ready(self) -> None:
        """Wait until the tools of all sources are known; each source limits how long that takes."""
        for source in self._sources:
            await source.ready()

    def _all(self) -> dict[str, Tool]:
        """The current tools. One that was added takes precedence over a source's of the same name."""
        if not self._sources:
            return self._tools
        # Those of sources behind the others: a host that takes only so many leaves out the last.
        found = dict(self._tools)
        for source in self._sources:
            for tool in source.tools():
                found.setdefault(tool.name, tool)
        return found

    def specs(self) -> tuple[ToolSpec, ...]:
        """The declarations of all tools, for the model."""
        return tuple([tool.spec for tool in self])

    async def run(self, call: ToolCall) -> ToolResponse:
        """The result of one call. What an approver, a hook or another callable of the program raises is raised here."""
        response, fault = await self._answer(call)
        if fault is not None:
            raise fault
        return response

    async def _answer(self, call: ToolCall) -> tuple[ToolResponse, BaseException | None]:
        """The result of one call, and the fault in the program that came up meanwhile."""
        telemetry = current_telemetry()
        faults: list[BaseException] = []
        if telemetry is None:
            response = await self._result(call, faults)
        else:
            # What a source says of its tools is anybody's, and may repeat what it was given.
            own = self._tools.get(call.qualified_name)
            description = own.spec.description if own is not None else ""
            known = call.qualified_name in self
            response = await telemetry.tool(call, description, lambda: self._result(call, faults), known=known)
        return response, faults[0] if faults else None

    async def _result(self, call: ToolCall, faults: list[BaseException]) -> ToolResponse:
        try:
            return _marked(tool_result(call, *self._bounded(await self._run(call, faults))))
        except ProgramFault as error:
            faults.append(error.fault)
            return failure(call, NOT_RUN)
        except ToolFailed as error:
            return failure(call, self._cut(str(error)))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            # Somebody cancelled us, as opposed to a tool that raised
            # CancelledError by itself, which is only a failure of the tool.
            if task is None or task.cancelling():
                raise
            return failure(call, "the tool cancelled itself")
        except (Exception, SystemExit) as error:
            # One of the edges where everything is caught: a tool may be anybody's code, and its failure is a result.
            return failure(call, _worded(error))

    async def run_all(
        self,
        calls: Sequence[ToolCall],
        on_result: OnResult | None = None,
        on_start: OnStart | None = None,
        cut_short: CutShort | None = None,
        on_fault: Callable[[BaseException], None] | None = None,
    ) -> list[ToolResponse]:
        """The results of the calls of one turn, in their order.

        `on_start` gets each call when it starts, `on_result` each result as soon as it is there. On cancellation `on_result`
        gets a result made by `cut_short` for every call that has none yet, before CancelledError is raised: so it always
        gets a result for each call. After a fault in the program the other calls are cancelled as well; it is raised, or
        given to `on_fault`.
        """
        results: dict[int, ToolResponse] = {}
        started: set[int] = set()
        room = asyncio.Semaphore(MAX_PARALLEL)

        def settle(index: int, response: ToolResponse) -> None:
            results[index] = response
            if on_result is not None:
                on_result(calls[index], response)

        async def run(index: int) -> None:
            async with room:
                started.add(index)
                if on_start is not None:
                    on_start(calls[index])
                response, fault = await self._answer(calls[index])
                settle(index, response)
                if fault is not None:
                    raise ProgramFault(fault)

        end = cut_short or interrupted
        fault: BaseException | None = None
        try:
            for group in self._groups(calls):
                # Group by group: a call that writes must see what
                # came before it, and be done before what comes after.
                await _together([run(index) for index in group])
        except Exception as error:  # a fault in the program: the calls that are left get a result before it goes on
            end = _stopped
            fault = error.fault if isinstance(error, ProgramFault) else error
        finally:
            # Whatever ended the loop: every host refuses a history in which a call has no result.
            for index, call in enumerate(calls):
                if index not in results:
                    settle(index, end(call, started=index in started))
        if fault is not None:
            if on_fault is None:
                raise fault
            on_fault(fault)
        return [results[index] for index in range(len(calls))]

    def _groups(self, calls: Sequence[ToolCall]) -> list[list[int]]:
        """Neighbouring calls that may run at the same time; every other call alone."""
        groups: list[list[int]] = []
        last_safe = False
        for index, call in enumerate(calls):
            tool = self._all().get(call.qualified_name)
            # An unknown tool only makes an error message.
            safe = tool is None or tool.parallel_safe
            if safe and last_safe:
                groups[-1].append(index)
            else:
                groups.append([index])
            last_safe = safe
        return groups

    async def _run(self, call: ToolCall, faults: list[BaseException]) -> Content:
        with _raised_by_the_program():
            tools = self._all()
        tool = tools.get(call.qualified_name)
        if tool is None:
            raise ToolFailed(_unknown(call.qualified_name, list(tools)))
        arguments = parse_arguments(call)
        if "_parse_error" in arguments:
            raise ToolFailed(msgspec.json.encode(_shortened(arguments)).decode())
        with _raised_by_the_program(ToolFailed):
            checked = tool.check(arguments)
        # After the check of the arguments: nobody should be asked about a call that cannot run.
        if tool.writes or tool.runs:
            await self._approved(tool, arguments, checked, call.id)
        # The clock starts after the approval: a person's time is not the tool's.
        deadline = asyncio.timeout(tool.timeout)
        try:
            async with deadline:
                with listening(self._listener(call, faults)):
                    return await tool.run(checked)
        except TimeoutError:
            if deadline.expired():
                raise ToolFailed(
                    f"{tool.name} took longer than {tool.timeout:g} s; it was not waited for any longer"
                ) from None
            raise

    def _listener(self, call: ToolCall, faults: list[BaseException]) -> Callable[[str], None] | None:
        """Passes on what the tool reports. A fault there is not the tool's, which works on; it is raised when the tool is done."""
        progress = self.progress
        if progress is None:
            return None

        def report(text: str) -> None:
            try:
                progress(call, text)
            except Exception as error:  # anybody's code, see `_result`
                faults.append(error)

        return report

    async def _approved(self, tool: Tool, arguments: dict[str, Any], checked: Checked, call_id: str) -> None:
        request = await _request(tool, arguments, checked, call_id)
        with _raised_by_the_program():
            answer = await self.approve.decide(request)
        if not answer.allowed:
            raise ToolFailed(
                "not allowed, nothing was run" + (f": {answer.reason}" if answer.reason else " (the user refused)")
            )
        # Answering takes time; what was shown must still be what happens.
        if await _request(tool, arguments, checked, call_id) != request:
            raise ToolFailed("nothing was run: the file changed while the call was being approved; read it again")
        if self.watch is not None:
            with _raised_by_the_program():
                watched = self.watch(request)
                if inspect.isawaitable(watched):
                    await watched

    def _bounded(self, content: Content) -> Content:
        return tuple([Text(self._cut(part.text), part.extra) if isinstance(part, Text) else part for part in content])

    def _cut(self, text: str) -> str:
        if len(text) <= self._max_result:
            return text
        half = self._max_result // 2
        return f"{text[:half]}\n[… {len(text) - 2 * half} characters cut …]\n{text[-half:]}"


def _unknown(name: str, names: Sequence[str]) -> str:
    near = nearest(name[:64], names, 1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"there is no tool {name[:64]!r}{hint} The tools are: {', '.join(names) or '(none)'}"


def builtin_tools(folder: Folder, sandbox: Sandbox | None = None, opened: OpenFiles | None = None) -> tuple[Tool, ...]:
    """bash, read_file, write_file, edit_file, glob and grep, working in one folder."""
    return (
        bash.Bash(folder, sandbox=sandbox).tool(),
        *Files(folder, opened=opened).tools(),
        *search.Search(folder).tools(),
    )


def _marked(response: ToolResponse) -> ToolResponse:
    """The mark of a failed command belongs to the result; its text is plain."""
    if not any(part.extra and FAILED in part.extra for part in response.content if isinstance(part, Text)):
        return response
    plain = tuple([replace(part, extra=None) if isinstance(part, Text) else part for part in response.content])
    return replace(response, content=plain, extra={FAILED: True})


NOT_RUN = "not run: the program that runs the tools stopped before it started"


def _stopped(call: ToolCall, *, started: bool) -> ToolResponse:
    """The result of a call that was cut short by a fault in the program, of which a model is told no more."""
    running = "the program that runs the tools stopped while it was running; part of its work may be done"
    return failure(call, running if started else NOT_RUN)


@contextmanager
def _raised_by_the_program(*told: type[Exception]) -> Iterator[None]:
    """Code of the program that is not a tool; what it raises of the kinds `told` is meant for the model."""
    try:
        yield
    except told:
        raise
    except (Exception, SystemExit) as error:  # anybody's code, see `_result`
        raise ProgramFault(error) from error


def failure(call: ToolCall, message: str) -> ToolResponse:
    """A result that says what went wrong."""
    return tool_result(call, message, is_error=True)


def interrupted(call: ToolCall, *, started: bool) -> ToolResponse:
    """The result of a call that was cut short, for a history whose every call has one."""
    return failure(
        call,
        "interrupted by the user while it was running; part of its work may be done"
        if started
        else "not run: interrupted by the user before it started",
    )


def _worded(error: BaseException) -> str:
    """The kind of an error and its first line: enough for the model, without a traceback."""
    lines = str(error).strip().splitlines()
    message = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + "…"


def _shortened(parse_error: dict[str, Any]) -> dict[str, Any]:
    raw = str(parse_error.get("_raw", ""))
    return {**parse_error, "_raw": raw if len(raw) <= 2000 else raw[:2000] + "…"}


async def _request(tool: Tool, arguments: dict[str, Any], checked: Checked, call_id: str) -> ApprovalRequest:
    with _raised_by_the_program(ToolFailed):
        found = await tool.preview(checked)
    return ApprovalRequest(
        tool.name,
        arguments,
        writes=tool.writes,
        runs=tool.runs,
        folder=found.folder,
        change=found.change,
        own_caution=found.caution,
        sandbox=found.sandbox,
        call_id=call_id,
    )


async def _together(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all at once. If one fails or the caller is cancelled, all are cancelled, and none is left when this raises."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):  # a further one does not shorten the wait: they end what they started
            await shield(asyncio.wait(tasks))
        raise
