"""The database schema: numbered migrations, applied in order, all in one transaction.

`PRAGMA user_version` is the number of the last one applied. A file with a higher number is left alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..core.errors import StoreError
from .protocol import NewerSchema

APPLICATION_ID = 0x6D696473  # "mids": tells our files from any other SQLite database


def migrations(package: str = "midstream.store", name: str = "migrations") -> list[tuple[int, str]]:
    """The number and SQL of every migration in a folder of a package of ours, in order."""
    # By path, not importlib.resources: this runs at every start, and that import would cost more than the reading.
    folder = Path(__file__).parents[2].joinpath(*package.split("."), name)
    return sorted([(int(file.name[:4]), file.read_text(encoding="utf-8")) for file in folder.glob("*.sql")])


def migrate(
    db: sqlite3.Connection,
    path: Path,
    steps: Sequence[tuple[int, str]] | None = None,
    application_id: int = APPLICATION_ID,
) -> None:
    """Apply the migrations the database does not have yet (None: those of conversations)."""
    steps = migrations() if steps is None else steps
    newest = steps[-1][0]
    ours = db.execute("PRAGMA application_id").fetchone()[0] == application_id
    if ours and db.execute("PRAGMA user_version").fetchone()[0] == newest:
        return
    # Another process may be migrating at the same time: decide what to do only under the write lock.
    with transaction(db):
        version = _version(db, path, newest, application_id)
        for number, script in steps:
            if number > version:
                for statement in _statements(script):
                    db.execute(statement)
        db.execute(f"PRAGMA application_id = {application_id}")
        db.execute(f"PRAGMA user_version = {newest}")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Hold the write lock: what is done meanwhile is written as a whole, or not at all."""
    # IMMEDIATE takes the write lock at once. A plain BEGIN takes it at the first write, and fails without
    # waiting if another process has written since our first read.
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        # Some errors (a full disk) make SQLite roll back by itself.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _version(db: sqlite3.Connection, path: Path, newest: int, application_id: int) -> int:
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    ours = db.execute("PRAGMA application_id").fetchone()[0] == application_id
    # An empty file is fine, it is what `make_private_file` leaves. Anything else without our mark is somebody's data.
    if not ours and (version or db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]):
        raise StoreError(f"{str(path)!r} is a database of another program; choose another file for midstream")
    if version > newest:
        raise newer_schema(repr(str(path)), version, newest)
    return version


def newer_schema(where: str, version: int, newest: int) -> NewerSchema:
    return NewerSchema(
        f"{where} was written by a newer midstream (schema {version}; this version supports up to {newest}): "
        "upgrade midstream, or use another database"
    )


def _statements(script: str) -> Iterator[str]:
    # `executescript` would commit first; statement by statement, all migrations stay in one transaction.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
