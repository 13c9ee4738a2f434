"""The reference MCP servers (npm and PyPI) in one conversation over five dialects. They have an environment of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agent.mcp.servers import processes_with

ROOT = Path(__file__).resolve().parents[2]
PYTHON = Path(f"{sys.prefix}-mcp") / "bin" / "python"
NPM = ROOT / "tests" / "e2e" / "npm" / "node_modules" / ".bin"
EXPECTED = {
    "everything": "Echo: number {n}",
    "files": "words {n}",
    "memory": "entities",
    "time": "Asia/Tokyo",
    "fetch": "the page was fetched",
}


def test_one_conversation_over_five_dialects(tmp_path: Path) -> None:
    if not PYTHON.exists():
        pytest.skip("the reference MCP servers are not installed: run `make test-e2e`, which installs them")
    command = [str(PYTHON), "-m", "tests.e2e.mcp_conversation", str(NPM), str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert set(found["states"].values()) == {"ready"}, found["states"]
    assert not found["notices"], found["notices"]
    models = [row["model"] for row in found["results"]]
    assert len(set(models)) == 5
    for row in found["results"]:
        number = list(dict.fromkeys(models)).index(row["model"])
        assert row["stopped"] == "text" and not row["errors"], row
        assert EXPECTED[row["server"]].replace("{n}", str(number)) in "\n".join(row["texts"]), row
        assert row["media"] == (1 if row["server"] == "everything" else 0), row
    assert not processes_with(f"MIDSTREAM_TEST_SERVER={tmp_path.name}")
    for name in found["missing"]:
        pytest.skip(f"the reference MCP server {name!r} is not installed; the others were used")
