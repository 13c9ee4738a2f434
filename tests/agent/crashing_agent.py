"""Agents made to be killed. For each line on stdin (a delay in seconds, a model, a conversation or nothing) a fresh process
lets an agent work, run after run, until it is killed by signal 9 that long after its birth. What the store acknowledged to
it goes to stdout in one line of JSON: a list of [conversation, position, turn key].

Forking from this process, which has everything imported and no thread, makes a victim in a millisecond.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import aiohttp  # noqa: F401  (the victims are not to spend their lives importing)
import msgspec

from midstream.agent.approval import Approval
from midstream.agent.loop import Agent
from midstream.agent.toolbox import Toolbox
from midstream.client.catalog import Catalog
from midstream.client.config import Config
from midstream.client.session import Session
from midstream.client.turn import Client
from midstream.core.blocks import Turn
from midstream.sim.rows import sim_rows
from midstream.store import SqliteStore
from midstream.wires.registry import get_wire

TOOLS = ("bash", "read_file", "write_file", "glob")
ASKED = "Glob '*.txt' and read a.txt, then bash 'sleep 0.02 && cat a.txt' and read b.txt, then write c.txt. What did you see?"
_WIRES = ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama", "completion")


class AcknowledgingStore(SqliteStore):
    """Tells of a turn as soon as, and not before, the store has said that it is kept."""

    def __init__(self, path: str, acknowledge: int) -> None:
        super().__init__(path)
        self._acknowledge = acknowledge

    def append(self, conversation_id: str, turn: Turn, expected_length: int) -> int:
        length = super().append(conversation_id, turn, expected_length)
        os.write(self._acknowledge, msgspec.json.encode((conversation_id, length - 1, turn.key)) + b"\n")
        return length


def toolbox(folder: str | Path) -> Toolbox:
    return Toolbox(TOOLS, approve=Approval(yolo=True), workdir=folder)


async def work_for_ever(url: str, path: str, folder: str, model: str, conversation: str, acknowledge: int) -> None:
    store = AcknowledgingStore(path, acknowledge)
    client = Client(Catalog(Config(), environ={}, providers=sim_rows(url)))
    kept = store.load(conversation) if conversation else None
    agent = Agent(Session(model, store=store, conversation=kept, client=client), toolbox(folder))
    while True:
        async for _ in agent.run(ASKED):
            pass


def killed_after(delay: float, url: str, path: str, folder: str, model: str, conversation: str) -> bytes:
    reading, writing = os.pipe()
    victim = os.fork()
    if not victim:
        os.close(reading)
        asyncio.run(work_for_ever(url, path, folder, model, conversation, writing))
    os.close(writing)
    time.sleep(delay)
    os.kill(victim, signal.SIGKILL)
    _, status = os.waitpid(victim, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, "the agent ended by itself"
    with os.fdopen(reading, "rb") as pipe:
        lines = pipe.read().split(b"\n")[:-1]
    return b"[" + b",".join(lines) + b"]"


def main(url: str, path: str, folder: str) -> None:
    for wire in _WIRES:
        get_wire(wire)
    for line in sys.stdin:
        delay, model, conversation = line.rstrip("\n").split("\t")
        print(killed_after(float(delay), url, path, folder, model, conversation).decode(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
