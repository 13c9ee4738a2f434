"""The bash tool: runs one command, ends it and everything it started in time, and bounds its output.

The command runs below a supervisor (see supervisor.py) in a session of its own, with nothing on standard input. Processes
it leaves behind are ended with it: at its end, at the timeout, when we are cancelled and when we are killed. If the
command kills the supervisor, its processes are found by their marks.
Variables that are keys or look like secrets are not passed on, and this process is closed to its user's other processes
(/proc/PID/environ), so an unprivileged command cannot read them from here. docs/safety.md says what is not guarded.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from ..client.cancellation import shield
from ..core.errors import ToolFailed
from . import supervisor
from .paths import Folder, checked_text
from .processes import PipeReader, child_environment, held, known_key_names
from .sandbox import Box, Sandbox
from .tool import FailedOutput, Preview, Tool

DEFAULT_TIMEOUT = 120.0
MAX_TIMEOUT = 600.0
OUTPUT_LIMIT = 64 * 1024
MAX_COMMAND = 100_000  # the system's limit for one argument is 128 KiB

_LEASH_SECONDS = 2.8  # a live supervisor needs at most GRACE + GIVE_UP, and the guard above it GIVE_UP more


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
        run = _Run(self._output_limit)
        environment = child_environment(os.environ, self._keep, self._key_names)
        if self._box is None:
            run.start([_shell()], _checked(command), self._folder.path, environment)
            return await self._finished(run, seconds)
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
            report = await self._finished(run, seconds)
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

    async def _finished(self, run: _Run, seconds: float) -> str:
        try:
            ended = await run.wait(seconds)
        finally:
            await run.end()
        return run.report(None if ended else seconds)

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


class _Run:
    """One running command: the supervisor, its leash, the output and the report."""

    def __init__(self, output_limit: int) -> None:
        self._output = Capped(output_limit)
        self._report = bytearray()
        self._marker = secrets.token_hex(16)
        self._process: subprocess.Popen[bytes] | None = None
        self._leash = -1

    def start(
        self, shell: Sequence[str], command: str, folder: str, environment: Mapping[str, str], fds: Sequence[int] = ()
    ) -> None:
        close_to_others()
        # The leash: we hold one end, and when it closes, for whatever
        # reason (our own death included), the supervisor ends everything.
        leash_read, self._leash = os.pipe()
        output_read, output_write = os.pipe()
        report_read, report_write = os.pipe()
        command_fd = held(command.encode())
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__, self._marker, str(command_fd), *shell, "-c"],
                pass_fds=(command_fd, *fds),
                # Three pipes under the three standard numbers, so
                # that the supervisor needs no arguments to find them.
                stdin=leash_read,
                stdout=output_write,
                stderr=report_write,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            for fd in (self._leash, output_read, report_read):
                os.close(fd)
            raise ToolFailed(f"cannot start the command: {error.strerror}") from error
        finally:
            for fd in (leash_read, output_write, report_write, command_fd):
                os.close(fd)
        self._output_reader = PipeReader(output_read, self._output.add)
        self._report_reader = PipeReader(report_read, self._add_report)

    async def wait(self, seconds: float) -> bool:
        """Until the supervisor has reported, or the time is over."""
        done, _ = await asyncio.wait({self._report_reader.done}, timeout=seconds)
        return bool(done)

    async def end(self) -> None:
        """See that nothing is left running, however often we are cancelled meanwhile (takes at most two seconds, or five if the command stopped its supervisor)."""
        await shield(self._end())

    @property
    def failed(self) -> bool:
        """Whether it ended in any other way than with exit code 0."""
        words = self._words()
        return words is None or words[:2] != ["exit", "0"]

    def report(self, timed_out_after: float | None) -> str:
        """The output and how it ended, in words for the model; ToolFailed if it did not end by itself."""
        output = self._output.text()
        words = self._words()
        ended_by_itself = words is not None and words[0] != "stopped"
        notes = []
        if timed_out_after is not None and not ended_by_itself:
            notes.append(
                f"[stopped: it did not end within {timed_out_after:g} s; it and everything it started were ended]"
            )
        elif not ended_by_itself:
            notes.append("[stopped: the process that supervises the command was killed]")
        elif words is not None:
            if words[0] == "signal":
                notes.append(f"[ended by signal {words[1]} ({_signal_name(int(words[1]))})]")
            elif words[1] != "0":
                notes.append(f"[exit code {words[1]}]")
            if words[2] != "0":
                notes.append(f"[{words[2]} background process(es) that were still running were ended with the command]")
        text = "\n".join([part for part in (output.rstrip("\n"), *notes) if part])
        if not ended_by_itself:
            raise ToolFailed(text)
        if words is not None and words[:2] != ["exit", "0"]:
            return FailedOutput(text)
        return text or "(no output, exit code 0)"

    async def _end(self) -> None:
        assert self._process is not None
        os.close(self._leash)
        await asyncio.wait({self._report_reader.done}, timeout=_LEASH_SECONDS)
        if self._words() is None:
            # No report within the time that a live supervisor needs: it was killed or stopped by the command.
            self._kill_by_force()
        # Everybody who held the pipe is gone, so this returns at once, unless it was handed to a process outside.
        await asyncio.wait({self._output_reader.done, self._report_reader.done}, timeout=0.2)
        self._output_reader.close()
        self._report_reader.close()
        if not await self._has_ended() or self._process.wait() != 0:
            self._kill_by_force()  # whatever the report says: the supervisor did not end as it should
            self._process.wait()

    async def _has_ended(self) -> bool:
        """Whether the supervisor is gone; it holds the report's pipe until then, unless the command stopped it after a report."""
        assert self._process is not None
        for _ in range(20):
            if self._process.poll() is not None:
                return True
            await asyncio.sleep(0.01)
        return False

    def _kill_by_force(self) -> None:
        assert self._process is not None
        self._process.kill()
        supervisor.sweep(self._marker)

    def _words(self) -> list[str] | None:
        """The report, if one came: a supervisor that was killed leaves none."""
        words = self._report.decode("utf-8", "replace").split()
        return words if len(words) == 3 and words[0] in ("exit", "signal", "stopped") else None

    def _add_report(self, data: bytes) -> None:
        # A command that got hold of the pipe could write without end.
        if len(self._report) < 4096:
            self._report += data


def close_to_others() -> None:
    """Let no other process of this user read our environment and memory through /proc; root still can.

    For the whole process and for good: core dumps and debuggers of the same user are shut out too.
    """
    ctypes.CDLL(None).prctl(supervisor.PR_SET_DUMPABLE, 0, 0, 0, 0)


def _shell() -> str:
    if not sys.platform.startswith("linux"):
        raise ToolFailed(
            f"the bash tool needs Linux (prctl, /proc) to end what it starts; this system is {sys.platform}"
        )
    shell = shutil.which("bash")
    if shell is None:
        raise ToolFailed("bash is not installed on this system")
    if not sys.executable:
        raise ToolFailed("the bash tool needs the path of the Python interpreter, but sys.executable is empty")
    return shell


def _checked(command: str) -> str:
    return checked_text("command", command if command.strip() else "", MAX_COMMAND, "; write it to a file and run that")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
