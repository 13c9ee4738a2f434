"""A PostgreSQL server as midstream uses one: its address, its schema, and the one place where psycopg's errors become StoreErrors.

No error repeats the address as it was given, for it may hold a password.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString, cast

from ..core.errors import StoreError, StoreUnavailable
from .schema import newer_schema

try:
    import psycopg as psycopg
    import psycopg_pool as psycopg_pool
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
except ImportError as error:
    raise StoreError(
        f"PostgreSQL needs psycopg, which cannot be imported ({error}): pip install '.[postgres]' in midstream's checkout"
    ) from error

# What a pool has to say about a lost server is said to the caller, as an error; a terminal is not the place for it.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())

_RETRY_AFTER = 0.1

# SQLSTATE codes that pass by themselves: connection lost or refused, the server starting, stopping or full, deadlocks, locks held.
_PASSING_CLASSES = ("08", "40")
_READ_ONLY = "25006"
_PASSING = ("57P01", "57P02", "57P03", "57P05", "53300", "55P03")


class Server:
    """A database on a server. `name` is what errors call it, `read_only` whether it could only be read when it was migrated."""

    def __init__(self, address: str, patience: float) -> None:
        self.patience = patience
        self.read_only = False
        try:
            # libpq's own reading, so that every address works that works with psql.
            parts = conninfo_to_dict(address)
        except psycopg.ProgrammingError:
            raise StoreError(
                "the address of the PostgreSQL database cannot be read: expected postgresql://user@host:5432/database, "
                "special characters in it percent-encoded"
            ) from None
        parts.setdefault("connect_timeout", max(2, round(patience)))  # libpq takes no less than 2
        parts.setdefault("application_name", "midstream")
        self.conninfo = make_conninfo("", **cast("dict[str, Any]", parts))
        where = f"{parts.get('host') or 'localhost'}:{parts.get('port') or 5432}"
        self.name = f"PostgreSQL database {str(parts.get('dbname') or parts.get('user') or 'default')!r} on {where}"

    def migrate(self, schema: LiteralString, steps: Sequence[tuple[int, str]]) -> None:
        """Make the schema, and apply the migrations that it does not have yet; processes that meet here take turns."""
        newest = steps[-1][0]
        with self.translated(), self._connected() as db:
            encoding = db.execute("SHOW server_encoding").fetchone()
            if encoding != ("UTF8",):
                raise StoreError(
                    f"{self.name} must have the encoding UTF8: create it with `createdb -E UTF8 -T template0`"
                )
            # So set, or a replica: nothing can be made there, and nothing has to be if the schema is the newest.
            self.read_only = db.execute("SHOW transaction_read_only").fetchone() == ("on",)
            version = self._version(db, schema)
            if version == newest:
                return
            if self.read_only and version < newest:
                raise StoreError(
                    f"{self.name} is read-only and its tables are {'of an older midstream' if version else 'missing'}: "
                    "open it once with this version where it can be written to, on its primary server"
                )
            with db.transaction():
                # There may be no table to lock yet. The lock goes with
                # the transaction, so that nobody has to release it.
                db.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (schema,))
                # Again, under the lock: another process may have been quicker.
                version = self._version(db, schema)
                if version > newest:
                    raise newer_schema(self.name, version, newest)
                if not version:
                    db.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
                    db.execute(f"CREATE TABLE {schema}.version (version INTEGER NOT NULL)")
                    db.execute(f"INSERT INTO {schema}.version VALUES (0)")
                for number, script in steps:
                    if number > version:
                        db.execute(script.encode())  # as bytes: psycopg takes only literal strings as str
                db.execute(f"UPDATE {schema}.version SET version = %s", (newest,))

    def lost(self, error: psycopg.Error) -> bool:
        """Whether the connection is gone, or the server for now refuses to work: the same may succeed later."""
        state = error.sqlstate
        # No SQLSTATE: the error did not come from the server, so the connection failed.
        if state is None:
            return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return state.startswith(_PASSING_CLASSES) or state in _PASSING

    def unavailable(self, error: BaseException | None = None) -> StoreUnavailable:
        known = error is not None and not isinstance(error, psycopg_pool.PoolTimeout)  # that says only how long it took
        told = f" ({_first_line(error)})" if known else ""
        return StoreUnavailable(
            f"{self.name} did not answer within {self.patience:g} s{told}; try again, and check that it is running"
        )

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raise psycopg's errors as StoreErrors."""
        try:
            yield
        except psycopg.Error as error:
            if self.lost(error):
                raise self.unavailable(error) from error
            if error.sqlstate == _READ_ONLY:
                raise StoreError(
                    f"{self.name} is read-only, so nothing can be stored in it; name its primary server, or another store"
                ) from error
            raise StoreError(f"{self.name}: {_first_line(error)}; nothing was written") from error
        except UnicodeEncodeError as error:
            raise StoreError(f"not valid Unicode (a lone surrogate at {error.start}); nothing was written") from error

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection]:
        deadline = time.monotonic() + self.patience
        while True:
            try:
                db = psycopg.connect(self.conninfo, autocommit=True)
                break
            except psycopg.OperationalError as error:
                # No code comes with a failed connection, so a wrong password looks like a server that is starting.
                if not _worth_waiting(error) or time.monotonic() + _RETRY_AFTER > deadline:
                    raise
                time.sleep(_RETRY_AFTER)
        with db:
            yield db

    def _version(self, db: psycopg.Connection, schema: LiteralString) -> int:
        # Not to_regclass: it may answer from a cache that does not know yet what another process has just made.
        made = db.execute(
            "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'version'", (schema,)
        ).fetchone()
        if made is None:
            return 0
        row = db.execute(f"SELECT version FROM {schema}.version").fetchone()
        return 0 if row is None else int(row[0])


def _worth_waiting(error: psycopg.OperationalError) -> bool:
    """Whether a server may be on its way up: it could not be reached at all, or it said that it is not ready."""
    text = str(error)
    return not any(word in text for word in ("password", "authentication", "does not exist", "pg_hba", "resolve"))


def _first_line(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
