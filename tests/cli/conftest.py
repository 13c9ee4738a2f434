"""A home of its own for every test of the terminal, without anybody's keys, and the doubles on a port."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from midstream.cli.main import main
from midstream.dialects.registry import REGISTRY
from midstream.sim.server import Sim

from .terminal import Open, Terminal

_OURS = (
    "NO_COLOR",
    "FORCE_COLOR",
    "COLUMNS",
    "MIDSTREAM_MODEL",
    "MIDSTREAM_DEBUG",
    "MIDSTREAM_STORE",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """MIDSTREAM_HOME; the current folder is `work` beside it, with one note in it."""
    keys = [name for row in REGISTRY.providers.values() for name in (*row.endpoint.key_env, *row.endpoint.bearer_env)]
    bases = [name for row in REGISTRY.providers.values() for name in row.endpoint.base_env]
    for name in (*keys, *bases, *_OURS):
        monkeypatch.delenv(name, raising=False)
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text("buy milk\n")
    monkeypatch.chdir(work)
    monkeypatch.setenv("MIDSTREAM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MIDSTREAM_SIM_DELAY", "0")
    return tmp_path / "home"


class Cli:
    """The command line inside this process."""

    def __call__(self, *args: str, stdin: str | bytes = "") -> Result:
        return CliRunner().invoke(main, list(args), input=stdin, prog_name="midstream")


@pytest.fixture
def cli(home: Path) -> Cli:
    return Cli()


@contextmanager
def serving(sim: Sim) -> Iterator[Sim]:
    """The doubles in a thread of their own."""
    ready = threading.Event()
    held: dict[str, Any] = {}

    async def serve() -> None:
        async with sim:
            held["loop"] = asyncio.get_running_loop()
            held["end"] = asyncio.Event()
            ready.set()
            await held["end"].wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield sim
    finally:
        held["loop"].call_soon_threadsafe(held["end"].set)
        thread.join(10)


@pytest.fixture
def doubles(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sim]:
    """The doubles at the address that `moonshot/…` leads to, with `inject` for bad days."""
    with serving(Sim(strict="paranoid")) as sim:
        monkeypatch.setenv("MOONSHOT_API_BASE", f"{sim.url}/moonshot")
        yield sim


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    """The environment for a program of its own."""
    return {**os.environ, "TERM": "xterm-256color"}


@pytest.fixture
def opened(environ: dict[str, str]) -> Iterator[Open]:
    """Opens terminals; they are closed when the test has ended."""
    terminals: list[Terminal] = []

    def open_terminal(*args: str, columns: int = 100, rows: int = 40, **changes: str) -> Terminal:
        terminals.append(Terminal(*args, environ={**environ, **changes}, columns=columns, rows=rows))
        return terminals[-1]

    yield open_terminal
    for terminal in terminals:
        terminal.close()
