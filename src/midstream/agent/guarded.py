"""The files of a folder that run code later (risk.py), kept as they are while a sandboxed command runs.

A sandbox lets a command write its folder. What it leaves there in a hook, a Makefile or a `.envrc` would run outside later, so
these files are noted before the command and compared after it, when nothing of it runs any more: a new one is moved aside, a
changed one gets its content back, a removed one returns if its folder is still there. What is moved aside is kept, in a
folder that is told. The sandbox with a mount namespace also makes those that exist read-only (`read_only`).

Of a repository, the settings and hooks are guarded and its data is not, so that a commit works. The installed packages of a
project (`.venv`, `node_modules`) are too large to keep a copy of: a change to them is only told.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import NamedTuple

from .risk import INSTALLED, may_run_later, runs_later

MAX_KEPT = 1 << 20  # bytes of a file whose content is kept
MAX_BOUND = 200  # paths to make read-only: each is a mount
_SHOWN = 8

# A repository's data: what git writes for a commit, a merge or a rebase. Everything else in it decides what git runs.
_GIT_DATA = (
    "HEAD index packed-refs shallow description objects refs logs info branches *_HEAD *_MSG *_EDITMSG MERGE_* BISECT_* AUTO_MERGE "
    "rebase-merge rebase-apply sequencer gc.log gc.pid *.lock lfs ORIG_HEAD"
).split()
_GIT = "git reads and runs it"
# A folder with these is a repository too, whatever its name, and then these are what git reads there.
_MARKS_OF_GIT = frozenset({"HEAD", "objects", "refs"})
_GIT_SETTINGS = frozenset({"config", "config.worktree", "hooks", "commondir", "gitdir"})


class Entry(NamedTuple):
    """A file, link or folder as it was. `content` is None for a folder and where it is not kept."""

    mode: int
    inode: int
    size: int
    changed: int
    parent: int
    content: bytes | None = None

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)


class GuardedFiles:
    """The guarded files of a folder, as they are now. `closed`: the folders among them are made read-only, not looked into."""

    def __init__(self, folder: str, *, closed: bool = False) -> None:
        self._folder = folder
        self._closed = closed
        self._before = dict(self._scan(keep=True))

    def read_only(self) -> list[str]:
        """The absolute paths to make read-only, those nearest to the top first; links cannot be."""
        found = [path for path, entry in self._before.items() if stat.S_ISREG(entry.mode) or stat.S_ISDIR(entry.mode)]
        return [self._full(path) for path in sorted(found, key=lambda path: (path.count("/"), path))[:MAX_BOUND]]

    # Compared by what is there, not by what a command said it did. New paths come first, in the order of the walk, so
    # that a folder is moved before what is in it is looked for.
    def put_back(self) -> list[str]:
        """Undo what was done to these files; what was done, in words for the model."""
        import tempfile  # most conversations have no sandbox

        bound = {path.removeprefix(self._folder + "/") for path in self.read_only()} if self._closed else set[str]()
        after = dict(self._scan(keep=False))
        aside, restored, lost = list[str](), list[str](), list[str]()
        place = ""
        for path in dict.fromkeys([*after, *self._before]):
            was, now = self._before.get(path), after.get(path)
            # The parent's inode too: a command can rename a folder
            # above a read-only file and put another in its place.
            if was is not None and path in bound and self._parent(path) == was.parent:
                continue  # read-only for the command, so it is unchanged, or somebody outside changed it
            if now is not None and (was is None or _is_another(was, now)):
                place = place or tempfile.mkdtemp(prefix="midstream-put-back-")
                if self._move(path, place):
                    aside.append(path)
                if was is not None and self._restore(path, was):
                    restored.append(path)
            elif was is None or was.is_folder:
                continue
            elif now is None:
                if not os.path.lexists(self._full(path)) and self._restore(path, was):
                    restored.append(path)
            elif self._differs(path, was, now):
                (restored if self._restore(path, was) else lost).append(path)
        return [
            *_told(f"moved to {place}, because they run code later", aside),
            *_told("put back as they were, because they run code later", restored),
            *_told("changed, although they run code later, and too large to put back", lost),
        ]

    def _scan(self, *, keep: bool) -> Iterator[tuple[str, Entry]]:
        # A loop instead of recursion: a command may leave a tree that is deeper than Python's stack.
        todo = [("", runs_later(self._full("x")), False)]
        while todo:
            path, inside, in_git = todo.pop()
            try:
                with os.scandir(self._full(path)) as listing:
                    entries = list(listing)
                    parent = os.stat(self._full(path), follow_symlinks=False).st_ino
            except OSError:
                continue
            bare = {entry.name for entry in entries} >= _MARKS_OF_GIT
            in_git = in_git or (bare and inside == _GIT)  # a submodule's
            for entry in entries:
                name = f"{path}/{entry.name}" if path else entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if in_git and any(fnmatchcase(entry.name, data) for data in _GIT_DATA):
                    continue
                if in_git or (bare and entry.name in _GIT_SETTINGS):
                    why = _GIT
                elif inside:
                    why = inside
                elif is_folder and entry.name.casefold() == ".git":
                    todo.append((name, "", True))
                    continue
                else:
                    why = runs_later(self._full(name)) if may_run_later(entry.name) else ""
                if why:
                    found = self._entry(entry, parent, keep=keep and not is_folder and why != INSTALLED)
                    if found is not None:
                        yield name, found
                if is_folder and not (why and self._closed):
                    todo.append((name, why, False))

    def _parent(self, path: str) -> int:
        try:
            return os.stat(os.path.dirname(self._full(path)), follow_symlinks=False).st_ino
        except OSError:
            return 0

    def _entry(self, entry: os.DirEntry[str], parent: int, *, keep: bool) -> Entry | None:
        try:
            status = entry.stat(follow_symlinks=False)
            content = self._content(entry.path, status) if keep else None
        except OSError:
            return None
        return Entry(status.st_mode, status.st_ino, status.st_size, status.st_ctime_ns, parent, content)

    def _content(self, path: str, status: os.stat_result) -> bytes | None:
        if stat.S_ISLNK(status.st_mode):
            return os.fsencode(os.readlink(path))
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_KEPT:
            return None
        # Neither a link that appeared meanwhile nor a pipe without a writer may catch us.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            return file.read(MAX_KEPT)

    def _differs(self, path: str, was: Entry, now: Entry) -> bool:
        if (was.mode, was.inode, was.size, was.changed) == (now.mode, now.inode, now.size, now.changed):
            return False
        if was.mode != now.mode or was.size != now.size or was.content is None:
            return True
        try:
            return self._content(self._full(path), os.stat(self._full(path), follow_symlinks=False)) != was.content
        except OSError:
            return True

    def _restore(self, path: str, was: Entry) -> bool:
        """Give a file its content back, if that was kept and its folder is there."""
        full = self._full(path)
        above = os.path.dirname(full)
        # If the folder became a link, writing there would write somewhere else.
        if was.content is None or os.path.realpath(above) != above or not os.path.isdir(above):
            return False
        temporary = f"{above}/.midstream-{secrets.token_hex(8)}.tmp"
        try:
            if stat.S_ISLNK(was.mode):
                os.symlink(os.fsdecode(was.content), temporary)
            else:
                fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
                with open(fd, "wb") as file:
                    file.write(was.content)
                    os.fchmod(file.fileno(), stat.S_IMODE(was.mode))
            os.rename(temporary, full)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary)
            return False
        return True

    def _move(self, path: str, place: str) -> bool:
        """Out of the folder; what is inside a folder that was moved is gone with it."""
        full = self._full(path)
        if not os.path.lexists(full):
            return False
        target = f"{place}/{path}"
        os.makedirs(os.path.dirname(target), exist_ok=True)
        try:
            shutil.move(full, target)
        except (OSError, RecursionError):
            # On another file system, a pipe or a tree too deep to copy: under a name that nothing looks for.
            os.rename(full, f"{self._folder}/midstream-put-back-{secrets.token_hex(4)}")
        return True

    def _full(self, path: str) -> str:
        return f"{self._folder.rstrip('/')}/{path}" if path else self._folder


def _is_another(was: Entry, now: Entry) -> bool:
    """Whether a folder stands where a file was, or another folder."""
    return was.is_folder != now.is_folder or (was.is_folder and was.inode != now.inode)


def _told(what: str, paths: list[str]) -> list[str]:
    if not paths:
        return []
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return [
        f"[{what}: {', '.join(paths[:_SHOWN])}{more}; the sandbox keeps such files as they are: use write_file or "
        "edit_file, which ask]"
    ]
