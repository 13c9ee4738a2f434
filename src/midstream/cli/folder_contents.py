"""A folder as an attachment: the list of its files, and the small text files themselves.

Where git knows the folder, it says which files belong to it, so that what .gitignore names stays out; elsewhere hidden
folders and those that tools fill are left out. Symbolic links are named and not followed. Files that look like keys are
named and left out. All of it is bounded, and what was left out is told.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ..agent.risk import holds_secrets
from ..agent.search import SKIPPED
from ..core.errors import LocalError
from ..core.plural import pluralize
from ..core.visible import visible
from .attachment import Attachment, as_text, fenced, read_file, shown_size

MAX_FILES = 400
"""How many files are listed."""
MAX_FILE = 16 * 1024
"""Bytes of a text file that is taken along."""
MAX_TOTAL = 128 * 1024
"""Bytes of all of them together."""
_MAX_WALK = 20_000
_GIT_SECONDS = 10.0
_GIT_OUTPUT = 8 * 1024 * 1024


def read_folder(path: Path, shown: str) -> Attachment:
    """The folder's list and its small texts as one attachment."""
    shown = shown.rstrip("/") + "/"
    files = _tracked(path)
    names = sorted(_walked(path)) if files is None else files
    lines: list[str] = []
    texts: list[str] = []
    total = 0
    for name in names[:MAX_FILES]:
        remark, text = _member(path, name, MAX_TOTAL - total)
        lines.append(visible(name).replace("\n", "⏎") + (f"  ({remark})" if remark else ""))
        if text is not None:
            texts.append(fenced("file", f"{shown}{name}", text))
            total += len(text.encode("utf-8", "replace"))
    if len(names) > MAX_FILES:
        more = f"{len(names) - MAX_FILES}{'+' if len(names) >= _MAX_WALK else ''}"
        lines.append(f"… and {more} more files")
    if not lines:
        raise LocalError(f"cannot attach {shown}: the folder has no files")
    text = "\n\n".join([fenced("folder", shown, "\n".join(lines)), *texts])
    detail = f"folder, {pluralize(len(names), 'file')} listed, {len(texts)} of them included"
    return Attachment(shown, len(text), text=text, detail=detail)


def _member(folder: Path, name: str, room: int) -> tuple[str, str | None]:
    """A remark about a file, and its text if that is taken along."""
    path = folder / name
    try:
        status = path.lstat()
    except (OSError, ValueError):
        return "gone", None
    if path.is_symlink():
        return "a link, not followed", None
    if not path.is_file():
        return "not a regular file", None
    # By name first, so that such a file is not even opened; by content below.
    if holds_secrets(str(path.absolute())):
        return "not included: may hold keys or passwords", None
    if status.st_size > MAX_FILE:
        return f"not included: {shown_size(status.st_size)}", None
    if not status.st_size:
        return "empty", None
    try:
        data = read_file(path, name, follow=False)
    except LocalError:
        return "cannot be read", None
    text = as_text(data)
    if text is None:
        return f"binary, {shown_size(len(data))}", None
    if holds_secrets(str(path.absolute()), data):
        return "not included: may hold keys or passwords", None
    return ("not included: no room left", None) if len(data) > min(room, MAX_FILE) else ("", text)


def _tracked(folder: Path) -> list[str] | None:
    """The files that git counts as the folder's, ignored ones left out; None where git does not know it.

    A repository's own settings may name programs that git runs: the one that listing files would run is turned off.
    """
    command = [
        *("git", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false", "-C", str(folder)),
        *("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate", "--", "."),
    ]
    quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        found = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_GIT_SECONDS, env=quiet, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    # Not a repository, or far too large a one: the walk below is bounded by itself.
    if found.returncode != 0 or len(found.stdout) > _GIT_OUTPUT:
        return None
    names = [os.fsdecode(name) for name in found.stdout.split(b"\0") if name]
    return sorted(name for name in names if os.path.lexists(folder / name))


def _walked(folder: Path) -> Iterator[str]:
    count = 0
    for at, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
        for name in sorted(files):
            count += 1
            if count > _MAX_WALK:
                return
            yield os.path.relpath(Path(at) / name, folder)
