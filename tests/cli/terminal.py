"""A real terminal for the program: a pty, and the screen that its bytes paint."""

from __future__ import annotations

import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

import pexpect
import pyte

_BRACKETED_PASTE = 2004 << 5  # as pyte keeps private modes
_BEGINS = re.compile(b"\\x1b\\[\\?2004h|\\r\\n(?:\xe2\x80\xba|>) ")  # a prompt, and one of a dumb terminal
_ENDS = re.compile("[\r\n\x03\x0f\x1b]")


class Terminal:
    """`midstream` in a terminal. `raw` is every byte that reached it; `screen` what a human sees, scrollback included."""

    def __init__(
        self, *args: str, environ: dict[str, str], cwd: Path | None = None, columns: int = 100, rows: int = 40
    ) -> None:
        self._screen = pyte.HistoryScreen(columns, rows, history=100_000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self._ended_at = 0
        self._above: list[str] = []
        self._below = [""] * rows
        self._shown: str | None = None
        self.process = pexpect.spawn(
            sys.executable,
            ["-m", "midstream.cli.main", *args],
            env=environ,
            cwd=str(cwd) if cwd else None,
            dimensions=(rows, columns),
            timeout=30,
        )
        self.process.delaybeforesend = None
        self.process.ptyproc.delayafterclose = 0.0
        # Terminals answer when they are asked where the cursor is; so does this one.
        self._screen.write_process_input = self.process.send

    @property
    def screen(self) -> str:
        if self._shown is None:
            # What has scrolled away does not change any more, so each row is read once.
            for row in islice(self._screen.history.top, len(self._above), None):
                self._above.append(self._text_of(row))
            self._shown = "\n".join([*self._above, *self._rows()]).rstrip()
        return self._shown

    def _rows(self) -> list[str]:
        """The rows of the screen. Only those that changed are read anew: half of a test's work was to read the others."""
        changed, buffer = self._screen.dirty, self._screen.buffer
        # A combining character at the beginning of a row changes the end of the row above.
        for number in {*changed, *[number - 1 for number in changed if number]}:
            self._below[number] = self._text_of(buffer[number])
        changed.clear()
        return self._below

    def _text_of(self, row: Mapping[int, pyte.screens.Char]) -> str:
        return "".join([row[column].data for column in range(self._screen.columns)]).rstrip()

    @property
    def cursor_line(self) -> str:
        """The row that the cursor is in."""
        return self._rows()[self._screen.cursor.y]

    @property
    def rows_above_cursor(self) -> int:
        """Scrollback included."""
        return len(self._screen.history.top) + self._screen.cursor.y

    def type(self, text: str) -> None:
        if _ENDS.search(text):
            self._ended_at = len(self.raw)
        self.process.send(text.encode())

    def enter(self, text: str) -> None:
        """Type a line and Enter, a command once the prompt is there: one that comes before it waits for another Enter."""
        if text[:1] in ("/", "!"):
            self.wait_for_prompt()
        self.type(text + "\r")

    @property
    def brackets_pastes(self) -> bool:
        """Whether the program has asked the terminal to mark what is pasted."""
        return _BRACKETED_PASTE in self._screen.mode

    def paste(self, text: str) -> None:
        """Paste as terminals do: marked if the program asked for it, else as if each line were typed."""
        self.pump()
        typed = text.replace("\n", "\r")
        self.type(f"\x1b[200~{typed}\x1b[201~" if self.brackets_pastes else typed)

    def wait_for_prompt(self) -> None:
        """Until an empty prompt is up that came after the last key that ends one."""
        end = time.monotonic() + 30.0
        while not _BEGINS.search(self.raw, self._ended_at) or self.cursor_line not in ("›", ">"):
            assert self.pump() and time.monotonic() < end, f"no prompt:\n{self.screen}"

    def wait_for(self, text: str, *, count: int = 1, seconds: float = 30.0) -> str:
        """The screen, as soon as it holds the text (so many times)."""
        end = time.monotonic() + seconds
        while self.screen.count(text) < count:
            if not self.pump() or time.monotonic() > end:
                raise AssertionError(
                    f"no {text!r} (x{count}) on the screen:\n{self.screen}\n\nraw: {self.raw[-2000:]!r}"
                )
        return self.screen

    def wait_for_end_of(self, text: str) -> None:
        """Until the screen no longer holds the text."""
        end = time.monotonic() + 30.0
        while text in self.screen:
            assert self.pump() and time.monotonic() < end, f"{text!r} is still on the screen:\n{self.screen}"

    def wait_for_words(self, text: str, *, count: int = 1, seconds: float = 30.0) -> str:
        """The same for words that may be broken over rows: blanks and line breaks do not count."""
        wanted, end = "".join(text.split()), time.monotonic() + seconds
        while "".join(self.screen.split()).count(wanted) < count:
            assert self.pump() and time.monotonic() < end, f"no {text!r} (x{count}) on the screen:\n{self.screen}"
        return self.screen

    def wait_for_end(self, seconds: float = 30.0) -> int:
        """The exit code, when the program is over."""
        end = time.monotonic() + seconds
        while self.pump():
            assert time.monotonic() < end, f"it does not end:\n{self.screen}"
        self.process.wait()
        self.process.close()
        return self.process.exitstatus if self.process.exitstatus is not None else -self.process.signalstatus

    def close(self) -> None:
        """Close it under the program, give that a moment to end by itself, then kill it."""
        self.process.ptyproc.fileobj.close()
        end = time.monotonic() + 0.3
        while self.process.isalive() and time.monotonic() < end:
            time.sleep(0.005)
        if self.process.isalive():
            self.process.kill(signal.SIGKILL)
            self.process.wait()
        self.process.close()

    def pump(self) -> bool:
        """Take what has come, waiting a little if nothing has; False at the end."""
        data, wait = b"", 0.05
        try:
            while len(data) < 65536:
                data += self.process.read_nonblocking(65536, timeout=wait)
                wait = 0.0
        except pexpect.TIMEOUT:
            pass
        except pexpect.EOF:
            if not data:
                return False
        if data:
            self.raw += data
            self._stream.feed(data)
            self._shown = None
        return True


Open = Callable[..., Terminal]
"""What the fixture `opened` gives."""
