"""Every program and every terminal session on a page of the documentation runs, against the doubles."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from midstream.dialects.registry import REGISTRY
from midstream.testing import SimServer, sim_server
from tests.long_run import each_kind

from .blocks import Program, Step, pages, programs, sessions

# These pages have tests of their own, which look closer: test_readme, test_public, test_docs.
ELSEWHERE = {"README.md", "docs/api.md", "docs/adapters.md", "docs/doubles.md", "docs/project/extending.md"}
PROGRAMS = [made for page in pages() for made in programs(page) if made.name.partition(":")[0] not in ELSEWHERE]
SESSIONS = [made for page in pages() for made in sessions(page) if made[0].partition(":")[0] not in ELSEWHERE]


@pytest.fixture(scope="module")
def sim() -> Iterator[SimServer]:
    with sim_server() as server:
        yield server


def environment(sim: SimServer, home: Path) -> dict[str, str]:
    """The user's environment, with every provider's address at its double and no key that could go anywhere."""
    environ = {name: value for name, value in os.environ.items() if not name.endswith(("_API_KEY", "_API_BASE"))}
    for row in REGISTRY.providers.values():
        prefix = row.name.upper().replace("-", "_")
        environ[f"{prefix}_BASE_URL"] = sim.base_url(row.name)
        environ.update(dict.fromkeys(row.endpoint.key_env[:1], "a-key-for-the-doubles"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{environ.get('PATH', '')}"
    return {**environ, "PATH": path, "MIDSTREAM_HOME": str(home), "MIDSTREAM_SIM_DELAY": "0", "COLUMNS": "100"}


def write(files: tuple[tuple[str, str], ...], folder: Path) -> None:
    for name, text in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


@each_kind("program", PROGRAMS, lambda program: program.name.partition(":")[0], ids=lambda program: program.name)
def test_a_program_runs(program: Program, sim: SimServer, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    write(program.files, folder)
    refused = len(sim.refused)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program.code],
        env=environment(sim, tmp_path / "home"), cwd=folder, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    if "check_host" not in program.code:  # which sends a bad request on purpose
        assert not sim.refused[refused:]


@pytest.mark.parametrize(("name", "steps", "files"), SESSIONS, ids=[name for name, _, _ in SESSIONS])
def test_a_session_goes_as_shown(
    name: str, steps: tuple[Step, ...], files: tuple[tuple[str, str], ...], sim: SimServer, tmp_path: Path
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    write(files, folder)
    environ = environment(sim, tmp_path / "home")
    for step in steps:
        done = subprocess.run(
            ["bash", "-c", step.command],
            env=environ, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=60,
        )  # fmt: skip
        printed = done.stdout.split("\n")
        at = 0
        for line in step.shown:
            if line.strip() and line.strip() != "[…]":
                assert line in printed[at:], f"{step.command}\n{line!r} is not in:\n{done.stdout}"
                at = printed.index(line, at) + 1
