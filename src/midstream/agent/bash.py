"""The bash tool: runs one command, ends it and everything it started in time, and bounds its output.

The command runs below a supervisor (see supervisor.py) in a session of its own, with nothing on standard input. Processes
it leaves behind are ended with it: at its end, at the timeout, when we are cancelled and when we are killed. If the
command kills the supervisor, its processes are found by their marks.
Variables that are keys or look like secrets are not passed on, and this process is closed to its user's other processes
(/proc/PID/environ), so an unprivileged command cannot read them from here. docs/safety.md says what is not guarded.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Iterable
from typing import Annotated

from ..client.cancellation import shield
from ..core.errors import ToolFailed
from .paths import Folder, checked_text
from .processes import child_environment, known_key_names
from .sandbox import Box, Sandbox
from .supervised import Supervised, check_platform
from .tool import FailedOutput, Preview, Tool

DEFAULT_TIMEOUT = 120.0
MAX_TIMEOUT = 600.0
OUTPUT_LIMIT = 64 * 1024
MAX_COMMAND = 100_000  # the system's limit for one argument is 128 KiB


class Bash:
    """Runs commands in a folder. `keep` names variables to pass on although they look like secrets; `key_names` those that
    hold keys and are never passed on (default: those that the catalog and the configuration name). `sandbox` confines them."""

    def __init__(
        self,
        folder: Folder,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        output_limit: int = OUTPUT_LIMIT,
        keep: Iterable[str] = (),
        key_names: Iterable[str] | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        self._folder = folder
        self._timeout = timeout
        self._output_limit = output_limit
        self._keep = frozenset(keep)
        # Read once, at the start: a command must not be able to
        # change by a configuration file which keys the next one gets.
        self._key_names = known_key_names(folder.path) if key_names is None else frozenset(key_names)
        self._box = None if sandbox is None else Box(sandbox, folder.path)

    def tool(self) -> Tool:
        # It limits its own time, because only it knows how to end what it started.
        made = Tool.from_function(self.bash, runs=True, timeout=None, preview=self._preview)
        if self._box is None:
            return made
        told = f"{made.spec.description}\nIt runs in a sandbox: it {self._box.sandbox.described}. Use $TMPDIR for temporary files."
        return Tool.from_function(self.bash, description=told, runs=True, timeout=None, preview=self._preview)

    async def bash(
        self,
        command: Annotated[str, "The command line, run with bash -c in the working folder."],
        timeout: Annotated[float | None, "Seconds until it is stopped: 120 unless given, at most 600."] = None,  # noqa: ASYNC109 - an argument of the model
    ) -> str:
        """Run a shell command and get its output (stdout and stderr together) and exit code. Each call is a new shell:
        cd and variables do not last. There is no input and no terminal, and background processes end with the command.
        """
        seconds = self._timeout if timeout is None else timeout
        if not 0 < seconds <= MAX_TIMEOUT:
            raise ToolFailed(f"invalid timeout {seconds}; expected more than 0 and at most {MAX_TIMEOUT:.0f} seconds")
        output = Capped(self._output_limit)
        run = Supervised(output.add)
        environment = child_environment(os.environ, self._keep, self._key_names)
        if self._box is None:
            run.start([_shell()], _checked(command), self._folder.path, environment)
            return await _finished(run, output, seconds)
        shell = _shell()
        # In a thread: it walks the whole folder.
        guarded = await asyncio.to_thread(self._box.guard)
        launch = self._box.launch(guarded)
        try:
            run.start(
                [*launch.prefix, shell],
                _checked(command),
                self._folder.path,
                {**environment, **launch.environment},
                launch.fds,
            )
        finally:
            # The child has its own copies by now, or there is no child.
            launch.close()
        notes: list[str] = []
        try:
            report = await _finished(run, output, seconds)
        # In every case the files are put back; only then does the failure go on, with what was put back in its words.
        except ToolFailed as error:
            raise ToolFailed("\n".join([str(error), *await shield(asyncio.to_thread(guarded.put_back))])) from None
        except BaseException:
            # A cancelled call still has to leave the folder as it was.
            await shield(asyncio.to_thread(guarded.put_back))
            raise
        notes = await shield(asyncio.to_thread(guarded.put_back))
        hint = self._box.hint(report, failed=run.failed)
        return "\n".join([report, *notes, *([hint] if hint else [])])

    def _preview(self, command: str, timeout: float | None = None) -> Preview:
        _checked(command)
        return Preview(self._folder.path, sandbox=self._box.sandbox.described if self._box is not None else "")


class Capped:
    """The beginning and the end of a stream of bytes, within a limit."""

    def __init__(self, limit: int) -> None:
        # Both ends, because a command's error is at its end and what it was about at its beginning.
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        # Trimmed at twice its size, so that each byte is moved once on average.
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def text(self) -> str:
        tail = self._tail[-self._half :]
        cut = self.total - len(self._head) - len(tail)
        if cut <= 0:
            return (self._head + tail).decode("utf-8", "replace")
        head = self._head.decode("utf-8", "replace")
        return f"{head}\n[… {cut} bytes of output cut …]\n{tail.decode('utf-8', 'replace')}"


async def _finished(run: Supervised, output: Capped, seconds: float) -> str:
    try:
        ended = await run.wait(seconds)
    finally:
        await run.end()
    return _report(run, output.text(), None if ended else seconds)


def _report(run: Supervised, text: str, timed_out_after: float | None) -> str:
    """The output and how it ended, in words for the model; ToolFailed if it did not end by itself."""
    words = run.words
    ended_by_itself = words is not None and words[0] != "stopped"
    notes = []
    if timed_out_after is not None and not ended_by_itself:
        notes.append(f"[stopped: it did not end within {timed_out_after:g} s; it and everything it started were ended]")
    elif not ended_by_itself:
        notes.append("[stopped: the process that supervises the command was killed]")
    elif words is not None:
        if words[0] == "signal":
            notes.append(f"[ended by signal {words[1]} ({_signal_name(int(words[1]))})]")
        elif words[1] != "0":
            notes.append(f"[exit code {words[1]}]")
        if words[2] != "0":
            notes.append(f"[{words[2]} background process(es) that were still running were ended with the command]")
    told = "\n".join([part for part in (text.rstrip("\n"), *notes) if part])
    if not ended_by_itself:
        raise ToolFailed(told)
    if words is not None and words[:2] != ["exit", "0"]:
        return FailedOutput(told)
    return told or "(no output, exit code 0)"


def _shell() -> str:
    check_platform("the bash tool")
    shell = shutil.which("bash")
    if shell is None:
        raise ToolFailed("bash is not installed on this system")
    return shell


def _checked(command: str) -> str:
    return checked_text("command", command if command.strip() else "", MAX_COMMAND, "; write it to a file and run that")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
