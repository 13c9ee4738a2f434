"""`!command` in the chat: the human's own command in their own shell. Its output is shown, and goes with the next message.

It goes with a message instead of being a turn of its own, so that a conversation never has two human turns in a row because
of it, and nothing is sent before the human sends something. Nobody is asked: the human typed it. For the same reason it
runs only at a terminal: text that is piped into a chat must not be able to run anything.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from ..agent.bash import Capped
from ..agent.processes import PipeReader
from ..client.cancellation import shield
from ..core.blocks import Text
from ..core.errors import LocalError
from ..core.plural import pluralize
from ..core.secret import Secret
from ..core.visible import terminal_safe, visible
from .view import Status, shortened

if TYPE_CHECKING:
    from .chat import Chat

OUTPUT_LIMIT = 64 * 1024
SHOWN_LINES = 200
LINE_LENGTH = 2_000
GRACE = 2.0  # seconds between SIGINT, SIGTERM and SIGKILL
_DRAIN = 0.2
_TELLING = 8  # a shorter key may appear in other texts by chance
# Colours and cursor movements of programs that write them into a pipe as well.
_ESCAPES = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]"
_ABOUT = (
    "!COMMAND runs in your shell, in this folder; its output goes with your next message.",
    "Nobody is asked, and it has no input. Esc or Ctrl-C stops it. Begin with a blank to send a text that starts with !",
)


def is_shell_line(text: str) -> bool:
    """Whether a line runs in the shell; after a blank, an exclamation mark is text."""
    return text.startswith("!")


async def run_shell_line(chat: Chat, text: str) -> None:
    """Run what follows the exclamation mark, and keep its output for the next message."""
    if not chat.interactive:
        raise LocalError(
            "a line that starts with ! runs a command, but only at a terminal; begin with a blank to send it"
        )
    command = text[1:].strip()
    if not command:
        chat.view.notice(*_ABOUT, *[f"  with the next message: {shell_line(each)}" for each in chat.unsent])
        return
    shown = _Shown(chat.view.notice)
    running = ShellCommand(command, shown.add)
    finished = await chat.until_stopped(running.run(), Status(f"$ {shortened(visible(command), 40)}"))
    shown.end()
    ended = running.ended if finished else "stopped"
    keys = chat.workspace.catalog.keys_at_hand()
    chat.unsent.append(Text(without_keys(f"{running.said}\n[{ended}]", keys)))
    chat.view.notice(f"({ended}; goes with your next message, /undo takes it back)")


def without_keys(text: str, keys: Mapping[str, Secret]) -> str:
    """The text with the name of each key instead of it: neither `!env` nor the file of the keys must hand them to a model."""
    for name, key in sorted(keys.items(), key=lambda each: -len(each[1].reveal())):
        if len(value := key.reveal()) >= _TELLING:
            text = text.replace(value, f"‹{name}›")
    return text


class ShellCommand:
    """A command of the human: `run` it, then see what it `said` and how it `ended`. `show` gets its output as it comes."""

    def __init__(self, command: str, show: Callable[[str], None], *, grace: float = GRACE) -> None:
        self._command = command
        self._show = show
        self._grace = grace
        self._output = Capped(OUTPUT_LIMIT)
        # Incremental: a character may be cut between two reads.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._code: int | None = None

    @property
    def said(self) -> str:
        """The command and its output, for the model: the beginning and the end if it is long, hidden characters written out."""
        output = visible(re.sub(_ESCAPES, "", self._output.text().replace("\r\n", "\n"))).strip("\n")
        return "\n".join([f"I ran this command in my shell:\n$ {self._command}", output or "(no output)"])

    @property
    def ended(self) -> str:
        if self._code is None:
            return "stopped"
        return f"exit code {self._code}" if self._code >= 0 else f"ended by signal {-self._code}"

    async def run(self) -> None:
        read_end, write_end = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                os.environ.get("SHELL") or "/bin/sh",
                "-c",
                self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_end,
                stderr=write_end,
                start_new_session=True,  # so that Ctrl-C comes to us, and everything it started can be stopped
            )
        except OSError as error:
            os.close(read_end)
            raise LocalError(f"cannot run the shell {os.environ.get('SHELL') or '/bin/sh'}: {error.strerror}") from None
        finally:
            os.close(write_end)
        reader = PipeReader(read_end, self._take)
        try:
            self._code = await process.wait()
        except asyncio.CancelledError:
            await shield(self._stop(process))
            raise
        finally:
            # What it left in the background may hold the pipe for ever.
            await shield(asyncio.wait({reader.done}, timeout=_DRAIN))
            reader.close()
            self._show(self._decoder.decode(b"", final=True))

    async def _stop(self, process: asyncio.subprocess.Process) -> None:
        # As a person at a shell would: Ctrl-C first, which programs expect and clean up after.
        for each in (signal.SIGINT, signal.SIGTERM):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, each)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._grace):
                    await process.wait()
                break
        with suppress(ProcessLookupError):  # whatever it started and did not end
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()

    def _take(self, data: bytes) -> None:
        self._output.add(data)
        self._show(self._decoder.decode(data))


class _Shown:
    """Output on the screen, line by line, up to a number of lines."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        self._notice = notice
        self._rest = ""
        self._lines = 0

    def add(self, text: str) -> None:
        *lines, rest = (self._rest + text).split("\n")
        if len(rest) > LINE_LENGTH:
            lines, rest = [*lines, rest], ""
        self._rest = rest
        for line in lines:
            self._line(line)

    def end(self) -> None:
        if self._rest:
            self._line(self._rest)
        if self._lines > SHOWN_LINES:
            self._notice(f"… {pluralize(self._lines - SHOWN_LINES, 'more line')}")

    def _line(self, line: str) -> None:
        self._lines += 1
        if self._lines <= SHOWN_LINES:
            clean = terminal_safe(re.sub(_ESCAPES, "", line.rstrip("\r")))
            self._notice(shortened(clean.expandtabs(8), LINE_LENGTH))


def shell_line(content: Text) -> str:
    """The command whose output this is."""
    return shortened(content.text.split("\n")[1], 60)
