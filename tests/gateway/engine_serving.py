"""A tiny application behind the gateway's server, and a client that says exactly what it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httptools
import msgspec

from midstream.gateway.protocol import Limits
from midstream.gateway.server import Server, ServerOptions, bind

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
GOOD = b"GET /good HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


class Echo:
    """Answers with what it got: the method, the path, the body's length, the names of the headers."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.left: list[str] = []
        self.proceed = asyncio.Event()
        self.reloads = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (message := await receive())["type"] != "lifespan.shutdown":
                await send({"type": f"{message['type']}.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        self.seen.append(scope["path"])
        await getattr(self, scope["path"].strip("/"), self.echo)(scope, receive, send)

    async def echo(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left.append(scope["path"])
                return
            body += message["body"]
            if not message["more_body"]:
                break
        told = {"method": scope["method"], "path": scope["path"], "length": len(body)}
        await respond(
            send, 200, msgspec.json.encode(told | {"headers": [name.decode() for name, _ in scope["headers"]]})
        )

    async def slow(self, scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.01)
        await self.echo(scope, receive, send)

    async def refuse(self, scope: Any, receive: Any, send: Any) -> None:
        await respond(send, 401, b"{}")

    def reload(self) -> None:
        self.reloads += 1


async def respond(send: Any, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    head = [(b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


class Answers:
    """The answers on one connection, as llhttp reads them, without the 100s. The first may be that to a HEAD."""

    def __init__(self, data: bytes, bodiless: bool = False) -> None:
        self.statuses: list[int] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.whole = 0
        self.raw = data
        self.continued = data.count(CONTINUE)
        data = data.replace(CONTINUE, b"")
        if bodiless:  # llhttp does not know that
            head, _, data = data.partition(b"\r\n\r\n")
            self.statuses.append(int(head.split(b" ", 2)[1]))
            self.whole = 1
        self._parser = httptools.HttpResponseParser(self)
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self.bodies.append(b"")
        self.headers.append({})

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[-1][name.decode().lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.statuses.append(self._parser.get_status_code())

    def on_body(self, body: bytes) -> None:
        self.bodies[-1] += body

    def on_message_complete(self) -> None:
        self.whole += 1


async def wait_until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  (what is waited for has no event, and must not need one)
            await asyncio.sleep(0.005)


async def talk(port: int, *pieces: bytes, pause: float = 0) -> bytes:
    """Send the pieces, one after the other, and give all that came until the server closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        reading = asyncio.ensure_future(reader.read())
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause)
        except ConnectionError:
            pass  # it closed before it heard everything
        return await reading
    finally:
        writer.close()
        try:
            await writer.wait_closed()
        except ConnectionError:
            pass


class Clock:
    """The server's time, which only moves when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Running:
    """A server in this loop."""

    def __init__(self, server: Server, port: int, app: Any) -> None:
        self.server = server
        self.port = port
        self.app = app
        self.refused: list[int] = []
        self.faults: list[dict[str, Any]] = []
        self.clock = Clock()

    def advance(self, seconds: float) -> None:
        """Let time pass, and the server see it."""
        self.clock.now += seconds
        self.server.sweep()

    @property
    def connection(self) -> Any:
        """The only one."""
        (connection,) = self.server.state.connections
        return connection


@asynccontextmanager
async def running(app: Any = None, *, drain: float = 2.0, **limits: Any) -> AsyncIterator[Running]:
    """A server with these limits, ended at the end; nothing may have gone wrong in the loop."""
    app = Echo() if app is None else app
    options = ServerOptions(port=0, limits=Limits(**limits), drain=drain)
    listener = bind(options)
    port = listener.getsockname()[1]
    started = asyncio.Event()
    server = Server(app, options, ready=lambda url: started.set())
    here = Running(server, port, app)
    server.state.refused = here.refused.append
    server.state.clock = here.clock
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: here.faults.append(context))
    serving = asyncio.ensure_future(server._serve([listener]))
    try:
        await started.wait()
        yield here
    finally:
        server.should_exit = True
        await serving
        listener.close()
    assert not here.faults
    assert not server.state.connections
    assert not server.state.tasks
    assert server.state.admitted == 0
