"""The `sim` fixture: `pytest_plugins = ["midstream.testing.pytest_plugin"]` in a conftest.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .server import SimServer, sim_server


@pytest.fixture
def sim() -> Iterator[SimServer]:
    """Fresh doubles for each test, which fails if they refused any request."""
    with sim_server() as server:
        yield server
        assert not server.refused, f"the doubles refused: {server.refused[0].message}"
