"""A call that waits for approval, and how it is shown to the human: complete, so that nothing in it can hide.

A short value is shown after its name; a longer one below it, each line behind a bar (│), and where a line is too long for
the screen, its further rows behind a broken bar (┆). So nothing inside a value can look like anything outside.
Values are written by `revealed`, from which they can be read back exactly. A file is shown as a diff with its counts: every
line that the call adds is in it. Unchanged lines are left out except for a few around each change, and where a whole file
is replaced, removed lines beyond a number are only counted.
"""

from __future__ import annotations

import os
import unicodedata
from typing import Any, Literal, TypeAlias

import msgspec

from ..core.blocks import Value
from ..core.patterns import late_pattern
from ..core.plural import pluralize
from ..core.visible import can_encode, folded_breaks, revealed
from .risk import runs_later

# What a person can be expected to read before saying yes; the rest of these are measures of the page.
MAX_CHARACTERS = 100_000
MAX_ROWS = 2_000
_SHORT = 60
_FOLDED = 4
_NAMED = 8
_NARROWEST = 24
_MOST_BLANKS = 16  # `revealed` leaves no longer run of blanks
_NOT_ASCII = late_pattern(r"[^\x00-\x7f]")
CONTEXT = 3
_COMPARED = 4_000_000  # pairs of lines; beyond it, the old part is shown as removed and the new one as added
_REMOVED = 400
_NO_END = "\\ no line break at the end"

Scope: TypeAlias = Literal["", "command", "arguments", "tool"]


class Change(Value, frozen=True):
    """A file before a call (None: it does not exist, or `unread` says why it cannot be shown) and after it.

    `path` is its real path, relative to the folder. `arguments` names the arguments of the call that this shows.
    """

    path: str
    before: str | None
    after: str
    arguments: tuple[str, ...] = ()
    unread: str = ""
    whole: bool = False

    def summary(self) -> str:
        """What happens, in one line."""
        size = f"{_lines(self.after)}, {len(self.after.encode('utf-8', 'replace')):,} bytes"
        if self.unread:
            return f"replaces a file that cannot be shown ({self.unread}) with {size}"
        if self.before is None:
            return f"creates a file: {size}"
        if self.before == self.after:
            return "changes nothing"
        added, removed = self._counts()
        verb = "replaces the file" if self.whole else "edits the file"
        return f"{verb}: {_lines(self.before)} before, {_lines(self.after)} after (+{added:,} -{removed:,})"

    def rows(self) -> list[str]:
        """The diff: rows that start with +, - or a blank, and with @@ or \\ for a remark of ours."""
        old, new = _split(self.before or ""), _split(self.after)
        rows: list[str] = []
        removed = 0
        for tag, a1, a2, b1, b2 in self._groups():
            if tag == "equal":
                rows += self._kept(old[a1:a2], a1, first=a1 == 0, last=a2 == len(old) and b2 == len(new))
                continue
            gone = old[a1:a2]
            room = max(0, _REMOVED - removed) if self.whole else len(gone)
            rows += ["-" + line for line in gone[:room]]
            if gone[room:]:
                rows.append(f"@@ {pluralize(len(gone) - room, 'more line')} removed")
            removed += len(gone)
            rows += ["+" + line for line in new[b1:b2]]
        if self.before != self.after and self.after and not self.after.endswith("\n"):
            rows.append(_NO_END)
        return rows

    def _kept(self, lines: list[str], start: int, *, first: bool, last: bool) -> list[str]:
        # At either end of the file there is nothing to give a context for.
        head = 0 if first else CONTEXT
        tail = 0 if last else CONTEXT
        if len(lines) <= head + tail + 1:
            return [" " + line for line in lines]
        after = lines[len(lines) - tail :] if tail else []
        skipped = len(lines) - head - tail
        note = f"@@ {pluralize(skipped, 'line')} unchanged"
        if after:
            note += f"; line {start + head + skipped + 1:,}:"
        return [*[" " + line for line in lines[:head]], note, *[" " + line for line in after]]

    def _counts(self) -> tuple[int, int]:
        changed = [(b2 - b1, a2 - a1) for tag, a1, a2, b1, b2 in self._groups() if tag != "equal"]
        return sum(added for added, _ in changed), sum(removed for _, removed in changed)

    def _groups(self) -> list[tuple[str, int, int, int, int]]:
        # Compared with line ends, or `a` and `a\n` would be the same.
        old, new = _split(self.before or "", ends=True), _split(self.after, ends=True)
        start = 0
        # Equal ends are cut off by hand: difflib takes time with the square of the lines, and most edits are small.
        while start < min(len(old), len(new)) and old[start] == new[start]:
            start += 1
        end = 0
        while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
            end += 1
        a, b = len(old) - end, len(new) - end
        groups: list[tuple[str, int, int, int, int]] = [("equal", 0, start, 0, start)] if start else []
        if (a - start) * (b - start) > _COMPARED:
            groups.append(("replace", start, a, start, b))
        elif a > start or b > start:
            from difflib import SequenceMatcher

            matcher = SequenceMatcher(None, old[start:a], new[start:b])
            groups += [
                (tag, a1 + start, a2 + start, b1 + start, b2 + start) for tag, a1, a2, b1, b2 in matcher.get_opcodes()
            ]
        if end:
            groups.append(("equal", a, len(old), b, len(new)))
        return groups


class ApprovalRequest(Value, frozen=True):
    """The tool, its checked arguments as JSON values, whether it writes or runs, in which folder, the change to a file, and
    what the sandbox that it runs in allows (empty: it runs in none)."""

    tool: str
    arguments: dict[str, Any]
    writes: bool = False
    runs: bool = False
    folder: str = ""
    change: Change | None = None
    own_caution: str = ""
    """What the tool itself says against an "always"."""
    sandbox: str = ""
    call_id: str = ""
    """The call that needs approval."""

    @property
    def command(self) -> str | None:
        """The command line of a tool that runs one."""
        command = self.arguments.get("command")
        return command if self.runs and isinstance(command, str) else None

    @property
    def caution(self) -> str:
        """Why this call is asked about each time: the tool says so, or the file it writes may run code later. Else empty."""
        if self.own_caution or self.runs:
            return self.own_caution
        if self.change is not None:
            return runs_later(os.path.join(self.folder, self.change.path))  # noqa: PTH118 - resolved already
        # Not one of our tools: which of its arguments is a path is not known.
        # Every text is tried as a path, to the careful side: at worst a question too many.
        return next((why for text in _strings(self.arguments) if (why := runs_later(_plain_path(text)))), "")

    @property
    def scope(self) -> Scope:
        """What an "always" would cover in this session: this command, these arguments, this tool, or nothing."""
        if self.own_caution:
            return ""
        if self.runs:
            return "command" if self.command is not None else "arguments"
        return "" if self.caution else "tool"

    @property
    def size(self) -> int:
        """A lower bound of how many characters there are to show."""
        return sum(map(len, _strings(self.arguments)))

    def shown(self, columns: int | None = None, encoding: str = "utf-8") -> str:
        """The whole call as text, in rows of at most `columns` cells."""
        return "\n".join(_Page(columns, encoding).request(self))


class _Page:
    def __init__(self, columns: int | None, encoding: str) -> None:
        # One cell is left free: terminals differ in what a row does that fills the last one.
        self._columns = None if columns is None else max(_NARROWEST, columns - 1)
        self._encoding = encoding
        self._bar, self._broken, self._blank = ("│", "┆", "␠") if can_encode("│┆␠", encoding) else ("|", ":", "\\u{20}")

    def request(self, request: ApprovalRequest) -> list[str]:
        change = request.change
        rows = self._wrapped(self._revealed(request.tool), "")
        for name, value in request.arguments.items():
            if change is None or name not in change.arguments:
                rows += self._argument(name, value)
        if change is not None:
            # The path as the model wrote it may go through a link; where it ends is what is changed.
            if change.path != request.arguments.get("path"):
                rows += self._argument("real path", change.path)
            rows += self._words(change.summary())
            rows += self._values(change.rows(), mark=1)
        if request.folder:
            rows += self._argument("in", request.folder)
        if request.sandbox:
            rows += self._words(f"runs in a sandbox: {request.sandbox}")
        if request.caution:
            rows += self._words(f"caution: {request.caution}")
        return [*rows, *self._not_ascii(request)]

    def _argument(self, name: str, value: Any) -> list[str]:
        text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
        title, line = self._revealed(name), self._revealed(text)
        whole = f"  {title}: {line}"
        if "\n" not in text and len(line) <= _SHORT and (self._columns is None or _cells(whole) <= self._columns):
            return [whole]
        lines = text.split("\n")
        size = f"{pluralize(len(lines), 'line')}, {pluralize(len(text), 'character')}"
        return [*self._wrapped(f"{title}: {size}", "  "), *self._values(lines)]

    def _values(self, lines: list[str], mark: int = 0) -> list[str]:
        """The lines of a value behind the bar; the first `mark` characters of each are ours. Runs of empty lines are counted."""
        rows: list[str] = []
        at = 0
        while at < len(lines):
            # Hundreds of empty lines could push what matters out of sight.
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
        """A sentence of ours, wrapped."""
        if self._columns is None:
            return ["  " + text]
        wide = _cells(text) - len(text)
        import textwrap

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

    def _not_ascii(self, request: ApprovalRequest) -> list[str]:
        """The characters of a command or a path that may be mistaken for others."""
        if not request.runs and request.change is None:
            return []
        text = request.change.path if request.change is not None else "".join(_strings(request.arguments))
        # A Cyrillic letter in a path looks like a Latin one; unprintable characters are shown as escapes already.
        strange = list(dict.fromkeys([char for char in _NOT_ASCII.findall(text) if char.isprintable()]))
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
    # A loop, not recursion: the value comes from a model and may be nested without end.
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
    """How many cells this takes, at most: where terminals differ, the wider one counts."""
    return len(text) if text.isascii() else sum([_width(char) for char in text])


def _width(char: str) -> int:
    return 1 if char in "│┆␠␊␉⏎×" or unicodedata.east_asian_width(char) not in "WFA" else 2


def _broken(text: str, room: int, blank: str) -> tuple[str, str]:
    """The part of a line that fits into a row, and the rest. A blank at the break would be invisible, so it is written out."""
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
            # Right after the sign of a blank, × and { would look like its count.
            rest = text[cut:].lstrip("×{")
            counting = "".join([f"\\u{{{ord(char):x}}}" for char in text[cut : len(text) - len(rest)]])
            return text[: cut - 1] + blank, counting + rest
    return text[: max(1, end)], text[max(1, end) :]


def _split(text: str, *, ends: bool = False) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    if ends:
        lines = [line + "\n" for line in lines]
    return [*lines, last] if last else lines


def _lines(text: str) -> str:
    return pluralize(len(_split(text)), "line")
