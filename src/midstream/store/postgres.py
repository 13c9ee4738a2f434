"""The store in a PostgreSQL database, for conversations that several hosts share; in a schema of its own, `midstream`.

Each append is one transaction, and is committed when it returns. When the connection is lost, a call connects again and tries again
for up to `patience` seconds, then raises StoreUnavailable. Should it have been lost in the middle of a commit, the
rows tell by their token whether the call had already been done: no turn is stored twice. A reader sees one snapshot.
"""

from __future__ import annotations

import re
import time
import uuid
import weakref
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, LiteralString, TypeVar

from msgspec.structs import astuple, replace

from ..core.blocks import Conversation, Turn
from ..core.errors import StoreError
from .postgres_server import Server, psycopg, psycopg_pool
from .protocol import (
    ConversationExists,
    ConversationInfo,
    Entry,
    Hit,
    LengthConflict,
    Original,
    StoreUnavailable,
    UnknownConversation,
)
from .records import (
    assemble,
    bounded,
    checked_text,
    decode_models,
    encode_models,
    extended,
    fork_position,
    make_hit,
    make_info,
    make_record,
    turn_record,
)
from .schema import migrations
from .search import GAP, Query, indexed

# Few: each call holds a connection for some milliseconds, and a server's connections
# are shared with other programs. `_RETRY_AFTER` and `_ASK_AGAIN` divide the patience
# of one call; `_SEARCHED_AT_ONCE` bounds the rows of one step of a search.
_CONNECTIONS = 4
_RETRY_AFTER = 0.05
_ASK_AGAIN = 0.5
_SEARCHED_AT_ONCE = 256

# A lexeme has less than 2 KB, a tsvector less than 1 MB. Of longer words the beginning is indexed.
_LONGEST_WORD = 100
_MOST_WORDS = 900_000

# A writer locks its conversation's row and must then see what the one before it has committed; a snapshot
# would show the state from before the lock. A reader wants the opposite: turns and length from one moment.
_WRITE: LiteralString = "BEGIN ISOLATION LEVEL READ COMMITTED"
_READ: LiteralString = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

_INFO: LiteralString = """
    SELECT c.id, coalesce(m.value, c.title), c.created, c.updated, c.length, c.models, c.parent, c.forked_at
    FROM midstream.conversations c LEFT JOIN midstream.meta m ON m.conversation = c.seq AND m.key_digest = %(title)s
"""

_Connection = psycopg.Connection[tuple[Any, ...]]
_T = TypeVar("_T")


class PostgresStore:
    """A Store in a PostgreSQL database: `PostgresStore("postgresql://user@host/database")`."""

    def __init__(self, address: str, *, now: Callable[[], float] = time.time, patience: float = 5.0) -> None:
        self._now = now
        self._patience = patience
        self._server = Server(address, patience)
        self._server.migrate("midstream", migrations(name="migrations_postgres"))
        self._closed = False
        self._pool = psycopg_pool.ConnectionPool(
            self._server.conninfo,
            kwargs={"autocommit": True},  # transactions are begun and ended below, by statements
            min_size=1,
            max_size=_CONNECTIONS,
            num_workers=1,
            # The pool doubles its pauses between attempts to connect; one that has given up is begun anew by the next call.
            reconnect_timeout=1.0,
            open=True,
            name="midstream-store",
        )
        weakref.finalize(self, self._pool.close, 1.0)  # a store that was dropped keeps no connection and no thread

    @property
    def read_only(self) -> bool:
        """Whether the server only let itself be read when the store was opened: a replica, or set so."""
        return self._server.read_only

    def create(self, conversation: Conversation = Conversation(), /) -> str:  # noqa: B008  (a frozen value)
        return self.add(Entry(conversation))

    def add(self, entry: Entry) -> str:
        info, head, turns = make_record(entry, self._now())
        _, title, created, updated, length, models, parent, forked_at = astuple(info)
        id_ = info.id
        # Made outside `work`, which may run twice: the same token
        # on a second run is how a finished first one is recognized.
        token = uuid.uuid4()

        def work(db: _Connection, again: bool) -> str:
            digest = _digest(id_)
            seq = _one(
                db,
                """
                INSERT INTO midstream.conversations
                    (id, id_digest, token, head, title, models, length, created, updated, parent, forked_at)
                VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
                ON CONFLICT (id_digest) DO NOTHING RETURNING seq
                """,
                (
                    _escaped(id_), digest, token, head, _escaped(title), encode_models(models), length, created, updated,
                    None if parent is None else _escaped(parent), forked_at,
                ),
            )  # fmt: skip
            if seq is None:
                ours: LiteralString = "SELECT 1 FROM midstream.conversations WHERE id_digest = %s AND token = %s"
                if again and _one(db, ours, (digest, token)):
                    return id_
                raise ConversationExists(id_)
            _insert_turns(db, seq[0], 0, token, turns)
            for key, value in entry.meta.items():
                _insert_meta(db, seq[0], key, value)
            if entry.original is not None:
                kept = entry.original
                db.execute(
                    "INSERT INTO midstream.originals VALUES (%s, %s, %s, %s)",
                    (seq[0], _escaped(kept.format), _escaped(kept.name), kept.data),
                )
            return id_

        return self._run(_WRITE, work)

    def append(self, conversation_id: str, turn: Turn, expected_length: int) -> int:
        record = turn_record(turn)
        token = uuid.uuid4()

        def work(db: _Connection, again: bool) -> int:
            # The row lock makes appends to one conversation take turns; others are not held up.
            seq, length, title, models = _find(db, conversation_id, "seq, length, title, models", "FOR UPDATE")
            if length != expected_length:
                ours: LiteralString = (
                    "SELECT 1 FROM midstream.turns WHERE conversation = %s AND position = %s AND token = %s"
                )
                if again and _one(db, ours, (seq, expected_length, token)):
                    return expected_length + 1
                raise LengthConflict(conversation_id, expected_length, length)
            _insert_turns(db, seq, length, token, [record])
            title, known = extended(_unescaped(title), decode_models(models), turn)
            db.execute(
                "UPDATE midstream.conversations SET length = %s, title = %s, models = %s, updated = %s WHERE seq = %s",
                (length + 1, _escaped(title), encode_models(known), self._now(), seq),
            )
            return expected_length + 1

        return self._run(_WRITE, work)

    def load(self, conversation_id: str) -> Conversation:
        def work(db: _Connection, again: bool) -> tuple[bytes, int, list[tuple[Any, ...]]]:
            seq, head, length = _find(db, conversation_id, "seq, head, length")
            return head, length, _turn_rows(db, seq, length)

        return assemble(conversation_id, *self._run(_READ, work))

    def entry(self, conversation_id: str) -> Entry:
        columns: LiteralString = "seq, head, length, created, updated, parent, forked_at"

        def work(db: _Connection, again: bool) -> tuple[Any, ...]:
            found = _find(db, conversation_id, columns)
            seq, _, length, *_ = found
            kept = _one(db, "SELECT format, data, name FROM midstream.originals WHERE conversation = %s", (seq,))
            return *found, _turn_rows(db, seq, length), _meta(db, seq), kept

        _, head, length, created, updated, parent, forked_at, rows, meta, kept = self._run(_READ, work)
        original = Original(_unescaped(kept[0]), kept[1], _unescaped(kept[2])) if kept else None
        conversation = assemble(conversation_id, head, length, rows)
        parent = None if parent is None else _unescaped(parent)
        return Entry(conversation, dict(sorted(meta.items())), created, updated, parent, forked_at, original)

    def info(self, conversation_id: str) -> ConversationInfo:
        def work(db: _Connection, again: bool) -> tuple[Any, ...] | None:
            values = {"title": _digest("title"), "id": _digest(conversation_id)}
            return _one(db, f"{_INFO} WHERE c.id_digest = %(id)s", values)

        row = self._run(_READ, work)
        if row is None:
            raise UnknownConversation(conversation_id)
        return _info(row)

    def list(self, limit: int = 50, offset: int = 0) -> Sequence[ConversationInfo]:
        values = {"title": _digest("title"), "limit": bounded(limit), "offset": bounded(offset)}
        ordered: LiteralString = f"{_INFO} ORDER BY c.updated DESC, c.seq DESC LIMIT %(limit)s OFFSET %(offset)s"
        rows = self._run(_READ, lambda db, again: db.execute(ordered, values, binary=True).fetchall())
        return [_info(row) for row in rows]

    def search(self, query: str, limit: int = 20) -> Sequence[Hit]:
        wanted = Query(query)
        most = bounded(limit)
        if not wanted or not most:
            return []

        def work(db: _Connection, again: bool) -> Sequence[Hit]:
            hits: list[Hit] = []
            values = {"words": _tsquery(wanted), "title": _digest("title")}
            at_once = min(most, _SEARCHED_AT_ONCE)
            # The index knows words, not their order, so each row is checked here; the search goes on below
            # the last id until enough match.
            below = 2**63 - 1
            while True:
                rows = db.execute(_SEARCH, {**values, "slice": at_once, "below": below}, binary=True).fetchall()
                for turn_id, id_, position, title, data in rows:
                    below = turn_id
                    hit = make_hit(wanted, _unescaped(id_), position, _unescaped(title), data, check=True)
                    if hit is not None:
                        hits.append(hit)
                        if len(hits) == most:
                            return hits
                if len(rows) < at_once:
                    return hits

        return self._run(_READ, work)

    def fork(self, conversation_id: str, at_position: int | None = None) -> str:
        def work(db: _Connection, again: bool) -> tuple[int, bytes, list[tuple[Any, ...]], dict[str, str]]:
            seq, head, length = _find(db, conversation_id, "seq, head, length")
            at = fork_position(conversation_id, at_position, length)
            return at, head, _turn_rows(db, seq, at), _meta(db, seq)

        at, head, rows, meta = self._run(_READ, work)
        conversation = assemble(conversation_id, head, at, rows)
        return self.add(Entry(replace(conversation, id=""), meta, parent=conversation_id, forked_at=at))

    def delete(self, conversation_id: str) -> None:
        def work(db: _Connection, again: bool) -> None:
            gone: LiteralString = "DELETE FROM midstream.conversations WHERE id_digest = %s RETURNING 1"
            # On a second run its absence is most likely our own doing.
            if _one(db, gone, (_digest(conversation_id),)) is None and not again:
                raise UnknownConversation(conversation_id)

        self._run(_WRITE, work)

    def set_meta(self, conversation_id: str, key: str, value: str | None) -> None:
        checked_text(key, "a setting")
        checked_text(value or "", f"the setting {key!r}")

        def work(db: _Connection, again: bool) -> None:
            # The weakest lock that keeps the conversation from being deleted in between; appends go on beside it.
            (seq,) = _find(db, conversation_id, "seq", "FOR KEY SHARE")
            if value is None:
                db.execute(
                    "DELETE FROM midstream.meta WHERE conversation = %s AND key_digest = %s", (seq, _digest(key))
                )
            else:
                _insert_meta(db, seq, key, value)

        self._run(_WRITE, work)

    def get_meta(self, conversation_id: str, key: str) -> str | None:
        def work(db: _Connection, again: bool) -> tuple[Any, ...] | None:
            (seq,) = _find(db, conversation_id, "seq")
            chosen: LiteralString = "SELECT value FROM midstream.meta WHERE conversation = %s AND key_digest = %s"
            return _one(db, chosen, (seq, _digest(key)))

        row = self._run(_READ, work)
        return None if row is None else _unescaped(row[0])

    def close(self) -> None:
        """Close the connections. Calls in progress finish; later ones are refused."""
        self._closed = True
        self._pool.close()

    def _run(self, begin: LiteralString, work: Callable[[_Connection, bool], _T]) -> _T:
        """Do the work in one transaction. It is told whether it may have been done before, by a connection that was lost."""
        deadline = time.monotonic() + self._patience
        again = False
        while True:
            if self._closed:
                raise StoreError("this store is closed; open a new one")
            # A short wait, then another: it is the asking that makes the pool connect again.
            wait = max(0.01, min(deadline - time.monotonic(), _ASK_AGAIN))
            try:
                with self._server.translated(), self._pool.connection(timeout=wait) as db:
                    # Set before the work, not after: from here on it may have been done even if we do not hear of it.
                    before, again = again, True
                    # Nobody holds a lock for long; one who has frozen in the middle must not stop everybody.
                    db.execute(f"{begin}; SET LOCAL lock_timeout = {round(self._patience * 1000)}".encode())
                    result = work(db, before)
                    db.execute("COMMIT")
                    return result
            except StoreUnavailable:
                if time.monotonic() + _RETRY_AFTER > deadline:
                    raise
            time.sleep(_RETRY_AFTER)


_SEARCH: LiteralString = """
    SELECT hit.id, c.id, hit.position, coalesce(m.value, c.title), hit.turn
    FROM (
        SELECT id, conversation, position, turn FROM midstream.turns
        WHERE (words @@ %(words)s::tsquery OR words IS NULL) AND id < %(below)s
        ORDER BY id DESC LIMIT %(slice)s
    ) hit
    JOIN midstream.conversations c ON c.seq = hit.conversation
    LEFT JOIN midstream.meta m ON m.conversation = c.seq AND m.key_digest = %(title)s
    ORDER BY hit.id DESC
"""


def _one(db: _Connection, statement: LiteralString, values: Any) -> tuple[Any, ...] | None:
    return db.execute(statement, values, binary=True).fetchone()


def _find(db: _Connection, conversation_id: str, columns: LiteralString, lock: LiteralString = "") -> tuple[Any, ...]:
    statement: LiteralString = f"SELECT {columns} FROM midstream.conversations WHERE id_digest = %s {lock}"
    row = _one(db, statement, (_digest(conversation_id),))
    if row is None:
        raise UnknownConversation(conversation_id)
    return row


def _turn_rows(db: _Connection, seq: int, length: int) -> list[tuple[Any, ...]]:
    statement: LiteralString = (
        "SELECT position, turn FROM midstream.turns WHERE conversation = %s AND position < %s ORDER BY position"
    )
    return db.execute(statement, (seq, length), binary=True).fetchall()


def _meta(db: _Connection, seq: int) -> dict[str, str]:
    rows = db.execute("SELECT key, value FROM midstream.meta WHERE conversation = %s", (seq,), binary=True)
    return {_unescaped(key): _unescaped(value) for key, value in rows}


def _insert_turns(
    db: _Connection, seq: int, position: int, token: uuid.UUID, turns: Sequence[tuple[bytes, str]]
) -> None:
    if turns:
        db.execute(
            """
            INSERT INTO midstream.turns (conversation, position, token, turn, words)
            SELECT %s, %s + number - 1, %s, turn, words::tsvector
            FROM unnest(%s::bytea[], %s::text[]) WITH ORDINALITY AS new (turn, words, number) ORDER BY number
            """,
            (seq, position, token, [data for data, _ in turns], [_tsvector(text) for _, text in turns]),
        )


def _insert_meta(db: _Connection, seq: int, key: str, value: str) -> None:
    db.execute(
        """
        INSERT INTO midstream.meta (conversation, key, key_digest, value) VALUES (%s, %s, %s, %s)
        ON CONFLICT (conversation, key_digest) DO UPDATE SET value = excluded.value
        """,
        (seq, _escaped(key), _digest(key), _escaped(value)),
    )


def _info(row: tuple[Any, ...]) -> ConversationInfo:
    id_, title, created, updated, length, models, parent, forked_at = row
    parent = None if parent is None else _unescaped(parent)
    return make_info((_unescaped(id_), _unescaped(title), created, updated, length, models, parent, forked_at))


# Ids and keys are found by digest: an entry of an index is
# limited to some kilobytes, and an imported id may be longer.
def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


def _escaped(text: str) -> str:
    r"""The text without NUL, which PostgreSQL cannot hold: it becomes `\0`, and a backslash two."""
    return text.replace("\\", "\\\\").replace("\0", "\\0") if "\\" in text or "\0" in text else text


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda pair: "\0" if pair[1] == "0" else pair[1], text) if "\\" in text else text


def _tsvector(text: str) -> str | None:
    """The words of a text as a tsvector; None if there are too many for one."""
    # Without positions: phrases are checked on the text itself, and positions would reach the size limit far sooner.
    words = " ".join({_lexeme(word) for part in indexed(text) for word in set(part.split()) if word != GAP})
    return words if len(words.encode()) < _MOST_WORDS else None


def _tsquery(query: Query) -> str:
    """What the index is asked for: every word of the query, the last one as a prefix."""
    return " & ".join([_lexeme(word) for phrase in query.phrases for word in phrase]) + ":*"


def _lexeme(word: str) -> str:
    # Quoted as the input syntax of tsvector and tsquery wants it, so that no word is taken for an operator.
    return "'" + word[:_LONGEST_WORD].replace("\\", "\\\\").replace("'", "''") + "'"
