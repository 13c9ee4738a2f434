"""The scripts that choose Pythons and run all checks: started in folders of their own, with `make` replaced by what prints its surroundings."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HERE = platform.python_version()
pytestmark = pytest.mark.skipif(os.name == "nt", reason="the scripts are for a POSIX shell")


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(0o755)
    return path


def list_pythons(tmp_path: Path, **variables: str) -> list[str]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **variables}
    done = subprocess.run(
        ["sh", ROOT / "scripts" / "pythons"], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_a_python_counts_only_if_it_runs(tmp_path: Path) -> None:
    write_program(
        tmp_path / "shims" / "python3.99", "#!/bin/sh\necho 'pyenv: python3.99: command not found' >&2\nexit 127\n"
    )
    write_program(tmp_path / "old" / "python3.98", "#!/bin/sh\nexit 1\n")
    path = f"{tmp_path / 'shims'}:{tmp_path / 'missing'}:/usr/bin:/bin"
    # The interpreter itself: a path in PYTHONS holds no blanks.
    here = os.path.realpath(sys.executable)
    found = list_pythons(tmp_path, PATH=path, PYTHONS=f"python3.99 {tmp_path / 'old' / 'python3.98'} {here}")
    assert f"{HERE} {here}" in found
    assert [line for line in found if str(tmp_path) in line] == []


@pytest.mark.parametrize(
    "place", [".pyenv/versions/3.99.1", ".local/share/uv/python/cpython-3.99", ".asdf/installs/python/3.99"]
)
def test_version_managers_folders_are_searched(tmp_path: Path, place: str) -> None:
    write_program(tmp_path / place / "bin" / "python3", "#!/bin/sh\necho 3.99.1 /opt/python3.99\n")
    assert list_pythons(tmp_path)[0] == "3.99.1 /opt/python3.99"


def make_project(tmp_path: Path, makefile_words: str) -> Path:
    """A repository with the scripts alone, whose `make` says where it runs."""
    project = tmp_path / "checkout"
    for name in (".ci/run", "scripts/pythons"):
        (project / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, project / name)
    write_program(tmp_path / "bin" / "make", f"#!/bin/sh\n{makefile_words}")
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    for words in (["init", "--quiet"], ["add", "."], [*identity, "commit", "--quiet", "--message", "all"]):
        subprocess.run(["git", *words], cwd=project, check=True)
    return project


def run_all(project: Path, **variables: str) -> tuple[int, str]:
    tools = [str(Path(shutil.which(tool) or "").parent) for tool in ("bash", "git")]
    path = os.pathsep.join([str(project.parent / "bin"), *tools, "/usr/bin", "/bin"])
    environment = {"PATH": path, "HOME": str(project.parent), "PYTHONS": sys.executable, **variables}
    done = subprocess.run(
        ["bash", ".ci/run"],
        check=False,
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


@pytest.mark.skipif(not shutil.which("bash") or not shutil.which("git"), reason="bash or git is not installed")
def test_all_checks_run_in_a_clone_and_their_summaries_come_last(tmp_path: Path) -> None:
    words = """echo "$1 in $PWD, shared $MIDSTREAM_SHARED"
[ "$1" = test ] || exit 0
echo 'SKIPPED [3] tests/a.py:1: shared data x is not here: set MIDSTREAM_SHARED'
echo 'SKIPPED [4] tests/a.py:1: no chromium'
echo '7 passed, 7 skipped in 1.23s'
"""
    project = make_project(tmp_path, words)
    (tmp_path / "shared").mkdir()
    code, out = run_all(project)
    assert code == 0, out
    steps = [line for line in out.splitlines() if " in /" in line and "shared" in line]
    assert [line.split()[0] for line in steps] == ["check", "test", "e2e-tools", "test-e2e"]
    for line in steps:
        place = line.partition(" in ")[2].partition(", shared ")[0]
        assert Path(place).name == "midstream" and " " in place and not place.startswith(str(project))
        assert not Path(place).exists()
        assert line.endswith(f", shared {tmp_path / 'shared'}")
    closing = out.splitlines()[-7:]
    assert "ci:     7 passed, 7 skipped in 1.23s" in closing
    assert any(line.startswith("ci: 3 cases or whole files were skipped") for line in closing)


@pytest.mark.skipif(not shutil.which("bash") or not shutil.which("git"), reason="bash or git is not installed")
def test_a_failed_step_fails_the_whole_and_the_rest_still_runs(tmp_path: Path) -> None:
    project = make_project(tmp_path, '[ "$1" != check ] || { echo "1 failed in 0.10s"; exit 2; }\n')
    code, out = run_all(project)
    assert code == 1
    closing = out[out.rindex("ci: make check") :].splitlines()
    assert "FAILED with code 2" in closing[0] and closing[1] == "ci:     1 failed in 0.10s"
    assert any(line.startswith("ci: make test-e2e") and line.endswith("passed") for line in closing)
