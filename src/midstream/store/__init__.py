"""Where conversations are stored: the Store protocol, stores in memory, SQLite and PostgreSQL, export and import."""

from __future__ import annotations

from pathlib import Path

from .export import read_jsonl, to_jsonl, to_markdown
from .importing import FORMATS, import_file, read_history
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


def open_store(address: str | Path | None = None) -> Store:
    """The store at an address: `postgresql://…`; `sqlite://` and a path, or a path alone; None is the user's own file."""
    if isinstance(address, str):
        if is_postgres(address):
            from .postgres import PostgresStore  # psycopg is an extra, and takes its time to import

            return PostgresStore(address)
        address = sqlite_path(address)
    return SqliteStore(address)
