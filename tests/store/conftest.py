"""Every store there is. A new one joins the conformance suite by a row in STORES, or, if it needs a server, by fixtures of the same
names: tests/e2e/postgres."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from midstream.store import MemoryStore, SqliteStore, Store
from tests.long_run import cases

from .plain_store import PlainStore

MakeStore = Callable[[Path, Callable[[], float]], Store]
STORES: dict[str, MakeStore] = {
    "plain": lambda folder, now: PlainStore(now),
    "memory": lambda folder, now: MemoryStore(now),
    "sqlite": lambda folder, now: SqliteStore(folder / "conversations.db", now=now),
}

EACH = cases(STORES, {"memory", "sqlite"})
"""The plain store is what the others are compared with; that it keeps the promises itself is shown in the long run."""


@pytest.fixture
def makers() -> list[MakeStore]:
    """Makers of stores that are compared with each other."""
    return list(STORES.values())


@pytest.fixture(params=EACH)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store whose clock ticks one second a look."""
    with closing(STORES[request.param](tmp_path, ticking_clock())) as made:
        yield made


@pytest.fixture(scope="module", params=EACH)
def lasting_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One store for all the examples of a property."""
    with closing(STORES[request.param](tmp_path_factory.mktemp("store"), lambda: 0.0)) as made:
        yield made


def ticking_clock() -> Callable[[], float]:
    ticks = itertools.count(1000)
    return lambda: float(next(ticks))
