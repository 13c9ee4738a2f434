"""Where data is stored: `$MIDSTREAM_HOME`, else `$XDG_DATA_HOME/midstream`, else `~/.local/share/midstream`.

Conversations are private: new directories have mode 0700 and files 0600. Existing directories keep their mode.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..core.errors import StoreError

DATABASE = "conversations.db"


def data_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The directory for midstream's data; it may not exist yet."""
    environ = os.environ if environ is None else environ
    if home := environ.get("MIDSTREAM_HOME"):
        return Path(home).expanduser()
    xdg = environ.get("XDG_DATA_HOME", "")
    # The XDG specification says to ignore a relative path here.
    base = Path(xdg) if xdg.startswith("/") else Path("~/.local/share").expanduser()
    return base / "midstream"


def database_path(environ: Mapping[str, str] | None = None) -> Path:
    """The file of the default store."""
    return data_dir(environ) / DATABASE


def make_private_file(path: Path) -> None:
    """Create the file and its parent directories, accessible to their owner only, unless they exist."""
    try:
        for folder in reversed([folder for folder in path.absolute().parents if not folder.exists()]):
            folder.mkdir(mode=0o700, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except (OSError, ValueError) as error:
        raise StoreError(
            f"cannot use {str(path)!r} for conversations: {error}; set MIDSTREAM_HOME to a directory you can write to"
        ) from error
