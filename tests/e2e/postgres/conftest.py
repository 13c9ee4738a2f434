"""A real PostgreSQL server for the whole run, and the suites of the stores on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from midstream.gateway.state import open_state
from midstream.store import Store
from midstream.store.postgres import PostgresStore
from tests.gateway.conftest import OpenState
from tests.postgres_cluster import MISSING, Cluster, running_cluster
from tests.store.conftest import STORES, MakeStore, ticking_clock


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as running:
        if running is None:
            pytest.skip(MISSING)
        yield running


@pytest.fixture
def database(cluster: Cluster) -> str:
    """The address of a database without anything of ours."""
    with psycopg.connect(cluster.address) as db:
        db.execute("DROP SCHEMA IF EXISTS midstream CASCADE")
        db.execute("DROP SCHEMA IF EXISTS midstream_gateway CASCADE")
    return cluster.address


@pytest.fixture
def new_state(database: str) -> OpenState:
    return lambda: open_state(database)


@pytest.fixture
def makers(database: str) -> list[MakeStore]:
    return [*STORES.values(), lambda folder, now: PostgresStore(database, now=now)]


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    with closing(PostgresStore(database, now=ticking_clock())) as made:
        yield made


@pytest.fixture(scope="session")
def lasting_store(cluster: Cluster) -> Iterator[Store]:
    # A database of its own: the tests between two of its examples empty the other.
    with psycopg.connect(cluster.address, autocommit=True) as db:
        db.execute("CREATE DATABASE lasting")
    address = cluster.address.replace("/postgres?", "/lasting?")
    with closing(PostgresStore(address, now=lambda: 0.0)) as made:
        yield made
