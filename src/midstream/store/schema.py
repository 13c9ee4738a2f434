"""The database schema: numbered migrations, applied in order, all in one transaction.

`PRAGMA user_version` is the number of the last one applied. A file with a higher number is left alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from ..core.errors import StoreError
from .protocol import NewerSchema

APPLICATION_ID = 0x6D696473  # "mids": tells our files from any other SQLite database


def migrations() -> list[tuple[int, str]]:
    """Every migration's number and SQL, in order."""
    folder = files("midstream.store") / "migrations"
    found = [
        (int(file.name[:4]), file.read_text(encoding="utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    ]
    return sorted(found)


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Apply the migrations the database does not have yet."""
    steps = migrations()
    newest = steps[-1][0]
    if _is_ours(db) and db.execute("PRAGMA user_version").fetchone()[0] == newest:
        return
    # Another process may be migrating at the same time: decide what to do only under the write lock.
    with transaction(db):
        version = _version(db, path, newest)
        for number, script in steps:
            if number > version:
                for statement in _statements(script):
                    db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {newest}")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Hold the write lock: what is done meanwhile is written as a whole, or not at all."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _is_ours(db: sqlite3.Connection) -> bool:
    return bool(db.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID)


def _version(db: sqlite3.Connection, path: Path, newest: int) -> int:
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if not _is_ours(db) and (version or db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]):
        raise StoreError(f"{str(path)!r} is a database of another program; choose another file for midstream")
    if version > newest:
        raise NewerSchema(
            f"{str(path)!r} was written by a newer midstream (schema {version}; this version supports up to {newest}): "
            "upgrade midstream, or use another file"
        )
    return version


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
