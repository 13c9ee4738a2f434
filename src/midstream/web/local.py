"""The page of one program on this machine, as `midstream web` serves it: the user's conversations, models and keys.

The doubles of `midstream.sim` run beside it, so that there is always somebody to talk to. A user with no conversations yet is
shown a `sample`, which is kept in memory: nothing is written into a store that nobody asked to write into.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from ..client.catalog import Catalog
from ..client.client import Client
from ..client.config import load_config
from ..sim.providers import sim_provider
from ..sim.server import Sim
from ..store import MemoryStore, Store, open_store
from ..transport import Transport
from .app import WebApp
from .archive import Archive
from .guard import Guard, Message, Receive, Send
from .lifespan import run_lifespan
from .talk import Talk
from .traffic import Traffic, TrafficTap

Sample = Callable[[Store], Awaitable[None]]
_PACE = 0.02  # seconds between two pieces of a double's answer: as quick as a quick model


class LocalPage:
    """The ASGI application. `app` is there between start and end; `url` is where a browser opens it."""

    def __init__(
        self,
        *,
        store_at: str | None = None,
        folder: Path | None = None,
        sample: Sample | None = None,
        pace: float = _PACE,
    ) -> None:
        self.guard = Guard()
        self.app: WebApp | None = None
        self._store_at = store_at
        self._folder = folder
        self._sample = sample
        self._pace = pace
        self._stack = AsyncExitStack()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await run_lifespan(receive, send, self.open, self.close)
        elif self.app is not None:
            await self.app(scope, receive, send)

    def address(self, url: str) -> str:
        """The address to open in a browser, with a new token."""
        return f"{url}/#token={self.guard.issue_token()}"

    async def open(self) -> WebApp:
        """Open all parts."""
        try:
            store = open_store(self._store_at)
            self._stack.callback(store.close)
            stores: list[Store] = [store]
            if self._sample is not None and not store.list(limit=1):
                memory = MemoryStore()
                await self._sample(memory)
                stores.append(memory)
            sim = await self._stack.enter_async_context(Sim(delay=self._pace))
            catalog = Catalog(load_config(), environ=dict(os.environ), providers=[sim_provider(sim.url)])
            traffic = Traffic()
            transport = Transport(catalog.transport_options(), tap=TrafficTap(traffic))
            client = await self._stack.enter_async_context(Client(catalog, transport=transport))
            archive = Archive(*stores, catalog=catalog)
            talk = Talk(archive, client, traffic=traffic, folder=self._folder)
            self.app = WebApp(guard=self.guard, client=client, archive=archive, traffic=traffic, talk=talk)
            self._stack.push_async_callback(self.app.close)
        except BaseException:
            await self.close()
            raise
        return self.app

    async def close(self) -> None:
        self.app = None
        await self._stack.aclose()

    async def __aenter__(self) -> WebApp:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()
