"""Two servers on loopback for programs in any language: one passes requests on to a host and records them, one replays.

Both keep the paths of the host they replace: to use one, change the host and port of a program's base URL, not the path.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from urllib.parse import quote, urlsplit

import msgspec

from ..client.sync import Background
from ..core.errors import LocalError, MidstreamError
from ..core.secret import SecretHeaders
from ..recording.cassette import Cassette
from ..recording.exchange import RecordedExchange, RecordedRequest
from ..recording.recorder import Recorder
from ..recording.replay import NoRecording, Pace, Replay
from ..recording.scrub import Scrub
from ..sim.http_server import JSON, Handler, HTTPRequest, HTTPServer, Responder
from ..transport import HTTPResponse, TransportOptions
from ..transport.connection_pool import ConnectionPool
from ..transport.tap import TappedSender
from ..transport.target import Target, prepare
from ..wires.request import Request

# Between two neighbours only (RFC 9110 §7.6.1), or changed on the way: the body of a request is passed on unpacked, and the answer
# is asked for so.
_NOT_PASSED_ON = frozenset(
    "accept-encoding connection content-encoding content-length expect host keep-alive proxy-authenticate "
    "proxy-authorization proxy-connection te trailer transfer-encoding upgrade".split()
)
_PATH_SIGNS = "/:@!$&'()*+,;=~"
_BODILESS = frozenset((204, 304))
_STALL = 3600.0


class _Server:
    """`async with`: then `url` is where it listens."""

    def __init__(self, handler: Handler, port: int) -> None:
        self._server = HTTPServer(handler)
        self._port = port

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    async def __aenter__(self) -> None:
        await self._server.start(port=self._port)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._server.close()


class RecordServer:
    """Passes every request on to `upstream` and records the answer. The key is the client's own and is not written to any file."""

    def __init__(
        self,
        upstream: str,
        cassette: Cassette | str | Path,
        *,
        port: int = 0,
        scrub: Scrub | None = None,
        options: TransportOptions | None = None,
        on_saved: Callable[[Path], None] = lambda _: None,
    ) -> None:
        parts = urlsplit(upstream)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise LocalError(f"expected the base URL of a host, such as https://api.openai.com/v1, got {upstream!r}")
        self.recorder = Recorder(cassette, scrub=scrub, on_saved=on_saved)
        self._upstream = f"{parts.scheme}://{parts.netloc}"
        self._base = parts.path.rstrip("/")
        # How long to wait is for the client to say, which leaves when it has waited enough.
        self._options = options or TransportOptions(first_byte=_STALL, idle=_STALL, total=24 * _STALL)
        self._server = _Server(self._handle, port)
        self._pool: ConnectionPool | None = None

    @property
    def url(self) -> str:
        """The base URL to use instead of the host's."""
        return self._server.origin + self._base

    async def __aenter__(self) -> RecordServer:
        self._pool = ConnectionPool(self._options, os.environ)
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._server.__aexit__(None, None, None)
        if self._pool is not None:
            await self._pool.aclose()

    async def _handle(self, request: HTTPRequest, responder: Responder) -> None:
        try:
            await self._pass_on(self._target(request), responder)
        except MidstreamError as error:
            # Once an answer has begun, a cut is all that is left to say.
            if responder.started:
                responder.abort()
            else:
                await responder.send(502, _error("upstream_error", str(error)), JSON)

    async def _pass_on(self, target: Target, responder: Responder) -> None:
        assert self._pool is not None
        loop, limit = self._pool.loop, self._options.first_byte
        sender = TappedSender(self._pool, self.recorder)
        raw = await sender.send(target, loop.time() + limit, limit)
        async with HTTPResponse(raw, self._options, loop.time() + self._options.total) as answer:
            headers = {name: value for name, value in answer.headers.items() if name not in _NOT_PASSED_ON}
            if answer.status in _BODILESS or target.method == "HEAD":
                await answer.read()
                await responder.send(answer.status, b"", headers)
                return
            await responder.start(answer.status, headers)
            while data := await answer.chunk():
                answer.progress()
                await responder.write(data)
            await responder.finish()

    def _target(self, request: HTTPRequest) -> Target:
        path = quote(request.path, safe=_PATH_SIGNS) + (f"?{request.query}" if request.query else "")
        passed = {name: value for name, value in request.headers if name not in _NOT_PASSED_ON}
        # All of them as secrets: which of a stranger's headers hold keys is for the scrubbing to find out.
        headers = SecretHeaders({**passed, "user-agent": passed.get("user-agent", "midstream")})
        return prepare(Request(request.method, path, {}, request.body), self._upstream, headers, "identity")


class ReplayServer:
    """Answers requests from recordings, cut, timed and ended as they were."""

    def __init__(
        self,
        cassette: Cassette | str | Path,
        *,
        port: int = 0,
        pace: Pace = "chunks",
        seed: int = 0,
        scrub: Scrub | None = None,
        repeat: bool = True,
        stall: float = _STALL,
        on_refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.replay = Replay(cassette, pace=pace, seed=seed, scrub=scrub, repeat=repeat)
        self._scrub = scrub or Scrub()
        self._server = _Server(self._handle, port)
        self._stall = stall
        self._on_refused = on_refused

    @property
    def url(self) -> str:
        """The origin: the paths behind it are those that were recorded, or the ends of them."""
        return self._server.origin

    async def __aenter__(self) -> ReplayServer:
        await self._server.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._server.__aexit__(None, None, None)

    async def _handle(self, request: HTTPRequest, responder: Responder) -> None:
        try:
            exchange = self.replay.at_path(self._recorded(request))
        except NoRecording as error:
            self._on_refused(str(error))
            await responder.send(404, _error("no_recording", str(error)), JSON)
            return
        await self._play(exchange, responder)

    def _recorded(self, request: HTTPRequest) -> RecordedRequest:
        """The request as it would have been recorded."""
        headers = SecretHeaders(dict(request.headers))
        url = f"http://localhost{quote(request.path, safe=_PATH_SIGNS)}" + (
            f"?{request.query}" if request.query else ""
        )
        return self._scrub.request(request.method, url, headers, request.body, self._scrub.known(headers, url))

    async def _play(self, exchange: RecordedExchange, responder: Responder) -> None:
        loop = asyncio.get_running_loop()
        began, waits = loop.time(), self.replay.pace == "original"

        async def wait(at_us: int) -> None:
            if waits:
                await asyncio.sleep(began + at_us / 1e6 - loop.time())

        if exchange.head is not None:
            await wait(exchange.head.at_us)
            await self._answer(exchange.head.status, exchange.head.headers, exchange, responder, wait)
        else:
            await wait(exchange.ended_us)
        if responder.finished:
            return
        if exchange.ending == "timeout":
            await asyncio.sleep(self._stall)  # the silence that was recorded; a client that leaves ends it
        responder.abort()

    async def _answer(
        self,
        status: int,
        headers: Mapping[str, str],
        exchange: RecordedExchange,
        responder: Responder,
        wait: Callable[[int], Awaitable[None]],
    ) -> None:
        if status in _BODILESS:
            await responder.send(status, b"", headers)
            return
        await responder.start(status, headers)
        for chunk in self.replay.cut(exchange):
            await wait(chunk.at_us)
            await responder.write(chunk.data)
            # Each in a packet of its own, or the cuts would be the network's.
            await asyncio.sleep(0)
        # Of an answer that its reader left, nobody knows what would have followed: it is cut there, as in the process.
        if exchange.ending == "clean":
            await responder.finish()


def _error(kind: str, message: str) -> bytes:
    return msgspec.json.encode({"error": {"message": message, "type": kind}})


@contextmanager
def record_server(
    upstream: str, cassette: Cassette | str | Path, *, port: int = 0, scrub: Scrub | None = None
) -> Iterator[RecordServer]:
    """A RecordServer in a thread of its own. A recording that could not be saved raises at the end."""
    with closing(Background()) as background:
        server = RecordServer(upstream, cassette, port=port, scrub=scrub)
        yield background.enter(server)
    server.recorder.check()


@contextmanager
def replay_server(
    cassette: Cassette | str | Path,
    *,
    port: int = 0,
    pace: Pace = "chunks",
    seed: int = 0,
    scrub: Scrub | None = None,
    repeat: bool = True,
) -> Iterator[ReplayServer]:
    """A ReplayServer in a thread of its own."""
    with closing(Background()) as background:
        server = ReplayServer(cassette, port=port, pace=pace, seed=seed, scrub=scrub, repeat=repeat)
        yield background.enter(server)
