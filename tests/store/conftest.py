"""Every store there is. A new one joins the conformance suite by a row in STORES."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from midstream.store import MemoryStore, SqliteStore, Store

from .plain_store import PlainStore

STORES: dict[str, Callable[[Path, Callable[[], float]], Store]] = {
    "plain": lambda folder, now: PlainStore(now),
    "memory": lambda folder, now: MemoryStore(now),
    "sqlite": lambda folder, now: SqliteStore(folder / "conversations.db", now=now),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store whose clock ticks one second a look."""
    ticks = itertools.count(1000)
    made = STORES[request.param](tmp_path, lambda: float(next(ticks)))
    yield made
    made.close()
