"""Kill -9 while an agent streams, runs tools and stores: nothing acknowledged is lost, and any other model goes on.

Of a pair of doubles the first is killed at a random moment, and the second takes the conversation over. Here every double is killed
three times and goes on three times, each time with another one; tests/e2e/test_kill.py plays every ordered pair.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from midstream.agent.loop import Agent
from midstream.client.session import Session
from midstream.core.blocks import Conversation
from midstream.core.events import AgentEvent, Stopped
from midstream.store import SqliteStore
from midstream.testing import SimServer, sim_server
from tests.store.crashing_writer import KILLS as KILLS_OF_WRITERS

from .crashing_agent import toolbox

DOUBLES = (
    "moonshot/kimi-k2.5",
    "anthropic/claude-sonnet-4-5",
    "openai-responses/gpt-5.2",
    "mistral/mistral-large-latest",
    "gemini/gemini-3-pro-preview",
    "deepseek/deepseek-reasoner",
    "moonshot/kimi-k3",
    "openai/gpt-4o",
    "ollama/qwen3:4b",
    "deepinfra/moonshotai/Kimi-K2.5",
    "moonshot/kimi-k2-0905-preview",
)
PAIRS = tuple(itertools.permutations(DOUBLES, 2))
RINGS = tuple(
    (model, DOUBLES[(place + step) % len(DOUBLES)]) for step in (1, 3, 5) for place, model in enumerate(DOUBLES)
)
KILLS_A_CONVERSATION = 5
MOST_TURNS = 7  # a run stores eight
LONGEST_DELAY = 0.08
FILES = {"a.txt": "alpha\n", "b.txt": "bravo\n"}

Acknowledged: TypeAlias = list[tuple[int, str]]


def test_two_hundred_are_killed() -> None:
    """In tests/e2e in the middle of an agent's work, in tests/store in the middle of bare appends."""
    assert len(PAIRS) == 110
    assert len(PAIRS) + KILLS_OF_WRITERS >= 200


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the bash tool needs Linux")
def test_kill_9_loses_no_acknowledged_turn_and_another_model_goes_on(tmp_path: Path) -> None:
    assert len(set(RINGS)) == 33
    play(RINGS, tmp_path)


def play(pairs: Sequence[tuple[str, str]], tmp_path: Path) -> None:
    """Kill the first of each pair and let the second go on."""
    path, folder = tmp_path / "conversations.db", tmp_path / "folder"
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_text(content)
    chance = random.Random(11)
    kills: Counter[str] = Counter()
    waited = acknowledged = 0
    conversation = ""
    with sim_server(delay=0.0005) as sim, _agents(sim.url, path, folder) as kill_one:
        for number, (model, other) in enumerate(chance.sample(pairs, len(pairs))):
            with closing(SqliteStore(path)) as store:
                if number % KILLS_A_CONVERSATION == 0:
                    conversation = store.create(Conversation(system="Be brief."))
                before = store.load(conversation)
            turns = chance.randint(0, MOST_TURNS)
            told = kill_one(turns, chance.uniform(0, LONGEST_DELAY), model, conversation)
            waited += turns
            acknowledged += len(told)
            assert _integrity(path) == "ok"
            with closing(SqliteStore(path)) as store:
                after = store.load(conversation)
                _check_kept(before, after, told)
                kills[_moment(before, after)] += 1
                last = asyncio.run(_go_on(sim, store, after, other, folder))
            where = f"{model} was killed {_moment(before, after)}, {other} went on"
            assert sim.refused == [], where
            assert last == Stopped("text"), where
        assert {seen.status for seen in sim.seen} == {200}
    print(f"{kills.total()} kills: {dict(kills)}; {acknowledged} acknowledged turns, all there")
    assert kills.total() == len(pairs)
    assert acknowledged >= waited
    assert kills["while a model answered"] and kills["while tools ran"], kills


def _check_kept(before: Conversation, after: Conversation, told: Acknowledged) -> None:
    """What was there is there, what was acknowledged is behind it; one append more may have been on its way."""
    assert after.turns[: len(before.turns)] == before.turns
    assert [position for position, _ in told] == list(range(len(before.turns), len(before.turns) + len(told)))
    new = [turn.key for turn in after.turns[len(before.turns) :]]
    assert new[: len(told)] == [key for _, key in told]
    assert len(new) <= len(told) + 1


def _moment(before: Conversation, after: Conversation) -> str:
    if len(after.turns) == len(before.turns):
        return "before it stored anything"
    return "while tools ran" if after.turns[-1].tool_calls else "while a model answered"


async def _go_on(sim: SimServer, store: SqliteStore, kept: Conversation, model: str, folder: Path) -> AgentEvent:
    async with sim.client() as client:
        agent = Agent(Session(model, store=store, conversation=kept, client=client), toolbox(folder))
        events = [event async for event in agent.run("Read b.txt.")]
        assert "bravo" in agent.session.conversation.turns[-1].text, model
    return events[-1]


def _integrity(path: Path) -> str:
    with closing(sqlite3.connect(path)) as db:
        return str(db.execute("PRAGMA integrity_check").fetchone()[0])


@contextmanager
def _agents(url: str, path: Path, folder: Path) -> Iterator[Callable[[int, float, str, str], Acknowledged]]:
    """Gives a function that lets an agent store so many turns, kills it a delay later, and says what it was acknowledged."""
    command = [sys.executable, "-m", "tests.agent.crashing_agent", url, str(path), str(folder)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root, text=True) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def kill_one(turns: int, delay: float, model: str, conversation: str) -> Acknowledged:
            print(turns, delay, model, conversation, file=stdin, flush=True)
            return [(position, key) for position, key in json.loads(stdout.readline())]

        yield kill_one
        stdin.close()
