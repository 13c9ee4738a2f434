"""The file tools: read_file, write_file, edit_file, all confined to one Folder.

Text is UTF-8 and kept byte for byte: line ends and a byte-order mark survive an edit. What is not text is refused with its
size, and what is too long is cut, with a remark on how to get the rest.
"""

from __future__ import annotations

import os
import re
from typing import Annotated, Protocol

import msgspec

from ..core.errors import ToolFailed
from ..core.plural import pluralize
from .approval_request import Change
from .paths import MAX_READ, Folder
from .tool import Preview, Tool

# What a model can use of a file at once. A longer one is read in parts, and the remark at the end says how.
MAX_LINES = 2000
MAX_LINE = 2000
MAX_OUTPUT = 128 * 1024

PathArgument = Annotated[str, "Path of the file, relative to the working folder."]
LineNumber = Annotated[int, msgspec.Meta(ge=1, description="First line to read, counted from 1.")]
LineCount = Annotated[int, msgspec.Meta(ge=1, le=MAX_LINES, description="How many lines to read.")]


class OpenFiles(Protocol):
    """A program in which files are open, such as an editor: its text takes precedence over the disk's, and it writes for us.

    Both methods are called in a thread with the absolute path, which has been checked to be inside the folder.
    """

    def read(self, path: str) -> str | None:
        """The text as it is open there, saved or not; None to read the disk."""

    def write(self, path: str, text: str) -> bool:
        """Write the file; False to have it written to the disk by us."""


class Files:
    """Reads and writes text files in a folder, through a program that has them open, if there is one."""

    def __init__(self, folder: Folder, *, max_read: int = MAX_READ, opened: OpenFiles | None = None) -> None:
        self._folder = folder
        self._max_read = max_read
        self._opened = opened

    def tools(self) -> tuple[Tool, ...]:
        return (
            Tool.from_function(self.read_file),
            Tool.from_function(self.write_file, writes=True, preview=self._preview_write),
            Tool.from_function(self.edit_file, writes=True, preview=self._preview_edit),
        )

    def read_file(
        self,
        path: PathArgument,
        offset: LineNumber = 1,
        limit: LineCount = MAX_LINES,
        line_numbers: Annotated[bool, "Put the line number and a tab before each line."] = False,
    ) -> str:
        """Read a text file."""
        data, _ = self._read(path)
        lines = _text(data, path, "replace").split("\n")
        if lines[-1] == "":
            lines.pop()
        if not lines:
            return "(the file is empty)"
        if offset > len(lines):
            raise ToolFailed(f"{path}: has {pluralize(len(lines), 'line')}; offset {offset} is beyond its end")
        return _excerpt(lines, offset, limit, line_numbers)

    def write_file(self, path: PathArgument, content: Annotated[str, "The whole new content of the file."]) -> str:
        """Write a file, creating it and its directories or replacing all of it."""
        data = _bytes(content)
        created = self._write(path, data)
        return f"{'created' if created else 'replaced'} {path}: {len(data)} bytes"

    def edit_file(
        self,
        path: PathArgument,
        old_string: Annotated[str, "The text to replace, exactly as it is in the file, including whitespace."],
        new_string: Annotated[str, "The text to put in its place."],
        replace_all: Annotated[bool, "Replace every occurrence; otherwise there must be exactly one."] = False,
    ) -> str:
        """Replace a piece of text in a file."""
        data, status = self._read(path)
        text = _text(data, path, "strict")
        edited, count, line = _edited(text, path, old_string, new_string, replace_all)
        # `expected`: the human or a command may have saved the file since it was read; their work is not overwritten.
        self._write(path, _bytes(edited), expected=status)
        return f"edited {path}: " + (pluralize(count, "replacement") + (f" at line {line}" if count == 1 else ""))

    def _read(self, path: str) -> tuple[bytes, os.stat_result]:
        # From the disk first, in any case: it is there that a path is judged.
        data, status = self._folder.read(path, self._max_read)
        text = self._opened.read(self._full(path)) if self._opened is not None else None
        return (data if text is None else text.encode("utf-8", "replace")[: self._max_read]), status

    def _write(self, path: str, data: bytes, expected: os.stat_result | None = None) -> bool:
        """Whether the file was made."""
        if self._opened is not None:
            where, old, unread = self._folder.peek(path, self._max_read)
            if not unread and self._opened.write(f"{self._folder.path}/{where}", data.decode()):
                return old is None
        return self._folder.write(path, data, expected=expected)

    def _full(self, path: str) -> str:
        return f"{self._folder.path}/{self._folder.peek(path, 0)[0]}"

    def _preview_write(self, path: str, content: str) -> Preview:
        # Refused before the human is asked: a question about a call that cannot work is one too many.
        _bytes(content)
        where, old, unread = self._folder.peek(path, self._max_read)
        if old is not None and self._opened is not None:
            old = self._read(path)[0]
        before = None
        if old is not None:
            try:
                before = _text(old, path, "strict")
            except ToolFailed as error:
                unread = str(error)
        change = Change(where, before, content, ("content",), unread=unread, whole=True)
        return Preview(self._folder.path, change)

    def _preview_edit(self, path: str, old_string: str, new_string: str, replace_all: bool = False) -> Preview:
        where = self._folder.peek(path, self._max_read)[0]
        text = _text(self._read(path)[0], path, "strict")
        edited, _, _ = _edited(text, path, old_string, new_string, replace_all)
        _bytes(edited)
        change = Change(where, text, edited, ("old_string", "new_string", "replace_all"))
        return Preview(self._folder.path, change)


def _edited(text: str, path: str, old_string: str, new_string: str, replace_all: bool) -> tuple[str, int, int]:
    """The text after an edit, and how many replacements it makes, and the line of the first."""
    if not old_string:
        raise ToolFailed("old_string is empty; to write a whole file use write_file")
    if old_string == new_string:
        raise ToolFailed("old_string and new_string are the same")
    if old_string not in text and "\r\n" in text:
        # Models write \n for the line ends they were shown; in a file with CRLF lines it can only mean those.
        old_string, new_string = _crlf(old_string), _crlf(new_string)
    places = _places(text, old_string)
    if not places:
        raise ToolFailed(f"{path}: old_string is not in the file (0 matches){_near(text, old_string)}")
    if len(places) > 1 and not replace_all:
        lines = ", ".join([str(text.count("\n", 0, place) + 1) for place in places[:10]])
        raise ToolFailed(
            f"{path}: old_string has {len(places)} matches (lines {lines}{', …' if len(places) > 10 else ''}); "
            "include more of the surrounding text, or set replace_all"
        )
    return text.replace(old_string, new_string), text.count(old_string), text.count("\n", 0, places[0]) + 1


def is_binary(data: bytes) -> bool:
    """Whether bytes are not text: a NUL near the beginning, as in every common binary format and in UTF-16."""
    return b"\0" in data[:8192]


def _text(data: bytes, path: str, errors: str) -> str:
    if is_binary(data):
        raise ToolFailed(f"{path}: is a binary file of {len(data)} bytes, not text")
    try:
        return data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise ToolFailed(
            f"{path}: is not UTF-8 (byte {error.start}), so an edit could damage it; use bash to convert it first"
        ) from error


def _bytes(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolFailed(f"the text is not valid Unicode: lone surrogate at position {error.start}") from error


def _excerpt(lines: list[str], offset: int, limit: int, numbered: bool) -> str:
    shown: list[str] = []
    size = 0
    for number, line in enumerate(lines[offset - 1 : offset - 1 + limit], offset):
        if len(line) > MAX_LINE:
            line = f"{line[:MAX_LINE]}[… {len(line) - MAX_LINE} more characters in this line]"
        line = f"{number}\t{line}" if numbered else line
        size += len(line) + 1
        if size > MAX_OUTPUT:
            break
        shown.append(line)
    end = offset - 1 + len(shown)
    if end < len(lines):
        shown.append(f"[lines {offset} to {end} of {len(lines)}; continue with offset {end + 1}]")
    return "\n".join(shown)


def _crlf(text: str) -> str:
    return re.sub(r"\r?\n", "\r\n", text)


def _places(text: str, piece: str) -> list[int]:
    """Where the piece starts; overlapping matches count, because they too are ambiguous."""
    found: list[int] = []
    at = text.find(piece)
    # A bound: one letter in a file of megabytes has millions of places, and the message names ten.
    while at >= 0 and len(found) < 1000:
        found.append(at)
        at = text.find(piece, at + 1)
    return found


def _near(text: str, piece: str) -> str:
    """A hint for the most common mistake: only the whitespace differs."""
    wanted = next((line.strip() for line in piece.split("\n") if line.strip()), "")
    for number, line in enumerate(text.split("\n"), 1):
        if wanted and line.strip() == wanted:
            return f"; line {number} matches its first line except for whitespace or what follows: {line[:200]!r}"
    return "; read the file again and copy the text exactly"
