"""Every place where the gateway's state can be. tests/e2e/postgres runs the same suite on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from midstream.gateway.state import GatewayState, open_state

OpenState = Callable[[], GatewayState]
"""Gives another view of the same state, not opened yet. In memory each is a state of its own."""


@pytest.fixture(params=["memory", "sqlite"])
def new_state(request: pytest.FixtureRequest, tmp_path: Path) -> OpenState:
    return lambda: open_state(None if request.param == "memory" else str(tmp_path / "gateway.db"))
