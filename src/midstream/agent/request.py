"""A call that waits for a yes, and how it is shown to whoever decides: whole, and so that nothing in it can hide.

A value stands behind its name if it is short; else below it, each of its lines behind a bar (│), and each further row of a
line that is too long for the screen behind a broken one (┆). So nothing inside a value can look like anything outside.
Values are written by `revealed`, from which they can be read back exactly. A file is shown as a diff.
"""

from __future__ import annotations

import os
import re
import textwrap
import unicodedata
from typing import Any, Literal, TypeAlias

import msgspec

from ..core.blocks import Value
from ..core.visible import can_encode, folded_breaks, revealed
from .autorun import runs_later
from .change import Change

MAX_CHARACTERS = 100_000
MAX_ROWS = 2_000
_SHORT = 60
_FOLDED = 4
_NAMED = 8
_NARROWEST = 24
_MOST_BLANKS = 16  # `revealed` leaves no longer run of blanks
_STRANGE = re.compile(r"[^\x00-\x7f]")

Scope: TypeAlias = Literal["", "command", "arguments", "tool"]


class Request(Value, frozen=True):
    """The tool, its checked arguments as JSON values, what it does, where, and what becomes of a file if it writes one."""

    tool: str
    arguments: dict[str, Any]
    writes: bool = False
    runs: bool = False
    folder: str = ""
    change: Change | None = None

    @property
    def command(self) -> str | None:
        """The command line of a tool that runs one."""
        command = self.arguments.get("command")
        return command if self.runs and isinstance(command, str) else None

    @property
    def caution(self) -> str:
        """Why this is asked for each time: the file that it writes may run code later."""
        if self.runs:
            return ""
        if self.change is not None:
            return runs_later(os.path.join(self.folder, self.change.path))  # noqa: PTH118 - resolved already
        # Somebody else's tool: which of its arguments is a path is not known.
        return next((why for text in _strings(self.arguments) if (why := runs_later(_plain_path(text)))), "")

    @property
    def scope(self) -> Scope:
        """What an "always" would cover in this session: this command, these arguments, this tool, or nothing."""
        if self.runs:
            return "command" if self.command is not None else "arguments"
        return "" if self.caution else "tool"

    @property
    def size(self) -> int:
        """How many characters there are to show, at least."""
        return sum(map(len, _strings(self.arguments)))

    def shown(self, columns: int | None = None, encoding: str = "utf-8") -> str:
        """All of the call, in rows of at most so many columns."""
        return "\n".join(_Page(columns, encoding).request(self))


class _Page:
    def __init__(self, columns: int | None, encoding: str) -> None:
        self._columns = None if columns is None else max(_NARROWEST, columns - 1)
        self._encoding = encoding
        self._bar, self._broken, self._blank = ("│", "┆", "␠") if can_encode("│┆␠", encoding) else ("|", ":", "\\u{20}")

    def request(self, request: Request) -> list[str]:
        change = request.change
        rows = self._wrapped(self._revealed(request.tool), "")
        for name, value in request.arguments.items():
            if change is None or name not in change.arguments:
                rows += self._argument(name, value)
        if change is not None:
            if change.path != request.arguments.get("path"):
                rows += self._argument("which is", change.path)
            rows += self._words(change.summary())
            rows += self._values(change.rows(), mark=1)
        if request.folder:
            rows += self._argument("in", request.folder)
        if request.caution:
            rows += self._words(f"caution: {request.caution}")
        return [*rows, *self._strange(request)]

    def _argument(self, name: str, value: Any) -> list[str]:
        text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
        title, line = self._revealed(name), self._revealed(text)
        whole = f"  {title}: {line}"
        if "\n" not in text and len(line) <= _SHORT and (self._columns is None or _cells(whole) <= self._columns):
            return [whole]
        lines = text.split("\n")
        counted = (
            f"{len(lines):,} line{'s' if len(lines) > 1 else ''}, {len(text):,} character{'s' if len(text) > 1 else ''}"
        )
        return [*self._wrapped(f"{title}: {counted}", "  "), *self._values(lines)]

    def _values(self, lines: list[str], mark: int = 0) -> list[str]:
        """Lines of a value behind the bar; the first `mark` characters of each are ours. Empty ones are counted."""
        rows: list[str] = []
        at = 0
        while at < len(lines):
            same = at
            while same < len(lines) and lines[same] == lines[at] and len(lines[at]) == mark:
                same += 1
            ours, text = lines[at][:mark], lines[at][mark:]
            if same - at >= _FOLDED:
                rows += self._wrapped(ours + folded_breaks(same - at, self._encoding), f"  {self._bar} ")
                at = same
                continue
            rows += self._wrapped(ours + self._revealed(text), f"  {self._bar} ")
            at += 1
        return rows

    def _words(self, text: str) -> list[str]:
        """A sentence of ours."""
        if self._columns is None:
            return ["  " + text]
        wide = _cells(text) - len(text)
        return textwrap.wrap(text, self._columns - wide, initial_indent="  ", subsequent_indent="    ")

    def _wrapped(self, text: str, before: str) -> list[str]:
        if self._columns is None:
            return [before + text]
        rows = []
        while True:
            row, text = _broken(text, self._columns - _cells(before), self._blank)
            rows.append(before + row)
            if not text:
                return rows
            before = f"  {self._broken} "

    def _strange(self, request: Request) -> list[str]:
        """The characters of a command or a path that may look like others."""
        if not request.runs and request.change is None:
            return []
        text = request.change.path if request.change is not None else "".join(_strings(request.arguments))
        strange = list(dict.fromkeys([char for char in _STRANGE.findall(text) if char.isprintable()]))
        rows: list[str] = []
        for char in strange[:_NAMED]:
            name = unicodedata.name(char, "unnamed")
            rows += self._words(f"not ASCII: {self._revealed(char)} is U+{ord(char):04X} {name}")
        if len(strange) > _NAMED:
            rows += self._words(f"not ASCII: {len(strange) - _NAMED} more")
        return rows

    def _revealed(self, text: str) -> str:
        return revealed(text, self._encoding)


def _strings(value: Any) -> list[str]:
    """Every text in a JSON value, names included."""
    found: list[str] = []
    todo = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, str):
            found.append(each)
        elif isinstance(each, dict):
            todo += [*each.keys(), *each.values()]
        elif isinstance(each, list | tuple):
            todo += each
    return found


def _plain_path(text: str) -> str:
    return os.path.normpath(text) if len(text) <= 4096 and "\n" not in text else ""


def _cells(text: str) -> int:
    """How wide this is drawn, at most: where terminals differ, the wider way counts."""
    return len(text) if text.isascii() else sum([_width(char) for char in text])


def _width(char: str) -> int:
    return 1 if char in "│┆␠␊␉⏎×" or unicodedata.east_asian_width(char) not in "WFA" else 2


def _broken(text: str, room: int, blank: str) -> tuple[str, str]:
    """What of a line fits into a row, and the rest. A blank at the break would not be seen: it is written out."""
    cells = end = 0
    for char in text:
        cells += _width(char)
        if cells > room:
            break
        end += 1
    if end == len(text):
        return text, ""
    for cut in range(end, max(0, end - _MOST_BLANKS - 2), -1):
        if text[cut - 1] != " " and text[cut] != " ":
            return text[:cut], text[cut:]
    for cut in range(end - len(blank) + 1, 0, -1):
        if text[cut - 1] == " " and text[cut] != " ":
            # Right behind the sign of a blank, × and { would be read as counting it.
            rest = text[cut:].lstrip("×{")
            counting = "".join([f"\\u{{{ord(char):x}}}" for char in text[cut : len(text) - len(rest)]])
            return text[: cut - 1] + blank, counting + rest
    return text[: max(1, end)], text[max(1, end) :]
