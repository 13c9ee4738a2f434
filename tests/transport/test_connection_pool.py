"""What the pool keeps, for how long, and that nothing of it stays behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from midstream.core.errors import ConnectFailed, LocalError, MidstreamError, TimedOut
from midstream.transport import RetryPolicy, Transport, TransportOptions
from midstream.transport.connection_pool import ConnectionPool
from midstream.transport.encoding import accept_encoding
from midstream.transport.target import SecretHeaders, Target, prepare

from .asking import AUTH, QUICK, Clock, asks, run
from .certificates import Authority
from .loopback import JSON_OK, Seen, Server, Wire, scripted
from .test_client import OK, hangs_up, patient
from .test_route import forwards

pytestmark = pytest.mark.usefixtures("each_loop")


def _target(base: str, **changes: object) -> Target:
    return prepare(asks(stream=False, **changes), base, SecretHeaders(AUTH), accept_encoding(False))


async def _read(pool: ConnectionPool, target: Target) -> bytes:
    exchange = await pool.send(target)
    parts = []
    while (data := exchange.take()) != b"":
        if data is None:
            await exchange.ready()
        else:
            parts.append(data)
    return b"".join(parts)


def pooled(act: Callable[[ConnectionPool], Awaitable[None]], **changes: float) -> None:
    async def main() -> None:
        pool = ConnectionPool(TransportOptions(**changes), {})  # type: ignore[arg-type]
        try:
            await act(pool)
        finally:
            await pool.aclose()

    run(main())


def test_a_connection_unused_for_too_long_is_closed() -> None:
    async def act(pool: ConnectionPool) -> None:
        async with Server(OK) as server:
            assert await _read(pool, _target(server.base)) == JSON_OK
            await server.all_closed()  # by the pool: the server keeps them
            assert await _read(pool, _target(server.base)) == JSON_OK
            assert server.accepted == 2

    pooled(act, keep_alive=0.05)


def test_one_timer_sweeps_all_of_them() -> None:
    async def act(pool: ConnectionPool) -> None:
        async with Server(OK) as first, Server(OK) as second:
            for server in (first, second, first, second):
                await _read(pool, _target(server.base))
            assert (first.accepted, second.accepted) == (1, 1)
            await first.all_closed()
            await second.all_closed()

    pooled(act, keep_alive=0.1)


def test_so_many_unused_ones_are_kept_and_no_more() -> None:
    async def act(pool: ConnectionPool) -> None:
        servers = [Server(OK) for _ in range(5)]
        for server in servers:
            await server.__aenter__()
        try:
            for server in servers:
                await _read(pool, _target(server.base))
            for server in servers[:3]:
                await server.all_closed()
            assert [server.closed for server in servers] == [1, 1, 1, 0, 0]
            for server in servers[3:]:
                await _read(pool, _target(server.base))
            assert [server.accepted for server in servers] == [1] * 5
        finally:
            for server in servers:
                await server.__aexit__()

    pooled(act, max_unused=2)


def test_a_connection_the_peer_closed_is_found_before_it_is_used() -> None:
    """The loop has had no turn since the end came: only a look into the socket tells."""

    async def closes(wire: Wire, seen: Seen) -> None:
        await wire.answer(JSON_OK)
        await leave.wait()
        wire.writer.close()

    leave = asyncio.Event()

    async def act(pool: ConnectionPool) -> None:
        async with Server(scripted(closes, OK)) as server:
            assert await _read(pool, _target(server.base)) == JSON_OK
            connection = next(iter(pool._routes))
            assert connection.quiet
            pause = connection.transport
            assert pause is not None
            pause.pause_reading()  # so that the loop does not see the end
            leave.set()
            await server.all_closed()
            assert not connection.quiet
            assert await _read(pool, _target(server.base)) == JSON_OK
            assert (server.accepted, len(server.seen)) == (2, 2)

    pooled(act)


def test_a_word_nobody_asked_for_ends_an_unused_connection() -> None:
    async def talks(wire: Wire, seen: Seen) -> None:
        await wire.answer(JSON_OK)
        await asyncio.sleep(0.01)
        await wire.send(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 4\r\n\r\nEVIL")

    async def act(pool: ConnectionPool) -> None:
        async with Server(talks) as server:
            for _ in range(3):
                assert await _read(pool, _target(server.base)) == JSON_OK
                await server.all_closed()
            assert server.accepted == 3

    pooled(act)


@pytest.mark.parametrize(("method", "sent"), [("GET", 3), ("PUT", 3), ("POST", 2)])
def test_one_safe_replay(method: str, sent: int) -> None:
    """The peer took the next request on a used connection and hung up without a word: perhaps it had only grown tired of
    waiting. What changes nothing when it is sent twice goes out once more, on a new connection; a POST is for the retry policy."""

    async def act(pool: ConnectionPool) -> None:
        async with Server(scripted(OK, hangs_up, OK)) as server:
            target = _target(server.base, method=method)
            assert await _read(pool, target) == JSON_OK
            if method == "POST":
                with pytest.raises(ConnectFailed):
                    await _read(pool, target)
            else:
                assert await _read(pool, target) == JSON_OK
            assert len(server.seen) == sent

    pooled(act)


def test_no_replay_on_a_new_connection_and_no_second_one() -> None:
    async def act(pool: ConnectionPool) -> None:
        async with Server(hangs_up) as server:
            with pytest.raises(ConnectFailed):
                await _read(pool, _target(server.base, method="GET"))
            assert len(server.seen) == 1
        async with Server(scripted(OK, hangs_up)) as server:
            await _read(pool, _target(server.base, method="GET"))
            with pytest.raises(ConnectFailed):
                await _read(pool, _target(server.base, method="GET"))
            assert len(server.seen) == 3

    pooled(act)


def test_closing_ends_what_is_under_way() -> None:
    asked = asyncio.Event()

    async def holds(wire: Wire, seen: Seen) -> None:
        asked.set()
        await wire.gone()

    async def main() -> None:
        async with Server(holds) as server:
            transport = Transport(QUICK, environ={})
            task = asyncio.create_task(transport.open(asks(), server.base, AUTH))
            await asked.wait()
            await transport.aclose()
            await server.all_closed()
            with pytest.raises(MidstreamError):
                await task

    run(main())


def test_a_pool_that_closes_while_it_connects() -> None:
    async def main() -> None:
        async with Server(OK) as server:
            pool = ConnectionPool(QUICK, {})
            task = asyncio.create_task(pool.send(_target(server.base)))
            await asyncio.sleep(0)
            await pool.aclose()
            with pytest.raises(LocalError, match="closed"):
                await task
            await server.all_closed()

    run(main())


FDS = Path("/proc/self/fd")
NEVER = TransportOptions(connect=5, first_byte=5, total=20, retry=RetryPolicy(max_retries=0), linger=0.2)


async def _cancelled_after(turns: int, act: Callable[[], Awaitable[object]]) -> bool:
    """Whether it was still at work after so many turns of the loop, when it was cancelled."""
    task = asyncio.ensure_future(act())
    for _ in range(turns):
        await asyncio.sleep(0)
    if task.done():
        await task
        return False
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return True


@pytest.mark.parametrize("way", ["plain", "tls", "tunnel", "tls in tls"])
def test_cancelled_at_every_turn_of_the_loop(way: str, authority: Authority) -> None:
    """Wherever an exchange is cancelled, no connection, task or warning is left (a ResourceWarning fails the test)."""
    secure = way != "plain"
    host = "IP:127.0.0.1" if way in ("plain", "tls") else "DNS:far.invalid"

    async def sweep(base: str, environ: dict[str, str]) -> None:
        async def once() -> bytes:
            async with Transport(NEVER, environ=environ) as transport:
                return await (await transport.open(asks(stream=False), base, AUTH)).read()

        cancelled = finished = 0
        while finished < 3:
            if await _cancelled_after(cancelled + finished, once):
                cancelled += 1
            else:
                finished += 1
            gc.collect()
        assert cancelled > 5

    async def main() -> None:
        environ = {"SSL_CERT_FILE": str(authority.trust)}
        context = authority.server(host) if secure else None
        outer = authority.server("IP:127.0.0.1") if way == "tls in tls" else None
        async with (
            Server(OK, tls=context) as server,
            Server(forwards({"far.invalid:443": server.port}), tls=outer) as proxy,
        ):
            if way in ("plain", "tls"):
                await sweep(server.base, environ)
            else:
                environ["HTTPS_PROXY"] = f"{'https' if outer else 'http'}://127.0.0.1:{proxy.port}"
                await sweep("https://far.invalid/v1", environ)
            async with asyncio.timeout(20):  # a handshake that nobody ends is ended by the server, but later
                await server.all_closed()
                await proxy.all_closed()
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    gc.collect()
    gc.freeze()  # what other tests hold need not be walked over at every turn
    run(main(), limit=120)
    gc.collect()


def test_a_dropped_exchange_holds_nothing() -> None:
    """Many cancelled in the middle of connecting, at once."""

    async def main() -> None:
        async with Server(OK) as server, patient(Clock()) as transport:
            tasks = [asyncio.create_task(transport.open(asks(), server.base, AUTH)) for _ in range(100)]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            for answer in ended[1::2]:
                assert not isinstance(answer, BaseException)
                assert await answer.read() == JSON_OK

    run(main())


def test_each_request_is_late_at_its_own_time() -> None:
    """One timer for all: a request with an earlier limit is not kept waiting by one with a later limit, nor ends with it."""

    async def silent(wire: Wire, seen: Seen) -> None:
        if seen.body == b"late":
            await wire.begin()
        if seen.body != b"quick":
            await asyncio.Event().wait()
        await wire.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async def act(pool: ConnectionPool) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()

        async def asked(body: bytes, limit: float) -> tuple[bytes, float]:
            target = _target(server.base).again(body)
            exchange = await pool.send(target, began + limit, limit)
            while (data := exchange.take()) is None:
                await exchange.ready()
            exchange.first_byte_by(float("inf"))
            return data, loop.time() - began

        async with Server(silent) as server:
            waits = [(b"never", 0.4), (b"late", 0.1), (b"never", 0.2), (b"quick", 0.05)]
            found = await asyncio.gather(*[asked(*each) for each in waits], return_exceptions=True)
            assert [type(each) for each in found] == [TimedOut, TimedOut, TimedOut, tuple]
            assert [f"in the {limit:g} s allowed" in str(each) for (_, limit), each in zip(waits, found, strict=True)] == [
                True, True, True, False
            ]  # fmt: skip
            assert loop.time() - began > 0.39  # uvloop counts milliseconds, and their difference is rounded

    pooled(act)
