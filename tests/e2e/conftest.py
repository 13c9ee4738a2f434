"""Real llama.cpp servers for the whole run: a tiny model is built, served on loopback, and gone with the tests."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.tiny_model import write_tiny_model

KEY = "the engine's key"
# How likely the markers of a call are to the eager model: a grammar forces the form of a call, chance has to begin one.
LIKELY = {
    "<|tool_calls_section_begin|>": 20.0, "<|tool_calls_section_end|>": 9.0, "<|tool_call_begin|>": 20.0,
    "<|tool_call_argument_begin|>": 9.0, "<|tool_call_end|>": 9.0, "[EOS]": 21.0,
}  # fmt: skip


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the server."""
    with served_model(write_tiny_model(tmp_path_factory.mktemp("engine") / "tiny.gguf")) as address:
        yield address


@pytest.fixture(scope="session")
def guarded_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that wants `KEY`; its model likes to call tools."""
    model = write_tiny_model(tmp_path_factory.mktemp("engine") / "eager.gguf", likely=LIKELY)
    with served_model(model, KEY) as address:
        yield address


@contextmanager
def served_model(model: Path, *key: str) -> Iterator[str]:
    """The address of a server with this model."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.fail(
            "xllamacpp is not installed: run `make test-e2e` or `make test-clients`, which install it", pytrace=False
        )
    command = [sys.executable, str(Path(__file__).with_name("serve.py")), str(model), str(_free_port()), *key]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        ready = server.stdout.readline().split()
        assert ready[:1] == ["ready"], f"the server did not start: {ready}"
        yield ready[1]
        server.stdin.close()
        server.wait(timeout=10)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly what did not run, and why: a skipped test looks like a green one."""
    reasons = Counter(
        [
            str(report.longrepr[2])
            for report in terminalreporter.getreports("skipped")
            if isinstance(report.longrepr, tuple)
        ]
    )
    if reasons:
        terminalreporter.section("NOT RUN", sep="*", red=True, bold=True)
        for reason, count in reasons.items():
            terminalreporter.write_line(f"{count} tests: {reason.removeprefix('Skipped: ')}", red=True)
