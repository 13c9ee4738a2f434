"""The search tools: glob and grep, confined to one Folder, in a fixed order and of bounded size.

The tree is walked by descriptor and symbolic links to directories are not entered, so a walk ends and stays inside.
Version control, dependencies and caches are skipped unless the pattern or the path names them. grep takes Python's
regular expressions and matches them in a process of its own (see matcher.py) that is ended when the time is over; ripgrep
is not used where it happens to be installed, since its syntax differs and the same call must mean the same everywhere.
"""

from __future__ import annotations

import asyncio
import fnmatch
import math
import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated

import msgspec

from ..core.errors import ToolFailed
from ..core.patterns import late_pattern
from ..core.plural import pluralize
from .files import is_binary
from .paths import DIRECTORY, MAX_DEPTH, Folder, checked_text, held, open_regular, read_regular
from .processes import CHUNK as PIPE_CHUNK
from .processes import PipeReader
from .tool import Tool

# Large, and hardly ever what a model looks for; naming one in the pattern or path brings it back.
SKIPPED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv"})
# Limits of one call. A model pays for each line it reads, and a tree may hold a million files: what is left out is said in the result.
MAX_RESULTS = 1000
MAX_MATCHES = 200
MAX_ENTRIES = 200_000
MAX_FILE = 8 * 1024 * 1024
MAX_BYTES = 256 * 1024 * 1024
MAX_PATTERN = 1000
MAX_ALTERNATIVES = 64
# Python's expressions can take forever on a short line, and cannot be interrupted in this process: hence a matcher of its own.
GREP_SECONDS = 10.0

_MATCHER = str(Path(__file__).with_name("matcher.py"))
_BRACES = late_pattern(r"\{([^{}]*,[^{}]*)\}")

FolderArgument = Annotated[str, "The directory to search, relative to the working folder."]


class Search:
    """Finds files by name and lines by pattern."""

    def __init__(self, folder: Folder, *, seconds: float = GREP_SECONDS) -> None:
        self._folder = folder
        self._seconds = seconds

    def tools(self) -> tuple[Tool, ...]:
        return (Tool.from_function(self.glob), Tool.from_function(self.grep))

    def glob(
        self,
        pattern: Annotated[str, "Such as **/*.py or src/*.{ts,tsx}; a pattern that ends in / finds directories."],
        path: FolderArgument = ".",
    ) -> str:
        """Find files by a name pattern. ** stands for any directories; .git, node_modules, __pycache__ and .venv are
        skipped unless the pattern names them.
        """
        wanted = Pattern(pattern)
        found: list[str] = []
        # A pattern or a path that names `node_modules` means to search it.
        walk = Walk(wanted.names | set(path.split("/")))
        with self._folder.directory(path) as (top, prefix):
            for directory, name, relative, is_directory in walk.entries(top):
                if is_directory is wanted.directories and wanted.matches(relative):
                    shown = f"{prefix}/{relative}" if prefix else relative
                    # Only now is the file looked at: a stat for every name of a tree costs more than matching it.
                    if is_directory or self._is_file(directory, name, shown):
                        found.append(shown + ("/" if is_directory else ""))
                if len(found) > MAX_RESULTS:
                    break
        if not found:
            return "no files match" + walk.note()
        more = f"\n[the first {MAX_RESULTS}; narrow the pattern]" if len(found) > MAX_RESULTS else walk.note()
        return "\n".join(found[:MAX_RESULTS]) + more

    async def grep(
        self,
        pattern: Annotated[str, "A Python regular expression, matched line by line."],
        path: Annotated[str, "The file or directory to search, relative to the working folder."] = ".",
        glob: Annotated[str, "Only files whose name matches, such as *.py or src/**/*.ts."] = "",
        ignore_case: bool = False,
        limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_MATCHES, description="How many lines at most.")] = MAX_MATCHES,
    ) -> str:
        """Find lines that match a regular expression, as path:line:text."""
        checked_text("pattern", pattern, MAX_PATTERN)
        source = _Source(self._folder, path, Pattern(glob) if glob else None)
        source.check()
        match = _Match(limit)
        finished = await match.run(["i" if ignore_case else "", pattern], source, self._seconds)
        notes = source.notes()
        if len(match.lines) >= limit:
            notes.append(f"the first {pluralize(limit, 'line')}; narrow the pattern")
        elif not finished:
            notes.append(
                f"stopped after {self._seconds:g} s while matching {source.current}; "
                "the rest was not searched: use a simpler pattern or a smaller path"
            )
        text = "\n".join(match.lines) or "no lines match"
        return text + "".join([f"\n[{note}]" for note in notes])

    def _is_file(self, directory: int, name: str, shown: str) -> bool:
        """A regular file, or a link to one inside the folder."""
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISLNK(status.st_mode):
            return stat.S_ISREG(status.st_mode)
        try:
            with self._folder.open(shown):
                return True
        except ToolFailed:
            return False


class Pattern:
    """A path pattern: `*`, `?` and `[…]` within a component, `**` across them, `{a,b}` for alternatives."""

    def __init__(self, pattern: str) -> None:
        checked_text("pattern", pattern, MAX_PATTERN)
        if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
            raise ToolFailed(f"pattern {pattern!r}: must be relative to the working folder, without ..")
        self.directories = pattern.endswith("/")
        alternatives = _expand(pattern.strip("/"))
        self.names = {part for alternative in alternatives for part in alternative.split("/")}
        self._alternatives = [
            [
                None if part == "**" else re.compile(fnmatch.translate(part))
                for part in alternative.split("/")
                if part != "."
            ]
            for alternative in alternatives
        ]

    def matches(self, path: str) -> bool:
        parts = path.split("/")
        return any(_matches(alternative, parts) for alternative in self._alternatives)

    def matches_name(self, path: str) -> bool:
        """As `matches`, but a pattern without a slash is matched against the last component."""
        name = path.rpartition("/")[2]
        return any(_matches(each, [name] if len(each) == 1 else path.split("/")) for each in self._alternatives)


def _expand(pattern: str) -> list[str]:
    todo, done = [pattern], []
    while todo:
        each = todo.pop(0)
        match = _BRACES.search(each)
        if match is None:
            done.append(each)
        else:
            # The innermost braces first, since the expression has none inside; nested ones are met in the next round.
            todo += [each[: match.start()] + choice + each[match.end() :] for choice in match[1].split(",")]
        if len(todo) + len(done) > MAX_ALTERNATIVES:
            raise ToolFailed(f"the pattern has more than {MAX_ALTERNATIVES} alternatives")
    return done


def _matches(pattern: list[re.Pattern[str] | None], parts: list[str]) -> bool:
    """All positions in the pattern at once, so that many `**` cost no more than one."""
    positions = _closed({0}, pattern)
    for part in parts:
        following = set()
        for at in positions:
            if at < len(pattern):
                expression = pattern[at]
                if expression is None:
                    following.add(at)
                elif expression.match(part):
                    following.add(at + 1)
        positions = _closed(following, pattern)
    return len(pattern) in positions


def _closed(positions: set[int], pattern: list[re.Pattern[str] | None]) -> set[int]:
    """With the positions that are reached when a `**` matches nothing."""
    for at in sorted(positions):
        while at < len(pattern) and pattern[at] is None:
            at += 1
            positions.add(at)
    return positions


class Walk:
    """A walk of a tree, names in order, bounded in depth and number."""

    def __init__(self, named: set[str]) -> None:
        self._skipped = SKIPPED - named
        self._left = MAX_ENTRIES

    def note(self) -> str:
        return "" if self._left > 0 else f"\n[stopped after {MAX_ENTRIES} entries; search a smaller directory]"

    def entries(self, top: int, prefix: str = "", depth: int = 0) -> Iterator[tuple[int, str, str, bool]]:
        """(open directory, name, path below the top, whether it is a directory), a directory before what it holds."""
        try:
            with os.scandir(top) as scan:
                # All at once, although it holds a directory in memory: the same search must give the same results in the same order.
                found = sorted([(entry.name, entry.is_dir(follow_symlinks=False)) for entry in scan])
        except OSError:
            return  # unreadable, or gone meanwhile
        for name, is_directory in found:
            self._left -= 1
            if self._left <= 0:
                return
            if is_directory and name in self._skipped:
                continue
            yield top, name, prefix + name, is_directory
            if is_directory and depth < MAX_DEPTH:
                try:
                    below = os.open(name, DIRECTORY, dir_fd=top)
                except OSError:
                    continue  # gone, unreadable, or a link by now
                with held(below):
                    yield from self.entries(below, f"{prefix}{name}/", depth + 1)


class _Source:
    """The files a grep looks at, one by one, and what was left out."""

    def __init__(self, folder: Folder, path: str, pattern: Pattern | None) -> None:
        self._folder = folder
        self._path = path
        self._pattern = pattern
        self._bytes = MAX_BYTES
        self._too_large = 0
        self._walk = Walk((pattern.names if pattern else set()) | set(path.split("/")))
        self.current = path

    def notes(self) -> list[str]:
        notes = [self._walk.note().strip("\n[]")] if self._walk.note() else []
        if self._too_large:
            notes.append(f"{self._too_large} file(s) of more than {MAX_FILE} bytes were not searched")
        if self._bytes < 0:
            notes.append(f"stopped after {MAX_BYTES} bytes; search a smaller directory")
        return notes

    def check(self) -> None:
        """ToolFailed if there is nothing to search, before anything is started."""
        with self._folder.locate(self._path) as place:
            status = place.status()
            if status is None:
                raise ToolFailed(f"{self._path}: no such file or directory")
            if not stat.S_ISDIR(status.st_mode):
                os.close(open_regular(place.directory, place.name, self._path))

    def files(self) -> Iterator[tuple[str, bytes]]:
        with self._folder.locate(self._path) as place:
            status = place.status()
            if status is not None and stat.S_ISREG(status.st_mode):
                yield from self._file(place.directory, place.name, place.shown)
                return
        with self._folder.directory(self._path) as (top, prefix):
            for directory, name, relative, is_directory in self._walk.entries(top):
                if not is_directory and (self._pattern is None or self._pattern.matches_name(relative)):
                    try:
                        yield from self._file(directory, name, f"{prefix}/{relative}" if prefix else relative)
                    except ToolFailed:
                        continue  # a link, a device, or gone meanwhile
                if self._bytes < 0:
                    return

    def _file(self, directory: int, name: str, shown: str) -> Iterator[tuple[str, bytes]]:
        with held(open_regular(directory, name, shown)) as fd:
            if os.fstat(fd).st_size > MAX_FILE:
                self._too_large += 1
                return
            data = read_regular(fd, MAX_FILE, shown)
        self._bytes -= len(data)
        if data and not is_binary(data) and self._bytes >= 0:
            self.current = shown
            yield shown, data


class _Match:
    """The matcher process: fed with files by a thread, read for lines here, ended in every case."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._partial = b""
        self._said = bytearray()
        self._enough: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.lines: list[str] = []

    async def run(self, arguments: list[str], source: _Source, seconds: float) -> bool:
        """True if everything was searched or enough was found; ToolFailed if the pattern is invalid."""
        process = _start([str(math.ceil(seconds) + 1), *arguments])
        found, said = PipeReader(_taken(process.stdout), self._add), PipeReader(_taken(process.stderr), self._complain)
        # A thread, because both the walk and the pipe may block. It ends when the matcher does.
        threading.Thread(target=_feed, args=(process, source), name="grep-feed", daemon=True).start()
        try:
            await asyncio.wait({found.done, self._enough}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            # Asked before it is killed, as that ends its output too.
            ended_by_itself = found.done.done()
            if ended_by_itself:
                await said.done
        finally:
            process.kill()
            process.wait()
            found.close()
            said.close()
        if ended_by_itself and self._said:
            raise ToolFailed(f"invalid pattern: {bytes(self._said).decode('utf-8', 'replace')[:300].strip()}")
        return ended_by_itself or self._enough.done()

    def _add(self, data: bytes) -> None:
        # A line may arrive in pieces; the matcher separates its fields by NUL, which no path holds.
        *whole, self._partial = (self._partial + data).split(b"\n")
        for line in whole[: self._limit - len(self.lines)]:
            name, number, text = line.decode("utf-8", "replace").split("\0", 2)
            self.lines.append(f"{name}:{number}:{text}")
        if len(self.lines) >= self._limit and not self._enough.done():
            self._enough.set_result(None)

    def _complain(self, data: bytes) -> None:
        if len(self._said) < PIPE_CHUNK:
            self._said += data


def _start(arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        # Isolated and without site-packages: the matcher starts sooner, and no module of the working folder is imported.
        [sys.executable, "-I", "-S", _MATCHER, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"LC_ALL": "C.UTF-8"},
        start_new_session=True,
    )


def _taken(file: IO[bytes] | None) -> int:
    """The descriptor of a pipe, ours to close."""
    assert file is not None
    with file:
        return os.dup(file.fileno())


def _feed(process: subprocess.Popen[bytes], source: _Source) -> None:
    assert process.stdin is not None
    try:
        with process.stdin as pipe:
            for name, data in source.files():
                for part in (name.encode("utf-8", "replace"), data):
                    pipe.write(len(part).to_bytes(8, "big"))
                    pipe.write(part)
                pipe.flush()
    except (OSError, ToolFailed):
        pass  # the matcher has ended and its report says why, or the path was removed meanwhile
