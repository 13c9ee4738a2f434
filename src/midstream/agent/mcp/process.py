"""The program of an MCP server over stdio: lines in, lines out, bounded, and nothing of it left behind.

It runs below a supervisor like a command of the bash tool, without the keys of the environment. What it writes to standard
error goes to the log. A line that is too long, too much that is no message, and messages that pile up faster than they are
read are a flood: the program is ended.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from pathlib import Path

import msgspec

from ...client.mcp_server import McpServer
from ...core.errors import ToolFailed
from ..processes import PipeReader, child_environment
from ..supervised import Supervised, check_platform
from . import launcher

MAX_MESSAGE = 16 << 20
"""Bytes of one message: larger ones than any model could read."""
MAX_WAITING = 32 << 20
MAX_JUNK = 1 << 20
"""Bytes between two messages that are none."""
_COST = 64  # bytes of memory for a line that waits, beside its own: an empty message is two bytes long
_LOG_LINE = 500
_LOGGED = 20  # lines of one piece of output
_FAREWELL = 0.5  # seconds that a program gets to end by itself when its input closes
_WRITE_SECONDS = 10.0


class ServerProcess:
    """One run of the program. `log` gets the lines of its standard error, and of its output those that are no messages."""

    def __init__(self, server: McpServer, log: Callable[[str], None], key_names: Collection[str] = ()) -> None:
        self._server = server
        self._log = log
        self._key_names = key_names
        self._run = Supervised(self._take)
        self._lines: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._partial = bytearray()
        self._waiting = self._junk = 0
        self._error_line = bytearray()
        self._input = -1
        self.fault = ""
        """Why it was ended by us, if it was."""
        self.last_error = ""
        """The last line of its standard error, which is often the reason of its end."""
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Set when it has ended by itself, or for a flood."""
        self._closing = False
        self._spoken = False

    def start(self) -> None:
        """ToolFailed if it cannot be."""
        check_platform("an MCP server over stdio")
        folder = Path(self._server.cwd or ".").expanduser().absolute()
        if not folder.is_dir():
            raise ToolFailed(f"cannot start it: {folder} is not a folder")
        environment = {**child_environment(os.environ, key_names=self._key_names), **self._server.env}
        input_read, self._input = os.pipe()
        error_read, error_write = os.pipe()
        shell = [sys.executable, "-I", "-S", launcher.__file__, str(input_read), str(error_write)]
        command = msgspec.json.encode(self._server.argv).decode()
        try:
            self._run.start(shell, command, str(folder), environment, (input_read, error_write))
        except BaseException:
            os.close(self._input)
            os.close(error_read)
            raise
        finally:
            os.close(input_read)
            os.close(error_write)
        os.set_blocking(self._input, False)
        self._errors = PipeReader(error_read, self._take_errors)
        self._run.done.add_done_callback(lambda _: self._leave())

    @property
    def last_words(self) -> str:
        """How it ended, in words."""
        if self.fault:
            return self.fault
        words = self._run.words
        if words is None or words[0] == "stopped":
            return "it was ended"
        return f"it ended with exit code {words[1]}" if words[0] == "exit" else f"it was ended by signal {words[1]}"

    @property
    def is_silent(self) -> bool:
        """Whether it was a program at all, and has sent no message."""
        words = self._run.words
        return (
            not self._spoken and not self.fault and words is not None and words[:2] != ["exit", str(launcher.NOT_FOUND)]
        )

    async def lines(self) -> AsyncIterator[bytes]:
        """Its messages, a line each, until it has ended or was ended for a flood."""
        last = False
        while True:
            while self._lines:
                line = self._lines.popleft()
                self._waiting -= len(line) + _COST
                yield line
            if self.fault or last:
                return
            if self._run.done.done():
                # What it wrote at its very end may still be in the pipe.
                await self._run.drained()
                last = True
                continue
            self._arrived.clear()
            await self._arrived.wait()

    async def write(self, data: bytes) -> None:
        """Send a line; ToolFailed if the program does not read it."""
        left = memoryview(data)
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                while left:
                    try:
                        left = left[os.write(self._input, left) :]
                    except BlockingIOError:
                        await self._writable()
        except TimeoutError:
            self._flood(f"it did not read its input for {_WRITE_SECONDS:g} s")
            raise ToolFailed(self.fault) from None
        except OSError as error:
            raise ToolFailed(f"it does not read its input any more ({error.strerror})") from None

    async def end(self) -> None:
        """Close its input, wait a moment, then end it and everything it started."""
        self._closing = True
        if self._input >= 0:
            os.close(self._input)
            self._input = -1
        try:
            if not self.fault:
                await self._run.wait(_FAREWELL)
        finally:
            await self._run.end()
            self._errors.close()

    async def _writable(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_writer(self._input, lambda: None if ready.done() else ready.set_result(None))
        try:
            await asyncio.wait({ready, self._run.done}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            loop.remove_writer(self._input)
        if self._run.done.done():
            raise BrokenPipeError(32, "it has ended")

    def _take(self, data: bytes) -> None:
        # Whatever comes after a flood is read and dropped: a full pipe would keep the program from ending.
        if self.fault:
            return
        *whole, rest = data.split(b"\n")
        for piece in whole:
            line = bytes(self._partial) + piece
            self._partial.clear()
            self._add(line.strip())
        self._partial += rest
        if len(self._partial) > MAX_MESSAGE:
            self._flood(f"it sent a line of more than {MAX_MESSAGE >> 20} MB")
        self._arrived.set()

    def _add(self, line: bytes) -> None:
        line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            return
        # Until 2025 a line could hold several messages. They are small, or millions of them would be made at once.
        if line.startswith(b"[") and len(line) <= MAX_JUNK:
            with suppress(msgspec.DecodeError, RecursionError):
                for each in msgspec.json.decode(line, type=list[msgspec.Raw]):
                    self._add_one(bytes(each).strip())
                return
        self._add_one(line)

    def _add_one(self, line: bytes) -> None:
        # The rest of what came with a flood.
        if self.fault:
            return
        # Programs print greetings and warnings to standard output; only an object can be a message.
        if not line.startswith(b"{"):
            if self._junk < _LOGGED * _LOG_LINE:
                self._log(f"(not a message) {_decoded(line)}")
            self._junk += len(line)
            if self._junk > MAX_JUNK:
                self._flood(f"it sent more than {MAX_JUNK >> 20} MB that are not messages")
            return
        self._junk = 0
        self._spoken = True
        self._waiting += len(line) + _COST
        self._lines.append(line)
        if self._waiting > MAX_WAITING:
            self._flood(f"it sent more than {MAX_WAITING >> 20} MB of messages at once")

    def _flood(self, why: str) -> None:
        self.fault = self.fault or why
        self._lines.clear()
        self._partial.clear()
        self._leave()

    def _leave(self) -> None:
        self._arrived.set()
        if not self.gone.done() and not self._closing:
            self.gone.set_result(None)

    def _take_errors(self, data: bytes) -> None:
        *whole, rest = (bytes(self._error_line) + data).split(b"\n")
        # The end of a long outpour says as much as all of it.
        for line in whole[-_LOGGED:]:
            if line.strip():
                self.last_error = _decoded(line)
                self._log(self.last_error)
        # A line without an end must not grow without one.
        self._error_line[:] = rest[:_LOG_LINE]


def _decoded(line: bytes) -> str:
    text = line[: _LOG_LINE * 4].decode("utf-8", "replace").strip()
    return text if len(text) <= _LOG_LINE else text[:_LOG_LINE] + "…"
