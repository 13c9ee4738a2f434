"""A small HTTP/1.1 server on asyncio and httptools, for the doubles: it takes what real hosts take, and can misbehave on order.

`HTTPServer(handler)` calls `await handler(request, responder)` once a request is whole, one at a time on a connection. The
handler answers with `send`, or with `start`, `write` and `finish`; `abort` drops the connection in the middle of anything.
A client that leaves cancels its handler. Every size and every wait has a limit, and what is over it is refused with the
status HTTP has for it.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import TypeAlias, cast
from urllib.parse import unquote

import httptools
import msgspec

from ..core.errors import LimitExceeded, MidstreamError
from ..transport.encoding import inflater


# A double serves tests, but it is also run for hours in front of agents: every wait and every buffer ends somewhere.
class ServerLimits(msgspec.Struct, frozen=True):
    """What one client may cost. Times are in seconds."""

    header_bytes: int = 64 * 1024
    headers: int = 256
    body_bytes: int = 64 * 1024 * 1024
    head_timeout: float = 10.0
    body_timeout: float = 30.0
    idle_timeout: float = 75.0
    connections: int = 2048


class HTTPRequest(msgspec.Struct, frozen=True):
    """A request that has arrived whole. `path` is decoded, `query` is not; header names are in lower case."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    version: str = "1.1"
    keep_alive: bool = True

    def header(self, name: str) -> str:
        """The first header of this name; empty if there is none."""
        return next((value for known, value in self.headers if known == name), "")

    def all(self, name: str) -> list[str]:
        return [value for known, value in self.headers if known == name]


Handler: TypeAlias = Callable[[HTTPRequest, "Responder"], Awaitable[None]]
Headers: TypeAlias = Mapping[str, str]


# The order is the handler's to keep: `send` alone, or `start`, any number of `write`, and `finish`. What is left
# unfinished is aborted, so that a client can tell a broken answer from a whole one.
class Responder:
    """The way back for one request."""

    def __init__(self, connection: _Connection, request: HTTPRequest) -> None:
        self._connection = connection
        self._head_only = request.method == "HEAD"
        self._chunked = False
        self._old = request.version == "1.0"
        self.keep_alive = request.keep_alive
        self.started = False
        self.finished = False

    async def send(self, status: int, body: bytes, headers: Headers | None = None) -> None:
        """A whole answer."""
        self._head(status, {**(headers or {}), "content-length": str(len(body))})
        if body and not self._head_only:
            self._connection.write(body)
        self.finished = True
        await self._connection.drain()

    async def start(self, status: int, headers: Headers | None = None) -> None:
        """The head of an answer that follows piece by piece: in chunks, or to a client of HTTP/1.0 until the connection ends."""
        self._chunked = not self._old and not self._head_only
        framing = {"transfer-encoding": "chunked"} if self._chunked else {}
        if not self._chunked:
            # Without chunks only the end of the connection can end the body.
            self.keep_alive = self.keep_alive and self._head_only
        self._head(status, {**(headers or {}), **framing})

    async def write(self, piece: bytes) -> None:
        if piece and not self._head_only:
            self._connection.write(b"%x\r\n%b\r\n" % (len(piece), piece) if self._chunked else piece)
        await self._connection.drain()

    async def finish(self) -> None:
        if self._chunked:
            self._connection.write(b"0\r\n\r\n")
        self.finished = True
        await self._connection.drain()

    def abort(self) -> None:
        """Drop the connection at once, as a host does that goes down."""
        self.keep_alive = False
        self.finished = True
        self._connection.abort()

    def _head(self, status: int, headers: Headers) -> None:
        self.started = True
        lines = [f"HTTP/1.1 {status} {_phrase(status)}", *[f"{name}: {value}" for name, value in headers.items()]]
        if not self.keep_alive:
            lines.append("connection: close")
        elif self._old:
            lines.append("connection: keep-alive")
        self._connection.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace"))


class HTTPServer:
    """`port` 0 takes a free one; `await start()` sets it."""

    def __init__(
        self, handler: Handler, *, limits: ServerLimits | None = None, on_error: ErrorBody | None = None
    ) -> None:
        self.handler = handler
        self.limits = limits or ServerLimits()
        self.on_error = on_error or _error_body
        self.port = 0
        self.connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), host, port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self, grace: float = 1.0) -> None:
        """Take no more connections, let running answers end for `grace` seconds, then drop them."""
        if self._server is None:
            return
        # In this order: no new connections, then no new requests
        # on the old ones, then time for what runs, then force.
        await self._stop_accepting(self._server)
        self._server.close()
        for connection in list(self.connections):
            connection.retire()
        tasks = [connection.task for connection in self.connections if connection.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        for connection in list(self.connections):
            connection.abort()
        # Aborting cancels their handlers; waiting for them keeps "task was destroyed" warnings out of tests.
        left = [task for task in tasks if not task.done()]
        if left:
            await asyncio.wait(left)
        await asyncio.sleep(0)  # a transport tells its protocol of its end in the next turn of the loop
        self._server = None

    async def _stop_accepting(self, server: asyncio.Server) -> None:
        """asyncio loses a client whom it has accepted and not yet told of when its server is closed, with two warnings."""
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError):  # Windows accepts in another way
            for listener in server.sockets:
                loop.remove_reader(listener.fileno())
        for _ in range(3):  # accepted, given a transport, told
            await asyncio.sleep(0)


ErrorBody: TypeAlias = Callable[[int, str], bytes]
"""The body of an answer to what never became a request."""


def _error_body(status: int, message: str) -> bytes:
    return msgspec.json.encode({"error": {"message": message, "type": "invalid_request_error"}})


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


JSON: Headers = {"content-type": "application/json"}
_READ_AHEAD = 8
"""So many pipelined requests are read; then the connection is read no further until one is answered."""


class _Refused(Exception):
    """What came cannot become a request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Connection(asyncio.Protocol):
    """One client: bytes → requests, answered one after the other."""

    def __init__(self, server: HTTPServer) -> None:
        self._server = server
        self._limits = server.limits
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        # Requests that came while one is being answered (pipelining); answers must go out in the order of requests.
        self._waiting: deque[HTTPRequest] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._broken = False
        self._retired = False
        self.task: asyncio.Task[None] | None = None
        self._clear()

    def _clear(self) -> None:
        self._url = b""
        self._headers: list[tuple[str, str]] = []
        self._header_bytes = 0
        self._body: list[bytes] = []
        self._body_bytes = 0

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        # Told, not dropped: a client that only sees a closed connection would try again at once.
        if len(self._server.connections) >= self._limits.connections:
            self._refuse(_Refused(503, "too many connections; try again later"))
            return
        self._server.connections.add(self)
        self._wait(self._limits.head_timeout)

    def connection_lost(self, error: Exception | None) -> None:
        self._server.connections.discard(self)
        self._wait(None)
        self._transport = None
        self._broken = True
        self._writable.set()
        # The client has gone, so nobody wants the rest of the answer.
        if self.task is not None:
            self.task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        if self._broken:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # the request is whole and is answered; what another protocol would say after it is not read
        except httptools.HttpParserError as error:
            # httptools wraps what its callbacks raise; ours is inside and knows the status to answer with.
            cause = error.__context__
            refused = cause if isinstance(cause, _Refused) else _Refused(400, f"not a valid HTTP request: {error}")
            self._refuse(refused)
        if len(self._waiting) >= _READ_AHEAD and self._transport is not None:
            self._transport.pause_reading()

    # httptools' side

    def on_message_begin(self) -> None:
        self._clear()
        if self.task is None:
            self._wait(self._limits.head_timeout)

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        if len(self._headers) >= self._limits.headers:
            raise _Refused(431, f"more than {self._limits.headers} header fields")
        self._headers.append((name.decode("latin-1").lower(), value.decode("latin-1")))

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > self._limits.header_bytes:
            raise _Refused(431, f"the header is over {self._limits.header_bytes} bytes")

    def on_headers_complete(self) -> None:
        # Refused by what is announced, before the body is received.
        lengths = [value for name, value in self._headers if name == "content-length"]
        if lengths and int(lengths[0]) > self._limits.body_bytes:
            raise self._too_large()
        expected = [value for name, value in self._headers if name == "expect"]
        if expected and expected[0].lower() != "100-continue":
            raise _Refused(417, f"cannot do what Expect asks for: {expected[0]}")
        if expected and self.task is None:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # While an answer is being given the client owes nothing; a pipelined request may take its time.
        if self.task is None:
            self._wait(self._limits.body_timeout)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > self._limits.body_bytes:
            raise self._too_large()
        self._body.append(body)

    def on_message_complete(self) -> None:
        target = httptools.parse_url(self._url) if self._url.startswith((b"/", b"http")) else None
        path = (target.path or b"/") if target is not None else self._url
        query = (target.query or b"") if target is not None else b""
        request = HTTPRequest(
            self._parser.get_method().decode("latin-1"),
            unquote(path.decode("latin-1"), errors="replace"),
            query.decode("latin-1"),
            tuple(self._headers),
            b"".join(self._body),
            self._parser.get_http_version(),
            self._parser.should_keep_alive(),
        )
        self._clear()
        if self.task is None:
            self._run(request)
        else:
            self._waiting.append(request)

    # Answering

    def _run(self, request: HTTPRequest) -> None:
        self._wait(None)
        self.task = asyncio.get_running_loop().create_task(self._answer(request))

    async def _answer(self, request: HTTPRequest) -> None:
        responder = Responder(self, request)
        try:
            request = self._inflated(request)
            await self._server.handler(request, responder)
        except _Refused as refused:
            await responder.send(refused.status, self._server.on_error(refused.status, str(refused)), JSON)
        except ConnectionError:
            self.abort()
        except Exception:
            # Half an answer is out; the only honest thing left is to break the connection.
            if responder.started:
                self.abort()
            else:
                await responder.send(500, self._server.on_error(500, "internal error"), JSON)
            raise
        finally:
            self.task = None
            if not responder.finished:  # the handler gave up in the middle: the client must see that this is no end
                self.abort()
            # Also after an error: pipelined requests behind this one still wait for their answers.
            self._next(responder.keep_alive)

    def _next(self, keep_alive: bool) -> None:
        if self._transport is None:
            return
        if not keep_alive or self._retired or self._broken:
            self._transport.close()
        elif self._waiting:
            self._run(self._waiting.popleft())
            # Reading was stopped when the queue was full; without this it would never go on.
            if len(self._waiting) < _READ_AHEAD:
                self._transport.resume_reading()
        else:
            self._wait(self._limits.idle_timeout)

    def _inflated(self, request: HTTPRequest) -> HTTPRequest:
        encoding = request.header("content-encoding")
        try:
            codec = inflater(encoding)
            if codec is None:
                return request
            codec.feed(request.body)
            pieces, size = [], 0
            while piece := codec.piece():
                size += len(piece)
                if size > self._limits.body_bytes:
                    raise self._too_large()
                pieces.append(piece)
            codec.close()
        except LimitExceeded as error:
            raise _Refused(413, str(error)) from None
        except (MidstreamError, zlib.error) as error:
            raise _Refused(400, f"cannot read a body with content-encoding {encoding!r}: {error}") from None
        return msgspec.structs.replace(request, body=b"".join(pieces))

    def _too_large(self) -> _Refused:
        return _Refused(413, f"the body is over {self._limits.body_bytes} bytes")

    def _refuse(self, refused: _Refused) -> None:
        """Answer and close; while another request is being answered, just close: its answer must stay whole."""
        self._broken = True
        if self._transport is None or self.task is not None:
            self._retired = True
            return
        body = self._server.on_error(refused.status, str(refused))
        head = f"HTTP/1.1 {refused.status} {_phrase(refused.status)}\r\ncontent-type: application/json\r\n"
        self._transport.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
        self._transport.close()

    # The way out

    def write(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            # An exception, so that a handler in the middle of a long stream ends instead of producing for nobody.
            raise ConnectionResetError("the client has gone")
        self._transport.write(data)

    async def drain(self) -> None:
        if not self._writable.is_set():
            await self._writable.wait()
        if self._transport is None:
            raise ConnectionResetError("the client has gone")

    def abort(self) -> None:
        self._broken = True
        if self._transport is not None:
            self._transport.abort()

    def retire(self) -> None:
        """Close when the running answer has ended, or now."""
        self._retired = True
        if self.task is None and self._transport is not None:
            self._transport.close()

    def _wait(self, seconds: float | None) -> None:
        """From now on the client has so long for what must come next; None: it owes nothing."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._late)

    def _late(self) -> None:
        if self._header_bytes:  # in the middle of a request
            self._refuse(_Refused(408, "the request did not arrive in time"))
        elif self._transport is not None:
            self._transport.close()
