"""A chat host on 127.0.0.1 that says what a test wrote down, one item a request, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import msgspec

from midstream.client.breaker import Breaker
from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import Config, ProviderConfig
from midstream.client.sync import Background
from midstream.sim.answer import Answer, Style
from midstream.sim.speech import speak, speak_whole
from midstream.transport import RetryPolicy, TransportOptions
from tests.transport.loopback import Seen, Server, Wire

T = TypeVar("T")


class Refusal(msgspec.Struct, frozen=True):
    status: int
    message: str = "no"
    headers: tuple[str, ...] = ()


class Cut(msgspec.Struct, frozen=True):
    """The answer's first `pieces` pieces, then the end of the body."""

    answer: Answer
    pieces: int


class Stall(msgspec.Struct, frozen=True):
    """The answer's first `pieces` pieces, then silence until the client is gone."""

    answer: Answer
    pieces: int


class Said(msgspec.Struct, frozen=True):
    """These bytes as the stream, whatever they are."""

    data: bytes


class Drop(msgspec.Struct, frozen=True):
    """A good status, these bytes of the body, and the connection is gone."""

    data: bytes = b""


Item = Answer | Refusal | Cut | Stall | Said | Drop


class Host:
    """`async with Host(items)`: the last item serves all further requests."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = list(items)
        self.server = Server(self._serve)

    @property
    def base(self) -> str:
        return self.server.base

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(seen.body) for seen in self.server.seen]

    async def __aenter__(self) -> Host:
        await self.server.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.server.__aexit__(*error)

    async def _serve(self, wire: Wire, seen: Seen) -> None:
        item = self._items.pop(0) if len(self._items) > 1 else self._items[0]
        number = len(self.server.seen)
        style = Style("m", response_id=f"sim-{number:06d}")
        if isinstance(item, Refusal):
            body = msgspec.json.encode({"error": {"message": item.message}})
            await wire.answer(body, item.status, "content-type: application/json", *item.headers)
        elif isinstance(item, Drop):
            await wire.begin("content-type: application/json")
            if item.data:
                await wire.chunk(item.data)
            wire.writer.close()
        elif isinstance(item, Said):
            await wire.begin("content-type: text/event-stream")
            await wire.chunk(item.data)
            await wire.end()
        elif isinstance(item, Answer) and not msgspec.json.decode(seen.body).get("stream"):
            await wire.answer(speak_whole("openai-chat", item, style), 200, "content-type: application/json")
        else:
            answer = item if isinstance(item, Answer) else item.answer
            pieces = list(speak("openai-chat", answer, style))
            await wire.begin("content-type: text/event-stream")
            for piece in pieces if isinstance(item, Answer) else pieces[: item.pieces]:
                await wire.chunk(piece)
                await asyncio.sleep(0)
            if isinstance(item, Stall):
                await wire.gone()
            await wire.end()


def catalog(environ: dict[str, str] | None = None, **hosts: str) -> Catalog:
    """A catalog whose providers of these names are at these addresses."""
    providers = {name: ProviderConfig(base_url=base) for name, base in hosts.items()}
    return Catalog(Config(providers=providers), environ=environ or {})


def client(breaker: Breaker | Literal["own"] | None = "own", **hosts: str) -> Client:
    options = TransportOptions(retry=RetryPolicy(max_retries=0))
    return Client(catalog(**hosts), transport=options, breaker=breaker)


def play(items: Sequence[Item], act: Callable[[Host, Client], Coroutine[Any, Any, T]]) -> T:
    """Run `act` against a host `a` that says these items."""

    async def main() -> T:
        async with Host(items) as host, client(a=host.base) as talker:
            return await act(host, talker)

    return asyncio.run(main())


@contextmanager
def served(*items: Item) -> Iterator[Catalog]:
    """A scripted host in a loop of its own; afterwards only the threads of before are left."""
    before = set(threading.enumerate())
    background = Background()
    host = Host(items)
    background.run(host.__aenter__())
    inside = set(threading.enumerate())
    try:
        yield catalog(a=host.base)
        assert set(threading.enumerate()) == inside
    finally:
        background.run(host.__aexit__())
        background.close()
    assert set(threading.enumerate()) == before
