"""The doubles in a thread of their own, so that any test, sync or async, can talk to them over real HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ..client.catalog import Catalog
from ..client.config import Config
from ..client.turn import Client
from ..sim.rules.rule import Problem
from ..sim.script import perform
from ..sim.server import Seen, Sim
from .scripted import Line, Scripted


class SimServer:
    """A running Sim: where it is, and what it has seen so far."""

    def __init__(self, sim: Sim, script: Scripted | None) -> None:
        self._sim = sim
        self.script = script

    @property
    def url(self) -> str:
        return self._sim.url

    @property
    def requests(self) -> int:
        return self._sim.requests

    @property
    def refused(self) -> list[Problem]:
        """Every breach so far, in the words it was refused with."""
        return list(self._sim.refused)

    @property
    def seen(self) -> list[Seen]:
        """The last requests, as they came."""
        return list(self._sim.seen)

    def base_url(self, provider: str) -> str:
        """What to give another program as this provider's address."""
        return f"{self.url}/{provider}"

    def inject(self, fault: str, times: int = 1) -> None:
        """Let something go wrong with the next requests: see midstream.sim.fault for the names."""
        self._sim.inject(fault, times)

    def catalog(self, **environ: str) -> Catalog:
        """A catalog in which every provider's name, and `sim`, leads here. No key is needed."""
        return Catalog(Config(), environ=environ, providers=self._sim.providers())

    def client(self, **options: Any) -> Client:
        """A client of that catalog; it belongs to the event loop that uses it."""
        return Client(self.catalog(), **options)


@contextmanager
def sim_server(
    *lines: Line, delay: float = 0.0, faults: Iterable[str] = (), strict: bool = True, port: int = 0
) -> Iterator[SimServer]:
    """Start the doubles. With `lines` they answer those, one a request; without, the scripted model reads the prompt."""
    script = Scripted(*lines) if lines else None
    sim = Sim(port=port, delay=delay, faults=faults, strict=strict, script=script or perform)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="midstream-sim", daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(sim.__aenter__(), loop).result()
        try:
            yield SimServer(sim, script)
        finally:
            asyncio.run_coroutine_threadsafe(sim.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
