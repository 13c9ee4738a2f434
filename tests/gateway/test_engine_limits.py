"""Slow, stalled, greedy and leaving clients. The server's clock is ours."""

from __future__ import annotations

import asyncio
import gc
import logging
import socket
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.event_loops import run
from tests.long_run import each_once

from .engine_serving import CONTINUE, GOOD, Answers, Echo, Running, respond, running, talk, wait_until

pytestmark = pytest.mark.usefixtures("each_loop")

LARGE = 16_000_000  # more than the kernel takes for a client that does not read
POST = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"


def get(path: str, version: str = "1.1") -> bytes:
    return f"GET /{path} HTTP/{version}\r\nHost: x\r\n\r\n".encode()


async def connect(here: Running, *said: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A client that has said something, which the server has heard."""
    before = here.server.state.admitted
    reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
    await wait_until(lambda: here.server.state.admitted > before)
    for each in said:
        writer.write(each)
    return reader, writer


async def statuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[int]:
    """Of all the answers until the server closed."""
    async with asyncio.timeout(20):
        found = Answers(await reader.read()).statuses
    writer.close()
    return found


def test_slow_loris() -> None:
    """200 connections that never finish their heads do not keep a good client waiting, and are closed by the limit."""

    async def main() -> None:
        async with running(head_time=10) as here:
            half = [await connect(here, b"GET /a HTTP/1.1\r\nHost: x\r\nX-A: ") for _ in range(200)]
            await wait_until(lambda: sum(each._head_wire > 0 for each in here.server.state.connections) == 200)
            here.advance(9)
            assert Answers(await talk(here.port, GOOD)).statuses == [200]
            assert here.refused == []
            here.advance(2)
            assert here.refused == [408] * 200
            assert [await statuses(*each) for each in half] == [[408]] * 200
            assert here.app.seen == ["/good"]

    run(main())


def test_slow_loris_that_trickles() -> None:
    """A header now and then does not extend the time for a head."""

    async def main() -> None:
        async with running(head_time=10) as here:
            reader, writer = await connect(here, b"GET /a HTTP/1.1\r\n")
            for number in range(9):
                heard = here.connection._head_wire
                writer.write(b"X-A: a\r\n")
                await wait_until(lambda heard=heard: here.connection._head_wire > heard)
                assert here.refused == [], number
                here.advance(1.2)
            assert await statuses(reader, writer) == [408]

    run(main())


def test_a_silent_connection_is_closed_without_a_word() -> None:
    async def main() -> None:
        async with running(head_time=10) as here:
            client = await connect(here)
            here.advance(11)
            assert await statuses(*client) == []
            assert here.refused == []

    run(main())


def test_an_idle_connection_is_closed() -> None:
    async def main() -> None:
        async with running(idle_time=60) as here:
            reader, writer = await connect(here, get("a"))
            await reader.readuntil(b"}")
            here.advance(59)
            writer.write(get("b"))
            await reader.readuntil(b"}")
            here.advance(59)
            assert not reader.at_eof()
            here.advance(2)
            assert await reader.read() == b""
            writer.close()

    run(main())


async def send_body(here: Running, pieces: list[bytes], pause: float) -> list[int]:
    """The answers to a body that comes in these pieces, with a pause after each."""
    reader, writer = await connect(here, POST % (sum(map(len, pieces)) or 9))
    size = 0
    await wait_until(lambda: here.app.seen)
    for piece in pieces:
        here.advance(pause)
        if here.refused or not here.server.state.connections:
            break
        writer.write(piece)
        size += len(piece)
        served = here.connection._answering
        await wait_until(lambda: served.received == size)  # noqa: B023
    here.advance(pause)
    await wait_until(lambda: here.server.state.total_requests or here.refused)
    here.advance(1000)
    return await statuses(reader, writer)


@pytest.mark.parametrize(
    ("pieces", "pause", "expected"),
    [
        ([], 31.0, [408]),  # nothing comes
        ([b"x" * 100_000, b"x"], 31.0, [408]),  # it stops
        ([b"x"] * 20, 20.0, [408]),  # it never stops, and never gets anywhere
        ([b"x" * 1000] * 20, 20.0, [408]),  # 50 bytes per second
        ([b"x" * 50_000] * 20, 10.0, [200]),  # 5000 bytes per second, for more than three minutes
        ([b"x" * 1000] * 20, 1.0, [200]),  # slow, but soon over
    ],
    ids=["nothing", "stalled", "drop by drop", "below the rate", "above the rate", "short"],
)
def test_a_slow_body(pieces: list[bytes], pause: float, expected: list[int]) -> None:
    """A body that stops, or comes more slowly than the least rate, is refused; the application hears that it is over."""

    async def main() -> None:
        async with running(body_time=30, rate=4096) as here:
            assert await send_body(here, pieces, pause) == expected
            await wait_until(lambda: here.app.left == ([] if expected == [200] else ["/a"]))

    run(main())


class Patient(Echo):
    """Waits before it reads."""

    async def echo(self, scope: Any, receive: Any, send: Any) -> None:
        await self.proceed.wait()
        await super().echo(scope, receive, send)


def test_the_application_may_take_its_time_to_read() -> None:
    """The body is not read ahead of it, and the client is not blamed for that."""

    async def main() -> None:
        async with running(Patient(), body_time=30, rate=1e6) as here:
            body = b"x" * 8_000_000
            reader, writer = await connect(here, POST % (len(body) + 1) + body)
            await wait_until(lambda: here.app.seen and here.connection.flow.read_paused)
            assert here.connection._answering.held < 1_000_000
            here.advance(500)
            here.app.proceed.set()
            served = here.connection._answering
            await wait_until(lambda: served.received == len(body) and not here.connection.flow.read_paused)
            here.advance(1)
            assert here.refused == []
            writer.write(b"x" + GOOD)
            assert await statuses(reader, writer) == [200, 200]

    run(main())


def test_a_refusal_reaches_a_client_that_is_still_sending() -> None:
    """A client that first sends everything, however large, then reads: it gets the 413 and not a reset."""

    async def main() -> None:
        async with running(body=1000) as here:

            def send_all_then_read() -> bytes:
                with socket.create_connection(("127.0.0.1", here.port)) as client:
                    client.settimeout(10)
                    client.sendall(POST % 20_000_000 + b"x" * 20_000_000)
                    return client.recv(65536)

            assert Answers(await asyncio.to_thread(send_all_then_read)).statuses == [413]
            assert here.app.seen == []

    run(main())


def test_connections_over_the_cap() -> None:
    async def main() -> None:
        async with running(connections=3, linger_time=2) as here:
            held = [await asyncio.open_connection("127.0.0.1", here.port) for _ in range(3)]
            await wait_until(lambda: here.server.state.admitted == 3)
            answer = Answers(await talk(here.port, GOOD))
            assert answer.statuses == [503]
            assert answer.headers[0]["retry-after"] == "1"
            for _, writer in held:
                writer.close()
            await wait_until(lambda: here.server.state.admitted == 0)
            assert Answers(await talk(here.port, GOOD)).statuses == [200]

    run(main())


class Streaming(Echo):
    """Streams for as long as it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = 0
        self.gone = asyncio.Event()
        self.cancelled = 0
        self.traffic = (0, 0)

    async def flood(self, scope: Any, receive: Any, send: Any) -> None:
        scope["extensions"]["midstream"]["on_disconnect"](self.gone.set)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not self.gone.is_set():
            await send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})
            self.sent += 10_000
            await asyncio.sleep(0)

    async def trickle(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def listen(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.gone.set()

    async def hook(self, scope: Any, receive: Any, send: Any) -> None:
        task = asyncio.current_task()
        assert task is not None
        on_disconnect = scope["extensions"]["midstream"]["on_disconnect"]
        on_disconnect(self.proceed.set)
        on_disconnect(None)  # taken back: never called
        on_disconnect(task.cancel)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.gone.set()
            raise

    async def late(self, scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "http.request"
        assert (await receive())["type"] == "http.disconnect"
        scope["extensions"]["midstream"]["on_disconnect"](self.gone.set)  # it is gone already: called all the same
        await asyncio.sleep(0.05)

    async def sizes(self, scope: Any, receive: Any, send: Any) -> None:
        await super().echo(scope, receive, send)
        self.traffic = scope["extensions"]["midstream"]["traffic"]()

    async def head(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-early", b"1")]})
        await self.proceed.wait()
        await send({"type": "http.response.body", "body": b"late"})

    async def begin(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True, "with_next": True})
        if b"wait" in scope["query_string"]:
            await self.proceed.wait()
        await send({"type": "http.response.body", "body": b"last"})

    async def fail(self, scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("a defect")

    async def fail_late(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"some", "more_body": True})
        raise ValueError("a defect")

    async def forget(self, scope: Any, receive: Any, send: Any) -> None:
        pass

    async def inject(self, scope: Any, receive: Any, send: Any) -> None:
        await respond(send, 200, b"", (b"x-a", b"a\r\nx-b: b"))

    async def short(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        await send({"type": "http.response.body", "body": b"four"})

    async def whole(self, scope: Any, receive: Any, send: Any) -> None:
        await respond(send, 200, b"x" * LARGE)


@asynccontextmanager
async def slow_reader(here: Running, said: bytes) -> AsyncIterator[socket.socket]:
    """A client whose kernel does not read ahead much."""
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        await loop.sock_connect(client, ("127.0.0.1", here.port))
        await loop.sock_sendall(client, said)
        yield client


def test_a_stalled_reader_stops_the_application_and_is_closed() -> None:
    async def main() -> None:
        async with running(Streaming(), write_time=30) as here, slow_reader(here, get("flood")):
            await wait_until(lambda: here.server.state.connections and here.connection.unwritable is not None)
            sent = here.app.sent
            await asyncio.sleep(0.05)
            assert here.app.sent == sent < 10_000_000  # it waits
            here.advance(29)
            assert not here.app.gone.is_set()
            here.advance(2)
            assert here.app.gone.is_set()
            await wait_until(lambda: not here.server.state.connections)

    run(main())


def test_a_slow_reader_gets_everything() -> None:
    """What takes longer than the write time to read is sent whole, as long as the reader takes some of it."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        closing = get("whole").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        async with running(Streaming(), write_time=30, rate=1000) as here, slow_reader(here, closing) as client:
            got = b""
            while piece := await asyncio.wait_for(loop.sock_recv(client, 200_000), 20):
                got += piece
                await asyncio.sleep(0.005)
                here.advance(5)
            assert here.clock.now > 1100
            assert Answers(got).bodies == [b"x" * LARGE]

    run(main())


def test_a_stalled_reader_that_closes_its_half_is_gone() -> None:
    async def main() -> None:
        async with running(Streaming()) as here, slow_reader(here, get("flood")) as client:
            await wait_until(lambda: here.server.state.connections and here.connection.unwritable is not None)
            client.shutdown(socket.SHUT_WR)
            await wait_until(lambda: not here.server.state.connections)
            assert here.app.gone.is_set()

    run(main())


def test_there_is_no_refusal_in_the_middle_of_an_answer() -> None:
    async def main() -> None:
        async with running(Streaming()) as here:
            reader, writer = await connect(
                here, b"POST /head HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"bad chunk\r\n")
            try:
                assert await reader.read() == b""
            except ConnectionResetError:
                pass
            here.app.proceed.set()
            writer.close()

    run(main())


def test_a_reader_that_stops_in_the_last_bytes_is_closed() -> None:
    async def main() -> None:
        closing = get("whole").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        async with running(Streaming(), write_time=30) as here, slow_reader(here, closing):
            await wait_until(lambda: here.server.state.total_requests)
            here.advance(31)
            await wait_until(lambda: not here.server.state.connections)

    run(main())


@each_once(("path", ["listen", "hook", "late"]), ("how", ["close", "reset"]))
def test_the_application_learns_that_its_client_left(path: str, how: str) -> None:
    async def main() -> None:
        async with running(Streaming()) as here:
            _, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(get(path))
            await wait_until(lambda: here.app.seen)
            await asyncio.sleep(0.02)
            if how == "close":
                writer.close()
            else:
                writer.transport.abort()
            await asyncio.wait_for(here.app.gone.wait(), 5)
            assert not here.app.proceed.is_set()

    run(main())


def test_the_head_is_sent_with_the_body_or_soon() -> None:
    async def main() -> None:
        async with running(Streaming()) as here:
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(get("head"))
            head = await reader.readuntil(b"\r\n\r\n")  # though the application has no body yet
            assert b"x-early: 1" in head
            here.app.proceed.set()
            assert await reader.readuntil(b"0\r\n\r\n") == b"4\r\nlate\r\n0\r\n\r\n"
            writer.close()

    run(main())


def test_pipelined_requests_wait_their_turn() -> None:
    """While one is answered and one waits, the next are not read; all are answered, in order."""

    async def main() -> None:
        async with running(Patient(), pipelined=4) as here:
            reader, writer = await connect(here, get("a"))
            await wait_until(lambda: here.app.seen)
            writer.write(get("b"))
            await wait_until(lambda: here.connection.flow.read_paused)
            writer.write(get("c") + get("d") + GOOD)
            await asyncio.sleep(0.05)
            assert len(here.connection._waiting) == 1
            here.app.proceed.set()
            assert await statuses(reader, writer) == [200] * 5
            assert here.app.seen == ["/a", "/b", "/c", "/d", "/good"]

    run(main())


def test_the_application_learns_how_much_was_said() -> None:
    async def main() -> None:
        async with running(Streaming()) as here:
            raw = b"POST /sizes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
            (body,) = Answers(await talk(here.port, raw)).bodies
            assert here.app.traffic == (5, len(body))

    run(main())


def test_what_a_stream_begins_with_is_sent_with_the_next_piece_or_soon() -> None:
    async def main() -> None:
        async with running(Streaming()) as here:
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(get("begin?wait"))
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(10) == b"5\r\nfirst\r\n"  # though nothing follows yet
            here.app.proceed.set()
            assert await reader.readuntil(b"0\r\n\r\n") == b"4\r\nlast\r\n0\r\n\r\n"
            writer.write(get("begin"))
            answer = await reader.read(65536)  # all of it came in one piece
            assert answer.endswith(b"\r\n\r\n5\r\nfirst\r\n4\r\nlast\r\n0\r\n\r\n")
            writer.close()

    run(main())


def test_expect_100_continue() -> None:
    async def main() -> None:
        async with running(body=1000) as here:
            expecting = POST.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(expecting % 5)
            assert await reader.readuntil(b"\r\n\r\n") == CONTINUE
            writer.write(b"hello" + GOOD)
            assert Answers(await reader.read()).statuses == [200, 200]
            writer.close()
            # Refused before the body: no 100, and the connection ends, for the body may come or not.
            refused = await talk(here.port, (expecting % 5).replace(b"/a", b"/refuse"))
            assert CONTINUE not in refused
            assert Answers(refused).headers[0]["connection"] == "close"

    run(main())


def test_http10_gets_a_body_that_ends_with_the_connection() -> None:
    async def main() -> None:
        app = Streaming()
        app.proceed.set()
        async with running(app) as here:
            answer = await talk(here.port, get("head", "1.0"))
            assert answer.endswith(b"\r\n\r\nlate")
            assert b"chunked" not in answer

    run(main())


@pytest.mark.parametrize(
    ("path", "statuses", "whole"),
    [("fail", [500], 1), ("forget", [500], 1), ("inject", [500], 1), ("fail_late", [200], 0), ("short", [500], 1)],
)
def test_defects_of_the_application(path: str, statuses: list[int], whole: int, caplog: Any) -> None:
    """Before its head is sent, a 500; after it, an answer that lacks its end. The server goes on."""

    async def main() -> None:
        async with running(Streaming()) as here:
            answer = Answers(await talk(here.port, get(path), GOOD))
            assert (answer.statuses, answer.whole) == (statuses, whole)
            assert b"defect" not in answer.raw
            assert Answers(await talk(here.port, GOOD)).statuses == [200]

    with caplog.at_level(logging.ERROR, "midstream.gateway"):
        run(main())
    assert len(caplog.records) == 1


def test_trailers_are_not_headers() -> None:
    async def main() -> None:
        async with running() as here:
            raw = b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\nX-Api-Key: k\r\n\r\n"
            (body,) = Answers(await talk(here.port, raw)).bodies
            assert b"transfer-encoding" in body
            assert b"x-api-key" not in body

    run(main())


def test_what_is_refused_is_not_kept() -> None:
    """An endless header, URL, body or pipeline holds no more memory than its limit and one read."""

    async def main() -> None:
        piece = b"a" * 250_000
        async with running() as here:
            gc.collect()
            tracemalloc.start()
            try:
                for start in (b"GET /", b"GET /a HTTP/1.1\r\nHost: x\r\nX-A: ", b"GET /a HTTP/1.1\r\nHost: x\r\nX"):
                    await talk(here.port, start, *[piece] * 40)
                await talk(here.port, *[get("slow") * 5000] * 10)
                peak = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            assert peak < 8_000_000
            assert len(here.app.seen) <= 17

    run(main())


def test_drain() -> None:
    """Nothing new is accepted, idle connections close, what is open may finish."""

    async def main() -> None:
        async with running(Streaming(), drain=600) as here:
            idle_reader, idle = await asyncio.open_connection("127.0.0.1", here.port)
            idle.write(get("a"))
            await idle_reader.readuntil(b"}")
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(get("head"))
            await reader.readuntil(b"\r\n\r\n")
            here.server.should_exit = True
            assert await idle_reader.read() == b""
            with pytest.raises(ConnectionError):
                await asyncio.open_connection("127.0.0.1", here.port)
            here.app.proceed.set()
            assert await reader.read() == b"4\r\nlate\r\n0\r\n\r\n"
            writer.close()
            idle.close()

    run(main())


def test_a_drain_ends() -> None:
    """A stream without end is cancelled, and its client sees that the end is missing."""

    async def main() -> None:
        async with running(Streaming(), drain=0.2) as here:
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(get("trickle"))
            await reader.readuntil(b"\r\n\r\n")
            here.server.should_exit = True
            rest = await reader.read()
            assert not rest.endswith(b"0\r\n\r\n")
            assert here.app.cancelled == 1
            writer.close()

    run(main())


def test_a_drain_that_is_hurried() -> None:
    async def main() -> None:
        async with running(Streaming(), drain=60) as here:
            reader, writer = await asyncio.open_connection("127.0.0.1", here.port)
            writer.write(get("trickle"))
            await reader.readuntil(b"\r\n\r\n")
            here.server.handle_exit(15, None)
            await asyncio.sleep(0.2)
            assert here.app.cancelled == 0
            here.server.handle_exit(15, None)
            await reader.read()
            assert here.app.cancelled == 1
            writer.close()

    run(main())


def test_an_answer_that_was_not_begun_is_refused_at_the_end_of_a_drain() -> None:
    async def main() -> None:
        async with running(Streaming(), drain=0.1) as here:
            talking = asyncio.ensure_future(talk(here.port, get("hook")))
            await wait_until(lambda: here.app.seen)
            here.server.should_exit = True
            answer = Answers(await talking)
            assert answer.statuses == [503]
            assert answer.headers[0]["retry-after"] == "1"

    run(main())


def test_reload(caplog: Any) -> None:
    class Broken(Echo):
        async def reload(self) -> None:  # type: ignore[override]
            raise ValueError("line 3 of the file")

    async def main() -> None:
        async with running() as here:
            here.server.reload()
            await wait_until(lambda: here.app.reloads == 1)
        async with running(Broken()) as here:
            here.server.reload()
            await wait_until(lambda: "not reloaded: line 3 of the file" in caplog.text)
            assert Answers(await talk(here.port, GOOD)).statuses == [200]

    run(main())
