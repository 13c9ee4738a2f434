"""One HTTP/1.1 connection on llhttp, and the exchanges it carries one after the other.

A connection is free for the next exchange only when the answer ended where a message ends, all of it was read, the whole
request was written, and nothing came that nobody asked for. Everything the peer sends is bounded: the head, the fields in
it, trailers and chunk extensions by `_MAX_HEAD`, what waits for the reader by `_HIGH`. No message quotes what came: it may
echo the request's headers.
"""

from __future__ import annotations

import asyncio
import select
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from math import inf
from typing import Protocol, cast

import httptools

from ..core.errors import LimitExceeded, LocalError, MalformedStream, MidstreamError, TimedOut, TruncatedStream
from ..core.secret import Secret
from .arrival import Arrival
from .target import Target, head_of

# Bounds on what a peer can make us hold. A head that is larger is refused; a body that is not read stops
# being received, so that TCP slows the peer down; `_WHOLE` saves a packet for the common request, while a
# conversation with images goes out in pieces that an early refusal can stop.
_HIGH = 128 * 1024  # past this the socket is not read until the reader has taken what is there
_MAX_FIELD = 16 * 1024
_MAX_HEAD = 64 * 1024
_MAX_FIELDS = 128
_WHOLE = 64 * 1024  # a body up to this goes out in one write with its head
_PIECE = 256 * 1024
_READ = 256 * 1024
# Where no body follows whatever the headers say (RFC 9112 §6.3), and methods that send none unless they have one.
_BODILESS = frozenset((204, 304))
_HEAD_ONLY = frozenset(("CONNECT", "HEAD"))
_NO_BODY_MEANT = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))


class Keeper(Protocol):
    """Who keeps connections between their exchanges."""

    def give_back(self, connection: Connection) -> None:
        """It is free for the next exchange."""

    def forget(self, connection: Connection) -> None:
        """It is gone."""


class _Refused(Exception):
    """Stops the parser; the exchange already holds the error to raise."""


class Exchange:
    """One request's answer. It outlives its hold on the connection, which ends when the answer was read."""

    __slots__ = (
        "_arrival",
        "_connection",
        "_end",
        "_error",
        "_fields",
        "_framed",
        "_given",
        "_keep",
        "_linger",
        "_loop",
        "_messages",
        "_method",
        "_parser",
        "_parts",
        "_paused",
        "_quiet",
        "_size",
        "began",
        "done",
        "headers",
        "host",
        "on_body",
        "status",
    )

    def __init__(self, connection: Connection, host: str, method: str) -> None:
        self._connection: Connection | None = connection
        self._loop = connection.loop
        self.host = host
        self._method = method
        self._parts: list[bytes] = []
        self.on_body = self._parts.append  # no frame of ours between the parser and the buffer
        self._arrival = Arrival(connection.loop)
        self._error: MidstreamError | None = None
        self._linger: asyncio.TimerHandle | None = None
        self._fields: list[tuple[bytes, bytes]] = []
        # The life of an exchange: `began` at the headers of a final status, `done` at the end of the body
        # or at an error, then released when the reader took the last part. `_framed`: the body says where
        # it ends; `_given`: the reader has seen some of it. `_end` is how many parts belong to this answer;
        # `_messages` counts what the peer sent, and more than one forbids reuse.
        self.began = self.done = self._keep = self._framed = self._paused = self._given = False
        self._size = self._quiet = self._messages = self._end = self.status = 0
        self.headers: Mapping[str, str] = {}
        self._parser: httptools.HttpResponseParser | None = _parser(self)

    # for the reader

    def take(self) -> bytes | None:
        """What has come: bytes, empty at the end of the body, None for nothing yet; an error where it was cut off."""
        parts = self._parts
        if parts:
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            self._size = 0
            self._given = True
            # The last part was taken, so the connection is free now, not when the reader asks once more and gets b"".
            if self.done:
                self._release()
            elif self._paused:
                self._resume()
            return data
        # After the parts: what came before a cut is still read, and a decoder makes the most of it.
        if self._error is not None:
            raise self._error
        return b"" if self.done else None

    def ready(self) -> Arrival:
        """To be awaited when `take` gave None."""
        arrival = self._arrival
        if arrival.waiting:
            # An Arrival wakes one task. Two readers would each get a random half of the stream.
            raise LocalError("the response is already being read by another task")
        arrival.waiting = True
        return arrival

    def first_byte_by(self, moment: float) -> None:
        """The moment, by the loop's clock, by which the body must begin; inf once it has."""
        if self._connection is not None:
            self._connection.due = moment

    async def begun(self) -> None:
        """Wait for the status and headers."""
        while not self.began:
            if self._error is not None:
                raise self._error
            await self.ready()

    def close(self, _: MidstreamError | None = None) -> None:
        """Close the connection, unless the answer was read to its end; a reader that waits gets an error."""
        self._parts.clear()
        if not self.done:
            self.fail(_lost())
        elif self._connection is not None:
            # Complete but unread: closed by a caller who may not know that, so no reuse is assumed.
            self._keep = False
            self._release()

    def finish(self, grace: float) -> None:
        """Nothing more is wanted: reuse the connection if the body ends within `grace`, else close it."""
        self._parts.clear()
        if self.done:
            self._release()
        else:
            # The terminal event came, the end of the body (often only a last chunk of zero bytes) has not.
            # It is nearly always on its way, and waiting for it saves a TLS handshake on the next turn.
            self._linger = self._loop.call_later(grace, self.close)
            if self._paused:
                self._resume()

    # for the connection

    def feed(self, data: memoryview) -> None:
        assert self._parser is not None
        parts = self._parts
        held = len(parts)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._broken()
        if self.done:
            self._ended()
        # Body bytes without final headers: a 1xx with content.
        # Taking them as the answer would be a smuggled response.
        elif parts and not self.began:
            parts.clear()
            self.fail(self._malformed())
        elif len(parts) > held:
            self._quiet = 0
            # Counted by what was read, framing included: near enough
            # for a high-water mark, and no need to sum the parts.
            self._size += len(data)
            if self._linger is not None:
                parts.clear()
            # Data for a waiting reader: resume it here, in this callback.
            # `now` must be the last thing done, hence the return.
            elif self._arrival.waiting:
                self._arrival.now()
                return
            # Not where a reader waits: it takes all there is, and pausing
            # the socket and resuming it are two more system calls.
            elif self._size > _HIGH and not self._paused and self._connection is not None:
                self._paused = True
                self._connection.pause()
        else:  # a head, trailers or the extensions of a chunk: nobody but this limit ends them
            self._quiet += len(data)
            if self._quiet > _MAX_HEAD:
                self.fail(self._too_long())
        self._wake()

    def lost(self, error: Exception | None) -> None:
        """The connection ended."""
        if self.done:
            return
        # Neither Content-Length nor chunks: the close is the end of
        # the body (RFC 9112 §6.3). A reset is not; the body was cut.
        if self.began and not self._framed and error is None:
            self.done = True  # a body that ends with its connection
            self._end = len(self._parts)
            self._ended()
            self._wake()
        else:
            self.fail(_lost())

    def fail(self, error: MidstreamError) -> None:
        """End the answer with this error; what came before is still read."""
        if not self.done:
            self._error = error
            self.done = True
            self._keep = False
            self._end = len(self._parts)
            self._release()
        self._wake()

    # for llhttp

    def on_message_begin(self) -> None:
        self._messages += 1

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.began:
            return  # a trailer, or the head of a message nobody asked for
        fields = self._fields
        fields.append((name, value))
        size = self._size = self._size + len(name) + len(value)
        # A head with a field that is too long is longer than that field, so most are not looked at more closely.
        if size > _MAX_FIELD or len(fields) > _MAX_FIELDS:
            self._check_size(name, value)

    def _check_size(self, name: bytes, value: bytes) -> None:
        if len(value) > _MAX_FIELD or len(name) > _MAX_FIELD:
            self._refuse(LimitExceeded(f"a header in the response of {self.host} is longer than {_MAX_FIELD} bytes"))
        if self._size > _MAX_HEAD or len(self._fields) > _MAX_FIELDS:
            self._refuse(self._too_long())

    def on_headers_complete(self) -> None:
        if self.began:
            return
        assert self._parser is not None
        status = self._parser.get_status_code()
        # We never ask to upgrade, so 101 would hand the connection to a protocol nobody speaks.
        if status == 101 or status < 100:
            self._refuse(self._malformed())
        fields, self._fields, self._size = self._fields, [], 0
        # Interim answers (100, 103) are skipped; their fields must not mix with those of the real head.
        if status < 200:
            return
        headers: dict[str, str] = {}
        for raw_name, raw_value in fields:
            # No byte is refused here: a header in some old encoding
            # must not cost an answer. Surrogates keep it reversible.
            name = _field_name(raw_name)
            value = raw_value.strip(b" \t").decode("utf-8", "surrogateescape")
            # Repeated fields are one list (RFC 9110 §5.3). Set-Cookie is the exception, and cookies are not used.
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        self.status, self.headers, self.began, self._quiet = status, headers, True, 0
        # Transfer-Encoding wins over Content-Length, and only
        # `chunked` as the last coding frames the body (RFC 9112 §6.3).
        codings = headers.get("transfer-encoding")
        if codings is None:
            self._framed = "content-length" in headers or status in _BODILESS
        else:
            self._framed = codings.rpartition(",")[2].strip().lower() == "chunked" or status in _BODILESS
        # llhttp does not know the request's method and would wait for the body that the headers announce.
        if self._method in _HEAD_ONLY:
            self.done = True
            self._keep = self._method == "CONNECT" or self._parser.should_keep_alive()

    def on_message_complete(self) -> None:
        if self.done:
            return
        if not self.began:  # 1xx: the answer is yet to come
            if self._parts:  # RFC 9110 §15.2: it has no content, so these bytes could be anything
                self._parts.clear()
                self._refuse(self._malformed())
            self._messages = 0
            return
        assert self._parser is not None
        self.done = True
        self._keep = self._parser.should_keep_alive()
        self._end = len(self._parts)

    def _refuse(self, error: MidstreamError) -> None:
        if self._error is None:
            self._error = error
        raise _Refused

    def _broken(self) -> None:
        """What came is not HTTP, or more than we take."""
        # The answer was whole and something invalid followed: the answer stands, the connection does not.
        if self.done:
            self._keep = False
            self._messages = 0
            return
        error, self._error = self._error, None
        if error is None:
            # Once text was given, broken framing is a cut in the middle
            # of an answer; before that, it is a peer that is not HTTP.
            error = _lost() if self._given or self._parts else self._malformed()
        self.fail(error)

    def _ended(self) -> None:
        """The answer is complete: the connection is free when it was read."""
        if len(self._parts) > self._end:  # the body of a message nobody asked for
            del self._parts[self._end :]
            self._keep = False
        # Nobody reads any more; what comes only has to end.
        if self._linger is not None:
            self._parts.clear()
        if not self._parts:
            self._release()

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        self._parser = None
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if connection is not None:
            # A paused socket may hold bytes that were not looked at;
            # they could be anything, so it is not reused either.
            connection.end(self._keep and self._messages == 1 and not self._paused)

    def _resume(self) -> None:
        self._paused = False
        if self._connection is not None:
            self._connection.resume()

    def _wake(self) -> None:
        # Nothing to take and no headers yet: the reader would only go back to waiting.
        if self._arrival.waiting and (self._parts or self.done or self.began):
            self._arrival.soon()

    def _malformed(self) -> MalformedStream:
        return MalformedStream(f"the response of {self.host} is not valid HTTP")

    def _too_long(self) -> LimitExceeded:
        return LimitExceeded(f"the headers in the response of {self.host} are longer than {_MAX_HEAD} bytes in all")


@lru_cache(maxsize=256)  # hosts send the same twenty or thirty with every answer
def _field_name(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape").lower()


def _parser(exchange: Exchange) -> httptools.HttpResponseParser:
    """Strict, but for two things that small servers do and RFC 9112 lets a reader take (§2.2, §7.1): lines that end in LF alone,
    blanks behind the size of a chunk."""
    parser = httptools.HttpResponseParser(exchange)
    parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True)
    return parser


class _Scratch(threading.local):
    """Where the connections of one thread read into: what they read is taken out before the next one reads. A buffer for each
    read, as asyncio makes them otherwise, is 256 kB that the allocator has to find for every chunk of a live stream."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_READ))


_scratch = _Scratch()


class Connection(asyncio.BufferedProtocol):
    """One connection to a peer. `keeper` gets it back when an exchange leaves it free for the next.

    A buffered protocol, so that uvloop too reads into the buffer of its thread: with a bytes object for each large read, the
    heap grows past what malloc keeps, and memory is returned to the system and requested again at every read.
    """

    __slots__ = (
        "_drained", "_exchange", "_full", "_limit", "_lost", "_partial", "_readable", "_url", "_view", "due", "expires", "keeper", "loop",
        "transport",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.transport: asyncio.Transport | None = None
        self.keeper: Keeper | None = None
        self.expires = 0.0
        """When it has been unused for too long, by the loop's clock."""
        self.due = inf
        """When the answer to its request must have begun. The pool checks it: a timer per request would cost too much."""
        self._limit = inf
        self._url = ""
        self._exchange: Exchange | None = None
        self._drained: asyncio.Future[None] | None = None
        self._readable: Callable[[], bool] | None = None
        self._full = self._lost = False
        self._view = _scratch.view
        self._partial = False  # a request was broken off: the peer waits for the rest of it

    async def exchange(
        self,
        target: Target,
        *,
        due: float = inf,
        limit: float = inf,
        absolute: bool = False,
        authorization: Secret | None = None,
    ) -> Exchange:
        """Send the request and wait for the head of the answer; TruncatedStream if the peer hangs up before. The first byte of
        the body is `due` at a moment, `limit` seconds after the attempt began."""
        exchange = self._begin(target.host, target.method)
        self.due, self._limit, self._url = due, limit, target.url
        try:
            self._send(target, absolute, authorization)
            if len(target.body) > _WHOLE:
                await self._send_body(exchange, target.body)
            await exchange.begun()
        # Cancellation too: a request that nobody waits for must stop costing money at the host.
        except BaseException:
            exchange.close()
            raise
        return exchange

    async def tunnel(self, authority: str, host: str, authorization: Secret) -> int:
        """Ask a proxy for a tunnel; its status. On a good one the connection is the tunnel."""
        exchange = self._begin(host, "CONNECT")
        try:
            if self.alive and self.transport is not None:
                self.transport.write(tunnel_head(authority, authorization))
            await exchange.begun()
        except BaseException:
            self.abort()  # the exchange may have ended well in the turn in which its reader was cancelled
            raise
        return exchange.status

    @property
    def alive(self) -> bool:
        return not self._lost and self.transport is not None and not self.transport.is_closing()

    @property
    def quiet(self) -> bool:
        """False if something, or the end, has come to it unasked: looked for in the socket, as the loop may not know yet."""
        if not self.alive or self.transport is None:
            return False
        if self._readable is None:
            sock = self.transport.get_extra_info("socket")
            # Made at the first question: a connection that serves one request is never asked.
            self._readable = _never if sock is None else _reader_of(sock.fileno())
        return not self._readable()

    def expire(self) -> None:
        """The answer has not begun in time."""
        self.due = inf
        if self._exchange is not None:
            self._exchange.fail(late(self._url, self._limit))

    def end(self, reusable: bool) -> None:
        """The exchange is over."""
        self._exchange = None
        self.due = inf
        # With a request half written the peer would read the next one as the rest of its body.
        if not reusable or not self.alive or self._unsent():
            self.abort()
        elif self.keeper is not None:
            self.keeper.give_back(self)

    def pause(self) -> None:
        if self.alive and self.transport is not None:
            self.transport.pause_reading()

    def resume(self) -> None:
        if self.alive and self.transport is not None:
            self.transport.resume_reading()

    def abort(self) -> None:
        if self.transport is not None and not self._lost and not self.loop.is_closed():
            self.transport.abort()

    # asyncio.BufferedProtocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        exchange = self._exchange
        if exchange is None or exchange.done:
            self.abort()  # nobody asked: what it says now could be taken for the next answer
        else:
            if self._drained is not None:
                self._wake_writer()  # an answer to a request that is still being sent
            exchange.feed(self._view[:nbytes])  # last: it may resume who reads the answer

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._wake_writer()

    def connection_lost(self, error: Exception | None) -> None:
        self._lost = True
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.lost(error)
        self._wake_writer()
        if self.keeper is not None:
            self.keeper.forget(self)

    def _begin(self, host: str, method: str) -> Exchange:
        self._exchange = exchange = Exchange(self, host, method)
        if not self.alive:
            exchange.lost(None)
        return exchange

    def _send(self, target: Target, absolute: bool, authorization: Secret | None) -> None:
        # The head is not bound to a name: it holds the key, and the locals of a frame may be shown.
        if self._exchange is None or self.transport is None:  # the connection was lost before it began
            return
        if len(target.body) <= _WHOLE:
            self.transport.write(request_head(target, absolute, authorization) + target.body)
        else:
            self.transport.write(request_head(target, absolute, authorization))

    async def _send_body(self, exchange: Exchange, body: bytes) -> None:
        """A large body in pieces, as the peer takes them; no more of it once the peer has refused the request."""
        view = memoryview(body)
        self._partial = True
        for start in range(0, len(body), _PIECE):
            # A host refuses a request that is too large while it is still being sent, and may then stop
            # reading. Waiting for room would wait for ever, so `buffer_updated` wakes the writer, and an
            # error status ends the sending.
            while self._full and self.alive and exchange.status < 300:
                self._drained = self.loop.create_future()
                await self._drained
            if not self.alive or self.transport is None or exchange.status >= 300:
                return
            self.transport.write(view[start : start + _PIECE])
        self._partial = False

    def _unsent(self) -> bool:
        return self._partial or (self.transport is not None and self.transport.get_write_buffer_size() > 0)

    def _wake_writer(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)


def request_head(target: Target, absolute: bool, authorization: Secret | None) -> bytes:
    """The request line and headers; `absolute` and `authorization` for a proxy that reads the request itself."""
    # A POST without a body says so: some servers answer 411 to one without a length (RFC 9110 §8.6).
    meant = target.body or target.method not in _NO_BODY_MEANT
    length = b"content-length: %d\r\n\r\n" % len(target.body) if meant else b"\r\n"
    if not absolute and not authorization:
        return target.head + length
    place = f"{target.scheme}://{target.authority}{target.path}" if absolute else target.path
    allowed = b"proxy-authorization: %b\r\n" % authorization.reveal().encode() if authorization else b""
    return head_of(target, place) + allowed + length


def tunnel_head(authority: str, authorization: Secret) -> bytes:
    lines = [f"CONNECT {authority} HTTP/1.1", f"host: {authority}", "user-agent: midstream"]
    if authorization:
        lines.append(f"proxy-authorization: {authorization.reveal()}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8")


def _reader_of(descriptor: int) -> Callable[[], bool]:
    """Asks whether something can be read; made once for a connection, as making it costs more than asking."""
    if descriptor < 0:
        return lambda: True
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return lambda: bool(poll.poll(0))
    return lambda: bool(select.select([descriptor], [], [], 0)[0])


def _never() -> bool:
    return False


def late(url: str, limit: float) -> TimedOut:
    """The error of a request whose answer did not begin in time. The query is left out: some hosts take their key there."""
    return TimedOut(f"{url.partition('?')[0]} did not begin to answer in the {limit:g} s allowed")


def _lost() -> TruncatedStream:
    return TruncatedStream("the connection was lost before the answer ended")
