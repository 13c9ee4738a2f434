"""The fixture: fresh doubles for a test, and a failure where they refused something."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
