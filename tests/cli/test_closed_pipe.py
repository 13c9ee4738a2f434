"""`midstream … | head`: the program ends quietly when nobody reads its output any more."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from midstream.cli.main import PIPE_CLOSED

from .conftest import Cli

SIM = ("-m", "sim/kimi-k2.5")
COMMANDS = {
    "ask": ("ask", *SIM, "-R", "Hello"),
    "ask-json": ("ask", *SIM, "--json", "Hello"),
    "chat": ("chat", *SIM, "--thinking", "off"),
    "models": ("models",),
    "sessions": ("sessions",),
    "search": ("sessions", "search", "river"),
    "show": ("sessions", "show", ""),
    "export": ("sessions", "export", "--all"),
    "config": ("config", "show"),
    "help": ("chat", "--help"),
}


def run(args: tuple[str, ...], environ: dict[str, str], *, errors_too: bool) -> tuple[int, str]:
    reader, writer = os.pipe()
    os.close(reader)  # whoever read it is gone before the first byte
    try:
        done = subprocess.run(
            [sys.executable, "-m", "midstream.cli.main", *args],
            input=b"Hello\nHello again\n",
            env=environ,
            stdout=writer,
            stderr=writer if errors_too else subprocess.PIPE,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writer)
    return done.returncode, (done.stderr or b"").decode()


@pytest.mark.parametrize(("name", "errors_too"), [*[(name, False) for name in COMMANDS], ("ask", True), ("chat", True)])
def test_a_closed_pipe_ends_it_quietly(cli: Cli, environ: dict[str, str], name: str, errors_too: bool) -> None:
    cli("ask", *SIM, "Of a river")
    code, said = run(COMMANDS[name], environ, errors_too=errors_too)
    assert code == PIPE_CLOSED, said
    assert "midstream" not in said and "Error" not in said and "Exception" not in said
