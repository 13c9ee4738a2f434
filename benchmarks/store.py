"""What the SQLite store costs: appending as a conversation grows, and finding things among many.

Run: python -m benchmarks.store [--turns 10000] [--conversations 1000] [--length 100] [--directory DIR]
"""

from __future__ import annotations

import argparse
import random
import sqlite3
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


def _scripts(folder: Path) -> None:
    """The same count of characters in a spaced script and in one without spaces, in turn: what appending and the index cost."""
    random_ = random.Random(7)
    common = list(accumulate([1 / (rank + 10) for rank in range(3000)]))
    chinese = ["".join(random_.choices(_HAN, cum_weights=common, k=random_.randint(1, 3))) for _ in range(20_000)]
    weights = list(accumulate([1 / rank for rank in range(1, 20_001)]))
    for length, count in ((60, 2000), (500, 600), (4000, 100), (200_000, 3)):
        per_character: dict[str, tuple[float, float, float]] = {}
        for name, vocabulary, between in (("Latin", _vocabulary(random_), " "), ("Chinese", chinese, "")):
            texts = [
                between.join(random_.choices(vocabulary, cum_weights=weights, k=length))[:length] for _ in range(count)
            ]
            with closing(SqliteStore(folder / f"{name}-{length}.db")) as store:
                made = store.create()
                start = time.process_time()
                for number, text in enumerate(texts):
                    store.append(made, human(text), number)
                taken = time.process_time() - start
            with closing(sqlite3.connect(store.path)) as db:
                sizes = [_size(db, index) for index in ("search", "characters")]
            per_character[name] = (
                taken / (length * count) * 1e9,
                sum(size[0] for size in sizes) / (length * count),
                sum(size[1] for size in sizes) / (length * count),
            )
        latin, han = per_character["Latin"], per_character["Chinese"]
        print(
            f"turns of {length:>6} characters: append {latin[0]:5.0f} ns Latin, {han[0]:5.0f} ns Chinese a character"
            f" ({han[0] / latin[0]:.2f}x, {han[0] / latin[0] / 3:.2f}x a byte);"
            f" index {latin[1]:.2f} B, {han[1]:.2f} B ({han[1] / latin[1]:.2f}x, {han[1] / latin[1] / 3:.2f}x a byte);"
            f" index and its words {latin[2]:.2f} B, {han[2]:.2f} B"
        )


_HAN = [chr(0x4E00 + number) for number in range(3000)]


def _size(db: sqlite3.Connection, index: str) -> tuple[int, int]:
    """The bytes of a full-text index, and those with the words it keeps."""
    blocks = db.execute(f"SELECT sum(length(block)) FROM {index}_data").fetchone()[0]
    words = db.execute(f"SELECT coalesce(sum(length(CAST(c0 AS BLOB))), 0) FROM {index}_content").fetchone()[0]
    return blocks, blocks + words


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--conversations", type=int, default=1_000)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--directory", type=Path, help="where the database is made (default: a temporary directory)")
    options = parser.parse_args()
    writer = _Writer()
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        _scripts(Path(folder))
        with closing(SqliteStore(Path(folder) / "grow.db")) as store:
            _grow(store, writer, options.turns)
        with closing(SqliteStore(Path(folder) / "find.db")) as store:
            _find(store, writer, options.conversations, options.length)
            print(f"database: {store.path.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
