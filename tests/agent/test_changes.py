"""What the tools changed: against a plain comparison of the folder before and after, with and without git."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from midstream.agent import changes as changes_module
from midstream.agent.approval import Approval
from midstream.agent.changes import Changes
from midstream.agent.toolbox import Toolbox
from midstream.core.blocks import ToolCall

Step = tuple[str, dict[str, Any]]


def write(path: str, content: str) -> Step:
    return "write_file", {"path": path, "content": content}


def edit(path: str, old: str, new: str) -> Step:
    return "edit_file", {"path": path, "old_string": old, "new_string": new}


def run(command: str) -> Step:
    return "bash", {"command": command}


EDITS = "edits the file: 1 line before, 1 line after (+1 -1)"
# name -> (steps, what is known in a plain folder, what is known in a repository); values are path: (summary, rows)
CASES: dict[str, tuple[list[Step], dict[str, Any], dict[str, Any]]] = {
    "nothing": ([], {}, {}),
    "a new file": ([write("a/new", "x\n")], {"a/new": ("creates a file: 1 line, 2 bytes", ["+x"])}, {}),
    "an edit": ([edit("clean", "one", "two")], {"clean": (EDITS, ["-one", "+two"])}, {}),
    "an edit of what the user had changed": (
        [edit("dirty", "mine", "two")],
        {"dirty": (EDITS, ["-mine", "+two"])},
        {},
    ),
    "back again": ([edit("clean", "one", "two"), edit("clean", "two", "one")], {}, {}),
    "a command": (
        [run("echo two > clean; echo two > dirty; echo two > untracked; echo x > new; rm gone; echo y > ignored")],
        {},
        {
            "clean": (EDITS, ["-one", "+two"]),
            "dirty": (EDITS, ["-mine", "+two"]),
            "untracked": (EDITS, ["-free", "+two"]),
            "new": ("creates a file: 1 line, 2 bytes", ["+x"]),
            "gone": ("deleted", ["-one"]),
        },
    ),
    "a command that only touches": ([run("touch clean dirty binary")], {}, {}),
    "a command, then an edit of what it made": (
        [run("echo x > new; echo two > clean"), edit("new", "x", "y"), edit("clean", "two", "three")],
        {"new": (EDITS, ["-x", "+y"]), "clean": (EDITS, ["-two", "+three"])},
        {"new": ("creates a file: 1 line, 2 bytes", ["+y"]), "clean": (EDITS, ["-one", "+three"])},
    ),
    "an edit, then a command": (
        [edit("clean", "one", "two"), run("echo three > clean")],
        {"clean": (EDITS, ["-one", "+three"])},
        {},
    ),
    "an edit of an ignored file after a command": (
        [run("true"), edit("ignored", "secret", "two")],
        {"ignored": (EDITS, ["-secret", "+two"])},
        {},
    ),
    "a commit": ([run("echo two > clean; git -c user.name=A -c user.email=a@b commit -qam x || true")], {}, {
        "clean": (EDITS, ["-one", "+two"]),
    }),
    "a binary file": (
        [run("printf 'ab\\000cd' > binary")],
        {},
        {"binary": ("changed, but cannot be shown: a binary file of 3 bytes", [])},
    ),
    "a binary file is replaced": (
        [write("binary", "x\n")],
        {"binary": ("changed, but cannot be shown: binary: is a binary file of 3 bytes, not text", [])},
        {},
    ),
}  # fmt: skip


@pytest.fixture(params=["folder", "git"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    for name, content in {
        "clean": "one\n", "dirty": "one\n", "gone": "one\n", "binary": "a\0b", ".gitignore": "ignored\n"
    }.items():  # fmt: skip
        (tmp_path / name).write_text(content)
    if request.param == "git":
        for arguments in (["init"], ["add", "-A"], ["commit", "-m", "one"]):
            git(tmp_path, *arguments)
    (tmp_path / "dirty").write_text("mine\n")
    (tmp_path / "untracked").write_text("free\n")
    (tmp_path / "ignored").write_text("secret\n")
    return tmp_path


def git(folder: Path, *arguments: str) -> bytes:
    about = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    return subprocess.run(["git", *about, *arguments], cwd=folder, check=True, capture_output=True, timeout=30).stdout


def played(folder: Path, steps: list[Step]) -> Changes:
    async def play() -> Changes:
        toolbox = Toolbox(approve=Approval(yolo=True), workdir=folder)
        changes = Changes(folder)
        toolbox.watch = changes.before
        for number, (tool, arguments) in enumerate(steps):
            result = await toolbox.run(ToolCall(str(number), tool, json.dumps(arguments)))
            assert not result.is_error, result.text
        return changes

    return asyncio.run(play())


@pytest.mark.parametrize("name", CASES)
def test_what_changed_is_known(folder: Path, name: str) -> None:
    steps, plain, in_git = CASES[name]
    is_git = (folder / ".git").exists()
    changes = played(folder, steps)
    found = {change.path: (change.summary, list(change.rows)) for change in changes.files()}
    assert found == ({**plain, **in_git} if is_git else plain)
    ran = any(tool == "bash" for tool, _ in steps)
    assert bool(changes.blind) == (ran and not is_git)


@pytest.mark.parametrize("folder", ["git"], indirect=True)
def test_the_repository_is_left_alone_and_runs_nothing_of_it(folder: Path) -> None:
    before = sorted(path for path in (folder / ".git").rglob("*"))
    hook = f"touch {folder}/hooked"
    script = (
        f"git config core.fsmonitor '{hook}'; git config filter.f.clean '{hook}'; git config diff.d.textconv '{hook}'; "
        "echo '* filter=f diff=d' > .git/info/attributes; echo two > clean"
    )
    changes = played(folder, [run(script)])
    assert [change.path for change in changes.files()] == ["clean"]
    assert not (folder / "hooked").exists()
    assert [path for path in (folder / ".git").rglob("*") if path not in before] == [folder / ".git/info/attributes"]


def test_what_is_kept_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes_module, "MAX_TOTAL", 3)
    monkeypatch.setattr(changes_module, "MAX_KEPT", 4)
    steps = [edit("clean", "one", "two"), edit("gone", "one", "two"), run("echo two > untracked")]
    found = {change.path: change.summary for change in played(folder, steps).files()}
    assert found["clean"] == "changed, but cannot be shown: the original was too large to keep"
    if (folder / ".git").exists():
        assert found["untracked"].startswith("changed, but cannot be shown: it was too large to keep")
        monkeypatch.setattr(changes_module, "MAX_FILES", 2)
        assert "more than 2 files" in played(folder, [run("true")]).blind


def test_without_git_there_is_a_word_on_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.environ["PATH"])
    real = subprocess.run

    def no_git(command: list[str], **options: Any) -> Any:
        if command[0] == "git":
            raise FileNotFoundError("git")
        return real(command, **options)

    monkeypatch.setattr(changes_module.subprocess, "run", no_git)
    changes = played(folder, [run("true")])
    assert changes.blind == "git is not installed" and changes.files() == []
