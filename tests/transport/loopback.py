"""A server on 127.0.0.1 that does exactly what a test says, and counts what it was asked."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

JSON_OK = b'{"ok":true}'


class Seen(msgspec.Struct, frozen=True):
    """A request as it came over the wire."""

    line: str
    headers: dict[str, str]
    body: bytes


class Wire:
    """The server's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body: bytes = JSON_OK, status: int = 200, *headers: str) -> None:
        lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}", *headers]
        await self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)

    async def begin(self, *headers: str) -> None:
        """The head of a chunked answer."""
        lines = ["HTTP/1.1 200 OK", "transfer-encoding: chunked", *headers]
        await self.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def end(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def gone(self) -> None:
        """Wait until the client closes the connection."""
        while await self.reader.read(65536):
            pass


Script = Callable[[Wire, Seen], Awaitable[None]]


class Server:
    """`async with Server(script) as server`: the script is called for each request, in turn."""

    def __init__(
        self, script: Script, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", reads_bodies: bool = True
    ) -> None:
        self._script = script
        self._reads_bodies = reads_bodies
        self._host = host
        self._tls = tls
        self.accepted = 0
        self.closed = 0
        self.seen: list[Seen] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self._moved = asyncio.Event()

    @property
    def base(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}/v1"

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._serve, self._host, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        for _ in range(3):
            await asyncio.sleep(0)  # the sockets are closed by the loop's next turns

    async def all_closed(self) -> None:
        """Wait until every connection ever accepted is closed."""
        while self.closed < self.accepted:
            self._moved.clear()
            await self._moved.wait()

    async def asked(self) -> None:
        """Wait until a request has come."""
        while not self.seen:
            self._moved.clear()
            await self._moved.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.append(writer)
        try:
            while not writer.is_closing():
                seen = await self._request(reader)
                self.seen.append(seen)
                self._moved.set()
                await self._script(Wire(reader, writer), seen)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client went away, or the test is over
        finally:
            writer.close()
            self._tasks.discard(task)
            self.closed += 1
            self._moved.set()

    async def _request(self, reader: asyncio.StreamReader) -> Seen:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *rest = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (text.partition(":") for text in rest if text)}
        length = int(headers.get("content-length", 0)) if self._reads_bodies else 0
        return Seen(line, headers, await reader.readexactly(length))


def scripted(*scripts: Script) -> Script:
    """One script per request; the last one serves all that follow."""
    left = list(scripts)

    async def play(wire: Wire, seen: Seen) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(wire, seen)

    return play
