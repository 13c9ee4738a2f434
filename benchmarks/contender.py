"""One client in a process of its own: it reads prepared answers on demand and tells what that cost it.

`python -m benchmarks.contender NAME BASE [LOOP]` takes orders as JSON lines (`{"payload", "mode", "times"}`), reads the answer
so many times and prints `{"cpu"}` (seconds of this process, user and system) and `{"seen"}` (items given to its caller).
`{"payload", "mode": "hold", "open"}` opens so many answers that go on, and prints what each takes of this process's memory.
Every client is used as its documentation shows: asynchronously, streaming, one item after the other. LOOP is asyncio or uvloop.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import resource
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, cast

Read = Callable[[str], Awaitable[int]]
"""Reads the answer at this base URL once and gives the number of items it saw."""
Begin = Callable[[str], Awaitable[AsyncIterator[object]]]
"""The items of the answer at this base URL, none of them read yet."""

_QUESTION = "Tell me of rivers."
_CHAT_BODY = json.dumps(
    {"model": "gpt-4o", "messages": [{"role": "user", "content": _QUESTION}], "stream": True}
).encode()


def _midstream(batches: bool, like: str = "openai", model: str = "gpt-4o", prefix: str = "/v1") -> Read:
    from midstream import Conversation, human
    from midstream.client.catalog import Catalog
    from midstream.client.client import Client
    from midstream.client.config import Config, ProviderConfig

    conversation = Conversation((human(_QUESTION),))
    clients: dict[str, Client] = {}

    def client_of(base: str) -> Client:
        if base not in clients:
            provider = ProviderConfig(like, base + prefix)
            clients[base] = Client(Catalog(Config(providers={"bench": provider}), environ={}), api_key="key")
        return clients[base]

    async def stream(base: str) -> int:
        seen = 0
        async for _ in client_of(base).stream(f"bench/{model}", conversation):
            seen += 1
        return seen

    async def batch(base: str) -> int:
        seen = 0
        async for events in client_of(base).batches(f"bench/{model}", conversation):
            seen += len(events)
        return seen

    return batch if batches else stream


def _midstream_items() -> Begin:
    from midstream import Conversation, human
    from midstream.client.catalog import Catalog
    from midstream.client.client import Client
    from midstream.client.config import Config, ProviderConfig

    conversation = Conversation((human(_QUESTION),))
    clients: list[Client] = []

    async def begin(base: str) -> AsyncIterator[object]:
        if not clients:
            provider = ProviderConfig("openai", base + "/v1")
            clients.append(Client(Catalog(Config(providers={"bench": provider}), environ={}), api_key="key"))
        return aiter(clients[0].stream("bench/gpt-4o", conversation))

    return begin


def _openai_items() -> Begin:
    import httpx
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    clients: list[AsyncOpenAI] = []

    async def begin(base: str) -> AsyncIterator[object]:
        if not clients:
            # It opens 1,000 connections at most unless told otherwise, and waits for one to be free.
            http = DefaultAsyncHttpxClient(limits=httpx.Limits(max_connections=None))
            clients.append(AsyncOpenAI(base_url=f"{base}/v1", api_key="key", max_retries=0, http_client=http))
        messages: Any = [{"role": "user", "content": _QUESTION}]
        return aiter(await clients[0].chat.completions.create(model="gpt-4o", messages=messages, stream=True))

    return begin


def _request(base: str) -> tuple[str, int, bytes]:
    """Host, port and the bytes of a request."""
    host, _, path = base.partition("://")[2].partition("/")
    name, _, port = host.partition(":")
    head = f"POST /{path}/v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(_CHAT_BODY)}\r\n\r\n"
    return name, int(port), head.encode() + _CHAT_BODY


class _Counting(asyncio.Protocol):
    """Reads until the end of the body and looks at nothing else."""

    def __init__(self, request: bytes, done: asyncio.Future[int]) -> None:
        self._request = request
        self._done = done
        self._reads = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._reads += 1
        if data.endswith(b"\r\n0\r\n\r\n") or data == b"0\r\n\r\n":
            self._transport.close()
            self._done.set_result(self._reads)


def _raw_asyncio() -> Read:
    async def read(base: str) -> int:
        loop = asyncio.get_running_loop()
        host, port, request = _request(base)
        done: asyncio.Future[int] = loop.create_future()
        trust = ssl.create_default_context() if base.startswith("https:") else None
        await loop.create_connection(lambda: _Counting(request, done), host, port, ssl=trust)
        return await done

    return read


def _raw_streams() -> Read:
    async def read(base: str) -> int:
        host, port, request = _request(base)
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(request)
        seen = 0
        while data := await reader.read(262_144):
            seen += 1
            if data.endswith(b"\r\n0\r\n\r\n") or data == b"0\r\n\r\n":
                break
        writer.close()
        return seen

    return read


def _raw_blocking() -> Read:
    import socket

    async def read(base: str) -> int:
        host, port, request = _request(base)
        seen = 0
        with socket.create_connection((host, port), timeout=30) as peer:
            peer.sendall(request)
            while data := peer.recv(262_144):
                seen += 1
                if data.endswith(b"\r\n0\r\n\r\n") or data == b"0\r\n\r\n":
                    break
        return seen

    return read


def _aiohttp() -> Read:
    import aiohttp

    sessions: list[aiohttp.ClientSession] = []

    async def read(base: str) -> int:
        if not sessions:
            sessions.append(aiohttp.ClientSession())
        seen = 0
        async with sessions[0].post(f"{base}/v1/chat/completions", data=_CHAT_BODY) as answer:
            async for _ in answer.content.iter_any():
                seen += 1
        return seen

    return read


def _openai() -> Read:
    from openai import AsyncOpenAI

    clients: dict[str, AsyncOpenAI] = {}

    async def read(base: str) -> int:
        if base not in clients:
            clients[base] = AsyncOpenAI(base_url=f"{base}/v1", api_key="key", max_retries=0)
        seen = 0
        messages: Any = [{"role": "user", "content": _QUESTION}]
        async for _ in await clients[base].chat.completions.create(model="gpt-4o", messages=messages, stream=True):
            seen += 1
        return seen

    return read


def _anthropic() -> Read:
    from anthropic import AsyncAnthropic

    clients: dict[str, AsyncAnthropic] = {}

    async def read(base: str) -> int:
        if base not in clients:
            clients[base] = AsyncAnthropic(base_url=base, api_key="key", max_retries=0)
        seen = 0
        messages: Any = [{"role": "user", "content": _QUESTION}]
        model = "claude-sonnet-4-5"
        async for _ in await clients[base].messages.create(model=model, messages=messages, max_tokens=99, stream=True):
            seen += 1
        return seen

    return read


def _litellm() -> Read:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would ask the network for prices
    import litellm

    litellm.telemetry = False

    async def read(base: str) -> int:
        seen = 0
        messages = [{"role": "user", "content": _QUESTION}]
        url = f"{base}/v1"
        async for _ in await litellm.acompletion("openai/gpt-4o", messages, api_base=url, api_key="key", stream=True):
            seen += 1
        return seen

    return read


def _pydantic_ai() -> Read:
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.messages import ModelRequest
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    models: dict[str, OpenAIChatModel] = {}

    async def read(base: str) -> int:
        if base not in models:
            models[base] = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=f"{base}/v1", api_key="key"))
        seen = 0
        async with model_request_stream(models[base], [ModelRequest.user_text_prompt(_QUESTION)]) as events:
            async for _ in events:
                seen += 1
        return seen

    return read


def _kosong() -> Read:
    import kosong
    from kosong.contrib.chat_provider.openai_legacy import OpenAILegacy
    from kosong.message import Message

    providers: dict[str, OpenAILegacy] = {}

    async def read(base: str) -> int:
        if base not in providers:
            providers[base] = OpenAILegacy(model="gpt-4o", base_url=f"{base}/v1", api_key="key")
        seen = 0

        def count(_: object) -> None:
            nonlocal seen
            seen += 1

        history = [Message(role="user", content=_QUESTION)]
        await kosong.generate(providers[base], "", [], history, on_message_part=count)
        return seen

    return read


CONTENDERS: dict[str, Callable[[], Read]] = {
    "midstream, batches": lambda: _midstream(True),
    "midstream, stream": lambda: _midstream(False),
    "midstream, anthropic": lambda: _midstream(False, "anthropic", "claude-sonnet-4-5", ""),
    "raw socket, blocking": _raw_blocking,
    "raw socket, asyncio": _raw_asyncio,
    "raw socket, streams": _raw_streams,
    "aiohttp, bytes": _aiohttp,
    "openai": _openai,
    "anthropic": _anthropic,
    "litellm": _litellm,
    "pydantic-ai": _pydantic_ai,
    "kosong": _kosong,
}
HOLDERS: dict[str, Callable[[], Begin]] = {"midstream, stream": _midstream_items, "openai": _openai_items}
ANTHROPIC_WIRE = frozenset(("midstream, anthropic", "anthropic"))


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _obey(read: Read, base: str, times: int) -> dict[str, float]:
    seen = 0
    start = _cpu()
    for _ in range(times):
        seen += await read(base)
    return {"cpu": _cpu() - start, "seen": seen / times}


async def _hold(begin: Begin, base: str, count: int) -> dict[str, float]:
    """Kilobytes of memory that each of so many open answers takes, one item of each read; one before them is not counted."""
    held = [await begin(base)]
    await anext(held[0])
    before, start = _resident(), _cpu()
    for _ in range(count):
        held.append(await begin(base))
        await anext(held[-1])
    gc.collect()
    return {"kilobytes": (_resident() - before) / count, "cpu": (_cpu() - start) / count}


def _resident() -> int:
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def _new_loop(kind: str) -> Callable[[], asyncio.AbstractEventLoop] | None:
    if kind == "asyncio":
        return None
    import uvloop

    return cast(Callable[[], asyncio.AbstractEventLoop], uvloop.new_event_loop)


def main() -> None:
    name, base, *kind = sys.argv[1:]
    out = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not be taken for an answer
    read = CONTENDERS[name]()
    with asyncio.Runner(loop_factory=_new_loop(*kind or ["asyncio"])) as runner:
        os.write(out, b'{"ready": 1}\n')
        for line in sys.stdin:
            order = json.loads(line)
            place = f"{base}/{order['payload']}/{order['mode']}"
            if "open" in order:
                answer = runner.run(_hold(HOLDERS[name](), place, order["open"]))
            else:
                answer = runner.run(_obey(read, place, order["times"]))
            os.write(out, json.dumps(answer).encode() + b"\n")
            if "open" in order:
                break  # what it holds is left to the operating system
    os._exit(0)  # connections are left to the operating system: nothing of theirs is measured


if __name__ == "__main__":
    main()
