"""A program that runs under a supervisor (supervisor.py), so that nothing it started outlives it.

It runs in a session of its own. Whatever it leaves behind is ended with it: at its end, when we say so, and when we are
killed. If it kills the supervisor, its processes are found by their marks.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..client.cancellation import shield
from ..core.errors import ToolFailed
from ..core.modules import late_module
from .processes import PipeReader, held

if TYPE_CHECKING:
    import ctypes

    from . import supervisor
else:
    # Only a program that is run needs them.
    ctypes = late_module("ctypes", globals())
    supervisor = late_module(".supervisor", globals())

_LEASH_SECONDS = 2.8  # a live supervisor needs at most GRACE + GIVE_UP, and the guard above it GIVE_UP more
_DRAIN_SECONDS = 0.2


def check_platform(what: str) -> None:
    """Raise ToolFailed on a platform where programs cannot be supervised."""
    if not sys.platform.startswith("linux"):
        raise ToolFailed(f"{what} needs Linux (prctl, /proc) to end what it starts; this system is {sys.platform}")
    if not sys.executable:
        raise ToolFailed(f"{what} needs the path of the Python interpreter, but sys.executable is empty")


class Supervised:
    """One running program: the supervisor, its leash and its report. `take` gets the output as it comes."""

    def __init__(self, take: Callable[[bytes], None]) -> None:
        self._take = take
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
        self._output_reader = PipeReader(output_read, self._take)
        self._report_reader = PipeReader(report_read, self._add_report)

    async def wait(self, seconds: float) -> bool:
        """Wait until the supervisor has reported, or the time is up."""
        done, _ = await asyncio.wait({self._report_reader.done}, timeout=seconds)
        return bool(done)

    async def end(self) -> None:
        """See that nothing is left running, however often we are cancelled meanwhile (takes at most two seconds, or five if the command stopped its supervisor)."""
        await shield(self._end())

    @property
    def done(self) -> asyncio.Future[None]:
        """Set when the supervisor has sent its final report."""
        return self._report_reader.done

    async def drained(self) -> None:
        """Wait until its output has been read to the end, unless another process still holds the pipe."""
        await asyncio.wait({self._output_reader.done}, timeout=_DRAIN_SECONDS)

    @property
    def words(self) -> list[str] | None:
        """The report, if one came: a supervisor that was killed leaves none."""
        words = self._report.decode("utf-8", "replace").split()
        return words if len(words) == 3 and words[0] in ("exit", "signal", "stopped") else None

    @property
    def failed(self) -> bool:
        """Whether it ended in any other way than with exit code 0."""
        words = self.words
        return words is None or words[:2] != ["exit", "0"]

    async def _end(self) -> None:
        assert self._process is not None
        os.close(self._leash)
        await asyncio.wait({self._report_reader.done}, timeout=_LEASH_SECONDS)
        if self.words is None:
            # No report within the time that a live supervisor needs: it was killed or stopped by the command.
            self._kill_by_force()
        # Everybody who held the pipe is gone, so this returns at once, unless it was handed to a process outside.
        await asyncio.wait({self._output_reader.done, self._report_reader.done}, timeout=_DRAIN_SECONDS)
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

    def _add_report(self, data: bytes) -> None:
        # A command that got hold of the pipe could write without end.
        if len(self._report) < 4096:
            self._report += data


def close_to_others() -> None:
    """Let no other process of this user read our environment and memory through /proc; root still can.

    For the whole process and for good: core dumps and debuggers of the same user are shut out too.
    """
    ctypes.CDLL(None).prctl(supervisor.PR_SET_DUMPABLE, 0, 0, 0, 0)
