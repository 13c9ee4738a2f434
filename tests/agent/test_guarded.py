"""Files that run code later, before and after a command: whatever was done to them is undone, and nothing else is."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.agent.guarded import MAX_KEPT, GuardedFiles
from midstream.agent.risk import may_run_later, runs_later

FILES = {
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/config": "[core]\n",
    ".git/hooks/pre-push": "#!/bin/sh\n",
    ".git/objects/ab/cd": "data",
    ".git/modules/lib/HEAD": "x",
    ".git/modules/lib/config": "[core]\n",
    ".venv/bin/activate": "x",
    "Makefile": "all:\n",
    "src/main.py": "print()\n",
    "src/conftest.py": "x\n",
}


@pytest.fixture(autouse=True, scope="module")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is moved away is kept: in a folder of the tests."""
    before, tempfile.tempdir = tempfile.tempdir, str(tmp_path_factory.mktemp("temporary"))
    yield
    tempfile.tempdir = before


@pytest.fixture
def work(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / ".git/modules/lib/objects").mkdir()
    (root / ".git/modules/lib/refs").mkdir()
    return root


def write(path: str, text: str = "evil") -> Callable[[Path], object]:
    def act(root: Path) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)

    return act


# What a command does, the path to look at, and what is there afterwards (None: nothing).
CASES: dict[str, tuple[Callable[[Path], object], str, str | None]] = {
    "a file changed": (write("Makefile"), "Makefile", "all:\n"),
    "a file removed": (lambda root: (root / "Makefile").unlink(), "Makefile", "all:\n"),
    "a file made": (write("src/.envrc"), "src/.envrc", None),
    "a folder made": (write(".vscode/tasks.json"), ".vscode", None),
    "a hook made": (write(".git/hooks/pre-commit"), ".git/hooks/pre-commit", None),
    "settings that were not there": (write(".git/config.worktree"), ".git/config.worktree", None),
    "a submodule's settings": (write(".git/modules/lib/config"), ".git/modules/lib/config", "[core]\n"),
    "data of the repository": (write(".git/refs/heads/x", "1"), ".git/refs/heads/x", "1"),
    "data of a submodule": (write(".git/modules/lib/refs/x", "1"), ".git/modules/lib/refs/x", "1"),
    "a link in the place of a file": (
        lambda root: ((root / "Makefile").unlink(), (root / "Makefile").symlink_to("src/main.py")),
        "Makefile",
        "all:\n",
    ),
    "a folder in the place of a file": (
        lambda root: ((root / "Makefile").unlink(), (root / "Makefile").mkdir()),
        "Makefile",
        "all:\n",
    ),
    "an ordinary file": (write("src/main.py", "new"), "src/main.py", "new"),
    "a folder that is removed with all that is in it": (
        lambda root: [(root / "src" / name).unlink() for name in ("main.py", "conftest.py")] + [(root / "src").rmdir()],
        "src",
        None,
    ),
    "a pipe": (lambda root: os.mkfifo(root / ".envrc"), ".envrc", None),
    "another spelling": (write("MAKEFILE"), "MAKEFILE", None),
}


# Where it is made read-only, a command cannot do these: see test_where_files_are_read_only_a_change_is_somebody_elses.
READ_ONLY = ("Makefile", ".git/hooks/pre-commit", ".git/modules/lib/config", ".git/modules/lib/refs/x")
TRIED = [(case, closed) for case in CASES for closed in (False, True) if not closed or CASES[case][1] not in READ_ONLY]


@pytest.mark.parametrize(("case", "closed"), TRIED)
def test_what_was_done_to_it_is_undone(work: Path, case: str, closed: bool) -> None:
    act, path, expected = CASES[case]
    guarded = GuardedFiles(str(work), closed=closed)
    before = (work / path).stat().st_mode if (work / path).exists() else 0
    act(work)
    told = " ".join(guarded.put_back())
    found = work / path
    assert (found.read_text() if found.is_file() else None) == expected
    assert not found.is_symlink() and (expected is not None or not os.path.lexists(found))
    if before and expected is not None and case != "an ordinary file":
        assert stat.S_IMODE(found.stat().st_mode) == stat.S_IMODE(before)
    ours = case in ("data of the repository", "data of a submodule", "an ordinary file") or "all that is in it" in case
    assert (path in told) is not ours
    assert GuardedFiles(str(work)).put_back() == []


def test_the_mode_counts(work: Path) -> None:
    guarded = GuardedFiles(str(work))
    (work / "Makefile").chmod(0o755)
    assert "put back" in guarded.put_back()[0]
    assert stat.S_IMODE((work / "Makefile").stat().st_mode) != 0o755


def test_a_file_that_was_only_touched_is_left_alone(work: Path) -> None:
    guarded = GuardedFiles(str(work))
    os.utime(work / "Makefile", (1, 1))
    assert guarded.put_back() == [] and (work / "Makefile").stat().st_mtime == 1


def test_what_is_moved_away_is_kept(work: Path) -> None:
    guarded = GuardedFiles(str(work))
    write(".vscode/tasks.json", "kept")(work)
    (told,) = guarded.put_back()
    place = told.removeprefix("[moved to ").partition(",")[0]
    assert (Path(place) / ".vscode/tasks.json").read_text() == "kept"
    assert stat.S_IMODE(Path(place).stat().st_mode) == 0o700


def test_where_files_are_read_only_a_change_is_somebody_elses(work: Path) -> None:
    """The command could not have made it, so the person at the editor keeps it; unless the folder is another one."""
    guarded = GuardedFiles(str(work), closed=True)
    assert str(work / "Makefile") in guarded.read_only() and str(work / ".git/hooks") in guarded.read_only()
    write("Makefile", "by a person")(work)
    assert guarded.put_back() == [] and (work / "Makefile").read_text() == "by a person"
    (work / "Makefile").unlink()
    assert guarded.put_back() == [] and not (work / "Makefile").exists()

    guarded = GuardedFiles(str(work), closed=True)
    (work / "src").rename(work / "away")
    write("src/conftest.py", "evil")(work)
    assert guarded.put_back() != [] and (work / "src/conftest.py").read_text() == "x\n"


def test_what_is_too_large_to_keep_is_told(work: Path) -> None:
    write("Makefile", "x" * (MAX_KEPT + 1))(work)
    guarded = GuardedFiles(str(work))
    write("Makefile", "evil")(work)
    write(".venv/bin/activate", "evil")(work)
    (told,) = guarded.put_back()
    assert "too large to put back" in told and "Makefile" in told and ".venv/bin/activate" in told


NAMES = [
    "Makefile",
    ".envrc",
    ".git",
    "config",
    "hooks",
    "sub",
    "a.py",
    "AGENTS.md",
    ".vscode",
    "HEAD",
    "objects",
    "refs",
]
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "remove", "move", "link", "mode", "folder"]), PATHS, PATHS), max_size=8
)


@given(STEPS, STEPS)
def test_after_any_steps_no_guarded_file_is_new_or_changed(
    first: list[tuple[str, str, str]], then: list[tuple[str, str, str]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(os.path.realpath(name)) / "work"
        root.mkdir()
        for step in first:
            _do(root, *step)
        guarded = GuardedFiles(str(root))
        before = _guarded(root)
        for step in then:
            _do(root, *step, text="evil")
        guarded.put_back()
        after = _guarded(root)
        assert {path: text for path, text in after.items() if before.get(path) != text} == {}


def _guarded(root: Path) -> dict[str, bytes]:
    found = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        in_git = ".git" in name.split("/") and not set(name.split("/")) & {"HEAD", "objects", "refs"}
        if not path.is_dir() and (in_git or (runs_later(name) and ".git" not in name.split("/"))):
            found[name] = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
    return found


def _do(root: Path, what: str, path: str, other: str, text: str = "as it was") -> None:
    full, second = root / path, root / other
    try:
        match what:
            case "write":
                full.parent.mkdir(parents=True, exist_ok=True)
                full.write_text(text)
            case "remove":
                full.unlink()
            case "move":
                full.rename(second)
            case "link":
                full.symlink_to(second)
            case "mode":
                full.chmod(0o640)
            case "folder":
                full.mkdir(parents=True)
    except OSError:
        pass  # not possible here: the next step


def test_the_quick_look_misses_nothing() -> None:
    names = [
        "Makefile",
        "x.MK",
        ".ENV.local",
        "ｍakefile",
        "pre-commit",
        "a.service",
        "Dockerfile.dev",
        "conftest.py",
        "git",
        "nvim",
    ]
    assert all(may_run_later(name) for name in names)
    assert not any(may_run_later(name) for name in ("main.py", "README.md", "config", "src"))
