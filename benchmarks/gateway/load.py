"""The load: a process that keeps so many connections busy with one request, and tells what came back.

It reads orders from its standard input, one JSON object a line, and answers each with one. It does as little as it can for a
request: it finds the answer's end and looks at its status, so that it costs less than any gateway it loads.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from typing import Any

import msgspec

_PATIENCE = 30.0
"""Seconds after the end of a run in which open requests may finish."""
_END = b"\r\n0\r\n\r\n"


class Order(msgspec.Struct):
    """`request` as it goes out, head and body. With `seconds` 0 the connections are opened and held, until the next order. With a
    `rate` so many requests go out in a second, by all connections together, however quickly they are answered."""

    port: int
    request: str
    connections: int
    seconds: float
    rate: float = 0.0


class Run:
    """What the connections of one order share."""

    def __init__(self, order: Order) -> None:
        self.request = order.request.encode()
        self.hold = not order.seconds
        self.ends = time.perf_counter() + order.seconds
        self.times: list[float] = []
        self.refused = 0
        self.lost = 0
        self.size = 0
        self.open = 0
        self.idle = asyncio.Event()
        self.pace = order.connections / order.rate if order.rate else 0.0
        """Seconds from one request of a connection to its next."""


class Connection(asyncio.Protocol):
    """Asks, reads to the end of the answer, and asks again."""

    __slots__ = ("_began", "_left", "_ok", "_run", "_tail", "busy", "transport")

    def __init__(self, run: Run) -> None:
        self._run = run
        self._tail = b""
        self._left: int | None = None
        self._ok = True
        self._began = 0.0
        self.busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def ask(self) -> None:
        self._left, self._tail = None, b""
        self.busy = True
        self._run.open += 1
        self._began = time.perf_counter()
        self.transport.write(self._run.request)

    def data_received(self, data: bytes) -> None:
        run = self._run
        run.size += len(data)
        if not self.busy:
            return  # more of a stream that is held
        if self._left is None:
            data = self._tail + data
            head = data.find(b"\r\n\r\n")
            if head < 0:
                self._tail = data
                return
            self._ok = data[9:12] == b"200"
            self._left = _length(data[:head].lower())
            data = data[head + 2 :]  # with one line end, so that an empty chunked body has its end too
            if self._left >= 0:
                self._left += 2
        if self._left >= 0:
            self._left -= len(data)
            if self._left > 0:
                return
        else:
            self._tail = (self._tail + data)[-len(_END) :] if len(data) < len(_END) else data[-len(_END) :]
            if run.hold and len(data) > 2:
                self._done()
                return
            if self._tail != _END:
                return
        self._done()

    def _done(self) -> None:
        run, now = self._run, time.perf_counter()
        run.open -= 1
        self.busy = False
        if self._ok:
            run.times.append(now - self._began)
        else:
            run.refused += 1
        if not run.hold and max(now, self._began + run.pace) < run.ends:
            wait = self._began + run.pace - now
            if wait > 0:
                run.open += 1  # it is not over: this connection asks again
                asyncio.get_running_loop().call_later(wait, self._again)
            else:
                self.ask()
        elif not run.open:
            run.idle.set()

    def _again(self) -> None:
        self._run.open -= 1
        self.ask()

    def connection_lost(self, error: Exception | None) -> None:
        if self.busy:
            self.busy = False
            self._run.lost += 1
            self._run.open -= 1
            if not self._run.open:
                self._run.idle.set()


def _length(head: bytes) -> int:
    """The length of the body; -1 if it is chunked."""
    _, found, rest = head.partition(b"\r\ncontent-length:")
    return int(rest.split(b"\r\n", 1)[0]) if found else -1


async def _idle(run: Run, seconds: float) -> None:
    """Wait until no request is open; one that still is after so long is lost."""
    run.idle.clear()
    try:
        await asyncio.wait_for(run.idle.wait(), seconds)
    except TimeoutError:
        run.lost += run.open
        run.open = 0


class Load:
    def __init__(self) -> None:
        self._held: list[Connection] = []

    async def run(self, order: Order) -> dict[str, float]:
        if not order.seconds and not order.connections:
            for connection in self._held:
                connection.transport.abort()
            self._held.clear()
            return {}
        loop = asyncio.get_running_loop()
        run = Run(order)
        connections: list[Connection] = []
        for first in range(0, order.connections, 50):  # more at once than a backlog holds would be dropped
            for _ in range(min(50, order.connections - first)):
                _, connection = await loop.create_connection(lambda: Connection(run), "127.0.0.1", order.port)
                connections.append(connection)
                if run.hold:
                    connection.ask()
            if run.hold and run.open:
                await _idle(run, _PATIENCE)
            if run.lost or run.refused:
                break
        began = time.perf_counter()
        if run.hold:
            self._held += connections
        else:
            run.ends = began + order.seconds
            for number, connection in enumerate(connections):
                if run.pace and number:  # not all at once, each time anew
                    await asyncio.sleep(run.pace / len(connections))
                connection.ask()
            await _idle(run, order.seconds + _PATIENCE)
        spent = time.perf_counter() - began
        if not run.hold:
            for connection in connections:
                connection.busy = False
                connection.transport.close()
        times = sorted(run.times) or [0.0]
        return {
            "answered": len(run.times),
            "refused": run.refused,
            "lost": run.lost,
            "seconds": spent,
            "bytes": run.size,
            "p50": times[len(times) // 2],
            "p99": times[len(times) * 99 // 100],
        }


async def main() -> None:
    gc.disable()
    loop = asyncio.get_running_loop()
    load = Load()
    print("ready", flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(await load.run(msgspec.json.decode(line, type=Order))), flush=True)
        gc.collect()


if __name__ == "__main__":
    try:
        import uvloop
    except ImportError:
        asyncio.run(main())
    else:
        uvloop.run(main())
