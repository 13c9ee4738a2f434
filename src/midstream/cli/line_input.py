"""Lines from a pipe, a file or a dumb terminal, read without blocking the loop and without the interpreter's own buffer.

The read waits in a daemon thread of its own on the bare descriptor: whoever is interrupted while waiting can leave at once,
and at the end of the program no lock of a buffered reader is held.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..agent.approval import ALWAYS, NO, ONCE, Decision
from ..agent.approval_request import ApprovalRequest
from ..core.visible import visible

_MAX_LINE = 4 * 1024 * 1024
_YES = {
    "command": "[y]es, [a]lways this exact command in this session",
    "arguments": "[y]es, [a]lways {tool} with exactly these arguments in this session",
    "tool": "[y]es, [a]lways {tool} in this folder in this session",
    "": "[y]es once (a file like this is asked for each time)",
}

Show = Callable[[ApprovalRequest], str]
"""All of a request, for the terminal that it is written to."""


class Interrupted(Exception):
    """The human pressed Ctrl-C. Not KeyboardInterrupt, which no task may raise without ending the loop."""


class LineInput:
    """The human behind a file descriptor. `interactive` says whether somebody is there to be asked."""

    def __init__(
        self, fd: int, *, interactive: bool, echo: Callable[[str], None], show: Show = ApprovalRequest.shown
    ) -> None:
        self.interactive = interactive
        self._show = show
        self._fd = fd
        self._echo = echo
        self._held = b""

    async def read(self) -> str:
        """The next line; EOFError when there are no more."""
        if self.interactive:
            self._echo("› ")
        return await self._line()

    async def approve(self, request: ApprovalRequest) -> Decision:
        """Ask with all of the call in sight. What was typed before it was there is no answer to it."""
        self._echo(f"{self._show(request)}\n")
        early, self._held = self._held + _drained(self._fd), b""
        self._echo(question(request))
        try:
            return answer_of(await self._line())
        except EOFError:
            return NO
        finally:
            self._held = early + self._held

    @contextmanager
    def watching(self, stop: Callable[[], None], toggle: Callable[[], None]) -> Iterator[None]:
        """Nothing to watch: an interrupt comes as a signal."""
        yield

    def toolbar(self, text: Callable[[], str]) -> None:
        """There is no place for one."""

    async def _line(self) -> str:
        while b"\n" not in self._held:
            data = await _read(self._fd)
            if not data:
                if self._held:
                    break
                raise EOFError
            self._held += data
            if len(self._held) > _MAX_LINE:
                raise EOFError
        line, _, self._held = self._held.partition(b"\n")
        return line.decode("utf-8", "replace")


def question(request: ApprovalRequest) -> str:
    """What is asked, with all that an "always" would cover."""
    yes = _YES[request.scope].format(tool=visible(request.tool))
    return f"Allow this? {yes}, [n]o, or say why not: "


def answer_of(text: str) -> Decision:
    """What the human meant: y or yes, a or always, n or no or nothing; any other words are a no with its reason."""
    word = text.strip().lower()
    if word in ("y", "yes"):
        return ONCE
    if word in ("a", "always"):
        return ALWAYS
    return NO if word in ("", "n", "no") else Decision(False, reason=f"the user said: {text.strip()}")


def _drained(fd: int) -> bytes:
    """What waits to be read: whole lines are kept, a line that is not at its end yet is dropped."""
    if sys.platform == "win32" or not os.isatty(fd):
        return b""
    import termios

    data = b""
    while select.select([fd], [], [], 0)[0]:
        more = os.read(fd, 65536)
        if not more:
            break
        data += more
    termios.tcflush(fd, termios.TCIFLUSH)
    return data


async def _read(fd: int) -> bytes:
    loop = asyncio.get_running_loop()
    data: asyncio.Future[bytes] = loop.create_future()

    def deliver(got: bytes) -> None:
        if not data.done():
            data.set_result(got)

    def work() -> None:
        try:
            got = os.read(fd, 65536)
        except OSError:  # the terminal is gone: the same as its end
            got = b""
        try:
            loop.call_soon_threadsafe(deliver, got)
        except RuntimeError:
            pass  # the loop has ended: nobody waits for this line any more

    threading.Thread(target=work, name="midstream-stdin", daemon=True).start()
    return await data
