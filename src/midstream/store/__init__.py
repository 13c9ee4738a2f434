"""Where conversations are stored: the Store protocol, stores in memory, SQLite and PostgreSQL, export and import."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from .paths import data_dir, database_path, is_postgres, sqlite_path
from .protocol import (
    ConversationExists,
    ConversationInfo,
    CorruptRecord,
    Entry,
    Hit,
    LengthConflict,
    NewerSchema,
    Original,
    Store,
    StoreUnavailable,
    UnknownConversation,
)
from .sqlite import MemoryStore, SqliteStore

if TYPE_CHECKING:
    from .export import read_jsonl, to_jsonl, to_markdown
    from .importing import FORMATS, import_file, read_history

__all__ = [
    "FORMATS",
    "ConversationExists",
    "ConversationInfo",
    "CorruptRecord",
    "Entry",
    "Hit",
    "LengthConflict",
    "MemoryStore",
    "NewerSchema",
    "Original",
    "SqliteStore",
    "Store",
    "StoreUnavailable",
    "UnknownConversation",
    "data_dir",
    "database_path",
    "import_file",
    "open_store",
    "read_history",
    "read_jsonl",
    "to_jsonl",
    "to_markdown",
]


# Every chat loads this package, and few export or import: these two modules are loaded when first asked for.
_LATER = dict.fromkeys(("read_jsonl", "to_jsonl", "to_markdown"), ".export") | dict.fromkeys(
    ("FORMATS", "import_file", "read_history"), ".importing"
)


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name], __name__), name)


# A string may be an address of either kind; a Path is always a file, whatever it looks like.
def open_store(address: str | Path | None = None) -> Store:
    """The store at an address: `postgresql://…`; `sqlite://` and a path, or a path alone; None is the user's own file."""
    if isinstance(address, str):
        if is_postgres(address):
            from .postgres import PostgresStore  # psycopg is an extra, and takes its time to import

            return PostgresStore(address)
        address = sqlite_path(address)
    return SqliteStore(address)
