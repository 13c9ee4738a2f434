"""A gateway's server as a process of its own, for tests that send signals: `python -m tests.gateway.server_program '{…}'`."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from functools import partial
from typing import Any

import msgspec

from midstream.errors import MidstreamError
from midstream.gateway import server
from midstream.gateway.access_log import RequestRecord
from midstream.gateway.metrics import Metrics

from .engine_serving import Echo, respond


class Program(Echo):
    def __init__(self, broken: str = "") -> None:
        if broken == "factory":
            raise ValueError("broken on purpose")
        super().__init__()
        self._broken = broken
        self.metrics = Metrics()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan" and self._broken == "lifespan":
            raise ValueError("broken on purpose")
        await super().__call__(scope, receive, send)

    async def pid(self, scope: Any, receive: Any, send: Any) -> None:
        self.metrics.add(RequestRecord(id="", status=200, wire="gemini"))
        await respond(send, 200, b"%d %d" % (os.getpid(), self.reloads), (b"connection", b"close"))

    async def counted(self, scope: Any, receive: Any, send: Any) -> None:
        await respond(send, 200, self.metrics.exposition(), (b"connection", b"close"))

    async def stream(self, scope: Any, receive: Any, send: Any) -> None:
        """A second of it."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(20):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            await asyncio.sleep(0.05)
        await send({"type": "http.response.body", "body": b"end"})

    async def endless(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            await asyncio.sleep(0.05)

    async def stubborn(self, scope: Any, receive: Any, send: Any) -> None:
        """Does not let itself be cancelled."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass


def main() -> int:
    given = msgspec.json.decode(sys.argv[1])
    broken = given.pop("broken", "")
    workers = given.get("workers", 1)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(name)s %(message)s")
    server._GRACE = 0.5
    server._LONGEST_WAIT = 0.05
    server._QUICK_DEATHS = 2
    options = msgspec.convert(given, server.ServerOptions)
    try:
        if workers > 1:
            return server.serve_workers(partial(Program, broken), options, ready=told)
        return server.serve(Program(broken), options, ready=told)
    except MidstreamError as error:
        print(error, file=sys.stderr)
        return 2


def told(url: str) -> None:
    print(url, flush=True)


if __name__ == "__main__":
    sys.exit(main())
