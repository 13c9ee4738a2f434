"""`@file` in a message: what is a mention, what is not, and what Tab offers."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from midstream.cli.mention import complete_mention, complete_path, dropped_paths, mentions, split_paths, written

DATA = Path(__file__).parents[1] / "data" / "cli"
NAMES = ("notes.txt", "my notes.txt", "src/main.py", "docs/guide.md", "wow!.txt", "a(1).txt", "it's.txt", "grüße.txt", "v1.2", "types/node")  # fmt: skip


def cases(name: str) -> list[Any]:
    return tomllib.loads((DATA / name).read_text("utf-8"))["case"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in NAMES:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", cases("mentions.toml"), ids=lambda case: case["name"])
def test_what_a_message_names(folder: Path, case: dict[str, Any]) -> None:
    assert [each.shown for each in mentions(case["text"])] == case["found"]


def test_a_path_from_home_and_an_absolute_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert [each.path for each in mentions(f"@~/notes.txt @{folder}/v1.2 @~nobody-of-that-name/x")] == [
        folder / "notes.txt",
        folder / "v1.2",
    ]


@pytest.mark.parametrize("case", cases("dropped.toml"), ids=lambda case: case["text"] or "nothing")
def test_what_was_dropped(tmp_path: Path, case: dict[str, Any]) -> None:
    for name in ("notes.txt", "my photo.png"):
        (tmp_path / name).write_text("x")
    wanted = [path.format(tmp_path) for path in case["paths"]] if "paths" in case else None
    assert dropped_paths(case["text"].format(*[tmp_path] * 2)) == wanted


_NAME = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=("Cs", "Cc")), min_size=1, max_size=20
).filter(lambda name: name not in (".", "..") and len(name.encode()) < 200)


@given(_NAME)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_completion_writes_names_the_file(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("x")
    try:
        mention = written(str(path))
        assert [each.path for each in mentions(f"See {mention} now")] == [path]
        assert split_paths(mention[1:]) == [str(path)]
        assert dropped_paths(mention[1:]) == dropped_paths(path.as_uri()) == [str(path)]
    finally:
        path.unlink()


@given(st.text(st.sampled_from("@`'\"\\ \n./~()ab\0é"), max_size=200))
@settings(deadline=None)
def test_no_text_breaks_it(text: str) -> None:
    for mention in mentions(text):
        assert mention.path.exists()
    dropped_paths(text)
    split_paths(text)
    complete_mention(text)


def test_many_backticks_and_at_signs_are_read_in_time() -> None:
    for text in ("`" * 400_000, "` `` " * 100_000, "@`" * 200_000, "@" * 400_000, "@x " * 100_000, "\\" * 400_000):
        assert mentions(text) == []


# what is typed -> what Tab offers
COMPLETIONS = [
    ("Read @no", ("@no", ["@notes.txt"])),
    ("@src/", ("@src/", ["@src/main.py"])),
    ("(@sr", ("@sr", ["@src/"])),
    ("@my", ("@my", ['@"my notes.txt"'])),
    ('@"my n', ('@"my n', ['@"my notes.txt"'])),
    ("@WOW", ("@WOW", ['@"wow!.txt"'])),
    ("@it", ("@it", ['@"it\'s.txt"'])),
    ("me@no", ("", [])),
    ("nothing here", ("", [])),
    ("@nowhere/x", ("@nowhere/x", [])),
    ("@.h", ("@.h", ["@.hidden"])),
]


@pytest.mark.parametrize(("typed", "wanted"), COMPLETIONS)
def test_tab_offers_files(folder: Path, typed: str, wanted: tuple[str, list[str]]) -> None:
    (folder / ".hidden").write_text("x")
    replaced, names = complete_mention(typed)
    assert (replaced, [name for name, _ in names]) == wanted


def test_completion_is_bounded_and_shows_no_hidden_or_unprintable_names(folder: Path) -> None:
    (folder / "x").mkdir()
    (folder / "x" / ".secret").write_text("")
    (folder / "x" / "bad\nname").write_text("")
    for number in range(300):
        (folder / "x" / f"f{number}").write_text("")
    names = [name for name, _ in complete_path("x/")]
    assert len(names) == 200 and all(name.startswith("x/f") for name in names)
    assert ("x/", "folder") in complete_path("")
