"""The `sim` fixture: `pytest_plugins = ["midstream.testing.pytest_plugin"]` in a conftest.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .server import SimServer, sim_server


@pytest.fixture
def sim() -> Iterator[SimServer]:
    """The doubles, fresh for each test; at its end no request may have been refused."""
    with sim_server() as server:
        yield server
        assert not server.refused, f"the doubles refused: {server.refused[0].message}"
