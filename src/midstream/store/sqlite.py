"""The store in one SQLite file, in WAL mode: each append is one transaction, and is on the disk when it returns.

Threads share one connection for writing, behind a lock, and borrow connections for reading. Processes share the file: a writer
waits up to `patience` seconds for another, readers never wait.
A file that cannot be written to, or in a folder that cannot, is opened for reading, and every write is refused.
"""

from __future__ import annotations

import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from msgspec.structs import astuple, replace

from ..core.blocks import Conversation, Turn
from ..core.errors import StoreError
from .database import (
    IN_MEMORY,
    close_connections,
    copy_database,
    is_current,
    open_database,
    open_for_reading,
    translated,
)
from .paths import database_path, is_read_only, make_private_file
from .protocol import (
    ConversationExists,
    ConversationInfo,
    Entry,
    Hit,
    LengthConflict,
    Original,
    UnknownConversation,
)
from .records import (
    assemble,
    bounded,
    decode_models,
    encode_models,
    extended,
    fork_position,
    make_hit,
    make_info,
    make_record,
    turn_record,
)
from .schema import transaction
from .search import Query, indexed, is_unspaced

# More readers may be open at once; only so many are kept for the next.
_IDLE_READERS = 4

_INFO = """
    SELECT c.id, coalesce(m.value, c.title), c.created, c.updated, c.length, c.models, c.parent, c.forked_at
    FROM conversations c LEFT JOIN meta m ON m.conversation = c.seq AND m.key = 'title'
"""


# The inner query stops at the limit before anything is joined; FTS5 can read rowids backwards.
_SEARCH = """
    SELECT t.id, c.id, t.position, coalesce(m.value, c.title), t.turn
    FROM (SELECT rowid AS id FROM search WHERE search MATCH ? ORDER BY rowid DESC LIMIT ?) hit
    JOIN turns t ON t.id = hit.id
    JOIN conversations c ON c.seq = t.conversation
    LEFT JOIN meta m ON m.conversation = c.seq AND m.key = 'title'
    ORDER BY t.id DESC
"""
_SEARCH_CHARACTERS = """
    SELECT t.id, c.id, t.position, coalesce(m.value, c.title), t.turn
    FROM (
        SELECT rowid AS id FROM characters
        WHERE characters MATCH ? AND rowid < ? AND (? = '' OR rowid IN (SELECT rowid FROM search WHERE search MATCH ?))
        ORDER BY rowid DESC LIMIT ?
    ) hit
    JOIN turns t ON t.id = hit.id
    JOIN conversations c ON c.seq = t.conversation
    LEFT JOIN meta m ON m.conversation = c.seq AND m.key = 'title'
    ORDER BY t.id DESC
"""
_SEARCHED_AT_ONCE = 64


class SqliteStore:
    """A Store in a file, by default in the user's data directory."""

    def __init__(
        self, path: Path | str | None = None, *, now: Callable[[], float] = time.time, patience: float = 10.0
    ) -> None:
        self.path = Path(path) if path is not None else database_path()
        self._in_memory = self.path == IN_MEMORY
        self._now = now
        self._patience = patience
        # SQLite has one writer at a time in any case. Waiting here, within the process, is quick and fair;
        # SQLite's own waiting is sleeping and trying again.
        self._write_lock = Lock()
        self._pool_lock = Lock()
        self._idle: list[sqlite3.Connection] = []
        self._watcher: sqlite3.Connection | None = None
        """Opened by `version`, and used for nothing else."""
        self._closed = False
        self._connections: set[sqlite3.Connection] = set()
        """Every open one, borrowed ones too. A store that was never closed loses nothing, but its file must not stay open."""
        weakref.finalize(self, close_connections, self._connections)
        self._read_only_at: Path | None = None
        """Where a file that cannot be written to is read: its own place, or that of a copy that could be migrated."""
        if not self._in_memory and is_read_only(self.path):
            self._read_only_at = self._readable()
        elif not self._in_memory:
            make_private_file(self.path)
        self._writer = self._open()

    @property
    def read_only(self) -> bool:
        """Whether the file can only be read: on a read-only medium, or without the permission to write."""
        return self._read_only_at is not None

    def version(self) -> int:
        """A number that differs after any change, by this process or another. Asking takes microseconds, reading a long
        list again does not."""
        if self._in_memory:
            return self._writer.total_changes
        with self._pool_lock, self._translated():
            self._check_open()
            if self._watcher is None:
                self._watcher = self._open()
            # SQLite counts the commits of all other connections; this one makes none.
            return int(self._watcher.execute("PRAGMA data_version").fetchone()[0])

    def create(self, conversation: Conversation = Conversation(), /) -> str:  # noqa: B008  (a frozen value)
        return self.add(Entry(conversation))

    def add(self, entry: Entry) -> str:
        info, head, turns = make_record(entry, self._now())
        id_, title, created, updated, length, models, parent, forked_at = astuple(info)
        made = [(data, indexed(text)) for data, text in turns]  # before the lock is held
        with self._writing() as db:
            # Under the write lock, so that nobody can add it between the question and the INSERT.
            if db.execute("SELECT 1 FROM conversations WHERE id = ?", (id_,)).fetchone():
                raise ConversationExists(id_)
            seq = db.execute(
                "INSERT INTO conversations (id, head, title, models, length, created, updated, parent, forked_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (id_, head, title, encode_models(models), length, created, updated, parent, forked_at),
            ).lastrowid
            assert seq is not None
            for position, (data, words) in enumerate(made):
                _insert_turn(db, seq, position, data, words)
            db.executemany("INSERT INTO meta VALUES (?, ?, ?)", [(seq, *item) for item in entry.meta.items()])
            if entry.original is not None:
                kept = entry.original
                db.execute("INSERT INTO originals VALUES (?, ?, ?, ?)", (seq, kept.format, kept.name, kept.data))
        return info.id

    def append(self, conversation_id: str, turn: Turn, expected_length: int) -> int:
        data, text = turn_record(turn)
        # Before the lock is taken: encoding and folding a large turn should not hold up other writers.
        words = indexed(text)
        with self._writing() as db:
            seq, length, title, models = self._find(db, conversation_id, "seq, length, title, models")
            if length != expected_length:
                raise LengthConflict(conversation_id, expected_length, length)
            _insert_turn(db, seq, length, data, words)
            title, known = extended(title, decode_models(models), turn)
            db.execute(
                "UPDATE conversations SET length = ?, title = ?, models = ?, updated = ? WHERE seq = ?",
                (length + 1, title, encode_models(known), self._now(), seq),
            )
        return expected_length + 1

    def load(self, conversation_id: str) -> Conversation:
        with self._reading() as db:
            seq, head, length = self._find(db, conversation_id, "seq, head, length")
            rows = _turn_rows(db, seq, length)
        return assemble(conversation_id, head, length, rows)

    def entry(self, conversation_id: str) -> Entry:
        columns = "seq, head, length, created, updated, parent, forked_at"
        with self._reading() as db:
            seq, head, length, created, updated, parent, forked_at = self._find(db, conversation_id, columns)
            rows = _turn_rows(db, seq, length)
            meta = db.execute("SELECT key, value FROM meta WHERE conversation = ? ORDER BY key", (seq,)).fetchall()
            kept = db.execute("SELECT format, data, name FROM originals WHERE conversation = ?", (seq,)).fetchone()
        original = Original(*kept) if kept else None
        conversation = assemble(conversation_id, head, length, rows)
        return Entry(conversation, dict(meta), created, updated, parent, forked_at, original)

    def info(self, conversation_id: str) -> ConversationInfo:
        with self._reading() as db:
            row = db.execute(f"{_INFO} WHERE c.id = ?", (conversation_id,)).fetchone()
        if row is None:
            raise UnknownConversation(conversation_id)
        return make_info(row)

    def list(self, limit: int = 50, offset: int = 0) -> Sequence[ConversationInfo]:
        with self._reading() as db:
            rows = db.execute(
                f"{_INFO} ORDER BY c.updated DESC, c.seq DESC LIMIT ? OFFSET ?", (bounded(limit), bounded(offset))
            ).fetchall()
        return [make_info(row) for row in rows]

    def search(self, query: str, limit: int = 20) -> Sequence[Hit]:
        wanted = Query(query)
        if not wanted:
            return []
        most = bounded(limit)
        with self._reading() as db:
            hits = _look_through(db, wanted, most)
            if len(hits) < most:
                rows = db.execute(_SEARCH, (_match(wanted), most - len(hits))).fetchall()
                hits += [hit for _, *row in rows if (hit := make_hit(wanted, *row)) is not None]
        return hits

    def fork(self, conversation_id: str, at_position: int | None = None) -> str:
        with self._reading() as db:
            seq, head, length = self._find(db, conversation_id, "seq, head, length")
            at = fork_position(conversation_id, at_position, length)
            rows = _turn_rows(db, seq, at)
            meta = dict(db.execute("SELECT key, value FROM meta WHERE conversation = ?", (seq,)).fetchall())
        conversation = assemble(conversation_id, head, at, rows)
        return self.add(Entry(replace(conversation, id=""), meta, parent=conversation_id, forked_at=at))

    def delete(self, conversation_id: str) -> None:
        with self._writing() as db:
            (seq,) = self._find(db, conversation_id, "seq")
            for index in ("search", "characters"):
                db.execute(f"DELETE FROM {index} WHERE rowid IN (SELECT id FROM turns WHERE conversation = ?)", (seq,))
            db.execute("DELETE FROM conversations WHERE seq = ?", (seq,))

    def set_meta(self, conversation_id: str, key: str, value: str | None) -> None:
        with self._writing() as db:
            (seq,) = self._find(db, conversation_id, "seq")
            if value is None:
                db.execute("DELETE FROM meta WHERE conversation = ? AND key = ?", (seq, key))
            else:
                db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (seq, key, value))

    def get_meta(self, conversation_id: str, key: str) -> str | None:
        with self._reading() as db:
            (seq,) = self._find(db, conversation_id, "seq")
            row = db.execute("SELECT value FROM meta WHERE conversation = ? AND key = ?", (seq, key)).fetchone()
        return None if row is None else str(row[0])

    def close(self) -> None:
        """Close the file. Writes in progress finish first; later calls are refused."""
        with self._write_lock, self._pool_lock:
            self._closed = True
            for db in (*self._idle, self._writer, self._watcher):
                if db is not None:
                    db.close()
            self._idle.clear()

    def _find(self, db: sqlite3.Connection, conversation_id: str, columns: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = db.execute(
            f"SELECT {columns} FROM conversations WHERE id = ?", (conversation_id,)
        ).fetchone()
        if row is None:
            raise UnknownConversation(conversation_id)
        return row

    def _readable(self) -> Path:
        """Where this file can be read: as it is, or as a copy, if its log or an older schema does not let it be."""
        with self._translated():
            try:
                with closing(open_for_reading(self.path, patience=self._patience)) as db:
                    if is_current(db):
                        return self.path
            except sqlite3.OperationalError:
                pass  # the copy tells what is wrong with it
        import shutil  # both only for a store that cannot be written
        import tempfile

        folder = tempfile.mkdtemp(prefix="midstream-")
        # Not only in `close`, which is forgotten easily: the copy holds private conversations.
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        try:
            return copy_database(self.path, Path(folder))
        except OSError as error:
            raise StoreError(
                f"cannot read {str(self.path)!r}: {error.strerror}; check its permissions, or choose another with --store"
            ) from error

    def _open(self) -> sqlite3.Connection:
        if self._read_only_at == self.path:
            with self._translated():
                db = open_for_reading(self.path, patience=self._patience)
        elif self._read_only_at is not None:
            db = open_database(self._read_only_at, patience=self._patience, synchronous="NORMAL")
        else:
            db = open_database(self.path, patience=self._patience, synchronous="FULL")
        self._connections.add(db)
        return db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: written to the disk as a whole, or not at all."""
        with self._write_lock, self._translated():
            self._check_open()
            if self.read_only:
                raise StoreError(
                    f"{str(self.path)!r} is read-only, so nothing can be stored in it; copy it to where you can write and "
                    "name the copy with --store or MIDSTREAM_HOME"
                )
            with transaction(self._writer):
                yield self._writer

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A borrowed connection that sees one snapshot of the database."""
        if self._in_memory:  # the one connection is all there is of it
            with self._writing() as only:
                yield only
            return
        with self._pool_lock:
            self._check_open()
            db = self._idle.pop() if self._idle else None
        if db is None:
            db = self._open()
        try:
            with self._translated():
                # A snapshot for several SELECTs: length and turns must be of one moment. Nothing was
                # written, so it ends in ROLLBACK.
                db.execute("BEGIN")
                try:
                    yield db
                finally:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
        finally:
            with self._pool_lock:
                if self._closed or len(self._idle) >= _IDLE_READERS:
                    self._connections.discard(db)
                    db.close()
                else:
                    self._idle.append(db)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("this store is closed; open a new one")

    def _translated(self) -> AbstractContextManager[None]:
        return translated(self.path, self._patience)


class MemoryStore(SqliteStore):
    """A Store that lasts as long as its process, for tests and for chats that are not to be kept."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        super().__init__(IN_MEMORY, now=now)


def _insert_turn(db: sqlite3.Connection, seq: int, position: int, data: bytes, words: tuple[str, str]) -> None:
    turn_id = db.execute(
        "INSERT INTO turns (conversation, position, turn) VALUES (?, ?, ?)", (seq, position, data)
    ).lastrowid
    for index, held in zip(("search", "characters"), words, strict=True):
        if held:
            db.execute(f"INSERT INTO {index} (rowid, words) VALUES (?, ?)", (turn_id, held))


def _turn_rows(db: sqlite3.Connection, seq: int, length: int) -> list[tuple[int, bytes]]:
    return db.execute(
        "SELECT position, turn FROM turns WHERE conversation = ? AND position < ? ORDER BY position", (seq, length)
    ).fetchall()


def _look_through(db: sqlite3.Connection, query: Query, most: int) -> list[Hit]:
    """What a query with words of unspaced scripts finds among the turns that have them in an index of their own.

    They are newer than those that have not. The index does not know where a word stands, so each turn it names is looked at.
    """
    words = [(word, False) for phrase in query.phrases for word in phrase]
    words[-1] = (words[-1][0], True)
    characters = _all_of([each for each in words if is_unspaced(each[0])])
    others = _all_of([each for each in words if not is_unspaced(each[0])])
    hits: list[Hit] = []
    below = 2**63 - 1
    while characters and len(hits) < most:
        rows = db.execute(_SEARCH_CHARACTERS, (characters, below, others, others, _SEARCHED_AT_ONCE)).fetchall()
        hits += [hit for _, *row in rows if (hit := make_hit(query, *row, check=True)) is not None]
        if len(rows) < _SEARCHED_AT_ONCE:
            break
        below = rows[-1][0]
    return hits[:most]


def _all_of(words: Sequence[tuple[str, bool]]) -> str:
    """For FTS5: every word, wherever it stands, and one that is a prefix as one."""
    return " ".join([f"{_quoted(word)}{' *' if prefix else ''}" for word, prefix in words])


def _match(query: Query) -> str:
    """For FTS5: every phrase, and the last word a prefix."""
    return " ".join([_quoted(" ".join(phrase)) for phrase in query.phrases]) + " *"


def _quoted(words: str) -> str:
    """So that nothing in them is syntax."""
    return '"' + words.replace('"', '""') + '"'
