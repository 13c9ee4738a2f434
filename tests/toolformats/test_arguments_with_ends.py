"""A value that holds the end of its own call: the call has the whole value, or does not run at all."""

from __future__ import annotations

import pytest

from midstream.toolformats.registry import get_filter

from .feeding import Outcome, feed, outcome, splits, tool

TOOLS = (tool("write", path="string", text="string"),)
CODER = "<tool_call>\n<function=write>\n<parameter=path>\n/x\n</parameter>\n<parameter=text>\n{}\n</parameter>\n</function>\n</tool_call>"
BARE_CODER = "<function=write>\n<parameter=path>\n/x\n</parameter>\n<parameter=text>\n{}\n</parameter>\n</function>"
GLM = "<tool_call>write\n<arg_key>path</arg_key>\n<arg_value>/x</arg_value>\n<arg_key>text</arg_key>\n<arg_value>{}</arg_value>\n</tool_call>"
XML = '<invoke name="write">\n<parameter name="path">/x</parameter>\n<parameter name="text">{}</parameter>\n</invoke>'
FRAMES = {"qwen3-coder": CODER, "function": BARE_CODER, "glm": GLM, "xml": XML}
ENDS = {
    "qwen3-coder": ("</tool_call>", "</function>", "</function>\n</tool_call>"),
    "function": ("</tool_call>", "</function>"),
    "glm": ("</tool_call>",),
    "xml": ("</invoke>",),
}
VALUE_END = {"qwen3-coder": "</parameter>", "function": "</parameter>", "glm": "</arg_value>", "xml": "</parameter>"}


def _read(format: str, text: str) -> Outcome:
    name = "qwen3-coder" if format == "function" else format
    first, *others = [outcome(feed(get_filter(name, TOOLS), portions)) for portions in splits(text)]
    assert all(other == first for other in others)
    return first


@pytest.mark.parametrize("format", FRAMES)
def test_an_end_inside_a_value_is_data(format: str) -> None:
    for end in ENDS[format]:
        for value in (f"a {end} b", f"{end}", f"a {end} b {end} c", f"{end}\n\n{end}"):
            found = _read(format, f"So. {FRAMES[format].format(value)} Done.")
            assert found.parsed == [("write", {"path": "/x", "text": value})]
            assert (found.text, found.problems) == ("So.  Done.", [])


@pytest.mark.parametrize("format", FRAMES)
def test_a_value_that_holds_its_own_end_is_not_run_by_half(format: str) -> None:
    found = _read(format, FRAMES[format].format(f"a {VALUE_END[format]} b"))
    assert found.calls == []
    assert "cut short" in found.problems[0].why and " b" in found.problems[0].raw


@pytest.mark.parametrize("format", FRAMES)
def test_an_end_too_far_from_the_values_end_is_not_run(format: str) -> None:
    found = _read(format, FRAMES[format].format(f"a {ENDS[format][0]} {'b ' * 4000}"))
    assert found.calls == []
    assert found.problems


@pytest.mark.parametrize("format", FRAMES)
def test_a_forgotten_end_of_the_last_value_is_forgiven(format: str) -> None:
    whole = FRAMES[format].format("a")
    unclosed = whole.replace(f"{VALUE_END[format]}\n</", "</").replace("\n</parameter>\n</function", "\n</function")
    assert unclosed != whole
    call = ("write", {"path": "/x", "text": "a"})
    assert [
        (name, {**arguments, "text": arguments["text"].strip()}) for name, arguments in _read(format, unclosed).parsed
    ] == [call]
    assert _read(format, unclosed + "\n" + whole).parsed[1:] == [call]
    assert len(_read(format, unclosed + "\nIt is done.").parsed) == 1
