"""Whatever a program opened is closed, however it ends: Python, which warns of what is left open, has nothing to say."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("whole_program.py")
ROOT = PROGRAM.parent.parent
# What is written on stderr, and the exit code.
ENDS = {
    "return": (0, ""),
    "raise": (1, "LookupError: the program's own mistake"),
    "interrupt": (-signal.SIGINT, "KeyboardInterrupt"),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("care", ["closes", "forgets"])
def test_a_program_that_opened_everything_ends_without_a_warning(care: str, end: str, tmp_path: Path) -> None:
    environ = {**os.environ, "MIDSTREAM_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "error", "-X", "dev", str(PROGRAM), care, end]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120, check=False)
    code, last = ENDS[end]
    told = done.stderr.strip().splitlines()
    assert (done.returncode, told[-1] if told else "") == (code, last), done.stderr
    assert "ignored" not in done.stderr and "Warning" not in done.stderr, done.stderr
    assert done.stdout == ("" if last else "the end\n")
