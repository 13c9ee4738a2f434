from __future__ import annotations

import pytest

from midstream.toolformats.kimi import is_nameless, name_by_arguments, recover_name, written_name

from .feeding import tool

TOOLS = (
    tool("read", path="string"),
    tool("list-files", dir="string"),
    tool("fs.write", path="string", text="string"),
    tool("Grep"),
)


@pytest.mark.parametrize(
    ("raw_id", "name"),
    [
        ("functions.read:0", "read"),
        ("functions.fs.write:3", "fs.write"),
        ("fs.write:3", "fs.write"),
        ("write:3", "write"),
        ("functions.list-files:1", "list-files"),
        ("functionslist-files12", "list-files"),
        ("call_functionsread7", "read"),
        ("read_0", "read"),
        ("functions.Grep:0", "Grep"),
        ("functions.grep:0", "grep"),
        ("functions.fs.read:0", "fs.read"),
        ("os.read:0", "os.read"),
        ("ns:read:0", "ns:read"),
        ("functionsfswrite4", "fs.write"),
        ("functionsfs.read4", None),
        ("read2", None),
        ("re ad_0", None),
        ("READ_0", None),
        ("delete", None),
        ("functions.delete", None),
        ("functions.delete_2:0", "delete_2"),
        ("functions.read_2:0", "read_2"),
        ("functions.", None),
        ("", None),
        ("7", None),
        ("call_59adf5614cfe4f4b8a71be54", None),
        ("x" * 5000, None),
    ],
)
def test_recover(raw_id: str, name: str | None) -> None:
    assert recover_name(raw_id, TOOLS) == name


@pytest.mark.parametrize(
    ("raw_id", "name"),
    [("functions.a:0", "a"), ("functions.a.b:0", "a.b"), ("x.a:0", "a"), ("a:call_1", "a"), ("a", None), ("a:", None), (":0", None), ("functions.a.0", None)],
)  # fmt: skip
def test_written(raw_id: str, name: str | None) -> None:
    assert written_name(raw_id) == name


@pytest.mark.parametrize(
    ("raw_id", "nameless"),
    [
        ("", True), ("7", True), (":0", True), ("functions.", True), ("functions.:3", True), ("call_0a1b", True), ("call00003", True),
        ("call_59adf5614cfe4f4b8a71be54", True), ("toolu_01AbC", True), ("call_AbCdEfGhIjKlMnOp1", True),
        ("chatcmpl-tool-59adf5614cfe4f4b", True), ("59adf561-4cfe-4f4b-8a71-be5459adf561", True),
        ("delete", False), ("functions.delete", False), ("call_delete", False), ("call_add2", False), ("tool", False),
        ("delete_file_in_the_project_2", False), ("functions.delete:0", False), ("deadbeef", False), ("call_deleteEverything", False),
    ],
)  # fmt: skip
def test_nameless(raw_id: str, nameless: bool) -> None:
    assert is_nameless(raw_id) is nameless


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ('{"dir": "/"}', "list-files"),
        ('{"path": "/", "text": ""}', "fs.write"),
        ('{"path": "/"}', "read"),
        ("{}", "Grep"),
        ('{"other": 1}', None),
        ("[]", None),
        ('{"dir": ', None),
    ],
)
def test_by_arguments(arguments: str, name: str | None) -> None:
    assert name_by_arguments(arguments, TOOLS) == name


def test_two_tools_that_fit_are_as_bad_as_none() -> None:
    twins = (tool("a", x="string"), tool("b", x="string"))
    assert name_by_arguments('{"x": ""}', twins) is None
