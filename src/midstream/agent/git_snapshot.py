"""What the files of a git repository held at one moment, so that it can be said later what changed since.

Nothing is written, neither to the repository nor elsewhere. Files that git knows and that are unchanged are read from its
objects when they are asked for; of all others a copy is kept, within a limit. Git is asked only for lists and objects: no
hook, filter or other program that somebody may have written into the repository's settings meanwhile is run.
"""

from __future__ import annotations

import os
import subprocess

from ..core.errors import ToolFailed
from .paths import Folder

MAX_FILES = 50_000
MAX_KEPT = 1024 * 1024
MAX_TOTAL = 32 * 1024 * 1024
_SECONDS = 20.0
# Nothing is locked, fetched or asked, and messages are in one language.
_QUIET = {"GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}

Signature = tuple[int, int, int]


class NoSnapshot(Exception):
    """There is none to be had; the message says why."""


class GitSnapshot:
    """The files of a folder that git does not ignore. Blocks while it runs git: for a thread."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._blobs = self._staged()
        own = {*_names(self._git("diff-files", "-z", "--name-only", "--relative")), *self._untracked()}
        if len(self._blobs) + len(own) > MAX_FILES:
            raise NoSnapshot(f"the repository has more than {MAX_FILES:,} files")
        # Time, size and inode instead of contents: a repository of fifty thousand files is looked at in a moment.
        self._signatures = {path: _signature(folder.path, path) for path in {*self._blobs, *own}}
        self._kept: dict[str, bytes | None] = {}
        room = MAX_TOTAL
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
                env={**os.environ, **_QUIET},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
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
