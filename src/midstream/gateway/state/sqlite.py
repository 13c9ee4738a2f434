"""The gateway's state in one SQLite file in WAL mode, or in memory.

Statements run on one thread of their own, so the event loop never waits for a disk. Writes that come while another is under way
are committed together. What is acknowledged survives the end of the process, kill -9 included. The keys, their
revocation and the sealing keys also survive a loss of power; the rest (vault, responses, spend, log) was then in the operating
system's cache and may be missing its last seconds, without harm to the file. Several processes of one machine may share
the file: each write waits up to `patience` seconds for the others.
"""

from __future__ import annotations

import asyncio
import sqlite3
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import astuple

from ...core.errors import StoreError
from ...store.database import IN_MEMORY, close_connections, open_database, translated
from ...store.paths import make_private_file
from ...store.schema import migrations, transaction
from .protocol import (
    PATIENCE,
    RATES_KEPT,
    USAGE_KEPT,
    KeyRecord,
    SealKey,
    UsageRow,
    VaultEntry,
    address,
    loggable,
    stored_key,
)

APPLICATION_ID = 0x6D696467  # "midg": a gateway's file is not a store of conversations
_SWEPT_AT_ONCE = 2000  # rows deleted in one transaction; other writes come between two of them
_LOGGED_IN_MEMORY = (
    10_000  # rows of the usage log; memory has no sweeping by age that could keep up with a busy gateway
)
_USAGE = ", ".join(UsageRow.__struct_fields__)

_T = TypeVar("_T")


class _Job(NamedTuple):
    """A call on its way to the thread. `durable`: on the disk, not only in the operating system's cache, when it is done."""

    work: Callable[[sqlite3.Connection], Any]
    done: asyncio.Future[Any]
    writes: bool
    durable: bool


_Outcome = tuple[_Job, Any, Exception | None]


class SqliteState:
    """A GatewayState in a file; with None, in memory."""

    def __init__(self, path: Path | None, *, patience: float = PATIENCE) -> None:
        self.path = IN_MEMORY if path is None else path
        self._patience = patience
        self._db: sqlite3.Connection | None = None
        self._opened: set[sqlite3.Connection] = set()
        weakref.finalize(self, close_connections, self._opened)  # a state that was dropped keeps no file open
        # Memory is fast enough for the event loop: a thread would cost more than the statement.
        self._thread = None if path is None else ThreadPoolExecutor(1, "midstream-state")
        self._waiting: list[_Job] = []
        # At most one batch is on the thread; all that comes meanwhile becomes the next, and shares one commit.
        self._batch: asyncio.Future[list[_Outcome]] | None = None

    async def open(self) -> None:
        if self._thread is None:
            self._open()
        else:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._open)

    async def close(self) -> None:
        while self._batch is not None:
            await asyncio.wait([self._batch])
        self._db = None
        thread, self._thread = self._thread, None
        if thread is None:
            self._close()
        else:
            # On the thread, behind an `open` that its caller has given up.
            await asyncio.get_running_loop().run_in_executor(thread, self._close)
            thread.shutdown()

    async def ping(self) -> None:
        await self._read(lambda db: db.execute("SELECT 1").fetchone())

    async def add_key(self, key: KeyRecord) -> None:
        def work(db: sqlite3.Connection) -> None:
            db.execute(
                "INSERT INTO keys (id, digest, record, revoked) VALUES (?, ?, ?, ?)",
                (key.id, key.digest, msgspec.json.encode(key), key.revoked),
            )

        await self._write(work, durable=True)

    async def key_by_digest(self, digest: bytes) -> KeyRecord | None:
        row = await self._read(
            lambda db: db.execute("SELECT record, revoked FROM keys WHERE digest = ?", (digest,)).fetchone()
        )
        return None if row is None else stored_key(*row)

    async def keys(self) -> list[KeyRecord]:
        rows = await self._read(lambda db: db.execute("SELECT record, revoked FROM keys ORDER BY seq").fetchall())
        return [stored_key(*row) for row in rows]

    async def revoke_key(self, id: str, when: float) -> bool:
        return await self._write(
            lambda db: (
                db.execute("UPDATE keys SET revoked = ? WHERE id = ? AND revoked IS NULL", (when, id)).rowcount > 0
            ),
            durable=True,
        )

    async def seal_keys(self) -> list[SealKey]:
        rows = await self._read(
            lambda db: db.execute("SELECT id, secret, created, retired FROM seal_keys ORDER BY seq DESC").fetchall()
        )
        return [SealKey(*row) for row in rows]

    async def add_seal_key(self, key: SealKey) -> None:
        def work(db: sqlite3.Connection) -> None:
            if key.retired is None:
                db.execute("UPDATE seal_keys SET retired = ? WHERE retired IS NULL", (key.created,))
            db.execute(
                "INSERT INTO seal_keys (id, secret, created, retired) VALUES (?, ?, ?, ?)",
                (key.id, key.secret, key.created, key.retired),
            )

        await self._write(work, durable=True)

    async def delete_seal_keys(self, before: float) -> int:
        return await self._write(
            lambda db: db.execute("DELETE FROM seal_keys WHERE retired < ?", (before,)).rowcount, durable=True
        )

    async def put_vault(self, tenant: str, entries: Sequence[VaultEntry], expires: float) -> None:
        rows = [(address(tenant, entry.call_id), expires, entry.thinking) for entry in entries]
        statement = (
            "INSERT INTO vault (address, expires, thinking) VALUES (?, ?, ?)"
            " ON CONFLICT (address) DO UPDATE SET expires = excluded.expires, thinking = excluded.thinking"
        )
        await self._write(partial(_insert, statement, rows))

    async def get_vault(self, tenant: str, call_ids: Sequence[str], now: float) -> dict[str, bytes]:
        wanted = {address(tenant, call_id): call_id for call_id in call_ids}

        def work(db: sqlite3.Connection) -> dict[str, bytes]:
            found: dict[str, bytes] = {}
            # One less, for `now`.
            for some in _sliced(list(wanted), db.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) - 1):
                marks = ", ".join("?" * len(some))
                rows = db.execute(
                    f"SELECT address, thinking FROM vault WHERE expires > ? AND address IN ({marks})", (now, *some)
                )
                found.update((wanted[place], thinking) for place, thinking in rows)
            return found

        return await self._read(work) if wanted else {}

    async def put_response(self, tenant: str, id: str, record: bytes, expires: float) -> None:
        row = (address(tenant, id), expires, record)
        statement = (
            "INSERT INTO responses (address, expires, record) VALUES (?, ?, ?)"
            " ON CONFLICT (address) DO UPDATE SET expires = excluded.expires, record = excluded.record"
        )
        await self._write(partial(_insert, statement, [row]))

    async def get_response(self, tenant: str, id: str, now: float) -> bytes | None:
        row = await self._read(
            lambda db: db.execute(
                "SELECT record FROM responses WHERE address = ? AND expires > ?", (address(tenant, id), now)
            ).fetchone()
        )
        return None if row is None else row[0]

    async def delete_response(self, tenant: str, id: str) -> bool:
        place = address(tenant, id)
        return await self._write(
            lambda db: db.execute("DELETE FROM responses WHERE address = ?", (place,)).rowcount > 0
        )

    async def add_spend(self, amounts: Mapping[tuple[str, str], int]) -> None:
        rows = [(*which, amount) for which, amount in amounts.items()]
        statement = (
            "INSERT INTO spend VALUES (?, ?, ?)"
            " ON CONFLICT (key_id, window) DO UPDATE SET amount = amount + excluded.amount"
        )
        await self._write(partial(_insert, statement, rows))

    async def spend(self, key_id: str, window: str) -> int:
        row = await self._read(
            lambda db: db.execute(
                "SELECT amount FROM spend WHERE key_id = ? AND window = ?", (key_id, window)
            ).fetchone()
        )
        return 0 if row is None else row[0]

    async def take_rate(self, key_id: str, minute: int, count: int) -> int:
        row = await self._write(
            lambda db: db.execute(
                "INSERT INTO rates VALUES (?, ?, ?)"
                " ON CONFLICT (key_id, minute) DO UPDATE SET count = count + excluded.count RETURNING count",
                (key_id, minute, count),
            ).fetchone()
        )
        return int(row[0])

    async def log_usage(self, rows: Sequence[UsageRow]) -> None:
        values = [*map(astuple, loggable(rows))]
        marks = ", ".join("?" * len(UsageRow.__struct_fields__))

        def work(db: sqlite3.Connection) -> None:
            db.executemany(f"INSERT INTO usage ({_USAGE}) VALUES ({marks})", values)
            if self.path == IN_MEMORY:
                db.execute("DELETE FROM usage WHERE seq <= (SELECT max(seq) FROM usage) - ?", (_LOGGED_IN_MEMORY,))

        await self._write(work)

    async def usage(self, since: float = 0.0, limit: int = 1000) -> list[UsageRow]:
        rows = await self._read(
            lambda db: db.execute(
                f"SELECT {_USAGE} FROM usage WHERE time >= ? ORDER BY time, seq LIMIT ?", (since, limit)
            ).fetchall()
        )
        return [UsageRow(*row) for row in rows]

    async def sweep(self, now: float) -> None:
        for table, row_id, column, bound in (
            ("vault", "seq", "expires", now),
            ("responses", "seq", "expires", now),
            ("usage", "seq", "time", now - USAGE_KEPT),
            ("rates", "(key_id, minute)", "minute", now // 60 - RATES_KEPT),
        ):
            columns = row_id.strip("()")
            statement = (
                f"DELETE FROM {table} WHERE {row_id} IN"
                f" (SELECT {columns} FROM {table} WHERE {column} <= ? LIMIT {_SWEPT_AT_ONCE})"
            )
            # A full slice means that there may be more.
            while await self._write(partial(_delete, statement, bound)) == _SWEPT_AT_ONCE:
                pass

    def _open(self) -> None:
        if self.path != IN_MEMORY:
            make_private_file(self.path)
        steps = migrations("midstream.gateway.state")
        self._db = open_database(
            self.path,
            patience=self._patience,
            synchronous="NORMAL",
            steps=steps,
            application_id=APPLICATION_ID,
        )
        self._opened.add(self._db)

    def _close(self) -> None:
        self._db = None
        close_connections(self._opened)

    async def _read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        return await self._submit(work, writes=False, durable=False)

    async def _write(self, work: Callable[[sqlite3.Connection], _T], *, durable: bool = False) -> _T:
        return await self._submit(work, writes=True, durable=durable)

    async def _submit(self, work: Callable[[sqlite3.Connection], _T], *, writes: bool, durable: bool) -> _T:
        if self._db is None:
            raise StoreError("this state is closed, or was never opened; call open() first")
        done: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        job = _Job(work, done, writes, durable)
        if self._thread is None:
            _settle(_run([job], self._db, self.path, self._patience))
        else:
            self._waiting.append(job)
            if self._batch is None:
                self._start()
        return await done

    def _start(self) -> None:
        """Send the thread everything that waits. When it is done, what came meanwhile is next."""
        assert self._db is not None
        jobs, self._waiting = self._waiting, []
        running = asyncio.get_running_loop().run_in_executor(
            self._thread, _run, jobs, self._db, self.path, self._patience
        )

        def finished(future: asyncio.Future[list[_Outcome]]) -> None:
            self._batch = None
            if self._waiting:
                self._start()
            if not future.cancelled():
                _settle(future.result())

        running.add_done_callback(finished)
        self._batch = running


def _run(jobs: list[_Job], db: sqlite3.Connection, path: Path, patience: float) -> list[_Outcome]:
    """Do the writes in one transaction, then the reads, and give each job's result or error."""
    writes = [job for job in jobs if job.writes]
    results: list[_Outcome] = []
    if writes:
        try:
            with translated(path, patience):
                if any(job.durable for job in writes):
                    # For the whole batch if one job asks for it: it is one transaction.
                    # Back to NORMAL afterwards, since it costs a disk flush.
                    db.execute("PRAGMA synchronous = FULL")
                try:
                    with transaction(db):
                        results = [(job, *_attempt(job, db, path, patience)) for job in writes]
                finally:
                    if any(job.durable for job in writes):
                        db.execute("PRAGMA synchronous = NORMAL")
        except Exception as error:  # the transaction as a whole: nobody's write was done
            results = [(job, None, _bare(error)) for job in writes]
    for job in jobs:
        if not job.writes:
            try:
                with translated(path, patience):
                    results.append((job, _value(job.work(db)), None))
            except Exception as error:  # it is raised again where the job was asked for
                results.append((job, None, _bare(error)))
    return results


def _attempt(job: _Job, db: sqlite3.Connection, path: Path, patience: float) -> tuple[Any, Exception | None]:
    """One of several writes that share a transaction: if it fails, the others are still done."""
    # So that one bad write (a duplicate key) does not undo those that share its transaction.
    db.execute("SAVEPOINT job")
    try:
        with translated(path, patience):
            result = _value(job.work(db))
    except Exception as error:
        if not db.in_transaction:  # the whole transaction is gone (a full disk): nobody's write was done
            raise
        db.execute("ROLLBACK TO job")
        db.execute("RELEASE job")
        return None, _bare(error)
    db.execute("RELEASE job")
    return result, None


def _value(result: Any) -> Any:
    # A cursor that ends on another thread resets a statement that this one may just be executing.
    assert not isinstance(result, sqlite3.Cursor), "a cursor must not leave the thread of its connection"
    return result


def _bare(error: Exception) -> Exception:
    """The error without the frames it came through: they hold cursors (see _value)."""
    for each in (error, error.__cause__):
        if isinstance(each, StoreError | sqlite3.Error):
            each.__traceback__ = None
    return error


def _settle(results: list[_Outcome]) -> None:
    for job, result, error in results:
        if job.done.done():  # its caller was cancelled
            continue
        if error is None:
            job.done.set_result(result)
        else:
            job.done.set_exception(error)


def _insert(statement: str, rows: list[tuple[Any, ...]], db: sqlite3.Connection) -> None:
    db.executemany(statement, rows)


def _delete(statement: str, bound: float, db: sqlite3.Connection) -> int:
    return db.execute(statement, (bound,)).rowcount


def _sliced(places: list[bytes], size: int) -> Iterator[list[bytes]]:
    for start in range(0, len(places), size):
        yield places[start : start + size]
