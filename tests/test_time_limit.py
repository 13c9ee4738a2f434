"""Tests that hang, in a process of their own: each fails, says so, and the next one runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HANGING = """
import asyncio, threading

def test_waits_for_a_thread():
    threading.Event().wait()

def test_waits_in_a_loop():
    asyncio.run(asyncio.Event().wait())

def test_spins():
    while True:
        pass

def test_spins_in_a_loop():
    async def main():
        while True:
            await asyncio.sleep(0)
    asyncio.run(main())

def test_cleans_up_for_ever():
    try:
        threading.Event().wait()
    finally:
        threading.Event().wait()

def test_is_fine():
    pass
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer here")
def test_a_hang_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "test_hanging.py").write_text(HANGING)
    root = Path(__file__).resolve().parents[1]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.time_limit",
        "-p",
        "no:cacheprovider",
        "test_hanging.py",
    ]
    environ = {**os.environ, "MIDSTREAM_TEST_LIMIT": "0.3", "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "5 failed, 1 passed" in done.stdout
    assert done.stdout.count("hung: it did not end in 0.3 s") >= 5
