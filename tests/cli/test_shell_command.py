"""`!command` below the terminal: what the model gets of an output, however it looks, and that every host takes it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.cli.shell_command import OUTPUT_LIMIT, ShellCommand, is_shell_line, without_keys
from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import LoadedConfig
from midstream.client.session import Session
from midstream.core.blocks import Text
from midstream.core.errors import LocalError
from midstream.core.secret import Secret
from midstream.core.visible import visible
from midstream.sim.providers import MODELS
from midstream.sim.server import Sim


def ran(command: str) -> ShellCommand:
    running = ShellCommand(command, lambda _: None)
    asyncio.run(running.run())
    return running


@pytest.fixture(autouse=True)
def _plain_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")


@pytest.mark.parametrize(
    ("command", "output", "ended"),
    [
        ("echo one; echo two >&2", "one\ntwo", "exit code 0"),
        ("exit 7", "(no output)", "exit code 7"),
        ("kill -9 $$", "(no output)", "ended by signal 9"),
        ("cat", "(no output)", "exit code 0"),
        (r"printf '\033[1;31mred\033[0m \033]8;;http://x\033\\link\033]8;;\033\\'", "red link", "exit code 0"),
        (r"printf 'a\r\nb\rc'", "a\nb␍c", "exit code 0"),
        (r"printf '\377\376'", "\N{REPLACEMENT CHARACTER}" * 2, "exit code 0"),
        ("sleep 5 & echo gone", "gone", "exit code 0"),
    ],
)
def test_the_model_gets_the_output_and_how_it_ended(command: str, output: str, ended: str) -> None:
    running = ran(command)
    assert running.said == f"I ran this command in my shell:\n$ {command}\n{output}"
    assert running.ended == ended


@given(st.lists(st.binary(max_size=200), max_size=20), st.integers(1, 400))
def test_whatever_is_written_nothing_hides_in_it_and_it_is_bounded(pieces: list[bytes], times: int) -> None:
    shown: list[str] = []
    running = ShellCommand("x", shown.append)
    for piece in pieces * times:
        running._take(piece)
    assert visible(running.said) == running.said
    # A hidden character is written out in up to ten others.
    assert len(running.said) < 10 * OUTPUT_LIMIT + 200
    if sum(map(len, pieces)) * times > OUTPUT_LIMIT:
        assert re.search(r"\[… \d+ bytes of output cut …\]", running.said)


def test_a_stop_ends_all_that_it_started_even_what_ignores_it(tmp_path: Path) -> None:
    async def stopped() -> ShellCommand:
        started = asyncio.Event()
        running = ShellCommand(
            f"trap '' INT TERM; sleep 300 & echo $! > {tmp_path}/pid; echo; wait; sleep 300",
            lambda text: started.set() if text else None,
            grace=0.05,
        )
        task = asyncio.ensure_future(running.run())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return running

    assert asyncio.run(stopped()).ended == "stopped"
    with pytest.raises(ProcessLookupError):
        for _ in range(200):  # until whoever adopts orphans has taken note
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGCONT)
            if "Z" in Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat").read_text().split()[2]:
                raise ProcessLookupError


def test_a_shell_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/no/such/shell")
    with pytest.raises(LocalError, match="cannot run the shell /no/such/shell: No such file"):
        ran("true")


def test_keys_are_named_not_told() -> None:
    keys = {"A_KEY": Secret("sk-canary-123"), "B_KEY": Secret("short"), "C_KEY": Secret("sk-canary-123-and-more")}
    told = without_keys("sk-canary-123 and short, sk-canary-123-and-more", keys)
    assert told == "‹A_KEY› and short, ‹C_KEY›"


@pytest.mark.parametrize(("line", "runs"), [("!ls", True), ("!", True), (" !ls", False), ("ls!", False), ("", False)])
def test_only_a_line_that_begins_with_the_mark_runs(line: str, runs: bool) -> None:
    assert is_shell_line(line) == runs


def test_every_host_takes_an_output_before_a_message() -> None:
    async def talk() -> list[str]:
        async with Sim(strict="paranoid") as sim:
            client = Client(Catalog(LoadedConfig(), providers=sim.providers()))
            try:
                failed = []
                for model in MODELS:
                    session = Session(f"sim/{model}", client=client)
                    for _ in range(2):
                        turn = await session.send(Text("I ran:\n$ ls\nnotes.txt\n[exit code 0]"), "Hello")
                        if turn.failure or "Hello" not in turn.text:
                            failed.append(f"{model}: {turn.failure or turn.text}")
                return failed
            finally:
                await client.aclose()

    assert asyncio.run(talk()) == []
