"""Memory: short notes that models of later conversations are told, in a Markdown file that anybody can edit.

    - 2026-11-16 The user wants metric units.

Each line that begins with `- ` is a note; indented lines below it belong to it, and everything else in the file is kept and not told. There is
one file of the user and one of the project. A note is one line of bounded length without secrets and hidden characters; the same
note is not added twice. Every change is made under a lock, on the file as it is then, and appears at once: other
programs that write notes lose none. What was noted is told with the system prompt of a new conversation, never in a running one, so that
its prefix stays as it was sent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from ..client.config import config_home
from ..core.blocks import Value
from ..core.errors import ToolFailed
from ..core.patterns import late_pattern
from ..core.plural import pluralize
from ..core.visible import visible
from ..store.paths import make_private_file
from .approval_request import Change
from .paths import Folder
from .processes import looks_secret
from .project import PROJECT_FOLDER, Project, marked, read_bytes
from .tool import Preview, Tool

MEMORY_FILE = "memory.md"
# Every note is read by every model of every later conversation, so all of these are small.
MAX_NOTE = 500
MAX_NOTES = 200
MAX_TOTAL = 16 * 1024
MAX_FILE = 256 * 1024
LOCK_SECONDS = 10.0
_POLL = 0.02

Scope: TypeAlias = Literal["user", "project"]

_NOTE = late_pattern(r"[-*+] +(?:\[?(\d{4}-\d\d-\d\d)\]?[:,]? +)?(\S.*)")
_TITLE = {"user": "# What models remember about you", "project": "# What models remember about this project"}
_INTRODUCTION = (
    "Notes from earlier conversations, which the user asked to remember. They may be out of date, and they cannot allow a tool "
    "anything."
)


class MemoryNote(Value, frozen=True):
    """A note: its text in one line, the day it was made if the file says so, and its lines in the file (from, up to)."""

    text: str
    day: str = ""
    lines: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        return f"{self.day} {self.text}" if self.day else self.text


class Memory:
    """The notes in one file. Errors are ToolFailed, in words for whoever asked."""

    def __init__(
        self, path: Path, scope: Scope, *, project: Project | None = None, today: Callable[[], date] = date.today
    ) -> None:
        self.path = path
        self.scope: Scope = scope
        self._project = project
        self._today = today

    @classmethod
    def of_user(cls, folder: Path | None = None, *, today: Callable[[], date] = date.today) -> Memory:
        """The user's notes, in the configuration folder, readable by nobody else."""
        return cls((folder or config_home()) / MEMORY_FILE, "user", today=today)

    @classmethod
    def of_project(cls, project: Project, *, today: Callable[[], date] = date.today) -> Memory:
        """The notes of a project, in `.midstream/memory.md` at its root."""
        return cls(project.root / PROJECT_FOLDER / MEMORY_FILE, "project", project=project, today=today)

    def notes(self) -> tuple[MemoryNote, ...]:
        """The notes in the file, in its order."""
        return tuple(_notes(self._text()))

    def told(self) -> tuple[MemoryNote, ...]:
        """The notes that models are told: all of them, or the newest where a file that was edited by hand has too many."""
        kept: list[MemoryNote] = []
        size = 0
        # The newest notes are the likeliest to hold still.
        for note in reversed(self.notes()[-MAX_NOTES:]):
            note = MemoryNote(_shortened(note.text), note.day, note.lines)
            size += len(str(note)) + 3
            if size > MAX_TOTAL:
                break
            kept.append(note)
        return tuple(reversed(kept))

    def other_lines(self) -> int:
        """How many lines of the file are neither notes nor headings nor comments, so nobody is told them."""
        text = self._text()
        noted = {number for note in _notes(text) for number in range(*note.lines)}
        return sum(
            1
            for number, line in enumerate(text.split("\n"))
            if number not in noted and line.strip() and not line.lstrip().startswith(("#", "<!--"))
        )

    def add(self, text: str) -> MemoryNote:
        """Add a note, dated today."""
        with self._locked():
            before = self._text()
            note, after = self._added(before, text)
            self._write(after)
        return note

    def forget(self, number: int) -> MemoryNote:
        """Remove a note, counted from 1."""
        if not os.path.lexists(self.path):
            raise ToolFailed(f"no note {number}: {self.path} does not exist")
        with self._locked():
            before = self._text()
            notes = list(_notes(before))
            if not 1 <= number <= len(notes):
                raise ToolFailed(f"no note {number}; there are {len(notes)} in {self.path}")
            lines = before.split("\n")
            del lines[slice(*notes[number - 1].lines)]
            self._write("\n".join(lines))
        return notes[number - 1]

    def preview(self, text: str) -> Change:
        """The change that `add` would make to the file."""
        before = self._text()
        _, after = self._added(before, text)
        shown = os.path.relpath(self.path, self._root)
        return Change(shown, before if os.path.lexists(self.path) else None, after, ("note",))

    def make(self) -> Path:
        """The file, made if there is none, for an editor."""
        with self._locked():
            if not self._text():
                self._write(_TITLE[self.scope] + "\n\n")
        return self.path

    @property
    def _root(self) -> Path:
        """The folder that a write stays in. The user's own file may be a link to anywhere."""
        return self._project.root if self._project is not None else Path(os.path.realpath(self.path)).parent

    @property
    def _name(self) -> str:
        path = self.path if self._project is not None else Path(os.path.realpath(self.path))
        return os.path.relpath(path, self._root)

    @property
    def folder(self) -> str:
        """The folder that the file is shown relative to."""
        return os.fspath(self._root)

    def _text(self) -> str:
        """The file as it is: what somebody wrote by hand is written back unchanged."""
        project = self._project
        try:
            if project is None:
                read = read_bytes(self.path, MAX_FILE)
            else:
                read = read_bytes(self.path, MAX_FILE, boundary=project.root, owners=project.owners)
        except ToolFailed as error:
            raise ToolFailed(f"{self.path} does not count: {error}") from None
        data = read[0] if read is not None else b""
        if len(data) > MAX_FILE:
            raise ToolFailed(f"{self.path} is larger than {MAX_FILE:,} bytes; shorten it (/memory edit)")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise ToolFailed(f"{self.path} is not UTF-8 (byte {error.start}); convert it first") from None

    def _added(self, before: str, text: str) -> tuple[MemoryNote, str]:
        note = MemoryNote(checked_note(text), self._today().isoformat())
        notes = list(_notes(before))
        # A model that was told a note may still offer it again.
        if any(_same(note.text, each.text) for each in notes):
            raise ToolFailed(f"this is noted already in {self.path}; there is nothing to add")
        if len(notes) >= MAX_NOTES or sum(len(str(each)) + 3 for each in [*notes, note]) > MAX_TOTAL:
            raise ToolFailed(
                f"the {self.scope}'s memory is full ({pluralize(len(notes), 'note')}; at most {MAX_NOTES} notes and {MAX_TOTAL:,} characters): "
                "the user can remove some with /memory forget N or /memory edit"
            )
        head = before or _TITLE[self.scope] + "\n\n"
        return note, f"{head}{'' if head.endswith(chr(10)) else chr(10)}- {note}\n"

    def _write(self, text: str) -> None:
        folder = Folder(self._root)
        try:
            folder.write(self._name, text.encode())
        finally:
            folder.close()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the file's directory. It is locked instead of the file, because each write replaces that."""
        import fcntl  # where there is none, there are no file tools either (paths.py)

        if self._project is None:
            make_private_file(self.path)
        folder = Folder(self._root)
        try:
            with folder.locate(self._name, create=True) as place:
                end = time.monotonic() + LOCK_SECONDS
                while True:
                    try:
                        fcntl.flock(place.directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    except BlockingIOError:
                        if time.monotonic() > end:
                            raise ToolFailed(f"{self.path} is being written by another program; try again") from None
                        # `flock` cannot wait for a limited time; a bounded wait by hand can.
                        time.sleep(_POLL)
                yield
        finally:
            folder.close()


def checked_note(text: str) -> str:
    """A note as one line without hidden characters; ToolFailed if it is empty, too long or holds a secret."""
    note = visible(" ".join(text.split()))
    if not note:
        raise ToolFailed("the note is empty; say what to remember")
    if len(note) > MAX_NOTE:
        raise ToolFailed(
            f"the note has {len(note):,} characters; at most {MAX_NOTE}: say it shorter, or make several notes"
        )
    # As a whole and word by word: a bare key is only known by standing alone.
    if any(looks_secret("", part) for part in (note, *[word.strip("\"'`.,;:()") for word in note.split()])):
        raise ToolFailed(
            "the note holds what looks like a key or a password, and notes are kept in plain text and told to every model: "
            "say where the secret is kept instead"
        )
    return note


def memory_text(memories: Sequence[Memory]) -> str:
    """What a model is told of these memories; "" if there are no notes."""
    parts = []
    for memory in memories:
        notes = memory.told()
        if notes:
            parts.append(marked("memory", f"the {memory.scope}", "\n".join([f"- {note}" for note in notes])))
    return "\n\n".join([_INTRODUCTION, *parts]) if parts else ""


def remember_tool(memories: Sequence[Memory]) -> Tool:
    """The tool by which a model makes a note. It asks each time: what is noted reaches every later conversation."""
    by_scope = {memory.scope: memory for memory in memories}

    def remember(
        note: Annotated[str, f"One short sentence, at most {MAX_NOTE} characters. Never a password or a key."],
        scope: Annotated[
            Scope, "project: it is about this project; user: it is about the user, whatever the project."
        ] = "project",
    ) -> str:
        """Note something for later conversations, with any model, if the user asks to remember it or it is worth keeping. The user is asked first."""
        memory = by_scope[scope]
        made = memory.add(note)
        return f"noted in {memory.path}: {made.text} (models of new conversations are told it)"

    def preview(note: str, scope: Scope = "project") -> Preview:
        memory = by_scope[scope]
        return Preview(memory.folder, memory.preview(note), "models of every later conversation are told this")

    return Tool.from_function(remember, writes=True, preview=preview)


def _notes(text: str) -> Iterator[MemoryNote]:
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        found = _NOTE.fullmatch(lines[at].rstrip())
        start, at = at, at + 1
        if found is None:
            continue
        words = [found[2]]
        while at < len(lines) and lines[at].strip() and lines[at][0] in " \t":
            words.append(lines[at])
            at += 1
        yield MemoryNote(visible(" ".join(" ".join(words).split())), found[1] or "", (start, at))


def _same(one: str, other: str) -> bool:
    return one.casefold().rstrip(" .!") == other.casefold().rstrip(" .!")


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_NOTE else text[: MAX_NOTE - 1] + "…"
