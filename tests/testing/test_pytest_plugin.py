"""The fixture: fresh doubles for a test, and a failure where they refused something."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from midstream.testing import sim_server

TESTS = """
import urllib.error, urllib.request
import pytest

def ask(sim, body):
    request = urllib.request.Request(sim.base_url("openai") + "/chat/completions", body, method="POST")
    try:
        urllib.request.urlopen(request).close()
    except urllib.error.HTTPError as error:
        error.close()

def test_sound(sim):
    ask(sim, b'{"model":"gpt-4o","messages":[{"role":"user","content":"hi"}]}')
    assert sim.requests == 1

def test_refused(sim):
    ask(sim, b'{"model":"gpt-4o","messages":[]}')
"""


def test_the_fixture_works_and_minds_refusals(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["midstream.testing.pytest_plugin"]\n')
    (tmp_path / "test_it.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert "2 passed, 1 error" in done.stdout, done.stdout
    assert "the doubles refused: Invalid 'messages': empty array" in done.stdout


REPLAYED = """
import os
import pytest
from midstream.client.catalog import Catalog
from midstream.client.client import Client
from midstream.client.config import Config, ProviderConfig

async def asked(text):
    host = ProviderConfig(like="openai", base_url=os.environ["HOST"])
    async with Client(Catalog(Config(providers={"host": host}), environ={})) as client:
        return (await client.complete("host/gpt-4o", text)).text

def ask(text):
    import asyncio
    return asyncio.run(asked(text))

def test_one(cassette):
    assert ask("hello") == "This is gpt-4o. You said: hello"
    assert not cassette.unused

@pytest.mark.parametrize("name", ["a/b", "b"])
@pytest.mark.cassette(pace="bytes")
def test_two(cassette, name):
    assert cassette.pace == "bytes"
    assert ask(os.environ.get("WORDS", name)).endswith(name)
"""


def test_cassettes_are_recorded_and_replayed(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["midstream.testing.pytest_plugin"]\n')
    (tmp_path / "test_it.py").write_text(REPLAYED)

    def run(*words: str, **environ: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", "--rootdir", str(tmp_path), *words],
            capture_output=True, text=True, cwd=tmp_path, check=False, env={**os.environ, **environ},
        ).stdout  # fmt: skip

    with sim_server() as sim:
        assert "3 passed" in run("--midstream-record=new", HOST=sim.base_url("openai"))
        assert sim.requests == 3
        assert "3 passed" in run("--midstream-record=all", HOST=sim.base_url("openai"))
        assert sim.requests == 6
    told = run(HOST="http://127.0.0.1:9/openai", WORDS="other")
    assert "2 failed, 1 passed" in told and 'messages[0].content: recorded "a/b", now "other"' in told
    assert sorted(path.name for path in (tmp_path / "cassettes/test_it").iterdir()) == [
        "test_one",
        "test_two-a-b",
        "test_two-b",
    ]
