"""Agents made to be killed. For each line on stdin (a number of turns, a delay in seconds, a model, a conversation) a fresh
process lets an agent work, run after run, until it is killed by signal 9 that long after so many turns were acknowledged.
What the store acknowledged to it goes to stdout in one line of JSON: a list of [position, turn key].
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from midstream.agent.approval import Approval
from midstream.agent.loop import Agent
from midstream.agent.toolbox import Toolbox
from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import Config
from midstream.client.session import Session
from midstream.core.blocks import Turn
from midstream.sim.providers import sim_providers
from midstream.store import SqliteStore
from midstream.wires.registry import get_wire
from tests.victim import killed

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
        os.write(self._acknowledge, msgspec.json.encode((length - 1, turn.key)) + b"\n")
        return length


def toolbox(folder: str | Path) -> Toolbox:
    return Toolbox(TOOLS, approve=Approval(yolo=True), workdir=folder)


async def work_for_ever(url: str, path: str, folder: str, model: str, conversation: str, acknowledge: int) -> None:
    store = AcknowledgingStore(path, acknowledge)
    client = Client(Catalog(Config(), environ={}, providers=sim_providers(url)))
    session = Session(model, store=store, conversation=store.load(conversation), client=client)
    agent = Agent(session, toolbox(folder))
    while True:
        async for _ in agent.run(ASKED):
            pass


def main(url: str, path: str, folder: str) -> None:
    for wire in _WIRES:
        for room in ("encode", "decode"):
            get_wire(wire).room(room)
    for line in sys.stdin:
        turns, delay, model, conversation = line.split()

        def work(acknowledge: int, model: str = model, conversation: str = conversation) -> None:
            asyncio.run(work_for_ever(url, path, folder, model, conversation, acknowledge))

        lines = killed(work, int(turns), float(delay))
        print((b"[" + b",".join(lines) + b"]").decode(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
