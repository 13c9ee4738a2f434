"""What the tools of an agent changed in its folder.

The file tools show what they are about to do (the preview of an approval), and the file as it was before its first change is
kept from there. A command may change anything: before the first one, a snapshot is taken where the folder is a git repository,
and elsewhere what commands changed cannot be said. So a change that the human or another program made after that moment to
a file of the repository is listed as well.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from hashlib import sha256

from ..core.blocks import Value
from ..core.errors import MidstreamError
from .approval_request import ApprovalRequest, Change
from .files import is_binary
from .git_snapshot import GitSnapshot, NoSnapshot
from .paths import MAX_READ, Folder

# What is kept of originals, all together; beyond it a change is told without a diff.
MAX_TOTAL = 64 * 1024 * 1024


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
