"""A program that opens all there is to open, run by test_whole_program.py: `whole_program.py closes|forgets return|raise|interrupt`.

It closes what it opened by `with`, or keeps all of it until Python ends; and it ends by itself, by an exception, or by Ctrl-C.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
import urllib.request
from contextlib import AsyncExitStack, ExitStack, closing
from pathlib import Path
from typing import Any

from midstream import Agent, Session, SyncSession
from midstream.agent.approval import Approval
from midstream.agent.sync import SyncAgent
from midstream.agent.toolbox import Toolbox
from midstream.client.catalog import Catalog
from midstream.gateway.assembly import AppOptions, GatewayApp
from midstream.gateway.config import GatewayConfig
from midstream.gateway.server import Server, ServerOptions, address_of, bind
from midstream.sim.answer import Answer, Call
from midstream.sim.providers import sim_providers
from midstream.store import MemoryStore, open_store
from midstream.testing import SimServer, sim_server

MODEL = "sim/kimi-k2.5"
FORGETS, END = sys.argv[1] == "forgets", sys.argv[2]
FOLDER = Path.cwd()
KEPT: list[Any] = []

# In its debug mode, which `-X dev` brings, asyncio logs what took long: on a busy machine nearly anything does.
logging.getLogger("asyncio").setLevel(logging.ERROR)


def leave() -> None:
    if END == "raise":
        raise LookupError("the program's own mistake")
    if END == "interrupt":
        signal.raise_signal(signal.SIGINT)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def enter(stack: ExitStack | AsyncExitStack, context: Any) -> Any:
    if not FORGETS:
        return stack.enter_context(context)
    KEPT.append(context)
    return context.__enter__()


async def enter_async(stack: AsyncExitStack, context: Any) -> Any:
    if not FORGETS:
        return await stack.enter_async_context(context)
    KEPT.append(context)
    return await context.__aenter__()


async def serve(sim: SimServer) -> tuple[str, asyncio.Task[None]]:
    """The gateway in this loop; as any server does in the main thread, it takes Ctrl-C as a wish to end."""
    catalog = Catalog(providers=sim_providers(sim.url), environ={})
    app = GatewayApp(GatewayConfig(), AppOptions(state=str(FOLDER / "gateway.db"), log_format="none"), catalog=catalog)
    listener = bind(ServerOptions(port=0))
    ready = asyncio.Event()
    server = Server(app, ServerOptions(port=0, drain=0.2), ready=lambda _: ready.set())
    running = asyncio.create_task(server.serve([listener]))
    await ready.wait()
    return address_of(listener), running


def ask(url: str) -> str:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        return str(json.load(answer)["choices"][0]["message"]["role"])


def tools() -> Toolbox:
    return Toolbox([add, "bash"], approve=Approval(allow=["bash:echo *"]))


async def use_async(sim: SimServer, script: SimServer) -> None:
    async with AsyncExitStack() as stack:
        store = enter(stack, closing(open_store(FOLDER / "async.db")))
        client = await enter_async(stack, sim.client())
        session = await enter_async(stack, Session(MODEL, client=client, store=store))
        assert (await session.send("hi")).text
        helper = await enter_async(stack, script.client())
        worker = await enter_async(stack, Session(MODEL, client=helper))
        assert (await Agent(worker, tools()).run("add, and say so")).text == "added"
        half = Session(MODEL, client=client, store=MemoryStore()).send("hi")
        KEPT.append(half)
        await anext(aiter(half))
        url, running = await serve(sim)
        assert await asyncio.to_thread(ask, url) == "assistant"
        leave()
        if END == "interrupt":
            await running
        elif not FORGETS:
            running.cancel()
            await asyncio.wait([running])


def main() -> None:
    with ExitStack() as stack:
        sim = enter(stack, sim_server())
        calls = Answer(calls=(Call("add", {"a": 1, "b": 2}), Call("bash", {"command": "echo added"})))
        script = enter(stack, sim_server(calls, "added", calls, "added"))
        store = enter(stack, closing(open_store(FOLDER / "sync.db")))
        session = enter(stack, SyncSession(MODEL, client=sim.client(), store=store))
        assert session.send("hi").result().text and store.list()
        worker = enter(stack, SyncSession(MODEL, client=script.client()))
        assert SyncAgent(worker, tools()).run("add, and say so").result().text == "added"
        asyncio.run(use_async(sim, script))
        reply = session.send("more")
        KEPT.append(reply)
        next(iter(reply))
        leave()


if __name__ == "__main__":
    main()
    print("the end")
