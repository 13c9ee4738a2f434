"""A folder as an attachment: what is listed, what is taken along, what stays out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from midstream.cli import folder_contents
from midstream.cli.folder_contents import MAX_FILE, MAX_FILES, MAX_TOTAL, read_folder
from midstream.core.errors import LocalError

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def make(folder: Path, **files: str | bytes) -> Path:
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def listed(text: str) -> list[str]:
    return text.split("\n```", 2)[1].strip("\n").split("\n")


def test_small_texts_are_taken_along_and_the_rest_is_named(tmp_path: Path) -> None:
    make(
        tmp_path, a_DOT_txt="alpha", sub__b_DOT_md="beta", big_DOT_txt="x" * (MAX_FILE + 1), image_DOT_png=b"\x89PNG\0\xff",
        empty_DOT_txt="", _DOT_env="KEY=canary", sub__server_DOT_key="canary", key_DOT_txt="-----BEGIN PRIVATE KEY-----\ncanary",
        node_modules__x_DOT_js="canary", _DOT_cache__y="canary",
    )  # fmt: skip
    (tmp_path / "link.txt").symlink_to("/etc/hostname")
    found = read_folder(tmp_path, "stuff/")
    assert listed(found.text) == [
        ".env  (not included: may hold keys or passwords)",
        "a.txt",
        "big.txt  (not included: 16 KB)",
        "empty.txt  (empty)",
        "image.png  (binary, 6 B)",
        "key.txt  (not included: may hold keys or passwords)",
        "link.txt  (a link, not followed)",
        "sub/b.md",
        "sub/server.key  (not included: may hold keys or passwords)",
    ]
    assert found.text.startswith("[attached folder: stuff/]\n")
    assert "[attached file: stuff/a.txt]\n```\nalpha\n```" in found.text
    assert "[attached file: stuff/sub/b.md]\n```\nbeta\n```" in found.text
    assert "canary" not in found.text
    assert found.detail == "folder, 9 files listed, 2 of them included"


@needs_git
def test_git_says_what_belongs_to_the_folder(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    make(
        tmp_path, _DOT_gitignore="*.log\nbuild/\n", new_DOT_txt="new", debug_DOT_log="canary", build__out_DOT_txt="canary",
        sub__x_DOT_log="canary", sub__kept_DOT_txt="kept",
    )  # fmt: skip
    found = read_folder(tmp_path, "repo/")
    assert listed(found.text) == [".gitignore", "new.txt", "sub/kept.txt"]
    assert listed(read_folder(tmp_path / "sub", "repo/sub/").text) == ["kept.txt"]
    assert "canary" not in found.text


@needs_git
def test_the_settings_of_a_repository_run_nothing(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path / "repo")], check=True)
    repo = make(tmp_path / "repo", a_DOT_txt="alpha")
    subprocess.run(["git", "-C", str(repo), "add", "a.txt"], check=True)
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    subprocess.run(["git", "-C", str(repo), "config", "core.fsmonitor", str(hook)], check=True)
    subprocess.run(["git", "-C", str(repo), "ls-files", "--others"], check=True, capture_output=True)
    assert (tmp_path / "ran").exists(), "git runs it on its own"
    (tmp_path / "ran").unlink()
    assert listed(read_folder(repo, "repo/").text) == ["a.txt"]
    assert not (tmp_path / "ran").exists()


def test_everything_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(MAX_FILES + 7):
        (tmp_path / f"{number:04}.txt").write_text("word " * 1000)
    found = read_folder(tmp_path, "many/")
    lines = listed(found.text)
    assert len(lines) == MAX_FILES + 1 and lines[-1] == "… and 7 more files"
    assert lines[-2].endswith("(not included: no room left)")
    assert len(found.text) < MAX_TOTAL + 100 * MAX_FILES
    monkeypatch.setattr(folder_contents, "_MAX_WALK", 50)
    assert "listed" in read_folder(tmp_path, "many/").detail
    assert len(listed(read_folder(tmp_path, "many/").text)) == 50


def test_an_empty_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="the folder has no files"):
        read_folder(tmp_path, "void/")
