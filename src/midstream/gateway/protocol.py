"""HTTP/1.1 towards clients: uvicorn's protocol on llhttp, with limits on everything that a client decides.

llhttp is strict about framing. What it lets through and we refuse: transfer codings other than plain `chunked`, any on
HTTP/1.0, versions other than 1.0 and 1.1, a missing or repeated Host, trailers taken for headers. What uvicorn leaves out and
we add: limits on the head, the body, connections and pipelining, time limits for reading and writing, answers that reach a
client which is still sending, and an end for a reader that has stalled.

Every request gets one answer, in order. A refusal waits for the answers before it, and nothing is read after it.
There is no timer for each request: a connection holds the time at which it expires, and the server looks at all of them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from functools import lru_cache
from http import HTTPStatus
from math import inf
from typing import Any, NoReturn, TypeAlias, cast
from urllib.parse import unquote

import httptools
import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE as STATUS_LINE
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

Message: TypeAlias = MutableMapping[str, Any]
App: TypeAlias = Callable[[Any, Any, Any], Awaitable[None]]

log = logging.getLogger("midstream.gateway")

_HIGH_WATER = 64 * 1024  # of a body that the application has not taken yet
_CHUNK_OVERHEAD = 16 * 1024  # bytes of chunk extensions and trailers beyond what one-byte chunks need
_ONE_BYTE_CHUNK = 8  # bytes on the wire for one of body, at most
_HOST_CHARACTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]%~!$&'()*+;="
# Twice, these are how one message is read as two by two servers (request smuggling).
_SINGLE = (b"host", b"transfer-encoding", b"content-length", b"expect")
_RARE = frozenset({b"transfer-encoding", b"expect"})
_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"connection"})
_NO_BODY, _UNTIL_CLOSE = -1, -2  # lengths of answers that have none to announce
_BETWEEN, _HEAD, _BODY, _DEAF = range(4)  # what of a request is expected next; the deaf throw away what they hear


# Each limit answers one attack: long heads, many headers, endless bodies, slow
# heads and bodies, readers that stop reading. The figures are generous for clients:
# a coding agent's request has some kilobytes of headers and megabytes of body.
class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one client may take. Times are in seconds and are kept to within about half a second."""

    url: int = 8 * 1024
    head: int = 64 * 1024
    headers: int = 128
    body: int = 32 * 1024 * 1024
    pipelined: int = 16
    """Requests waiting on one connection while another is answered."""
    connections: int = 10_000
    head_time: float = 10.0
    body_time: float = 30.0
    """How long a body may pause, and how long it may take beyond what `rate` allows it."""
    write_time: float = 30.0
    """How long a client may stop reading."""
    rate: float = 4096.0
    """Bytes per second. Whoever sends or reads less counts as stopped."""
    idle_time: float = 75.0
    """How long a connection is kept open between requests."""
    linger_time: float = 2.0
    """How long the rest of a refused request is read and thrown away, so that the client sees the refusal."""


class EngineState(ServerState):
    """What the connections of one server share."""

    def __init__(self, limits: Limits, refused: Callable[[int], None] | None = None) -> None:
        super().__init__()
        self.limits = limits
        self.refused = refused
        self.clock: Callable[[], float] = time.monotonic
        self.draining = False
        self.default_head = b""  # lines that every answer has, such as the date
        self.admitted = 0  # connections, without those that were turned away and are only being closed


class GatewayProtocol(HttpToolsProtocol):
    """One connection of a client."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.parser = httptools.HttpRequestParser(self)  # a strict one: uvicorn's reads on after `Connection: close`
        self.state = cast(EngineState, server_state)
        self.limits = self.state.limits
        self.clock = self.state.clock
        # The moment at which the client is late with what it owes next; inf while it owes nothing. `write_expires` is
        # the same for reading our answer. The server looks at both at least twice a second.
        self.expires = inf
        self.write_expires = inf
        self._phase = _BETWEEN
        self._admitted = False
        self._answering: ServedRequest | None = None
        self._waiting: deque[ServedRequest] = deque()
        self._receiving: ServedRequest | None = None  # the one whose body is being read
        self._refusal: tuple[int, str] | None = None
        self._feed = 0  # bytes that are being read
        self._head_wire = 0  # bytes of a head that came before them
        self._begun_in_feed = False
        self._body_began = 0.0
        self._body_wire = 0  # bytes of the body's wire form
        self._reading_paused_at = 0.0
        self._unsent = 0  # bytes in the write buffer when it was last looked at,
        self._looked = 0.0  # which was then
        self.unwritable: asyncio.Future[None] | None = None  # done when the client has read enough

    # asyncio says BaseTransport, and a stream protocol is always given a Transport.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        state = self.state
        if state.draining:  # taken just before the listener was closed
            self.transport.abort()
            return
        if state.admitted >= self.limits.connections:
            # Being refused takes a moment too; a flood is not even told.
            if len(state.connections) > 2 * self.limits.connections:  # no time for courtesy
                self.transport.abort()
                return
            self._write_refusal(503, "too many connections: try again in a moment")
            return
        state.admitted += 1
        self._admitted = True
        self.expires = self.clock() + self.limits.head_time

    def connection_lost(self, exc: Exception | None) -> None:
        if self._admitted:
            self._admitted = False
            self.state.admitted -= 1
        self.connections.discard(self)
        self._phase = _DEAF
        self._leave()
        self.resume_writing()
        if exc is None:
            self.transport.close()
        # It refers back to this protocol, and nothing is parsed from here on.
        self.parser = None  # type: ignore[assignment]

    def eof_received(self) -> None:
        """The client has nothing more to say. Whoever has not got its answer yet counts as gone: the two look the same."""
        if self._answering is not None or self._waiting:
            self._leave()
            self.transport.abort()  # closing would first wait for the client to read what is buffered
        else:
            self._close()

    def _leave(self) -> None:
        """Tell the requests of this connection that their client is gone."""
        answering, self._answering = self._answering, None
        self._receiving = None
        self._waiting.clear()  # never started
        if answering is not None:
            answering.leave()

    def shutdown(self) -> None:
        """The server drains. A request whose head is on its way is still answered; its head time holds."""
        idle = self._phase == _BETWEEN and self._answering is None and not self._waiting
        if idle and not self.transport.is_closing():
            self._close()

    def data_received(self, data: bytes) -> None:
        # As it was before this data: whether a head or a body had begun decides which limit the data counts for.
        phase = self._phase
        if phase == _DEAF:
            return
        # The first byte of a head starts its time; later ones do not
        # extend it, or one byte a second would hold a connection for ever.
        if phase == _BETWEEN:
            self.expires = self.clock() + self.limits.head_time
        self._begun_in_feed = False
        self._feed = len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # The upgrade is declined by answering (RFC 9110 §7.8); llhttp reads nothing more, so this is the last request.
            self._phase = _DEAF
        except httptools.HttpParserError as error:
            if self._phase != _DEAF:
                status, reason = self._refusal or (400, f"invalid HTTP request: {error}")
                self._refuse(status, reason)
        else:
            if self._phase == _HEAD and (phase != _BODY or not self._begun_in_feed):
                # The head is not whole. Of a first part that came behind another request nobody knows the size.
                self._head_wire += len(data)
                if self._head_wire > self.limits.head + self.limits.url:
                    self._refuse(431, "the request's headers are too large")
            elif self._phase == _BODY:
                self._feed_of_body(len(data) if phase == _BODY else 0)

    def _feed_of_body(self, size: int) -> None:
        served = self._receiving
        if served is None:
            return
        self._body_wire += size
        # One-byte chunks are legal and cost eight bytes each; more than that is extensions, which nobody needs.
        if self._body_wire > _CHUNK_OVERHEAD + _ONE_BYTE_CHUNK * served.received:
            self._refuse(400, "the request's chunks are mostly overhead")
        elif self.flow.read_paused:
            self.expires = inf
        else:
            self._expect_body(served)

    def _expect_body(self, served: ServedRequest) -> None:
        limits = self.limits
        paused = self.clock() + limits.body_time
        # Two limits in one: no pause longer than `body_time`, and no average slower than `rate`.
        slow = self._body_began + limits.body_time + served.received / limits.rate
        self.expires = paused if paused < slow else slow

    # What llhttp says of a request, in order

    def on_message_begin(self) -> None:
        self._phase = _HEAD
        self._begun_in_feed = True
        self._head_wire = 0
        self.url = b""
        self.headers = []

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > self.limits.url:
            self._stop(414, f"the request's URL is longer than {self.limits.url} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))  # of a head that is too large, no more than one read comes here

    def on_headers_complete(self) -> None:
        parser = self.parser
        headers = self.headers
        # A cheap test that may be too strict; `_check_size` counts exactly.
        if len(headers) > self.limits.headers or self._head_wire + self._feed > self.limits.head:
            self._check_size(headers)
        fields = dict(headers)
        version = parser.get_http_version()
        # Fewer names than headers: one came twice. Only then are they looked at one by one.
        if version != "1.1" or len(fields) != len(headers):
            self._check_odd_head(version, [name for name, _ in headers])
        host = fields.get(b"host")
        # `translate` deletes what is allowed, so anything that is left is not. HTTP/1.0 may leave Host out.
        if (not host or host.translate(None, _HOST_CHARACTERS)) and (version == "1.1" or host is not None):
            self._stop(400, "a request has one Host header, with the name of a host")
        length = fields.get(b"content-length")
        if length is not None and int(length) > self.limits.body:  # llhttp let through digits only
            self._too_large()
        expectation = None
        if not _RARE.isdisjoint(fields):
            coding = fields.get(b"transfer-encoding")
            if coding is not None and coding.strip().lower() != b"chunked":
                self._stop(400, "the only transfer coding that is read here is chunked")
            expectation = fields.get(b"expect")
            if expectation is not None and expectation.lower() != b"100-continue":
                self._stop(417, "the only expectation that can be met is 100-continue")
        upgrade = parser.should_upgrade()
        method = parser.get_method().decode("ascii")
        if upgrade:
            if method == "CONNECT":
                self._stop(405, "this is not a proxy")
            if self._get_upgrade() == b"websocket":
                self._stop(426, "WebSocket is not spoken here: use plain HTTP")
        # Pipelined requests cost memory before anybody answers them.
        if len(self._waiting) >= self.limits.pipelined:
            self._stop(429, "too many pipelined requests")
        # A query may hold a key, which is not remembered anywhere.
        raw_path, path, query = _split(self.url) if b"?" in self.url else _known_split(self.url)
        if b"://" in self.url and not self.url.startswith(b"/"):
            # RFC 9112 §3.2.2: of a whole address its host counts, and no header that says otherwise.
            place = self.url.partition(b"://")[2].partition(b"/")[0].partition(b"?")[0]
            headers = [*[pair for pair in headers if pair[0] != b"host"], (b"host", place)]
        served = ServedRequest(self, version == "1.1" and not upgrade and parser.should_keep_alive())
        served.scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "method": method,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": "",
            "path": path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": headers,
            "state": self.app_state.copy(),
            "extensions": {"midstream": {"on_disconnect": served.on_disconnect, "traffic": served.traffic}},
        }
        served.expects_100 = expectation is not None and version == "1.1"
        self.headers = []  # trailers are not headers: nobody gets them
        self._phase = _BODY
        self._receiving = served
        self._body_wire = 0
        self._body_began = self.clock()
        self.expires = self._body_began + self.limits.body_time
        if self._answering is None:
            self._start(served)
        else:
            self._waiting.append(served)
            # Behind a request that is being answered: nothing more is read until its turn comes.
            self._pause_reading()

    def _check_size(self, headers: list[tuple[bytes, bytes]]) -> None:
        limits = self.limits
        if len(headers) > limits.headers or sum([len(name) + len(value) + 4 for name, value in headers]) > limits.head:
            self._stop(431, f"the request has more than {limits.headers} headers or {limits.head} bytes of them")

    def _check_odd_head(self, version: str, names: list[bytes]) -> None:
        if version not in ("1.1", "1.0"):
            self._stop(400, f"HTTP/{version} is not spoken here: use HTTP/1.1")
        if version == "1.0" and b"transfer-encoding" in names:
            self._stop(400, "HTTP/1.0 has no transfer codings")
        for name in _SINGLE:
            if names.count(name) > 1:
                self._stop(400, f"the header {name.decode()} is there twice")

    def _too_large(self) -> NoReturn:
        self._stop(413, f"the request is larger than {self.limits.body} bytes, which is all this gateway takes")

    def on_body(self, body: bytes) -> None:
        served = self._receiving
        if served is None:
            return
        served.received += len(body)
        if served.received > self.limits.body:
            self._too_large()
        # The answer is out already; the rest of the body is only read to get it out of the way.
        if served.complete:
            return
        served.parts.append(body)
        served.held += len(body)
        if served.held > _HIGH_WATER:
            self._pause_reading()
        served.wake()

    def on_message_complete(self) -> None:
        if self.headers:  # trailers
            self._check_size(self.headers)
        served, self._receiving = self._receiving, None
        self._phase = _BETWEEN
        self.expires = inf
        if served is None:
            return
        served.more = False
        if not served.keep_alive:
            self._phase = _DEAF  # what follows is no request to anybody
        served.wake()

    def _stop(self, status: int, reason: str) -> NoReturn:
        """Refuse what llhttp is reading. It stops at an exception, and `data_received` goes on from there."""
        self._refusal = (status, reason)
        # Any exception will do; httptools turns it into its own, and `_refusal` holds the reason.
        raise ValueError(reason)

    # Refusals

    def _refuse(self, status: int, reason: str) -> None:
        """Answer the request that is being read with an error, when its turn comes, and read nothing after it."""
        self._phase = _DEAF
        self.expires = inf
        self._refusal = (status, reason)
        receiving, self._receiving = self._receiving, None
        # The application may already be at work on a request whose body turns out to be bad.
        if receiving is not None and receiving is self._answering:
            self._answering = None
            begun = receiving.begun
            receiving.leave()
            if begun:  # its answer is half out: there is no room for another
                self.transport.abort()
                return
        elif receiving is not None:
            self._waiting.remove(receiving)
        if self._answering is None:
            self._write_refusal(status, reason)

    def _write_refusal(self, status: int, reason: str) -> None:
        if self.transport.is_closing():
            return
        if self.state.refused is not None:
            self.state.refused(status)
        # Written by hand, past the application: what is refused here never became a request.
        body = refusal_body(status, reason)
        more = b"retry-after: 1\r\n" if status in (429, 503) else b""
        more += b"upgrade: HTTP/1.1\r\n" if status == 426 else b""
        self.transport.write(
            b"%bcontent-type: application/json\r\ncontent-length: %d\r\n%bconnection: close\r\n\r\n%b"
            % (STATUS_LINE[status], len(body), more, body)
        )
        self._linger()

    def _linger(self) -> None:
        """Close for writing, and hear the client out for a moment.

        A socket closed with unread bytes is reset, and a client still sending would lose the answer it has not read yet.
        """
        self._last_words(self.limits.linger_time)
        self._resume_reading()
        # TLS cannot close one direction; there the whole connection is closed.
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    def _close(self) -> None:
        self._last_words(self.limits.write_time)
        self.transport.close()

    def _last_words(self, linger: float) -> None:
        self._phase = _DEAF
        self._look()
        self.expires = self._looked + (self.limits.write_time if self._unsent else linger)

    def expire(self, now: float) -> None:
        """The server saw that one of the times is over."""
        limits = self.limits
        if self.write_expires < now:
            if self._is_stalled():
                self._leave()
                self.transport.abort()
                return
            self.write_expires = now + limits.write_time
        if self.expires >= now:
            return
        self.expires = inf
        phase = self._phase
        if self.transport.is_closing() or (phase == _DEAF and self._answering is None):
            if self._is_stalled():
                self.transport.abort()
            else:
                self.expires = now + limits.write_time
        elif phase == _HEAD:
            self._refuse(408, f"the request's headers did not arrive within {limits.head_time:g} s")
        elif phase == _BODY:
            self._refuse(408, "the request's body stopped or came too slowly")
        elif phase == _BETWEEN and self._answering is None:
            self._close()

    def _is_stalled(self) -> bool:
        """Whether the client took next to nothing of what is waiting for it since the last look."""
        before, since = self._unsent, self._looked
        self._look()
        return before - self._unsent < (self._looked - since) * self.limits.rate

    def _look(self) -> None:
        self._unsent = self.transport.get_write_buffer_size()
        self._looked = self.clock()

    # Answers

    def _start(self, served: ServedRequest) -> None:
        self._answering = served
        task = self.loop.create_task(served.run(self.app))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def answered(self, served: ServedRequest) -> None:
        """The last byte of an answer was written."""
        if served is not self._answering:
            return
        self._answering = None
        self.state.total_requests += 1
        if self.transport.is_closing():
            return
        if not served.keep_alive:
            self._receiving = None
            self._linger()
            return
        if self._waiting:
            self._start(self._waiting.popleft())
            if not self._waiting:
                self._resume_reading()
            return
        if self._refusal is not None:
            self._write_refusal(*self._refusal)
            return
        self._resume_reading()
        if self._phase == _BETWEEN:
            if self.state.draining:
                self._close()
            else:
                self.expires = self.clock() + self.limits.idle_time
        elif self._phase == _HEAD:
            self.expires = self.clock() + self.limits.head_time

    def abandoned(self) -> None:
        """An answer cannot be finished. The client sees what there is of it, and that its end is missing."""
        self._leave()
        self._linger()

    def take(self, served: ServedRequest) -> bytes:
        """What has come of a body, handed to the application."""
        parts = served.parts
        served.parts = []
        served.held = 0
        if served is self._receiving and not self._waiting:
            self._resume_reading()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _pause_reading(self) -> None:
        if not self.flow.read_paused:
            self._reading_paused_at = self.clock()
            self.flow.pause_reading()

    def _resume_reading(self) -> None:
        if self.flow.read_paused and not self.transport.is_closing():
            self.flow.resume_reading()
            served = self._receiving
            if served is not None:  # the pause was ours, so it does not count
                self._body_began += self.clock() - self._reading_paused_at
                self._expect_body(served)

    def pause_writing(self) -> None:
        self._look()
        self.write_expires = self._looked + self.limits.write_time
        if self.unwritable is None:
            self.unwritable = self.loop.create_future()

    def resume_writing(self) -> None:
        self.write_expires = inf
        writable, self.unwritable = self.unwritable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    async def writable(self) -> None:
        while self.unwritable is not None:
            await asyncio.shield(self.unwritable)  # several may wait, and one of them may be cancelled


def _split(url: bytes) -> tuple[bytes, str, bytes]:
    """The path as it came and as it is meant, and the query."""
    parts = httptools.parse_url(url)
    raw_path = parts.path or b"/"  # http://host without one
    path = raw_path.decode("ascii")
    return raw_path, unquote(path) if "%" in path else path, parts.query or b""


_known_split = lru_cache(maxsize=256)(_split)


class ServedRequest:
    """One request and its answer, as ASGI sees them.

    The head of an answer is written with the first piece of its body, or as soon as the loop comes round without one. A piece
    that says `with_next` waits too if the head is still here: what a stream begins with need not be a write of its own. A head may
    bring all of its body along, as `whole`.
    `scope["extensions"]["midstream"]["on_disconnect"]` takes a callback for when the client leaves, called at most once;
    None takes it back. It costs no task, unlike waiting for `http.disconnect`. `traffic`, beside it, gives the sizes of both bodies.
    """

    __slots__ = (
        "_connection", "_given", "_gone", "_head", "_left", "_waiter", "begun", "chunked", "complete", "disconnected", "expects_100",
        "held", "keep_alive", "more", "parts", "received", "scope", "sent",
    )  # fmt: skip

    def __init__(self, connection: GatewayProtocol, keep_alive: bool) -> None:
        self._connection = connection
        self._given = False  # whether the application has got the whole body
        self._gone: Callable[[], object] | None = None
        self._head = b""  # not written yet
        self._left = 0  # of the length that the answer announced
        self._waiter: asyncio.Future[None] | None = None
        self.scope: dict[str, Any] = {}
        self.keep_alive = keep_alive
        self.expects_100 = False
        self.parts: list[bytes] = []
        self.held = 0
        self.received = 0  # bytes of the bodies
        self.sent = 0
        self.more = True
        self.begun = False
        self.chunked = False
        self.complete = False
        self.disconnected = False

    def on_disconnect(self, callback: Callable[[], object] | None) -> None:
        self._gone = callback
        if callback is not None and self.disconnected:
            self._connection.loop.call_soon(self._call_gone)

    def traffic(self) -> tuple[int, int]:
        """Bytes of the request's body and of the answer's, so far."""
        return self.received, self.sent

    def _call_gone(self) -> None:
        callback, self._gone = self._gone, None
        if callback is not None:
            callback()

    def leave(self) -> None:
        """The client is gone."""
        if not self.disconnected:
            self.disconnected = True
            self.wake()
            if not self.complete:
                self._call_gone()

    def wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def run(self, app: App) -> None:
        try:
            await app(self.scope, self.receive, self.send)
        except asyncio.CancelledError:
            # Either the client is gone, or the server ends now and the drain is over.
            if not self.disconnected and not self.complete:
                self._end_with(503, "the gateway is restarting: try again")
        except Exception as error:  # the edge: a defect in the application must not end the server
            log.error("the application failed", exc_info=error)
            if not self.complete:
                self._end_with(500, "the gateway failed; its log says why")
        else:
            if not self.complete and not self.disconnected:
                log.error("the application returned without finishing its answer to %s", self.scope["method"])
                self._end_with(500, "the gateway failed; its log says why")
        finally:
            self._gone = None
            # It holds methods of this object, and the client's key: nobody should have to wait for the collector.
            self.scope = {}

    def _end_with(self, status: int, reason: str) -> None:
        """The application can say no more."""
        self._gone = None
        if self.disconnected:
            return
        if self.begun and not self._head:
            self._connection.abandoned()
            return
        self._head = b""
        body = refusal_body(status, reason)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        self._begin(status, headers + ([(b"retry-after", b"1")] if status == 503 else []))
        self._write_body(body, False)

    async def receive(self) -> Message:
        connection = self._connection
        if self.expects_100:
            self.expects_100 = False
            if self.more and not self.held and not connection.transport.is_closing():
                connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        while not (self.disconnected or self.complete):
            if self.parts or not (self.more or self._given):
                body = connection.take(self)
                self._given = not self.more  # what remains to hear is that the client leaves
                return {"type": "http.request", "body": body, "more_body": self.more}
            waiter = self._waiter
            if waiter is None:
                waiter = self._waiter = connection.loop.create_future()
            # Shielded: `wake` sets this future for everybody who waits on it.
            await asyncio.shield(waiter)
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        connection = self._connection
        if connection.unwritable is not None:
            await connection.writable()
        if self.disconnected:
            return
        kind = message["type"]
        if self.begun:
            if kind != "http.response.body" or self.complete:
                raise RuntimeError(f"unexpected message {kind!r}")
            body = message.get("body", b"")
            if self._head and self.chunked and body and message.get("with_next"):
                self.sent += len(body)
                self._head += b"%x\r\n%b\r\n" % (len(body), body)
            else:
                self._write_body(body, message.get("more_body", False))
        else:
            if kind != "http.response.start":
                raise RuntimeError(f"expected the message 'http.response.start', got {kind!r}")
            self._begin(message["status"], message.get("headers", ()))
            if "whole" in message:
                self._write_body(message["whole"], False)
            else:
                connection.loop.call_soon(self._write_head)

    def _begin(self, status: int, headers: Any) -> None:
        """Make the head. What came of the request until now decides whether the connection can go on after it."""
        connection = self._connection
        self.begun = True
        self.chunked = self.expects_100 = False
        # The body is not read to its end, so what follows on this connection cannot be told from it.
        if self.more or connection.state.draining:
            self.keep_alive = False
        length: int | None = None
        framing = b""
        headers = list(headers)  # ASGI allows anything that can be gone through once
        fields = dict(headers)
        if not b"".join(fields).islower():  # ASGI has them so; none may be missed because it is written in another way
            headers = [(name.lower(), value) for name, value in headers]
            fields = dict(headers)
        lines = [b"%b: %b\r\n" % (name, value) for name, value in headers if name not in _FRAMING]
        if b"content-length" in fields:
            length = int(fields[b"content-length"])
            lines.append(b"content-length: %d\r\n" % length)
        if b"connection" in fields and b"close" in fields[b"connection"].lower():
            self.keep_alive = False  # the header itself is ours to say
        told = b"".join(lines)
        breaks = len(lines)
        # One count over all headers instead of a look at each: a
        # line break inside a value would begin a header of its own.
        if told.count(b"\n") != breaks or told.count(b"\r") != breaks or b"\0" in told:
            self.begun = False
            raise RuntimeError("a header of the answer has a line break or NUL in it")
        if not self.keep_alive:
            framing = b"connection: close\r\n"
        if self.scope["method"] == "HEAD" or status == 304 or status == 204:
            self._left = _NO_BODY
        elif length is not None:
            self._left = length
        elif self.scope["http_version"] == "1.1":
            self.chunked = True
            framing += b"transfer-encoding: chunked\r\n"
        else:
            self._left = _UNTIL_CLOSE
        self._head = b"%b%b%b%b\r\n" % (STATUS_LINE[status], connection.state.default_head, told, framing)

    def _write_head(self) -> None:
        head, self._head = self._head, b""
        if head and not self.disconnected:
            self._connection.transport.write(head)

    def _write_body(self, body: bytes, more: bool) -> None:
        self.sent += len(body)
        if not self.chunked:
            self._write_plain(body, more)
        elif body:
            form = b"%b%x\r\n%b\r\n" if more else b"%b%x\r\n%b\r\n0\r\n\r\n"
            self._connection.transport.write(form % (self._head, len(body), body))
            self._head = b""
        elif self._head or not more:
            self._connection.transport.write(self._head if more else self._head + b"0\r\n\r\n")
            self._head = b""
        if not more:
            self.complete = True
            self.wake()
            self._connection.answered(self)

    def _write_plain(self, body: bytes, more: bool) -> None:
        if self._left == _NO_BODY:
            body = b""
        elif self._left != _UNTIL_CLOSE:
            left = self._left - len(body)
            if left < 0 or (left and not more):
                # A client would wait for bytes that never come, or take the surplus for the next answer.
                raise RuntimeError("the answer's body is not as long as its Content-Length says")
            self._left = left
        if self._head or body:
            self._connection.transport.write(self._head + body)
            self._head = b""


def refusal_body(status: int, reason: str) -> bytes:
    """An error that clients of every wire find their message in: those of OpenAI and Google below `error`, Anthropic's with `type`."""
    kind = "invalid_request_error" if status < 500 else "overloaded_error" if status == 503 else "api_error"
    error = {"type": kind, "message": reason, "code": status, "status": HTTPStatus(status).phrase}
    return msgspec.json.encode({"type": "error", "error": error})
