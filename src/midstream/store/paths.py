"""Where data is stored: `$MIDSTREAM_HOME`, else `$XDG_DATA_HOME/midstream`, else `~/.local/share/midstream`.

Conversations are private: new directories have mode 0700 and files 0600. Existing directories keep their mode.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from ..core.errors import StoreError

DATABASE = "conversations.db"


def data_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The directory for midstream's data; it may not exist yet."""
    environ = os.environ if environ is None else environ
    # One variable moves everything: for tests, containers, or a second set of conversations.
    if home := environ.get("MIDSTREAM_HOME"):
        return Path(home).expanduser()
    xdg = environ.get("XDG_DATA_HOME", "")
    # The XDG specification says to ignore a relative path here.
    base = Path(xdg) if xdg.startswith("/") else Path("~/.local/share").expanduser()
    return base / "midstream"


def database_path(environ: Mapping[str, str] | None = None) -> Path:
    """The file of the default store."""
    return data_dir(environ) / DATABASE


def is_postgres(address: str) -> bool:
    """Whether an address is that of a PostgreSQL database, not of a file."""
    return address.startswith(("postgresql://", "postgres://"))


def sqlite_path(address: str) -> Path:
    """The file at an address: `sqlite://` and a path, or a path alone."""
    scheme, separator, rest = address.partition("://")
    if separator and scheme != "sqlite":
        # The rest of the address is not repeated: it may hold a password.
        raise StoreError(
            f"cannot store anything at {scheme}://…: expected postgresql://user@host/database, or the path of a file"
        )
    path = rest if separator else address
    if not path:
        raise StoreError("an empty path: expected the path of a file, or postgresql://user@host/database")
    return Path(path).expanduser()


def shown_address(address: str) -> str:
    """An address as it may be shown: without the name, password and parameters of a connection."""
    scheme, separator, _ = address.partition("://")
    if not separator or scheme == "sqlite":
        return address
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        return f"{scheme}://…"
    # A password with unescaped characters has spilled over into what looks like host and path.
    spilled = "@" in parts.path + parts.query + parts.fragment
    return f"{scheme}://{'…' if spilled else host + parts.path}"


def make_private_file(path: Path) -> None:
    """Create the file and its parent directories, accessible to their owner only, unless they exist."""
    try:
        # One by one: `makedirs` gives the mode to the last folder only.
        for folder in reversed([folder for folder in path.absolute().parents if not folder.exists()]):
            folder.mkdir(mode=0o700, exist_ok=True)
        # Made before SQLite opens it: SQLite would use the umask, and the log beside it takes the mode of the file.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except (OSError, ValueError) as error:
        raise StoreError(
            f"cannot use {str(path)!r} for midstream's data: {error.strerror if isinstance(error, OSError) else error}; "
            "give the path of a file that you can write to, or set MIDSTREAM_HOME to such a directory"
        ) from error


def is_read_only(path: Path) -> bool:
    """Whether this file exists and cannot be written to: itself, or the folder, where SQLite puts its log beside it."""
    effective = os.access in os.supports_effective_ids
    places = (path, path.absolute().parent)
    return path.exists() and not all(os.access(place, os.W_OK, effective_ids=effective) for place in places)


def write_private_file(path: Path, data: bytes, *, overwrite: bool = False) -> None:
    """Write what was said into a file that is as private as the store. FileExistsError if it is there, unless `overwrite`."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if overwrite else os.O_EXCL), 0o600)
    with os.fdopen(fd, "wb") as file:
        if stat.S_ISREG(os.fstat(fd).st_mode):  # not a terminal or a pipe that was named as a file
            os.fchmod(fd, 0o600)
        file.write(data)
