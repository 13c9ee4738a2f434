"""An SQLite file of midstream's: opened in WAL mode, migrated, and the one place where sqlite3's errors become StoreErrors."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from ..core.errors import StoreError, StoreUnavailable
from .schema import APPLICATION_ID, migrate, migrations

# SQLite's own word for a database without a file; as a Path, so that one type says where a store is.
IN_MEMORY = Path(":memory:")

# What passes by itself, and so is worth another try by the caller.
_UNAVAILABLE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def open_database(
    path: Path,
    *,
    patience: float,
    synchronous: Literal["FULL", "NORMAL"],
    steps: Sequence[tuple[int, str]] | None = None,
    application_id: int = APPLICATION_ID,
) -> sqlite3.Connection:
    """A connection in autocommit mode, its schema up to date. It waits up to `patience` seconds for other writers."""
    with translated(path, patience):
        # `isolation_level=None` turns off the transactions that sqlite3 begins by
        # itself; ours are begun by `transaction`. Connections go between threads,
        # one at a time, which the lock and the pool of the store see to.
        db = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
        try:
            _enter_wal(db, patience)
            # FULL: a commit is on the disk when it returns. NORMAL: it is in the operating system's cache, and so survives
            # the end of the process, but not of the machine.
            db.execute(f"PRAGMA synchronous = {synchronous}")
            db.execute("PRAGMA foreign_keys = ON")
            # A deleted conversation is overwritten, not only unlinked:
            # people delete what they do not want to be found.
            db.execute("PRAGMA secure_delete = ON")
            migrate(db, path, steps, application_id)
        except BaseException:
            db.close()
            raise
        return db


def open_for_reading(path: Path, *, patience: float) -> sqlite3.Connection:
    """A connection to a file that cannot be written to, by us or by anybody. Raises sqlite3's errors.

    A file in WAL mode needs its two companions even to be read, and a read-only medium may have none. Then the file is
    taken as it is (`immutable`), unless there is a log that belongs to it.
    """
    address = path.absolute().as_uri()
    log = Path(f"{path}-wal")
    # `immutable` ignores the log, and with it the latest turns; never where there is one with something in it.
    ways = ["mode=ro"] if log.exists() and log.stat().st_size else ["mode=ro", "immutable=1"]
    for way in ways:
        db = sqlite3.connect(
            f"{address}?{way}", uri=True, timeout=patience, isolation_level=None, check_same_thread=False
        )
        try:
            # `connect` does not touch the file yet; the first statement does.
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            return db
        except sqlite3.OperationalError:
            db.close()
            if way == ways[-1]:
                raise
        except BaseException:
            db.close()
            raise
    raise AssertionError("there is always a last way")


def open_untouched(path: Path) -> sqlite3.Connection:
    """A connection to a database of another program, which may be running: it neither locks nor migrates nor leaves anything
    beside the file. Text that is not valid UTF-8 is read with replacements. Raises sqlite3's errors and OSError."""
    with path.open("rb") as file:
        in_wal_mode = file.read(20)[18:] == b"\x02\x02"
    log = Path(f"{path}-wal")
    # In WAL mode even a reader makes the two companions, and leaves them there if it may not write.
    alone = in_wal_mode and not (log.exists() and log.stat().st_size)
    db = sqlite3.connect(f"{path.absolute().as_uri()}?{'immutable=1' if alone else 'mode=ro'}", uri=True)
    db.row_factory = sqlite3.Row
    db.text_factory = lambda data: data.decode("utf-8", "replace")
    return db


def close_connections(connections: set[sqlite3.Connection]) -> None:
    """Close what an owner left open that was dropped, or was still there at the end of the program."""
    while connections:
        connections.pop().close()


def is_current(db: sqlite3.Connection) -> bool:
    """Whether the schema of conversations is the newest one."""
    ours = db.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID
    return bool(ours and db.execute("PRAGMA user_version").fetchone()[0] == migrations()[-1][0])


def copy_database(path: Path, folder: Path) -> Path:
    """A copy of a file and its log in another folder, where they can be opened and migrated."""
    import shutil  # only for a database that cannot be written: every chat loads this module

    for suffix in ("", "-wal"):
        source = Path(f"{path}{suffix}")
        if source.exists():
            copy = folder / source.name
            shutil.copyfile(source, copy)
            # The copy is as private as the original was meant to be, even if a backup gave that one a wider mode.
            copy.chmod(0o600)
    return folder / path.name


@contextmanager
def translated(path: Path, patience: float) -> Iterator[None]:
    """Raise sqlite3's errors as StoreErrors."""
    try:
        yield
    except sqlite3.Error as error:
        # The low byte is the primary code; the rest tells variants such as SQLITE_BUSY_SNAPSHOT.
        unavailable = getattr(error, "sqlite_errorcode", 0) & 0xFF in _UNAVAILABLE
        kind = StoreUnavailable if unavailable else StoreError
        raise kind(_explain(error, str(path), patience)) from error
    except UnicodeEncodeError as error:
        raise StoreError(f"not valid Unicode (a lone surrogate at {error.start}); nothing was written") from error
    except OverflowError as error:
        raise StoreError(f"a number is too large to store: {error}; nothing was written") from error


def _enter_wal(db: sqlite3.Connection, patience: float) -> None:
    # Unlike other statements, changing the mode does not wait for a lock: two processes may open a new file at once.
    deadline = time.monotonic() + patience
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _explain(error: sqlite3.Error, path: str, patience: float) -> str:
    """What is wrong with the file, and what to do about it."""
    advice = {
        sqlite3.SQLITE_BUSY: f"another process has been writing to the database for {patience:g} s; try again",
        sqlite3.SQLITE_LOCKED: "the database is in use; try again",
        sqlite3.SQLITE_FULL: "the disk is full; free some space and try again, nothing is lost",
        sqlite3.SQLITE_READONLY: "the database is read-only; check its permissions, or choose another with --store or MIDSTREAM_HOME",
        sqlite3.SQLITE_PERM: "no permission to open the database; check its permissions, or choose another with --store or MIDSTREAM_HOME",
        sqlite3.SQLITE_CANTOPEN: "cannot open the database; check its directory and permissions, or choose another with --store or MIDSTREAM_HOME",
        sqlite3.SQLITE_IOERR: "the disk failed; check it, then try again",
        sqlite3.SQLITE_CORRUPT: "the database is damaged; move it away and restore a copy, or try `sqlite3 FILE .recover`",
        sqlite3.SQLITE_NOTADB: "the file is not an SQLite database; move it away, or choose another with --store or MIDSTREAM_HOME",
        sqlite3.SQLITE_TOOBIG: "the record is too large to store; nothing was written",
    }
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return f"{path!r}: {advice.get(code, 'the database reported an error')} ({error})"
