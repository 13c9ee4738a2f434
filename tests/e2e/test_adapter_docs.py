"""The programs on the adapters' pages that need another library, run with that library against the doubles."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from midstream.testing import sim_server
from tests.docs.blocks import ROOT, blocks
from tests.e2e.doubles_environment import doubles_environment

PROGRAMS = [
    pytest.param(block.code, id=f"{page.name}:{block.line}")
    for page in sorted((ROOT / "docs" / "adapters").glob("*.md"))
    for block in blocks(page)
    if block.language == "python" and block.mark.startswith("not run: needs ")
]


@pytest.mark.parametrize("code", PROGRAMS)
def test_a_program_runs(code: str, tmp_path: Path) -> None:
    with sim_server() as sim:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=doubles_environment(sim, tmp_path), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() and sim.requests > 1
        assert sim.refused == []
