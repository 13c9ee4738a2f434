"""A real llama.cpp server for the whole run: a tiny model is built, served on loopback, and gone with the tests."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.tiny_model import write_tiny_model


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the server."""
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.fail("xllamacpp is not installed: run `make test-e2e`, which installs it", pytrace=False)
    model = write_tiny_model(tmp_path_factory.mktemp("engine") / "tiny.gguf")
    command = [sys.executable, str(Path(__file__).with_name("serve.py")), str(model), str(_free_port())]
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
