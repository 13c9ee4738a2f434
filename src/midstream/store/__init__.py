"""Where conversations are stored: the Store protocol, a store in memory, a store in SQLite, export and import."""

from .export import read_jsonl, to_jsonl, to_markdown
from .importing import FORMATS, import_file, read_history
from .paths import data_dir, database_path
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
    "UnknownConversation",
    "data_dir",
    "database_path",
    "import_file",
    "read_history",
    "read_jsonl",
    "to_jsonl",
    "to_markdown",
]
