"""A gateway over real sockets, in front of the doubles, for tests."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, ParamSpec

import aiohttp

from midstream.client.catalog import Catalog
from midstream.client.config import Config
from midstream.dialects.provider import Provider
from midstream.gateway.assembly import AppOptions, GatewayApp
from midstream.gateway.config import GatewayConfig, parse_config
from midstream.gateway.server import Server, ServerOptions, address_of, bind
from midstream.sim.providers import sim_providers
from midstream.sim.server import Sim
from midstream.transport import TransportOptions
from midstream.transport.options import RetryPolicy
from tests.event_loops import run

P = ParamSpec("P")


def asynchronous(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that is a coroutine."""

    @functools.wraps(test)
    def in_loop(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return in_loop


class Gate:
    """A running gateway and the doubles behind it."""

    def __init__(self, url: str, app: GatewayApp, sim: Sim, http: aiohttp.ClientSession) -> None:
        self.url = url
        self.app = app
        self.sim = sim
        self.http = http

    async def post(self, path: str, body: Any, **headers: str) -> tuple[int, dict[str, str], Any]:
        """Status, headers and the decoded JSON of a whole answer."""
        async with self.http.post(self.url + path, json=body, headers=headers) as answer:
            return answer.status, {name.lower(): value for name, value in answer.headers.items()}, await answer.json()

    async def stream(self, path: str, body: Any, **headers: str) -> bytes:
        async with self.http.post(self.url + path, json=body, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            assert answer.content_type == "text/event-stream"
            return await answer.read()

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        async with self.http.get(self.url + path, headers=headers) as answer:
            return answer.status, await answer.json()


@asynccontextmanager
async def served(app: GatewayApp, **options: Any) -> AsyncIterator[str]:
    """The application on a free port; all of it is gone at the end."""
    listener = bind(ServerOptions(port=0))
    url = address_of(listener)
    server = Server(app, ServerOptions(port=0, drain=0.2, **options))
    running = asyncio.create_task(server.serve([listener]))
    try:
        while not server.started and not running.done():  # noqa: ASYNC110 uvicorn has no event for it
            await asyncio.sleep(0.005)
        if running.done():
            await running
        yield url
    finally:
        server.should_exit = True
        await running


@asynccontextmanager
async def gate(
    config: str = "",
    *,
    state: str | None = None,
    script: Any = None,
    retries: int = 2,
    more: Sequence[Provider] = (),
    known: Config | None = None,
    **sim: Any,
) -> AsyncIterator[Gate]:
    """A gateway with this configuration in front of doubles that play `script`, or the model that reads the prompt; and in front
    of `more` providers. `known` is what the user's config.toml says of models."""
    if script is not None:
        sim["script"] = script
    async with Sim(port=0, **sim) as doubles:
        parsed = parse_config(config.encode(), "gateway.toml") if config else GatewayConfig()
        catalog = Catalog(known, providers=[*sim_providers(doubles.url), *more], environ={})
        transport = TransportOptions(retry=RetryPolicy(max_retries=retries, initial=0.01))
        app = GatewayApp(parsed, AppOptions(state=state), catalog=catalog, transport=transport)
        async with served(app) as url, aiohttp.ClientSession() as http:
            yield Gate(url, app, doubles, http)
