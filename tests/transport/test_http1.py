"""One exchange on the wire: how a body ends, what is bounded, and when a connection may serve the next request."""

from __future__ import annotations

import asyncio

import pytest

from midstream.core.errors import (
    ConnectFailed,
    LimitExceeded,
    LocalError,
    MalformedStream,
    MidstreamError,
    ProviderError,
    TruncatedStream,
)
from midstream.transport import RetryPolicy, Transport
from midstream.transport.http1 import Connection, Exchange, request_head
from midstream.transport.target import SecretHeaders, prepare

from .asking import AUTH, Clock, asks, run
from .loopback import JSON_OK, Script, Seen, Server, Wire, scripted
from .test_client import OK, patient, stalls

pytestmark = pytest.mark.usefixtures("each_loop")

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
_NEVER = RetryPolicy(max_retries=0)
SPLIT = object()
CLOSE = object()


def says(*parts: object) -> Script:
    """These bytes; SPLIT lets them arrive apart, CLOSE ends the connection."""

    async def play(wire: Wire, seen: Seen) -> None:
        for part in parts:
            if part is CLOSE:
                wire.writer.close()
            elif part is SPLIT:
                await asyncio.sleep(0.005)
            else:
                assert isinstance(part, bytes)
                await wire.send(part)

    return play


async def _one(transport: Transport, server: Server, **changes: object) -> bytes | MidstreamError:
    try:
        answer = await transport.open(asks(stream=False, **changes), server.base, AUTH)
        return await answer.read()
    except MidstreamError as error:
        return error


def exchanged(*parts: object, times: int = 1, **changes: object) -> tuple[list[bytes | MidstreamError], int]:
    """What each of so many requests gave, one after the other, and how many connections that took."""

    async def main() -> tuple[list[bytes | MidstreamError], int]:
        async with Server(says(*parts)) as server, patient(Clock(), retry=_NEVER) as transport:
            found = []
            for _ in range(times):
                found.append(await _one(transport, server, **changes))
                await asyncio.sleep(0.01)
            return found, server.accepted

    return run(main())


# bytes -> the body, and whether the connection is used again
GOOD: dict[str, tuple[tuple[object, ...], bytes, bool]] = {
    "by length": ((HEAD + b"content-length: 3\r\n\r\nabc",), b"abc", True),
    "by length, in pieces": ((HEAD + b"content-le", SPLIT, b"ngth: 3\r\n\r", SPLIT, b"\na", SPLIT, b"bc"), b"abc", True),
    "chunked": ((CHUNKED + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",), b"abc", True),
    "chunked, cut everywhere": ((CHUNKED + b"2", SPLIT, b"\r\nab\r", SPLIT, b"\n0\r", SPLIT, b"\n\r\n"), b"ab", True),
    "chunk extensions": ((CHUNKED + b'2;a=b;c="d"\r\nab\r\n0;x\r\n\r\n',), b"ab", True),
    "trailers": ((CHUNKED + b"2\r\nab\r\n0\r\nx-sum: 1\r\nx-more: 2\r\n\r\n",), b"ab", True),
    "by the connection": ((HEAD + b"\r\nabc", SPLIT, b"def", CLOSE), b"abcdef", False),
    "HTTP/1.0": ((b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nab", CLOSE), b"ab", False),
    "HTTP/1.0, kept": ((b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nab",), b"ab", True),
    "connection: close": ((HEAD + b"connection: close\r\ncontent-length: 2\r\n\r\nab",), b"ab", False),
    "connection: Close, in a list": ((HEAD + b"connection: x, Close\r\ncontent-length: 2\r\n\r\nab",), b"ab", False),
    "early hints": ((b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" * 3 + HEAD + b"content-length: 2\r\n\r\nab",), b"ab", True),
    "continue": ((b"HTTP/1.1 100 Continue\r\n\r\n", SPLIT, HEAD + b"content-length: 2\r\n\r\nab"), b"ab", True),
    "no content": ((b"HTTP/1.1 204 No Content\r\n\r\n",), b"", True),
    "empty": ((HEAD + b"content-length: 0\r\n\r\n",), b"", True),
    "a header without a value": ((HEAD + b"x-empty:\r\nx-next: 1\r\ncontent-length: 2\r\n\r\nab",), b"ab", True),
    "lines that end in LF": ((b"HTTP/1.1 200 OK\ncontent-length: 2\n\nab",), b"ab", True),
    "blanks behind the size of a chunk": ((CHUNKED + b"2  \r\nab\r\n0 \r\n\r\n",), b"ab", True),
    "no reason": ((b"HTTP/1.1 200\r\ncontent-length: 2\r\n\r\nab",), b"ab", True),
    "another answer behind it": ((HEAD + b"content-length: 2\r\n\r\nab" + HEAD + b"content-length: 4\r\n\r\nEVIL",), b"ab", False),
    "half of another answer": ((HEAD + b"content-length: 2\r\n\r\nabH",), b"ab", False),
    "another answer, later": ((HEAD + b"content-length: 2\r\n\r\nab", SPLIT, HEAD + b"content-length: 4\r\n\r\nEVIL"), b"ab", False),
    "garbage behind it": ((HEAD + b"content-length: 2\r\n\r\nab\x00\x01",), b"ab", False),
    "garbage behind its chunks": ((CHUNKED + b"2\r\nab\r\n0\r\n\r\nEVIL",), b"ab", False),
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_an_answer_and_its_connection(name: str) -> None:
    parts, body, reused = GOOD[name]
    found, connections = exchanged(*parts, times=3)
    assert found == [body] * 3
    assert connections == (1 if reused else 3)


# bytes -> the error
BAD: dict[str, tuple[tuple[object, ...], type[MidstreamError]]] = {
    "not HTTP": ((b"SSH-2.0-x\r\n\r\n",), MalformedStream),
    "HTTP/2 by force": ((b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",), MalformedStream),
    "an unknown version": ((b"HTTP/3.7 200 OK\r\ncontent-length: 0\r\n\r\n",), MalformedStream),
    "a status of two digits": ((b"HTTP/1.1 20 OK\r\n\r\n",), MalformedStream),
    "an upgrade nobody asked for": (
        (b"HTTP/1.1 101 X\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",), MalformedStream
    ),
    "101 without an upgrade": ((b"HTTP/1.1 101 X\r\n\r\n" + HEAD + b"content-length: 0\r\n\r\n",), MalformedStream),
    "an interim answer with a body": (
        (b"HTTP/1.1 199 X\r\ncontent-length: 4\r\n\r\nEVIL" + HEAD + b"content-length: 2\r\n\r\nab",), MalformedStream
    ),
    "an interim answer with half a body": (
        (b"HTTP/1.1 199 X\r\ncontent-length: 4\r\n\r\nEV", SPLIT, b"IL" + HEAD + b"content-length: 2\r\n\r\nab",), MalformedStream
    ),
    "an interim answer with a body that does not end": (
        (b"HTTP/1.1 199 X\r\ncontent-length: 9999\r\n\r\nEVIL",), MalformedStream
    ),
    "a status below 100": ((b"HTTP/1.1 000 X\r\ncontent-length: 0\r\n\r\n",), MalformedStream),
    "an empty transfer encoding": ((HEAD + b"transfer-encoding:\r\n\r\nabc", CLOSE), MalformedStream),
    "two lengths": ((HEAD + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd",), MalformedStream),
    "a length and chunks": (
        (HEAD + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",), MalformedStream
    ),
    "a length that is none": ((HEAD + b"content-length: 3x\r\n\r\nabc",), MalformedStream),
    "a negative length": ((HEAD + b"content-length: -3\r\n\r\nabc",), MalformedStream),
    "a length beyond all bounds": ((HEAD + b"content-length: 99999999999999999999\r\n\r\nabc",), MalformedStream),
    "a header folded": ((HEAD + b"x: a\r\n b\r\ncontent-length: 0\r\n\r\n",), MalformedStream),
    "a name with a blank": ((HEAD + b"content-length : 3\r\n\r\nabc",), MalformedStream),
    "a NUL in a header": ((HEAD + b"x: a\x00b\r\ncontent-length: 0\r\n\r\n",), MalformedStream),
    "a chunk size that is none": ((CHUNKED + b"ZZ\r\nabc\r\n",), MalformedStream),
    "a chunk longer than said": ((CHUNKED + b"2\r\nabc\r\n0\r\n\r\n",), TruncatedStream),
    "closed in the head": ((HEAD + b"content-le", CLOSE), ConnectFailed),
    "closed after 100": ((b"HTTP/1.1 100 Continue\r\n\r\n", CLOSE), ConnectFailed),
    "closed in a body by length": ((HEAD + b"content-length: 5\r\n\r\nabc", SPLIT, CLOSE), TruncatedStream),
    "closed between chunks": ((CHUNKED + b"2\r\nab\r\n", SPLIT, CLOSE), TruncatedStream),
    "closed before the last line": ((CHUNKED + b"2\r\nab\r\n0\r\n", SPLIT, CLOSE), TruncatedStream),
    "many headers": ((HEAD + b"x-a: b\r\n" * 200 + b"\r\n",), LimitExceeded),
    "a long header": ((HEAD + b"x-a: " + b"b" * 20_000 + b"\r\n\r\n",), LimitExceeded),
    "a long name": ((HEAD + b"x" * 20_000 + b": b\r\n\r\n",), LimitExceeded),
    "long headers in all": ((HEAD + b"".join(b"x-%d: " % n + b"b" * 10_000 + b"\r\n" for n in range(9)) + b"\r\n",), LimitExceeded),
    "a head without an end": ((HEAD + b"x-a: ", *(b"b" * 9_000, SPLIT) * 9), LimitExceeded),
    "a status line without an end": ((b"HTTP/1.1 200 ", *(b"b" * 9_000, SPLIT) * 9), LimitExceeded),
    "hints without an end": ((*(b"HTTP/1.1 103 X\r\nlink: " + b"x" * 9_000 + b"\r\n\r\n", SPLIT) * 9,), LimitExceeded),
    "trailers without an end": ((CHUNKED + b"2\r\nab\r\n0\r\nx: ", SPLIT, *(b"b" * 9_000, SPLIT) * 9), LimitExceeded),
    "a chunk extension without an end": ((CHUNKED + b"2;x=", SPLIT, *(b"b" * 9_000, SPLIT) * 9), LimitExceeded),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_typed(name: str) -> None:
    parts, kind = BAD[name]

    async def main() -> None:
        async with Server(says(*parts)) as server, patient(Clock(), retry=_NEVER) as transport:
            found = await _one(transport, server)
            assert type(found) is kind, found
            await server.all_closed()

    run(main())


def test_headers_as_they_are_given() -> None:
    async def main() -> None:
        script = says(
            HEAD
            + b"X-One: a \t\r\nx-one:  b\r\nx-empty:\r\nx-utf8: gr\xc3\xbcn\r\nx-raw: \xff\r\ncontent-length: 0\r\n\r\n"
        )
        async with Server(script) as server, patient(Clock()) as transport:
            answer = await transport.open(asks(), server.base, AUTH)
            assert answer.headers == {
                "x-one": "a, b",
                "x-empty": "",
                "x-utf8": "grün",
                "x-raw": "\udcff",
                "content-length": "0",
            }

    run(main())


@pytest.mark.parametrize("method", ["HEAD", "GET"])
def test_the_answer_to_head_has_no_body(method: str) -> None:
    parts = (HEAD + b"content-length: 3\r\n\r\n" + (b"" if method == "HEAD" else b"abc"),)
    found, connections = exchanged(*parts, times=3, method=method, body=b"")
    assert found == [b"" if method == "HEAD" else b"abc"] * 3
    assert connections == 1


def test_a_body_nobody_may_send_after_head() -> None:
    found, connections = exchanged(HEAD + b"content-length: 3\r\n\r\nabc", times=3, method="HEAD", body=b"")
    assert found == [b""] * 3
    assert connections == 3


@pytest.mark.parametrize(
    ("request_", "line", "length"),
    [
        (asks(b"", method="GET", path="/models"), b"GET /v1/models HTTP/1.1", None),
        (asks(b"", method="POST", path="/x?a=b"), b"POST /v1/x?a=b HTTP/1.1", b"0"),
        (asks(b"ab", method="DELETE", path="/x"), b"DELETE /v1/x HTTP/1.1", b"2"),
    ],
)
def test_the_head_of_a_request(request_: object, line: bytes, length: bytes | None) -> None:
    target = prepare(request_, "https://api.example:443/v1", SecretHeaders(AUTH), "gzip")  # type: ignore[arg-type]
    first, *rest = request_head(target, False, None).removesuffix(b"\r\n\r\n").split(b"\r\n")
    headers = dict(line.split(b": ", 1) for line in rest)
    assert first == line
    assert headers.get(b"content-length") == length
    assert headers[b"host"] == b"api.example"
    assert len(headers) == len(rest)


def test_a_slow_reader_slows_the_peer_down() -> None:
    """The peer may send as much as the buffers of the sockets hold and no more; it is all there in the end."""
    total = 40 * 1024 * 1024
    sent = 0

    async def pours(wire: Wire, seen: Seen) -> None:
        nonlocal sent
        await wire.send(HEAD + b"content-length: %d\r\n\r\n" % total)
        for _ in range(total // 65536):
            await wire.send(bytes(65536))
            sent += 65536

    async def main() -> None:
        async with Server(pours) as server, patient(Clock()) as transport:
            answer = await transport.open(asks(), server.base, AUTH)
            before = -1
            while sent != before:
                before = sent
                await asyncio.sleep(0.05)
            assert sent < total // 2
            size = 0
            async for chunk in answer.chunks():
                size += len(chunk)
                assert len(chunk) < 1024 * 1024
            assert size == total
            assert await _one(transport, server) == bytes(total)
            assert server.accepted == 1

    run(main())


def test_the_socket_of_a_reader_that_keeps_up_is_never_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pausing and resuming are system calls: a large read that the reader takes at once must not pay for them."""
    total = 8 * 1024 * 1024
    paused: list[Connection] = []
    monkeypatch.setattr(Connection, "pause", paused.append)

    async def pours(wire: Wire, seen: Seen) -> None:
        await wire.answer(bytes(total))

    async def main() -> None:
        async with Server(pours) as server, patient(Clock()) as transport:
            assert await _one(transport, server) == bytes(total)

    run(main())
    assert not paused


@pytest.mark.parametrize(("size", "pauses"), [(128 * 1024, 0), (128 * 1024 + 1, 1)])
def test_the_socket_of_a_reader_that_stays_away_is_paused(
    size: int, pauses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once more waits than may, and not before."""
    paused: list[int] = []
    monkeypatch.setattr(Connection, "pause", lambda _: paused.append(size))

    async def main() -> None:
        exchange = Exchange(Connection(asyncio.get_running_loop()), "host", "POST")
        exchange.feed(memoryview(HEAD + b"content-length: 1000000\r\n\r\n"))
        exchange.feed(memoryview(bytes(size)))
        assert exchange.take() == bytes(size)

    run(main())
    assert paused == [size] * pauses


def test_a_finished_answer_that_was_paused_serves_the_next() -> None:
    """Nothing more is wanted after the terminal event, though the socket was not being read: it is again."""

    async def pours(wire: Wire, seen: Seen) -> None:
        await wire.answer(bytes(4 * 1024 * 1024))

    async def main() -> None:
        async with Server(pours) as server, patient(Clock(), linger=20) as transport:
            for _ in range(3):
                answer = await transport.open(asks(), server.base, AUTH)
                assert await answer.chunk()
                await asyncio.sleep(0.05)
                answer.finish()
                await asyncio.sleep(0.05)
            assert len(server.seen) == 3
            assert server.accepted == 1

    run(main())


@pytest.mark.parametrize("status", [300, 413, 503])
def test_an_answer_that_comes_before_the_request_was_sent(status: int) -> None:
    """A host refuses a body by its length and reads nothing of it; the refusal is what the caller gets, at once."""
    told = asyncio.Event()

    async def refuses(wire: Wire, seen: Seen) -> None:
        await wire.answer(b'{"error":{"message":"too big"}}', status)
        await told.wait()
        await wire.gone()
        wire.writer.close()

    async def main() -> None:
        async with Server(refuses, reads_bodies=False) as server, patient(Clock(), retry=_NEVER) as transport:
            for count in (1, 2):
                told.clear()
                with pytest.raises(ProviderError, match=r"too big|leads") as caught:
                    await transport.open(asks(bytes(64 << 20)), server.base, AUTH)
                assert caught.value.status == status
                told.set()
                await server.all_closed()
                assert server.accepted == count, "the rest of the body would be read as a request"

    run(main())


def test_a_request_that_was_broken_off_leaves_no_connection_for_the_next() -> None:
    """All that was written has been read when the refusal ends; the host still waits for the rest of the body."""
    size = 64 << 20
    refusal = b'{"error":{"message":"too big"}}'

    async def refuses(wire: Wire, seen: Seen) -> None:
        await wire.send(b"HTTP/1.1 413 X\r\ncontent-length: %d\r\n\r\n" % len(refusal) + refusal[:5])
        try:
            while True:
                async with asyncio.timeout(0.2):
                    assert await wire.reader.read(1 << 20)
        except TimeoutError:
            await wire.send(refusal[5:])
        assert await wire.reader.read() == b"", "closed, not used again"
        wire.writer.close()

    async def main() -> None:
        async with Server(refuses, reads_bodies=False) as server, patient(Clock(), retry=_NEVER) as transport:
            for count in (1, 2):
                with pytest.raises(ProviderError, match="too big"):
                    await transport.open(asks(bytes(size)), server.base, AUTH)
                await server.all_closed()
                assert server.accepted == count

    run(main())


def test_a_large_request_in_pieces() -> None:
    async def measures(wire: Wire, seen: Seen) -> None:
        await wire.answer(b"%d" % len(seen.body))

    async def main() -> None:
        async with Server(measures) as server, patient(Clock()) as transport:
            for size in (0, 1, 65535, 65536, 65537, 1 << 20, 20 << 20):
                assert await _one(transport, server, body=bytes(size)) == b"%d" % size
            assert server.accepted == 1

    run(main())


@pytest.mark.parametrize("waits", [True, False])
def test_room_for_more_of_a_request_wakes_whoever_waits_for_it(waits: bool) -> None:
    """Nearly always nobody does: the loop calls these for every connection."""

    async def main() -> None:
        for told in (Connection.resume_writing, lambda connection: connection.connection_lost(None)):
            connection = Connection(asyncio.get_running_loop())
            connection._drained = drained = asyncio.get_running_loop().create_future() if waits else None
            told(connection)
            assert connection._drained is None
            assert drained is None or drained.done()

    run(main())


def test_unread_answers_do_not_go_back_to_the_pool() -> None:
    async def pours(wire: Wire, seen: Seen) -> None:
        await wire.answer(bytes(4 * 1024 * 1024))

    async def main() -> None:
        async with Server(pours) as server, patient(Clock()) as transport:
            for _ in range(3):
                async with await transport.open(asks(), server.base, AUTH) as answer:
                    assert answer.status == 200
            await server.all_closed()
            assert server.accepted == 3

    run(main())


def test_one_reader_at_a_time() -> None:
    async def main() -> None:
        async with Server(stalls) as server, patient(Clock()) as transport:
            answer = await transport.open(asks(), server.base, AUTH)
            await answer.chunk()
            first = asyncio.create_task(answer.chunk())
            await asyncio.sleep(0)
            with pytest.raises(LocalError, match="another task"):
                await answer.chunk()
            with pytest.raises(TruncatedStream):
                await first
            await server.all_closed()

    run(main())


def test_two_answers_at_once_have_two_connections() -> None:
    async def main() -> None:
        begun = asyncio.Barrier(2)

        async def waits(wire: Wire, seen: Seen) -> None:
            await begun.wait()
            await wire.answer(JSON_OK)

        async with Server(waits) as server, patient(Clock()) as transport:
            found = await asyncio.gather(_one(transport, server), _one(transport, server))
            assert found == [JSON_OK] * 2
            assert server.accepted == 2

    run(main())


def test_scripts_take_turns() -> None:
    """A refusal with a body is read, and its connection serves the next request."""

    async def main() -> None:
        script = scripted(says(b"HTTP/1.1 400 X\r\ncontent-length: 2\r\n\r\n{}"), OK)
        async with Server(script) as server, patient(Clock()) as transport:
            assert isinstance(await _one(transport, server), MidstreamError)
            assert await _one(transport, server) == JSON_OK
            assert server.accepted == 1

    run(main())
