"""A real PostgreSQL server for the whole run, and the suites of the stores on it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from midstream.gateway.state import open_state
from tests.gateway.conftest import OpenState
from tests.postgres_cluster import MISSING, Cluster, running_cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with running_cluster() as running:
        if running is None:
            pytest.skip(MISSING)
        yield running


@pytest.fixture
def database(cluster: Cluster) -> str:
    """The address of an empty database."""
    with psycopg.connect(cluster.address) as db:
        db.execute("DROP SCHEMA IF EXISTS midstream CASCADE")
        db.execute("DROP SCHEMA IF EXISTS midstream_gateway CASCADE")
    return cluster.address


@pytest.fixture
def new_state(database: str) -> OpenState:
    return lambda: open_state(database)
