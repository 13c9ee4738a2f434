"""A page in this process, asked without sockets, for tests."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from midstream.cli.web import add_demo
from midstream.web.app import WebApp
from midstream.web.guard import SESSION
from midstream.web.local import LocalPage


def clean_environment(home: Path) -> dict[str, str]:
    """An environment in which a command finds nothing of this machine's user: no keys, no conversations, no configuration."""
    environ = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_BASE_URL"))}
    return environ | {"MIDSTREAM_HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_DATA_HOME": str(home)}


class Got(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(
    app: Any,
    path: str,
    *,
    method: str = "",
    body: Any = None,
    raw: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    session: str = "",
    until: bytes = b"",
) -> Got:
    """One request as a server hands it over; a stream is left as soon as `until` has come."""
    data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
    sent = {"host": "127.0.0.1:4040", **({"content-type": "application/json"} if body is not None else {})}
    sent |= {SESSION: session} if session else {}
    sent |= headers or {}
    place, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method or ("POST" if body is not None or raw is not None else "GET"),
        "path": place,
        "raw_path": place.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 4040),
    }
    gone = asyncio.Event()
    waiting = [{"type": "http.request", "body": data, "more_body": False}]
    told: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if gone.is_set():
            raise OSError("the client is gone")
        told.append(message)
        if until and until in b"".join([each.get("body", b"") for each in told]):
            gone.set()
            task.cancel()  # as our server does when its client leaves

    task = asyncio.create_task(app(scope, receive, send))
    try:
        async with asyncio.timeout(20):
            await task
    except (asyncio.CancelledError, Exception, BaseExceptionGroup):  # a stream that was left ends as its server ends it
        if not gone.is_set():
            raise
    start = told[0]
    found = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return Got(start["status"], found, b"".join([each.get("body", b"") for each in told]))


@asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[tuple[WebApp, str]]:
    """The page of a user who has nothing yet, and a session of its owner."""
    page = LocalPage(**{"sample": add_demo, "pace": 0.0, **options})
    async with page as app:
        token = page.address("").partition("=")[2]
        yield app, (await ask(app, "/web/api/session", body={"token": token})).json["session"]
