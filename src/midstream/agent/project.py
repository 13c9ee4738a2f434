"""The project that a conversation works in: where it begins, and which of its text files a model may be told.

A project is the repository around the folder, or the folder itself where there is none. Its files may have come with
somebody else's code. One counts if it is a regular file of the user, of root or of the owner of the folder, if nobody else may write it, and
if no link leads out of the project to it. It is text for a model and grants nothing: what a tool may do is settled by
approval.py alone. Sizes are bounded, and hidden characters are written out.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from ..client.config import foreign
from ..core.blocks import Value
from ..core.errors import PathRefused, ToolFailed
from ..core.visible import readable, visible
from .files import is_binary
from .paths import Folder, held, open_regular

PROJECT_FOLDER = ".midstream"


class TextFile(Value, frozen=True):
    """A file's text, and how many bytes the file has; `cut` if the text is not all of it."""

    path: str
    text: str
    size: int
    cut: bool = False


class Project:
    """`root` is where the project begins; `levels` are the folders from the outermost one that counts down to `folder`."""

    def __init__(self, folder: str | os.PathLike[str] = ".", *, home: str | os.PathLike[str] | None = None) -> None:
        self.folder = Path(folder).resolve()
        house = Path(home).resolve() if home is not None else _home()
        # In a container the files of a project often belong to
        # another number than the user has; root's are installed ones.
        self.owners = frozenset({0, self.folder.stat().st_uid})
        around = [self.folder, *self.folder.parents]
        if house in around:
            # Never above home: what lies there is not this user's.
            around = around[: around.index(house) + 1]
        root = next((each for each in around if self._is_repository(each)), None)
        self.root = root or self.folder
        if root is not None:
            around = around[: around.index(root) + 1]
        elif house not in around:
            around = [self.folder]
        self.levels = tuple(reversed(around))
        self._in_repository = root is not None

    def boundary(self, level: Path) -> Path:
        """The folder that a link in this one may not leave."""
        return self.root if self._in_repository else level

    def read(self, path: Path, limit: int) -> TextFile | None:
        """A text file of the project, the first `limit` bytes of it; None if there is none. ToolFailed says why one does not count."""
        return read_text(path, limit, boundary=self.boundary(path.parent), owners=self.owners)

    def shown(self, path: str | os.PathLike[str]) -> str:
        """A path as the user would write it here: relative to the folder, or from home."""
        if Path(path).is_relative_to(self.levels[0]):
            return os.path.relpath(path, self.folder)
        house = _home()
        return f"~/{Path(path).relative_to(house)}" if Path(path).is_relative_to(house) else os.fspath(path)

    def _is_repository(self, folder: Path) -> bool:
        try:
            # Another user's .git above us, as in /tmp, does not make us a part of their project.
            return foreign((folder / ".git").stat(), self.owners) != "it belongs to another user"
        except OSError:
            return False


def read_text(path: Path, limit: int, *, boundary: Path | None = None, owners: Collection[int] = ()) -> TextFile | None:
    """The first `limit` bytes of a text file, up to the end of a line; None if there is none.

    A link is followed inside `boundary` only, to a file with the same ending. Without a boundary the file is the user's own, wherever a link leads.
    ToolFailed says why a file does not count.
    """
    read = read_bytes(path, limit, boundary=boundary, owners=owners)
    if read is None:
        return None
    data, size = read
    cut = len(data) > limit
    if cut:
        # At the end of a line, so that no rule is cut in the middle and means the opposite.
        data = data[: data.rfind(b"\n", 0, limit) + 1] or data[:limit]
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return TextFile(os.fspath(path), readable(text), max(size, len(data)), cut)


def read_bytes(
    path: Path, limit: int, *, boundary: Path | None = None, owners: Collection[int] = ()
) -> tuple[bytes, int] | None:
    """The same as bytes, one more than `limit` if there are so many, and the size of the file."""
    if not os.path.lexists(path):
        return None
    if boundary is None:
        path = Path(os.path.realpath(path))
    boundary = boundary or path.parent
    relative = os.fspath(path.relative_to(boundary))
    folder = Folder(boundary)
    try:
        with folder.locate(relative) as place:
            if place.name and Path(place.name).suffix.lower() != path.suffix.lower():
                raise PathRefused(f"it is a link to {place.shown}, which is not a {path.suffix} file")
            with held(open_regular(place.directory, place.name or ".", relative)) as fd:
                fault = foreign(os.fstat(fd), owners)
                if fault is not None:
                    raise PathRefused(fault)
                data, size = _read(fd, limit), os.fstat(fd).st_size
    except ToolFailed as error:
        raise PathRefused(str(error).removeprefix(f"{relative}: ")) from None  # callers name the file their own way
    finally:
        folder.close()
    if is_binary(data):
        raise ToolFailed("it is not text")
    return data, size


def marked(tag: str, source: str, text: str) -> str:
    """Text between tags that name its source. It cannot close them itself."""
    # A file could otherwise close its tag and go on in the system prompt's own voice.
    inside = text.strip("\n").replace(f"</{tag}", f"<\\/{tag}")
    name = visible(" ".join(source.split())).replace('"', "'")
    return f'<{tag} from="{name}">\n{inside}\n</{tag}>'


def size_words(size: int) -> str:
    """A size for people: 812 bytes, 1.2 KB."""
    return f"{size} bytes" if size < 1000 else f"{size / 1000:.1f} KB"


def _read(fd: int, limit: int) -> bytes:
    """One byte more than the limit, if there are so many."""
    chunks: list[bytes] = []
    left = limit + 1
    while left and (chunk := os.read(fd, left)):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)


def _home() -> Path:
    try:
        return Path.home().resolve()
    except RuntimeError:
        return Path("/")
