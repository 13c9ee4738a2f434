"""The gateway's state in PostgreSQL, for any number of processes and hosts.

What is acknowledged is committed, and survives what the server's own settings say a commit survives. When the connection is lost,
a call connects again and tries again for up to `patience` seconds, then raises StoreUnavailable. A write that may have
been committed as the connection broke is not done twice: it either has the same effect the second time, or carries a token
that the database remembers (`take_rate` alone may then count twice, to the strict side).
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Generic, LiteralString, TypeVar

import msgspec

from ...core.errors import StoreError, StoreUnavailable
from ...store.postgres_server import Server, psycopg_pool
from ...store.schema import migrations
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

_CONNECTIONS = 8  # of one process; a server takes 100 from all by default
_RETRY_AFTER = 0.05
_ASK_AGAIN = 0.5
_SWEPT_AT_ONCE = 2000

_USAGE: LiteralString = "time, tenant, key_id, model, provider, wire, status, input, output, cache_read, cache_write, cost, latency_ms, ttft_ms"

_Rows = list[tuple[Any, ...]]
_In = TypeVar("_In")
_Out = TypeVar("_Out")


class _Together(Generic[_In, _Out]):
    """Calls that come while another is under way, done by one statement: what each adds goes into one dict, which costs this
    process a fraction of a statement for each."""

    def __init__(self, work: Callable[[dict[bytes, _In]], Coroutine[Any, Any, dict[bytes, _Out]]]) -> None:
        self._work = work
        # A later write to the same address replaces an earlier one
        # that still waits; both callers are told when it is done.
        self._waiting: dict[bytes, _In] = {}
        self._next: asyncio.Future[dict[bytes, _Out]] | None = None
        self.task: asyncio.Task[None] | None = None

    async def join(self, items: dict[bytes, _In]) -> dict[bytes, _Out]:
        """The result of the statement that has these items among others."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        self._waiting.update(items)
        mine = self._next
        if self.task is None:
            self.task = asyncio.create_task(self._run())
        return await asyncio.shield(mine)  # one caller that is cancelled does not cancel the others

    async def _run(self) -> None:
        try:
            # What came during a statement is the next statement: under
            # load they grow, without any waiting when there is none.
            while self._next is not None:
                items, done = self._waiting, self._next
                self._waiting, self._next = {}, None
                try:
                    done.set_result(await self._work(items))
                except Exception as error:  # raised again wherever one of these items is awaited
                    done.set_exception(error)
                    done.exception()  # seen, even if every caller has left
        finally:
            self.task = None


class PostgresState:
    """A GatewayState in a PostgreSQL database, in a schema of its own: `midstream_gateway`."""

    def __init__(self, url: str, *, patience: float = PATIENCE, connections: int = _CONNECTIONS) -> None:
        self._server = Server(url, patience)
        self._patience = patience
        self._connections = connections
        self._pool: psycopg_pool.AsyncConnectionPool | None = None
        self._running: set[asyncio.Future[_Rows]] = set()
        self._vault_puts = _Together(partial(self._put, _PUT_VAULT))
        self._vault_gets = _Together(self._get_vault)
        self._response_puts = _Together(partial(self._put, _PUT_RESPONSES))

    async def open(self) -> None:
        steps = migrations("midstream.gateway.state", "migrations_postgres")
        await asyncio.to_thread(self._server.migrate, "midstream_gateway", steps)
        pool = psycopg_pool.AsyncConnectionPool(
            self._server.conninfo,
            kwargs={"autocommit": True},
            min_size=1,
            max_size=self._connections,
            # An attempt to connect that goes on for longer would sleep for longer than anybody waits for it: the pool doubles
            # its pauses. One that has given up is begun anew by the next call.
            reconnect_timeout=1.0,
            open=False,
            name="midstream-state",
        )
        self._pool = pool  # first, so that `close` ends one that its caller has given up
        await pool.open()

    async def close(self) -> None:
        # Statements under way may be writes that were acknowledged to nobody yet; they get their time.
        deadline = time.monotonic() + self._patience
        while (busy := self._busy()) and (left := deadline - time.monotonic()) > 0:
            await asyncio.wait(busy, timeout=left)
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    def _busy(self) -> list[asyncio.Future[Any]]:
        gathered = (self._vault_puts.task, self._vault_gets.task, self._response_puts.task)
        return [*self._running, *[task for task in gathered if task is not None]]

    async def ping(self) -> None:
        await self._execute("SELECT 1")

    async def add_key(self, key: KeyRecord) -> None:
        # `%(again)s` makes a repeated INSERT succeed if the row is our
        # own: the first may have been committed as the connection broke.
        rows = await self._execute(
            """
            WITH added AS (
                INSERT INTO midstream_gateway.keys (id, digest, record, revoked)
                VALUES (%(id)s, %(digest)s, %(record)s, %(revoked)s)
                ON CONFLICT DO NOTHING RETURNING 1
            )
            SELECT 1 FROM added
            UNION ALL
            SELECT 1 FROM midstream_gateway.keys WHERE %(again)s AND id = %(id)s AND record = %(record)s
            """,
            {"id": key.id, "digest": key.digest, "record": msgspec.json.encode(key), "revoked": key.revoked},
        )
        if not rows:
            raise StoreError(f"the key {key.id!r} is stored already; nothing was written")

    async def key_by_digest(self, digest: bytes) -> KeyRecord | None:
        rows = await self._execute(
            "SELECT record, revoked FROM midstream_gateway.keys WHERE digest = %(digest)s", {"digest": digest}
        )
        return stored_key(*rows[0]) if rows else None

    async def keys(self) -> list[KeyRecord]:
        rows = await self._execute("SELECT record, revoked FROM midstream_gateway.keys ORDER BY seq")
        return [stored_key(*row) for row in rows]

    async def revoke_key(self, id: str, when: float) -> bool:
        rows = await self._execute(
            """
            UPDATE midstream_gateway.keys SET revoked = %(when)s
            WHERE id = %(id)s AND (revoked IS NULL OR (%(again)s AND revoked = %(when)s))
            RETURNING 1
            """,
            {"id": id, "when": float(when)},
        )
        return bool(rows)

    async def seal_keys(self) -> list[SealKey]:
        rows = await self._execute(
            "SELECT id, secret, created, retired FROM midstream_gateway.seal_keys ORDER BY seq DESC"
        )
        return [SealKey(*row) for row in rows]

    async def add_seal_key(self, key: SealKey) -> None:
        rows = await self._execute(
            """
            WITH added AS (
                INSERT INTO midstream_gateway.seal_keys (id, secret, created, retired)
                VALUES (%(id)s, %(secret)s, %(created)s, %(retired)s)
                ON CONFLICT DO NOTHING RETURNING 1
            ), retired AS (
                UPDATE midstream_gateway.seal_keys SET retired = %(created)s
                WHERE %(current)s AND retired IS NULL AND id <> %(id)s AND EXISTS (SELECT 1 FROM added)
            )
            SELECT 1 FROM added
            UNION ALL
            SELECT 1 FROM midstream_gateway.seal_keys WHERE %(again)s AND id = %(id)s AND secret = %(secret)s
            """,
            {
                "id": key.id,
                "secret": key.secret,
                "created": float(key.created),
                "retired": key.retired,
                "current": key.retired is None,
            },
        )
        if not rows:
            raise StoreError(f"the sealing key {key.id!r} is stored already; nothing was written")

    async def delete_seal_keys(self, before: float) -> int:
        return await self._count(
            """
            WITH gone AS (DELETE FROM midstream_gateway.seal_keys WHERE retired < %(before)s RETURNING 1)
            SELECT count(*) FROM gone
            """,
            {"before": before},
        )

    async def put_vault(self, tenant: str, entries: Sequence[VaultEntry], expires: float) -> None:
        if entries:
            held = {address(tenant, entry.call_id): (float(expires), entry.thinking) for entry in entries}
            await self._vault_puts.join(held)

    async def get_vault(self, tenant: str, call_ids: Sequence[str], now: float) -> dict[str, bytes]:
        wanted = {address(tenant, call_id): call_id for call_id in call_ids}
        if not wanted:
            return {}
        found = await self._vault_gets.join(dict.fromkeys(wanted))
        # The statement is shared with calls that may see another time.
        return {
            call_id: found[place][1] for place, call_id in wanted.items() if place in found and found[place][0] > now
        }

    async def put_response(self, tenant: str, id: str, record: bytes, expires: float) -> None:
        await self._response_puts.join({address(tenant, id): (float(expires), record)})

    async def get_response(self, tenant: str, id: str, now: float) -> bytes | None:
        rows = await self._execute(
            "SELECT record FROM midstream_gateway.responses WHERE address = %(place)s AND expires > %(now)s",
            {"place": address(tenant, id), "now": now},
        )
        return rows[0][0] if rows else None

    async def delete_response(self, tenant: str, id: str) -> bool:
        rows = await self._execute(
            """
            WITH gone AS (DELETE FROM midstream_gateway.responses WHERE address = %(place)s RETURNING 1)
            SELECT 1 FROM gone UNION ALL SELECT 1 WHERE %(again)s
            """,
            {"place": address(tenant, id)},
        )
        return bool(rows)

    async def add_spend(self, amounts: Mapping[tuple[str, str], int]) -> None:
        order = sorted(amounts)  # see _put
        if order:
            await self._execute(
                """
                WITH fresh AS (
                    INSERT INTO midstream_gateway.applied (token) VALUES (%(token)s) ON CONFLICT DO NOTHING RETURNING 1
                )
                INSERT INTO midstream_gateway.spend AS held (key_id, "window", amount)
                SELECT * FROM unnest(%(keys)s::text[], %(windows)s::text[], %(amounts)s::bigint[])
                WHERE EXISTS (SELECT 1 FROM fresh)
                ON CONFLICT (key_id, "window") DO UPDATE SET amount = held.amount + excluded.amount
                """,
                {
                    "token": uuid.uuid4(),
                    "keys": [key for key, _ in order],
                    "windows": [window for _, window in order],
                    "amounts": [amounts[which] for which in order],
                },
            )

    async def spend(self, key_id: str, window: str) -> int:
        rows = await self._execute(
            'SELECT amount FROM midstream_gateway.spend WHERE key_id = %(key)s AND "window" = %(window)s',
            {"key": key_id, "window": window},
        )
        return int(rows[0][0]) if rows else 0

    async def take_rate(self, key_id: str, minute: int, count: int) -> int:
        return await self._count(
            """
            INSERT INTO midstream_gateway.rates AS held (key_id, minute, count)
            VALUES (%(key)s, %(minute)s, %(count)s)
            ON CONFLICT (key_id, minute) DO UPDATE SET count = held.count + excluded.count
            RETURNING count
            """,
            {"key": key_id, "minute": minute, "count": count},
        )

    async def log_usage(self, rows: Sequence[UsageRow]) -> None:
        if not rows:
            return
        data = msgspec.json.encode(loggable(rows)).decode()
        await self._execute(_LOG_USAGE, {"token": uuid.uuid4(), "rows": data})

    async def usage(self, since: float = 0.0, limit: int = 1000) -> list[UsageRow]:
        rows = await self._execute(_READ_USAGE, {"since": since, "limit": limit})
        return [UsageRow(*row) for row in rows]

    async def sweep(self, now: float) -> None:
        for statement, bound in (
            (_SWEEP_VAULT, now),
            (_SWEEP_RESPONSES, now),
            (_SWEEP_USAGE, now - USAGE_KEPT),
            (_SWEEP_RATES, now // 60 - RATES_KEPT),
        ):
            while await self._count(statement, {"bound": bound, "most": _SWEPT_AT_ONCE}) == _SWEPT_AT_ONCE:
                pass
        # By the server's clock, which wrote these times.
        await self._execute("DELETE FROM midstream_gateway.applied WHERE time < now() - interval '1 hour'")

    async def _put(self, statement: LiteralString, rows: dict[bytes, tuple[float, bytes]]) -> dict[bytes, Any]:
        # In order: two statements that lock rows in the same order never wait for each other in a circle.
        places = sorted(rows)
        values = {
            "places": places,
            "expires": [rows[place][0] for place in places],
            "held": [rows[place][1] for place in places],
        }
        await self._execute(statement, values)
        return {}

    async def _get_vault(self, places: dict[bytes, None]) -> dict[bytes, tuple[float, bytes]]:
        rows = await self._execute(
            "SELECT address, expires, thinking FROM midstream_gateway.vault WHERE address = ANY(%(places)s::bytea[])",
            {"places": list(places)},
        )
        return {place: (expires, thinking) for place, expires, thinking in rows}

    async def _count(self, statement: LiteralString, values: Mapping[str, Any]) -> int:
        return int((await self._execute(statement, values))[0][0])

    async def _execute(self, statement: LiteralString, values: Mapping[str, Any] | None = None) -> _Rows:
        """Execute one statement, which commits by itself. `%(again)s` is true if it may have been executed before."""
        pool = self._pool
        if pool is None:
            raise StoreError("this state is closed, or was never opened; call open() first")
        # A task of its own: against a server that is frozen, even a cancelled statement takes its time to end.
        running = asyncio.ensure_future(self._attempts(pool, statement, values or {}))
        self._running.add(running)
        running.add_done_callback(self._ended)
        done, _ = await asyncio.wait([running], timeout=self._patience + _RETRY_AFTER)
        if not done:
            running.cancel()
            raise self._server.unavailable()
        return running.result()

    def _ended(self, running: asyncio.Future[_Rows]) -> None:
        self._running.discard(running)
        if not running.cancelled():
            running.exception()  # seen, even if its caller has left

    async def _attempts(
        self, pool: psycopg_pool.AsyncConnectionPool, statement: LiteralString, values: Mapping[str, Any]
    ) -> _Rows:
        deadline = time.monotonic() + self._patience
        again = False
        while True:
            left = deadline - time.monotonic()
            try:
                with self._server.translated():
                    # A short wait, then another: it is the asking that makes the pool connect again.
                    async with pool.connection(timeout=max(0.01, min(left, _ASK_AGAIN))) as db:
                        sent = again
                        again = True
                        cursor = await db.execute(statement, {**values, "again": sent}, binary=True)
                        return await cursor.fetchall() if cursor.description else []
            except StoreUnavailable:
                if time.monotonic() + _RETRY_AFTER > deadline:
                    raise
            await asyncio.sleep(_RETRY_AFTER)


_PUT_VAULT: LiteralString = """
    INSERT INTO midstream_gateway.vault (address, expires, thinking)
    SELECT * FROM unnest(%(places)s::bytea[], %(expires)s::float8[], %(held)s::bytea[])
    ON CONFLICT (address) DO UPDATE SET expires = excluded.expires, thinking = excluded.thinking
"""
_PUT_RESPONSES: LiteralString = """
    INSERT INTO midstream_gateway.responses (address, expires, record)
    SELECT * FROM unnest(%(places)s::bytea[], %(expires)s::float8[], %(held)s::bytea[])
    ON CONFLICT (address) DO UPDATE SET expires = excluded.expires, record = excluded.record
"""
_READ_USAGE: LiteralString = f"""
    SELECT {_USAGE} FROM midstream_gateway.usage WHERE time >= %(since)s ORDER BY time, seq LIMIT %(limit)s
"""
# As one JSON array: fourteen arrays of columns cost this process ten times as much.
_LOG_USAGE: LiteralString = f"""
    WITH fresh AS (
        INSERT INTO midstream_gateway.applied (token) VALUES (%(token)s) ON CONFLICT DO NOTHING RETURNING 1
    )
    INSERT INTO midstream_gateway.usage ({_USAGE})
    SELECT time, coalesce(tenant, ''), coalesce(key_id, ''), coalesce(model, ''), coalesce(provider, ''), coalesce(wire, ''),
        coalesce(status, 0), input, output, cache_read, cache_write, cost, latency_ms, ttft_ms
    FROM jsonb_to_recordset(%(rows)s::jsonb) AS new (
        time float8, tenant text, key_id text, model text, provider text, wire text, status int, input bigint,
        output bigint, cache_read bigint, cache_write bigint, cost bigint, latency_ms float8, ttft_ms float8
    )
    WHERE EXISTS (SELECT 1 FROM fresh)
"""


def _sweeping(table: LiteralString, column: LiteralString) -> LiteralString:
    # Gateways that sweep at the same time leave each other's rows alone.
    return f"""
        WITH gone AS (
            DELETE FROM midstream_gateway.{table} WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM midstream_gateway.{table} WHERE {column} <= %(bound)s LIMIT %(most)s FOR UPDATE SKIP LOCKED
            )) RETURNING 1
        )
        SELECT count(*) FROM gone
    """


_SWEEP_VAULT = _sweeping("vault", "expires")
_SWEEP_RESPONSES = _sweeping("responses", "expires")
_SWEEP_USAGE = _sweeping("usage", "time")
_SWEEP_RATES = _sweeping("rates", "minute")
