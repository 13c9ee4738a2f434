"""A folder that file tools cannot leave.

Nothing is checked by name and then opened by name. A path is walked component by component from the folder's own
descriptor (openat with O_NOFOLLOW), `..` goes back to the descriptor we came from, and a symbolic link is read and walked
by us, never followed by the kernel. So whatever is swapped underneath, the descriptor that was reached is inside, and it
is the one that is read or written. Only regular files are opened, without blocking; sizes are bounded. A write goes to a
temporary file in the same descriptor and is renamed, so a reader sees the old file or the new one.
What it cannot see: a hard link or a mount that somebody else put inside the folder.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ..client.key_store import is_key_file
from ..core.errors import ConfigError, PathRefused, ToolFailed

MAX_PATH = 4096
MAX_DEPTH = 100
MAX_LINKS = 40
MAX_READ = 16 * 1024 * 1024

DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
# Non-blocking, or opening a FIFO would wait for a writer that never comes; no controlling terminal from a tty device.
_FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


# The heart of it: not a path but a directory that is held open and one name in it. Whatever happens to the path
# afterwards, the pair still means the same place.
class Place(NamedTuple):
    """Where a path leads: an open directory inside the folder and a name in it that is not a link. Empty name: the directory.

    `imagined`: the directory would first have to be made, inside the open one.
    """

    directory: int
    name: str
    shown: str
    imagined: bool = False

    def status(self) -> os.stat_result | None:
        """What is there now, or None."""
        if self.imagined:
            return None
        if not self.name:
            return os.fstat(self.directory)
        try:
            return os.stat(self.name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None


class Folder:
    """The working folder, held by descriptor. Every method takes a path as the model wrote it."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        if sys.platform == "win32" or os.open not in os.supports_dir_fd or not hasattr(os, "O_NOFOLLOW"):
            raise ConfigError("the file tools need openat and O_NOFOLLOW (Linux, macOS); this system lacks them")
        self.path = os.path.realpath(root)
        # An absolute path that starts with the name the user gave is inside too, even if that name goes through a link.
        self._names = (self.path, os.path.abspath(root))  # noqa: PTH100 - Path.absolute keeps `..`
        try:
            self._fd = os.open(self.path, DIRECTORY)
        except OSError as error:
            raise ConfigError(f"working folder {root}: {error.strerror}") from error
        self._closer = weakref.finalize(self, os.close, self._fd)

    def close(self) -> None:
        self._closer()

    @contextmanager
    def locate(self, path: str, *, create: bool = False, imagine: bool = False) -> Iterator[Place]:
        """Walk to a path and hold the directory it ends in; `create` makes missing directories on the way, `imagine` only
        goes by their names."""
        walk = _Walk(self, path, create, imagine)
        try:
            with _worded(path):
                place = walk.end()
            yield place
        finally:
            walk.close()

    @contextmanager
    def directory(self, path: str) -> Iterator[tuple[int, str]]:
        """An open directory and its name relative to the folder ("" for the folder itself)."""
        with self.locate(path) as place:
            if not place.name:
                yield place.directory, place.shown
                return
            with _worded(path):
                fd = os.open(place.name, DIRECTORY, dir_fd=place.directory)
            with held(fd):
                yield fd, place.shown

    @contextmanager
    def open(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        """A regular file, open for reading, and its status."""
        with self.locate(path) as place:
            if not place.name:
                raise PathRefused(f"{path}: is a directory")
            fd = open_regular(place.directory, place.name, path)
        with held(fd):
            yield fd, os.fstat(fd)

    def read(self, path: str, limit: int = MAX_READ) -> tuple[bytes, os.stat_result]:
        """A whole regular file of at most `limit` bytes."""
        with self.open(path) as (fd, status):
            return read_regular(fd, limit, path), status

    def peek(self, path: str, limit: int = MAX_READ) -> tuple[str, bytes | None, str]:
        """Where a write to this path would go, relative to the folder; what is there now; and why that cannot be read.

        Directories that a write would create need not exist.
        """
        with self.locate(path, imagine=True) as place:
            if not place.name:
                raise PathRefused(f"{path}: is a directory")
            if place.status() is None:
                return place.shown, None, ""
            try:
                with held(open_regular(place.directory, place.name, path)) as fd:
                    return place.shown, read_regular(fd, limit, path), ""
            except ToolFailed as error:
                status = place.status()
                if status is None or not stat.S_ISREG(status.st_mode):
                    raise
                return place.shown, None, str(error)

    def write(self, path: str, data: bytes, *, expected: os.stat_result | None = None) -> bool:
        """Replace or create a regular file, keeping its mode; True if it is new.

        With `expected`, refuse if the file is not the one that was read.
        """
        with self.locate(path, create=True) as place, _worded(path):
            if not place.name:
                raise PathRefused(f"{path}: is a directory")
            old = place.status()
            if old is not None:
                _require_regular(old, path)
            if expected is not None and (old is None or _version(old) != _version(expected)):
                raise PathRefused(f"{path}: was changed since it was read; read it again")
            _replace(place, data, old)
            return old is None

    def parts(self, path: str) -> list[str]:
        """The components of a path relative to the folder, or PathRefused for one that cannot be inside."""
        checked_text("path", path, MAX_PATH)
        if path.startswith("~"):
            raise PathRefused(
                f"{path}: ~ is not expanded; use a path inside the working folder (./~name for a file of that name)"
            )
        return self.inside(path)

    def inside(self, path: str) -> list[str]:
        """The components relative to the folder of a relative path, or of an absolute one under the folder's name."""
        if not path.startswith("/"):
            return path.split("/")
        for name in self._names:
            head = name.rstrip("/") + "/"
            if path == name or path.startswith(head):
                return path[len(head) :].split("/")
        raise PathRefused(f"{path}: is outside the working folder {self.path}; use a path relative to it")


class _Walk:
    """One walk: the descriptors and names from the folder down to where it stands."""

    def __init__(self, folder: Folder, path: str, create: bool, imagine: bool) -> None:
        self._folder = folder
        self._path = path
        self._create = create
        self._imagine = imagine
        self._imagined = 0  # how many of the last names are of directories that are not there
        self._todo = deque(folder.parts(path))
        self._fds: list[int] = []
        self._names: list[str] = []
        self._links = 0

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()

    def end(self) -> Place:
        # A copy, since the walk closes what it holds.
        self._fds.append(os.dup(self._folder._fd))
        # A trailing slash, `.` or `..` names a directory: it is entered like any other.
        while self._todo:
            part = self._todo.popleft()
            if part in ("", "."):
                continue
            if part == "..":
                self._leave()
            elif self._todo:
                self._enter(part)
            elif not self._is_link(part):
                return self._place(part)
        return self._place("")

    def _place(self, name: str) -> Place:
        shown = "/".join([*self._names, name] if name else self._names)
        return Place(self._fds[-1], name, shown, bool(self._imagined))

    def _leave(self) -> None:
        if not self._names:
            raise PathRefused(f"{self._path}: leads outside the working folder")
        self._names.pop()
        if self._imagined:
            self._imagined -= 1
        else:
            # Back to the descriptor we came from. Opening ".." would ask the
            # kernel, and a folder that was moved meanwhile has another parent.
            os.close(self._fds.pop())

    def _enter(self, name: str) -> None:
        if len(self._names) >= MAX_DEPTH:
            raise PathRefused(f"{self._path[:80]}…: more than {MAX_DEPTH} directories deep")
        if self._imagined:
            self._imagine_one(name)
            return
        try:
            fd = os.open(name, DIRECTORY, dir_fd=self._fds[-1])
        except OSError as error:
            if error.errno == errno.ENOENT and self._create:
                # Somebody else made it at the same moment; opening it decides whether it is a directory.
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=self._fds[-1])
                fd = os.open(name, DIRECTORY, dir_fd=self._fds[-1])
            elif error.errno == errno.ENOENT and self._imagine:
                self._imagine_one(name)
                return
            elif error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK) and self._is_link(name):
                return
            else:
                raise
        self._fds.append(fd)
        self._names.append(name)

    def _imagine_one(self, name: str) -> None:
        self._imagined += 1
        self._names.append(name)

    def _is_link(self, name: str) -> bool:
        """If the name is a symbolic link, put what it says in its place. The kernel never follows one for us."""
        if self._imagined:
            return False
        try:
            target = os.readlink(name, dir_fd=self._fds[-1])
        except OSError:
            return False
        self._links += 1
        if self._links > MAX_LINKS:
            raise PathRefused(f"{self._path}: more than {MAX_LINKS} symbolic links")
        try:
            parts = self._folder.inside(target)
        except PathRefused:
            raise PathRefused(f"{self._path}: a symbolic link leads outside the working folder") from None
        if target.startswith("/"):
            # An absolute link starts from the folder again, wherever it was found.
            while self._names:
                self._leave()
        self._todo.extendleft(reversed(parts))
        return True


def checked_text(what: str, text: str, limit: int, hint: str = "") -> str:
    """The text, or ToolFailed if it is empty or longer than the limit, or holds what the system cannot take."""
    if not text:
        raise ToolFailed(f"the {what} is empty")
    if "\0" in text:
        raise ToolFailed(f"the {what} contains a NUL byte")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ToolFailed(f"the {what} is not valid Unicode") from None
    if size > limit:
        raise ToolFailed(f"the {what} is longer than {limit:,} bytes{hint}")
    return text


@contextmanager
def held(fd: int) -> Iterator[int]:
    """The descriptor, closed in the end."""
    try:
        yield fd
    finally:
        os.close(fd)


def open_regular(directory: int, name: str, shown: str) -> int:
    """Open a name in an open directory if it is a regular file."""
    with _worded(shown):
        # Checked first, so that no device is even opened; the status of the descriptor, below, is what counts.
        _require_regular(os.stat(name, dir_fd=directory, follow_symlinks=False), shown)
        fd = os.open(name, _FILE, dir_fd=directory)
        try:
            status = os.fstat(fd)
            _require_regular(status, shown)
            if is_key_file(status):  # by what it is: it may have another name here
                raise PathRefused(f"{shown}: holds midstream's own keys, which no tool reads")
        except BaseException:
            os.close(fd)
            raise
        return fd


def read_regular(fd: int, limit: int, shown: str) -> bytes:
    """All bytes of an open file. Files of /proc and those that grow lie about their size, so it is counted."""
    chunks: list[bytes] = []
    size = 0
    with _worded(shown):
        # One byte more than allowed, to tell "exactly the limit" from "more".
        while chunk := os.read(fd, min(1 << 20, limit + 1 - size)):
            chunks.append(chunk)
            size += len(chunk)
            if size > limit:
                raise PathRefused(f"{shown}: is larger than {limit:,} bytes; use grep, or bash with head or sed")
    return b"".join(chunks)


def _require_regular(status: os.stat_result, shown: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise PathRefused(f"{shown}: is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise PathRefused(f"{shown}: is not a regular file")


def _version(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _replace(place: Place, data: bytes, old: os.stat_result | None) -> None:
    temporary = f".midstream-{os.urandom(8).hex()}.tmp"
    # Until it has the old file's mode it is readable by nobody else; a new file gets what the umask gives.
    fd = os.open(temporary, _NEW, 0o666 if old is None else 0o600, dir_fd=place.directory)
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if old is not None:
                with suppress(PermissionError):
                    os.fchown(fd, old.st_uid, old.st_gid)
                os.fchmod(fd, stat.S_IMODE(old.st_mode))
        finally:
            os.close(fd)
        # A rename replaces a link that appeared meanwhile, instead of writing through it.
        os.rename(temporary, place.name, src_dir_fd=place.directory, dst_dir_fd=place.directory)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=place.directory)
        raise


@contextmanager
def _worded(path: str) -> Iterator[None]:
    """Errors of the system, in words for the model."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PathRefused(f"{path}: became a symbolic link meanwhile") from error
        raise ToolFailed(f"{path}: {os.strerror(error.errno) if error.errno else error}") from error
