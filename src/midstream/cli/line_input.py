"""Input from a pipe, a file or a dumb terminal, line by line, and the question whether a call is allowed.

A daemon thread waits for data on the bare descriptor, so an interrupted wait can be left at once, and no lock of a buffered
reader is held when the program ends. The thread cannot be ended: the next wait takes over its read, or a line would be lost.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import IO

from ..agent.approval import ALWAYS, NO, ONCE, Decision
from ..agent.approval_request import ApprovalRequest
from ..client.cancellation import in_daemon_thread
from ..core.visible import visible
from .terminal import columns, showable, write
from .view import shown_on, wrapped

_MAX_LINE = 4 * 1024 * 1024
_YES = {
    "command": "[y]es, [a]lways this exact command in this session",
    "arguments": "[y]es, [a]lways {tool} with exactly these arguments in this session",
    "tool": "[y]es, [a]lways {tool} in this folder in this session",
    "": "[y]es once (each change to such a file is asked about)",
}


_AHEAD = "typed before this prompt: Enter runs it, or type something else: "
_COMMAND = "(a command is not an answer: say y, n or why not first, or stop the whole answer with Ctrl-C)"


def no_command(line: str) -> bool:
    """Where there are no commands."""
    return False


class Interrupted(Exception):
    """The human pressed Ctrl-C. Not KeyboardInterrupt, which would end the event loop."""


class LineInput:
    """The human behind a file descriptor. `interactive` says whether somebody is there to be asked, on `out`; `acts`, whether a
    line is a command."""

    picks = False

    def __init__(self, fd: int, out: IO[str], *, interactive: bool, acts: Callable[[str], bool] = no_command) -> None:
        self.interactive = interactive
        self._fd = fd
        self._out = out
        self._acts = acts
        self._buffer = b""
        self._reading: asyncio.Future[bytes] | None = None

    async def read(self) -> str:
        """The next line; EOFError when there are no more. A command that was there before the prompt waits for an Enter."""
        if not self.interactive:
            return await self._line()
        self._buffer += self._take()
        is_early = b"\n" in self._buffer or _holds_line(self._fd)
        write(self._out, showable("› ", self._out))
        line = await self._line()
        if not is_early or not self._acts(line):
            return line
        write(self._out, f"{showable(visible(line), self._out)}\n")
        return await self._ask_fresh(_AHEAD) or line

    async def approve(self, request: ApprovalRequest, is_command: Callable[[str], bool] = no_command) -> Decision:
        """Show the whole call and ask. What was typed before it was shown is not an answer to it."""
        write(self._out, f"{shown_on(self._out, request)}\n")
        return await decided(request, self._fresh, is_command, self._out)

    async def confirm(self, question: str) -> bool:
        """Ask a question that wants a yes; anything else, and the end, is a no."""
        return decision_of(await self._fresh(visible(question))).allowed

    async def _fresh(self, question: str) -> str:
        """The answer to a question, typed after it was shown; nothing at the end of the input."""
        try:
            return await self._ask_fresh(question)
        except EOFError:
            return ""

    async def _ask_fresh(self, question: str) -> str:
        # A "y" typed for something else a moment ago must not approve a call that was not on the screen yet.
        early, self._buffer = self._buffer + self._take() + _drained(self._fd), b""
        try:
            return await self.ask(question)
        finally:
            # Nothing is lost: it is read as the next message.
            self._buffer = early + self._buffer

    async def ask(self, question: str) -> str:
        """The next line, which in a script is the one below the command that asks."""
        asked = in_rows(question, columns(self._out))
        write(self._out, asked if self.interactive else f"{asked.rstrip()}\n")
        return await self._line()

    async def pick(self, rows: Sequence[str]) -> int | None:
        """Not here: see `picks`."""
        return None

    @contextmanager
    def watching(self, stop: Callable[[], None], toggle: Callable[[], None]) -> Iterator[None]:
        """Nothing to watch: Ctrl-C comes as a signal."""
        yield

    def toolbar(self, text: Callable[[], str]) -> None:
        """Not shown."""

    def hold(self) -> AbstractContextManager[None]:
        """Not held: the terminal gives whole lines."""
        return nullcontext()

    def lend(self) -> AbstractContextManager[None]:
        """It is not held."""
        return nullcontext()

    async def _line(self) -> str:
        while b"\n" not in self._buffer:
            if self._reading is None:
                self._reading = in_daemon_thread(lambda: _read(self._fd), "midstream-stdin")
            await asyncio.wait((self._reading,))
            data = self._take()
            # The last line of a file need not end in a line break.
            if not data and self._buffer:
                break
            self._buffer += data
            if not data or len(self._buffer) > _MAX_LINE:
                raise EOFError
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", "replace")

    def _take(self) -> bytes:
        """What the thread has read, if it has."""
        if self._reading is None or not self._reading.done():
            return b""
        done, self._reading = self._reading, None
        return done.result()


def question(request: ApprovalRequest) -> str:
    """The question, with what an "always" would cover."""
    yes = _YES[request.scope].format(tool=visible(request.tool))
    return f"Allow this? {yes}, [n]o, or the reason why not: "


async def decided(
    request: ApprovalRequest, ask: Callable[[str], Awaitable[str]], is_command: Callable[[str], bool], out: IO[str]
) -> Decision:
    """What the human answers. `/model …` is meant for the chat: taken for a reason, it would refuse the call."""
    while is_command(answer := await ask(question(request))):
        write(out, in_rows(_COMMAND, columns(out)).rstrip() + "\n")
    return decision_of(answer)


def in_rows(question: str, columns: int) -> str:
    """A question in rows that are broken between words: a prompt would break them anywhere."""
    return "\n".join(wrapped(question.rstrip(), columns - 1)) + " "


def decision_of(text: str) -> Decision:
    """y or yes, a or always, n or no or nothing; any other words are a no and its reason."""
    word = text.strip().lower()
    if word in ("y", "yes"):
        return ONCE
    if word in ("a", "always"):
        return ALWAYS
    return NO if word in ("", "n", "no") else Decision(False, reason=f"the user said: {text.strip()}")


def _holds_line(fd: int) -> bool:
    """Whether a terminal holds a line that nothing has read yet."""
    return sys.platform != "win32" and os.isatty(fd) and bool(select.select([fd], [], [], 0)[0])


def _drained(fd: int) -> bytes:
    """The whole lines that are waiting to be read; an unfinished line is dropped."""
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


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:  # the terminal is gone: the same as its end
        return b""
