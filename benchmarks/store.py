"""What the SQLite store costs: appending as a conversation grows, and finding things among many.

Run: python -m benchmarks.store [--turns 10000] [--conversations 1000] [--length 100] [--directory DIR]
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from itertools import accumulate
from pathlib import Path

from midstream.core.blocks import Conversation, Origin, Text, ToolCall, ToolResponse, Turn, human
from midstream.store import Entry, SqliteStore

_ORIGIN = Origin("moonshot", "openai-chat", "kimi-k2.5")


def _vocabulary(random_: random.Random) -> list[str]:
    return ["".join(random_.choices("abcdefghijklmnopqrstuvwxyz", k=random_.randint(2, 10))) for _ in range(20_000)]


class _Writer:
    """Makes turns of a plausible size; common words are as common as in real text (about 1/rank)."""

    def __init__(self) -> None:
        self._random = random.Random(7)
        self._words = _vocabulary(self._random)
        self._weights = list(accumulate([1 / rank for rank in range(1, len(self._words) + 1)]))

    @property
    def commonest(self) -> str:
        return self._words[0]

    @property
    def rare(self) -> str:
        return self._words[-1]

    def prose(self, count: int) -> str:
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=count))

    def turn(self, number: int) -> Turn:
        match number % 4:
            case 0:
                return human(self.prose(30))
            case 1:
                call = ToolCall(f"hist_tool_{number:024d}", "read_file", f'{{"path": "src/{self.prose(1)}.py"}}')
                return Turn("ai", (Text(self.prose(20)), call), key=f"t{number}", origin=_ORIGIN)
            case 2:
                response = ToolResponse(f"hist_tool_{number - 1:024d}", "read_file", (Text(self.prose(150)),))
                return Turn("tool", (response,), key=f"t{number}")
            case _:
                return Turn("ai", (Text(self.prose(80)),), key=f"t{number}", origin=_ORIGIN)


def _milliseconds(action: Callable[[], object], times: int = 20) -> str:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        taken.append((time.perf_counter() - start) * 1000)
    return f"median {statistics.median(taken):7.2f} ms   worst {max(taken):7.2f} ms"


def _grow(store: SqliteStore, writer: _Writer, turns: int) -> None:
    conversation = store.create()
    made = [writer.turn(number) for number in range(turns)]
    taken = []
    for number, turn in enumerate(made):
        start = time.perf_counter()
        store.append(conversation, turn, number)
        taken.append((time.perf_counter() - start) * 1000)
    tenth = max(1, turns // 10)
    for begin in (0, turns // 2, turns - tenth):
        part = sorted(taken[begin : begin + tenth])
        print(
            f"append, turns {begin:>6}-{begin + len(part):<6} mean {statistics.mean(part):.3f} ms"
            f"   median {statistics.median(part):.3f} ms   p99 {part[int(len(part) * 0.99)]:.3f} ms"
        )
    print(f"load {turns} turns             {_milliseconds(lambda: store.load(conversation), 3)}")


def _find(store: SqliteStore, writer: _Writer, conversations: int, length: int) -> None:
    start = time.perf_counter()
    for _ in range(conversations):
        store.add(Entry(Conversation(tuple([writer.turn(number) for number in range(length)]))))
    print(f"filled {conversations} conversations x {length} turns in {time.perf_counter() - start:.1f} s")
    print(f"list(50)                       {_milliseconds(lambda: store.list(50))}")
    print(f"list(all)                      {_milliseconds(lambda: store.list(conversations))}")
    common = writer.commonest
    for name, query in {
        "a rare word": writer.rare,
        "the commonest word": common,
        "one letter": common[:1],
        "a prefix of 3": common[:3],
        "two common words": f"{common} read file",
        "a phrase": "read_file",
        "no match": "zzzzzzzzzzzz",
    }.items():
        print(f"search, {name:<22} {_milliseconds(lambda query=query: store.search(query))}")  # type: ignore[misc]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--conversations", type=int, default=1_000)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--directory", type=Path, help="where the database is made (default: a temporary directory)")
    options = parser.parse_args()
    writer = _Writer()
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        with closing(SqliteStore(Path(folder) / "grow.db")) as store:
            _grow(store, writer, options.turns)
        with closing(SqliteStore(Path(folder) / "find.db")) as store:
            _find(store, writer, options.conversations, options.length)
            print(f"database: {store.path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
