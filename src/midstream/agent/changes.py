"""What the tools of an agent changed in its folder.

The file tools show what they are about to do (the preview of an approval), and the file as it was before its first change is
kept from there. A command may change anything: before the first one, a snapshot is taken where the folder is a git repository,
and elsewhere what commands changed cannot be said. So a change that the human or another program made after that moment to
a file of the repository is listed as well.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from hashlib import sha256

from ..core.blocks import Value
from ..core.errors import MidstreamError, ToolFailed
from .approval_request import ApprovalRequest, Change
from .files import is_binary
from .paths import MAX_READ, Folder

# What is kept of originals, all together; beyond it a change is told without a diff.
MAX_TOTAL = 64 * 1024 * 1024
MAX_FILES = 50_000
MAX_KEPT = 1024 * 1024
MAX_SNAPSHOT = 32 * 1024 * 1024
_GIT_SECONDS = 20.0
# Nothing is locked, fetched or asked, and messages are in one language.
_GIT_QUIET = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
Signature = tuple[int, int, int]


class FileChange(Value, frozen=True):
    """A file that is not as it was: a line about it, and the rows of a diff (empty where it cannot be shown)."""

    path: str
    summary: str
    rows: tuple[str, ...] = ()


class _Original(Value, frozen=True):
    """A file before its first change; None if it did not exist. `unread` says why it is not known."""

    text: str | None
    unread: str = ""
    digest: str = ""


class Changes:
    """Give `before` to `Toolbox.watch`; then `files` says what changed."""

    def __init__(self, workdir: str | os.PathLike[str] = ".") -> None:
        self._workdir = workdir
        self._folder: Folder | None = None
        self._originals: dict[str, _Original] = {}
        self._after_snapshot: set[str] = set()
        self._room = MAX_TOTAL
        self._snapshot: GitSnapshot | None = None
        self.blind = ""
        """Why it cannot be said what commands changed, if they were run."""

    async def before(self, request: ApprovalRequest) -> None:
        """Keep what a call that is about to run may change."""
        if request.change is not None:
            self._keep(request.change)
        # One snapshot, before the first command: a later one would take the earlier commands' work for the original.
        elif request.runs and self._snapshot is None and not self.blind:
            await asyncio.to_thread(self._take_snapshot)

    def files(self) -> list[FileChange]:
        """Every file that is not as it was, by its path. Reads files and asks git: for a thread."""
        return [change for path, original in sorted(self._changed()) if (change := self._compared(path, original))]

    def _keep(self, change: Change) -> None:
        # The first original counts, and what git knows need not be kept twice.
        if change.path in self._originals or (self._snapshot is not None and self._snapshot.knows(change.path)):
            return
        if self._snapshot is not None:
            self._after_snapshot.add(change.path)
        size = len(change.before or "")
        if size > self._room:
            self._originals[change.path] = _Original(None, "the original was too large to keep")
            return
        self._room -= size
        self._originals[change.path] = _Original(change.before, change.unread)

    def _take_snapshot(self) -> None:
        try:
            self._snapshot = GitSnapshot(self._opened())
        except NoSnapshot as error:
            self.blind = str(error)

    def _changed(self) -> Iterator[tuple[str, _Original]]:
        found = dict(self._originals)
        try:
            for path in self._snapshot.changed() if self._snapshot is not None else ():
                # A file that a command made, and a file tool changed then, was not there before either of them.
                if path not in found or path in self._after_snapshot:
                    found[path] = self._at_snapshot(path)
        except NoSnapshot as error:
            self.blind = str(error)
        yield from found.items()

    def _at_snapshot(self, path: str) -> _Original:
        assert self._snapshot is not None
        data, unread = self._snapshot.before(path)
        return _as_original(data, unread)

    def _compared(self, path: str, original: _Original) -> FileChange | None:
        try:
            _, data, unread = self._opened().peek(path, MAX_READ)
        except MidstreamError as error:
            return FileChange(path, f"cannot be shown: {error}")
        now = _as_original(data, unread)
        if now == original:  # a binary file is known by its size and digest
            return None
        if original.unread or now.unread:
            return FileChange(path, f"changed, but cannot be shown: {original.unread or now.unread}")
        change = Change(path, original.text, now.text or "")
        if now.text is None:
            return FileChange(path, "deleted", tuple(change.rows()))
        return FileChange(path, change.summary(), tuple(change.rows()))

    def _opened(self) -> Folder:
        if self._folder is None:
            self._folder = Folder(self._workdir)
        return self._folder


def _as_original(data: bytes | None, unread: str) -> _Original:
    if data is None:
        return _Original(None, unread)
    if is_binary(data):
        return _Original(None, f"a binary file of {len(data):,} bytes", sha256(data).hexdigest())
    return _Original(data.decode("utf-8", "replace"))


class NoSnapshot(Exception):
    """There is none to be had; the message says why."""


class GitSnapshot:
    """What the files of a folder held at one moment, those that git does not ignore. Blocks while it runs git: for a thread.

    Nothing is written, neither to the repository nor elsewhere. Files that git knows and that are unchanged are read from its
    objects when they are needed; of all others a copy is kept, within a limit. Git is asked only for lists and objects: no
    hook, filter or other program that somebody may have written into the repository's settings meanwhile is run.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._blobs = self._staged()
        own = {*_names(self._git("diff-files", "-z", "--name-only", "--relative")), *self._untracked()}
        if len(self._blobs) + len(own) > MAX_FILES:
            raise NoSnapshot(f"the repository has more than {MAX_FILES:,} files")
        # Time, size and inode instead of contents: a repository of fifty thousand files is looked at in a moment.
        self._signatures = {path: _signature(folder.path, path) for path in {*self._blobs, *own}}
        self._kept: dict[str, bytes | None] = {}
        room = MAX_SNAPSHOT
        for path in sorted(own):
            data = self._read(path) if (self._signatures[path] or (0, 0, 0))[1] <= min(room, MAX_KEPT) else None
            room -= len(data or b"")
            self._kept[path] = data

    def changed(self) -> list[str]:
        """The files that are there now, were there then, and are not as they were."""
        now = {*self._staged(), *self._untracked(), *self._signatures}
        return sorted(path for path in now if _signature(self._folder.path, path) != self._signatures.get(path))

    def knows(self, path: str) -> bool:
        return path in self._signatures

    def before(self, path: str) -> tuple[bytes | None, str]:
        """What a file held, or None if it was not there; and why that cannot be said."""
        if self._signatures.get(path) is None:
            return None, ""
        if path in self._kept:
            kept = self._kept[path]
            return (kept, "") if kept is not None else (None, "it was too large to keep, or not a regular file")
        try:
            return self._git("cat-file", "blob", self._blobs[path]), ""
        except NoSnapshot as error:
            return None, str(error)

    def _staged(self) -> dict[str, str]:
        """The blob of each file that git knows; links and submodules are left out."""
        staged: dict[str, str] = {}
        for row in _names(self._git("ls-files", "-z", "--stage")):
            about, _, path = row.partition("\t")
            mode, blob, _ = about.split()
            if mode.startswith("100"):
                staged[path] = blob
        return staged

    def _untracked(self) -> list[str]:
        return _names(self._git("ls-files", "-z", "--others", "--exclude-standard"))

    def _read(self, path: str) -> bytes | None:
        try:
            return self._folder.read(path, MAX_KEPT)[0]
        except (OSError, ToolFailed):  # a link, a socket, a file just being removed: nothing that could be compared
            return None

    def _git(self, *arguments: str) -> bytes:
        try:
            done = subprocess.run(
                # fsmonitor names a program in the repository's settings, which git would run.
                ["git", "-c", "core.fsmonitor=false", *arguments],
                cwd=self._folder.path,
                env={**os.environ, **_GIT_QUIET},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_GIT_SECONDS,
                check=False,
            )
        except FileNotFoundError:
            raise NoSnapshot("git is not installed") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NoSnapshot(f"git did not answer ({type(error).__name__})") from None
        if done.returncode != 0:
            words = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise NoSnapshot(words[0].removeprefix("fatal: ") if words else f"git failed ({done.returncode})")
        return done.stdout


def _names(output: bytes) -> list[str]:
    return [os.fsdecode(name) for name in output.split(b"\0") if name]


def _signature(folder: str, path: str) -> Signature | None:
    try:
        status = os.lstat(f"{folder}/{path}")
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
