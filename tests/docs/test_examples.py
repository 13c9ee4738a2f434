"""Every program in examples/ runs against the doubles, and so do the cells of the notebook, in order."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from midstream.testing import sim_server

from .blocks import ROOT
from .test_code_blocks import environment

EXAMPLES = ROOT / "examples"
PROGRAMS = sorted(EXAMPLES.glob("*.py"))


def test_there_are_ten_and_each_is_listed() -> None:
    listed = (EXAMPLES / "README.md").read_text("utf-8")
    assert len(PROGRAMS) >= 10
    assert [
        path.name for path in EXAMPLES.iterdir() if path.name != "README.md" and f"]({path.name})" not in listed
    ] == []


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_an_example_runs(path: Path, tmp_path: Path) -> None:
    with sim_server() as sim:
        done = subprocess.run(
            [sys.executable, "-W", "error", str(path)],
            env=environment(sim, tmp_path), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() and not sim.refused


def test_the_notebook_runs(tmp_path: Path) -> None:
    """Without Jupyter: the last line of a cell is looked at, as a notebook shows it."""
    cells = json.loads((EXAMPLES / "tour.ipynb").read_text("utf-8"))["cells"]
    program = "\n".join(["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"])
    assert all(not cell.get("outputs") for cell in cells), "a notebook is kept without its outputs"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "dropped: thinking" in done.stdout
