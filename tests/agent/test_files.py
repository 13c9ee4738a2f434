from __future__ import annotations

from pathlib import Path

import pytest

from midstream.agent.files import MAX_LINE, MAX_OUTPUT, Files
from midstream.agent.paths import Folder
from midstream.core.errors import ToolFailed


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(Folder(tmp_path), max_read=1_000_000)


READ: dict[str, tuple[bytes, dict[str, object], str]] = {
    "whole": (b"a\nb\n", {}, "a\nb"),
    "no newline at the end": (b"a\nb", {}, "a\nb"),
    "numbered": (b"a\nb\n", {"line_numbers": True}, "1\ta\n2\tb"),
    "a part": (b"a\nb\nc\nd\n", {"offset": 2, "limit": 2}, "b\nc\n[lines 2 to 3 of 4; continue with offset 4]"),
    "the last part": (b"a\nb\nc\n", {"offset": 2, "limit": 2}, "b\nc"),
    "empty": (b"", {}, "(the file is empty)"),
    "line ends are kept": (b"a\r\nb\r\n", {}, "a\r\nb\r"),
    "not quite UTF-8": (b"caf\xe9\n", {}, "caf\ufffd"),
    "a form feed is no line end": (b"a\x0cb\nc\n", {"offset": 2}, "c"),
    "a long line": (b"x" * (MAX_LINE + 5), {}, "x" * MAX_LINE + "[… 5 more characters in this line]"),
}


@pytest.mark.parametrize("case", READ)
def test_read_file(files: Files, tmp_path: Path, case: str) -> None:
    data, options, answer = READ[case]
    (tmp_path / "f").write_bytes(data)
    assert files.read_file("f", **options) == answer  # type: ignore[arg-type]


def test_a_long_file_is_cut_and_can_be_read_on(files: Files, tmp_path: Path) -> None:
    lines = [f"{n} " + "x" * 500 for n in range(1, 1001)]
    (tmp_path / "f").write_text("\n".join(lines) + "\n")
    first = files.read_file("f")
    assert len(first) <= MAX_OUTPUT + 100
    shown = first.split("\n")[:-1]
    assert shown == lines[: len(shown)]
    assert first.endswith(f"continue with offset {len(shown) + 1}]")
    assert files.read_file("f", offset=len(shown) + 1).startswith(lines[len(shown)])


CANNOT_READ = {
    "binary": (b"\x89PNG\0\0", {}, "binary file of 6 bytes"),
    "UTF-16": ("hi".encode("utf-16"), {}, "binary"),
    "too large": (b"x" * 1_000_001, {}, "larger than 1,000,000 bytes"),
    "beyond the end": (b"a\nb\n", {"offset": 3}, "has 2 lines"),
}


@pytest.mark.parametrize("case", CANNOT_READ)
def test_what_cannot_be_read_says_why(files: Files, tmp_path: Path, case: str) -> None:
    data, options, words = CANNOT_READ[case]
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(ToolFailed, match=words):
        files.read_file("f", **options)


def test_a_missing_file_says_so(files: Files) -> None:
    with pytest.raises(ToolFailed, match="none: No such file"):
        files.read_file("none")


def test_write_file(files: Files, tmp_path: Path) -> None:
    assert files.write_file("d/f", "é\r\n") == "created d/f: 4 bytes"
    assert (tmp_path / "d/f").read_bytes() == b"\xc3\xa9\r\n"
    assert files.write_file("d/f", "") == "replaced d/f: 0 bytes"
    with pytest.raises(ToolFailed, match="surrogate"):
        files.write_file("g", "\ud800")
    assert not (tmp_path / "g").exists()


EDITED: dict[str, tuple[bytes, str, str, bool, bytes]] = {
    "one": (b"a b c", "b", "B", False, b"a B c"),
    "all": (b"a b a", "a", "A", True, b"A b A"),
    "lines": (b"a\nb\nc\n", "a\nb\n", "x\n", False, b"x\nc\n"),
    "to nothing": (b"a b", " b", "", False, b"a"),
    "CRLF lines given as LF": (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny", False, b"x\r\ny\r\nc\r\n"),
    "other line ends stay": (b"a\r\nb\nc\r\n", "b", "B", False, b"a\r\nB\nc\r\n"),
    "a byte-order mark stays": (b"\xef\xbb\xbfa", "a", "b", False, b"\xef\xbb\xbfb"),
    "no pattern, plain text": (b"a.c abc", "a.c", r"\1", False, rb"\1 abc"),
}


@pytest.mark.parametrize("case", EDITED)
def test_edit_file(files: Files, tmp_path: Path, case: str) -> None:
    before, old, new, replace_all, after = EDITED[case]
    (tmp_path / "f").write_bytes(before)
    files.edit_file("f", old, new, replace_all)
    assert (tmp_path / "f").read_bytes() == after


CANNOT_EDIT: dict[str, tuple[bytes, str, str, list[str]]] = {
    "no match": (b"a\n", "b", "c", ["0 matches", "read the file again"]),
    "only the whitespace differs": (b"x\n    if a:\n", "if a:\n  b", "c", ["0 matches", "line 2", "    if a:"]),
    "two matches": (b"a\nb\na\n", "a", "c", ["2 matches", "lines 1, 3", "replace_all"]),
    "many matches": (b"a\n" * 20, "a", "c", ["20 matches", "10, …"]),
    "overlapping matches": (b"aaa", "aa", "b", ["2 matches"]),
    "nothing to find": (b"a", "", "c", ["write_file"]),
    "nothing to change": (b"a", "a", "a", ["same"]),
    "not UTF-8": (b"a\xff", "a", "b", ["not UTF-8"]),
    "binary": (b"a\0", "a", "b", ["binary"]),
}


@pytest.mark.parametrize("case", CANNOT_EDIT)
def test_an_edit_that_is_not_clear_changes_nothing_and_says_why(files: Files, tmp_path: Path, case: str) -> None:
    before, old, new, words = CANNOT_EDIT[case]
    (tmp_path / "f").write_bytes(before)
    with pytest.raises(ToolFailed) as caught:
        files.edit_file("f", old, new)
    assert [word for word in words if word not in str(caught.value)] == []
    assert (tmp_path / "f").read_bytes() == before
