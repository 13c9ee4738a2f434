"""The doubles' HTTP server over raw sockets: what it takes, what it refuses, and what a client can cost it."""

from __future__ import annotations

import asyncio
import gc
import gzip
import socket
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from midstream.sim.http_server import JSON, Handler, HTTPRequest, HTTPServer, Responder, ServerLimits
from tests.event_loops import run as run_loop
from tests.long_run import each_once

pytestmark = pytest.mark.usefixtures("each_loop")

SMALL = ServerLimits(header_bytes=2000, headers=20, body_bytes=1000)


async def echo(request: HTTPRequest, responder: Responder) -> None:
    said = f"{request.method} {request.path} {request.query} {request.body.decode('latin-1')}"
    await responder.send(200, said.encode("latin-1"))


def with_server(handler: Handler, play: Callable[[HTTPServer], Awaitable[Any]], limits: ServerLimits = SMALL) -> Any:
    async def run() -> Any:
        server = HTTPServer(handler, limits=limits)
        await server.start()
        try:
            return await asyncio.wait_for(play(server), 20)
        finally:
            await server.close(grace=0.1)
            assert not server.connections

    return run_loop(run())


async def exchange(server: HTTPServer, *sent: bytes, half_close: bool = True) -> bytes:
    """All that comes back until the server closes (or has nothing more to say to a client that has)."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    for piece in sent:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)
    try:
        return await asyncio.wait_for(reader.read(), 5) if not half_close else await _read_answer(reader)
    finally:
        writer.close()
        try:
            await writer.wait_closed()
        except ConnectionError:
            pass


async def _read_answer(reader: asyncio.StreamReader) -> bytes:
    """One answer with a length, or whatever comes before the connection ends."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as ended:
        return ended.partial
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            return head + await reader.readexactly(int(line.split(b":")[1]))
    return head + await reader.read()


POST = b"POST /a/b?c=d HTTP/1.1\r\nhost: x\r\n"
TAKEN = {
    "length": POST + b"content-length: 2\r\n\r\nhi",
    "chunked": POST + b"transfer-encoding: chunked\r\n\r\n1\r\nh\r\n1;x=y\r\ni\r\n0\r\n\r\n",
    "trailer": POST + b"transfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nx-sum: 1\r\n\r\n",
    "gzip": (lambda body: POST + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))(
        gzip.compress(b"hi", mtime=0)
    ),
    "deflate": (lambda body: POST + b"content-encoding: deflate\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))(
        zlib.compress(b"hi")
    ),
    "the same header twice": POST + b"x-a: 1\r\nx-a: 2\r\ncontent-length: 2\r\n\r\nhi",
    "old HTTP": b"POST /a/b?c=d HTTP/1.0\r\ncontent-length: 2\r\n\r\nhi",
    "a full address": b"POST http://x/a/b?c=d HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi",
    "an escaped path": b"POST /a%2Fb?c=d HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi",
}


@each_once(("name", TAKEN), ("cut", [0, 1, 7]))
def test_a_request_arrives_however_it_was_framed_and_cut(name: str, cut: int) -> None:
    sent = TAKEN[name]
    pieces = [sent[at : at + cut] for at in range(0, len(sent), cut)] if cut else [sent]
    answer = with_server(echo, lambda server: exchange(server, *pieces))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and answer.endswith(b"\r\n\r\nPOST /a/b c=d hi"), answer


REFUSED = {
    "no HTTP": (b"\x16\x03\x01 hello\r\n\r\n", 400),
    "two lengths": (POST + b"content-length: 2\r\ncontent-length: 3\r\n\r\nhi!", 400),
    "length and chunks": (POST + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "a negative length": (POST + b"content-length: -1\r\n\r\n", 400),
    "a length past all numbers": (POST + b"content-length: 99999999999999999999999\r\n\r\n", 400),
    "a bad chunk": (POST + b"transfer-encoding: chunked\r\n\r\nzz\r\n", 400),
    "a space before the colon": (POST + b"x-a : 1\r\n\r\n", 400),
    "a folded header": (POST + b"x-a: 1\r\n 2\r\n\r\n", 400),
    "a long header": (POST + b"x-a: " + b"a" * 3000 + b"\r\n\r\n", 431),
    "a long path": (b"POST /" + b"a" * 3000 + b" HTTP/1.1\r\n\r\n", 431),
    "many headers": (POST + b"a: b\r\n" * 30 + b"\r\n", 431),
    "a long body": (POST + b"content-length: 1001\r\n\r\n", 413),
    "a long body in chunks": (
        POST + b"transfer-encoding: chunked\r\n\r\n" + b"1f4\r\n" + b"a" * 500 + b"\r\n1f5\r\n" + b"a" * 501,
        413,
    ),
    "an expectation we do not know": (POST + b"expect: miracles\r\ncontent-length: 2\r\n\r\nhi", 417),
    "not gzip": (POST + b"content-encoding: gzip\r\ncontent-length: 2\r\n\r\nhi", 400),
    "an unknown encoding": (POST + b"content-encoding: rot13\r\ncontent-length: 2\r\n\r\nhi", 400),
    "a bomb": (
        (lambda body: POST + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))(
            gzip.compress(b"a" * 100_000, mtime=0)
        ),
        413,
    ),
}


@each_once(("name", REFUSED), ("cut", [0, 11]))
def test_what_is_no_request_is_refused_with_its_status(name: str, cut: int) -> None:
    sent, status = REFUSED[name]
    pieces = [sent[at : at + cut] for at in range(0, len(sent), cut)] if cut else [sent]

    async def play(server: HTTPServer) -> bytes:
        try:
            return await exchange(server, *pieces)
        except ConnectionError:  # it closed while we were still sending
            return b""

    answer = with_server(echo, play)
    assert answer.startswith(b"HTTP/1.1 %d " % status) or (cut and not answer), answer


def test_requests_in_one_write_are_answered_in_their_order() -> None:
    many = b"".join([b"GET /%d HTTP/1.1\r\nhost: x\r\n\r\n" % number for number in range(40)])

    async def slow(request: HTTPRequest, responder: Responder) -> None:
        await asyncio.sleep(0)
        await echo(request, responder)

    async def play(server: HTTPServer) -> bytes:
        last = b"GET /last HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        return await exchange(server, many + last, half_close=False)

    answer = with_server(slow, play)
    said = [line.split(b"HTTP")[0].strip() for line in answer.split(b"\r\n\r\n")[1:]]
    assert said == [*[b"GET /%d" % number for number in range(40)], b"GET /last"]


def test_head_is_answered_without_a_body() -> None:
    answer = with_server(echo, _head)
    assert b"content-length: 9\r\n" in answer and answer.endswith(b"\r\n\r\n")


async def _head(server: HTTPServer) -> bytes:
    return await exchange(server, b"HEAD /x HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n", half_close=False)


def test_the_client_is_told_to_go_on() -> None:
    async def play(server: HTTPServer) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(POST + b"expect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"hi")
        answer = await _read_answer(reader)
        writer.close()
        await writer.wait_closed()
        return answer

    assert with_server(echo, play).endswith(b"POST /a/b c=d hi")


async def stream(request: HTTPRequest, responder: Responder) -> None:
    await responder.start(200, JSON)
    for piece in (b"one", b"", b"two"):
        await responder.write(piece)
    await responder.finish()


def test_a_stream_goes_in_chunks_and_to_an_old_client_until_the_end() -> None:
    chunks = with_server(stream, lambda server: exchange(server, b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n"))
    assert chunks.endswith(b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
    old = with_server(stream, lambda server: exchange(server, b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n"))
    assert old.endswith(b"connection: close\r\n\r\nonetwo") and b"chunked" not in old


def test_an_answer_given_up_in_the_middle_never_looks_whole() -> None:
    async def half(request: HTTPRequest, responder: Responder) -> None:
        await responder.start(200)
        await responder.write(b"half")
        if request.path == "/abort":
            responder.abort()

    async def play(server: HTTPServer) -> None:
        for path in (b"/abort", b"/return"):
            try:
                answer = await exchange(server, b"GET %b HTTP/1.1\r\n\r\n" % path)
            except ConnectionError:
                continue
            assert not answer.endswith(b"0\r\n\r\n"), path

    with_server(half, play)


@pytest.mark.parametrize(
    ("sent", "limits", "status"),
    [
        (b"", ServerLimits(head_timeout=0.05), b""),
        (b"GET / HT", ServerLimits(head_timeout=0.05), b"HTTP/1.1 408 "),
        (POST + b"content-length: 5\r\n\r\nhi", ServerLimits(body_timeout=0.05), b"HTTP/1.1 408 "),
    ],
)
def test_a_client_that_dawdles_is_let_go(sent: bytes, limits: ServerLimits, status: bytes) -> None:
    answer = with_server(echo, lambda server: exchange(server, sent, half_close=False), limits)
    assert answer.startswith(status) and bool(answer) == bool(status)


def test_an_idle_connection_is_closed() -> None:
    limits = ServerLimits(idle_timeout=0.05)
    answer = with_server(echo, lambda server: exchange(server, b"GET / HTTP/1.1\r\n\r\n", half_close=False), limits)
    assert answer.endswith(b"GET /  ")


def test_a_client_that_does_not_read_holds_the_writer_and_its_leaving_ends_it() -> None:
    written = 0
    ended = asyncio.Event()

    async def flood(request: HTTPRequest, responder: Responder) -> None:
        nonlocal written
        await responder.start(200)
        try:
            for _ in range(1000):
                await responder.write(b"x" * 100_000)
                written += 100_000
        finally:
            ended.set()

    async def play(server: HTTPServer) -> None:
        _reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1000)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        before = -1
        while written != before:  # until a while goes by with nothing more taken
            before = written
            await asyncio.sleep(0.2)
        assert 0 < written < 50_000_000
        writer.transport.abort()
        await asyncio.wait_for(ended.wait(), 5)

    with_server(flood, play)


def test_more_connections_than_allowed_are_turned_away() -> None:
    async def play(server: HTTPServer) -> bytes:
        held = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2)]
        for reader, writer in held:
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await _read_answer(reader)
        answer = await exchange(server, b"", half_close=False)
        for _, writer in held:
            writer.close()
            await writer.wait_closed()
        return answer

    assert with_server(echo, play, ServerLimits(connections=2)).startswith(b"HTTP/1.1 503 ")


def test_closing_ends_answers_that_never_would() -> None:
    async def stall(request: HTTPRequest, responder: Responder) -> None:
        await responder.start(200)
        await asyncio.sleep(3600)

    async def play(server: HTTPServer) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        await server.close(grace=0.01)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()

    with_server(stall, play)


@pytest.mark.parametrize("turns", range(5))
def test_a_client_that_comes_while_the_server_closes_leaves_no_warning(turns: int) -> None:
    """So many turns of the loop after it connected; a ResourceWarning fails the test."""

    async def run() -> None:
        server = HTTPServer(echo)
        await server.start()
        with socket.create_connection(("127.0.0.1", server.port)):
            for _ in range(turns):
                await asyncio.sleep(0)
            await server.close()

    run_loop(run())
    gc.collect()
