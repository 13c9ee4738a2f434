"""Fixtures for pytest: `pytest_plugins = ["midstream.testing.pytest_plugin"]` in the conftest.py at the root of your tests.

`sim` gives the doubles. `cassette` answers the test's requests from recordings beside its file, in
`cassettes/<file>/<test>/`, and records them when pytest is run with --midstream-record=new (what is missing) or =all (everything
again). `@pytest.mark.cassette(pace="bytes")` passes options on to `replay`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..recording.replay import Replay, replay
from .server import SimServer, sim_server

_OPTION = "--midstream-record"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("midstream").addoption(
        _OPTION,
        choices=("none", "new", "all"),
        default="none",
        help="What tests with the fixture `cassette` record: none (only replay, the default), new (what was not recorded yet), "
        "all (everything again).",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cassette(**options): options of midstream.recording.replay for this test")


@pytest.fixture
def sim() -> Iterator[SimServer]:
    """Fresh doubles for each test, which fails if they refused any request."""
    with sim_server() as server:
        yield server
        assert not server.refused, f"the doubles refused: {server.refused[0].message}"


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Iterator[Replay]:
    """Answers this test's requests from its recordings; a request that was not recorded fails the test and says what differs."""
    marker = request.node.get_closest_marker("cassette")
    options = dict(marker.kwargs) if marker is not None else {}
    options.setdefault("record", request.config.getoption(_OPTION, "none"))
    with replay(_folder(request), **options) as source:
        yield source


def _folder(request: pytest.FixtureRequest) -> Path:
    path: Path = request.path
    # A parameter may hold anything, and a name of a folder may not.
    name = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")
    return path.parent / "cassettes" / path.stem / name
