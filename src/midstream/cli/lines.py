"""Lines from a pipe, a file or a dumb terminal, read without blocking the loop and without the interpreter's own buffer.

The read waits in a daemon thread of its own on the bare descriptor: whoever is interrupted while waiting can leave at once,
and at the end of the program no lock of a buffered reader is held.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..agent.approval import ALWAYS, NO, ONCE, Answer, Request

_MAX_LINE = 4 * 1024 * 1024
APPROVAL_QUESTION = "Allow this? [y]es, [a]lways, [n]o, or say why not: "


class Interrupted(Exception):
    """The human pressed Ctrl-C. Not KeyboardInterrupt, which no task may raise without ending the loop."""


class LineInput:
    """The human behind a file descriptor. `interactive` says whether somebody is there to be asked."""

    def __init__(self, fd: int, *, interactive: bool, echo: Callable[[str], None]) -> None:
        self.interactive = interactive
        self._fd = fd
        self._echo = echo
        self._held = b""

    async def read(self) -> str:
        """The next line; EOFError when there are no more."""
        if self.interactive:
            self._echo("› ")
        return await self._line()

    async def approve(self, request: Request) -> Answer:
        self._echo(f"{request.shown()}\n{APPROVAL_QUESTION}")
        try:
            return answer_of(await self._line())
        except EOFError:
            return NO

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


def answer_of(text: str) -> Answer:
    """What the human meant: y or yes, a or always, n or no or nothing; any other words are a no with its reason."""
    word = text.strip().lower()
    if word in ("y", "yes"):
        return ONCE
    if word in ("a", "always"):
        return ALWAYS
    return NO if word in ("", "n", "no") else Answer(False, reason=f"the user said: {text.strip()}")


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
