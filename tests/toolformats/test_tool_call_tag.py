"""The `<tool_call>` families: hermes, qwen, qwen3-coder, glm."""

from __future__ import annotations

import pytest

from midstream.core.blocks import Text, ToolCall, ToolResponse
from midstream.toolformats.findings import ArgumentsFound, CallEnded, CallFound, TextFound
from midstream.toolformats.registry import get_filter, text_format

from .feeding import Outcome, feed, outcome, splits, tool

TOOLS = (tool("read", path="string", lines="integer"), tool("now"))


def _read(text: str, name: str = "hermes") -> Outcome:
    first, *others = [outcome(feed(get_filter(name, TOOLS), portions)) for portions in splits(text)]
    assert all(other == first for other in others)
    return first


def test_arguments_stream_as_they_come() -> None:
    filter = get_filter("hermes")
    assert filter.feed('Hi <tool_call>\n{"name": "read", "argu') == [TextFound("Hi ")]
    assert filter.feed('ments": {"path": "/') == [CallFound("read"), ArgumentsFound('{"path": "/')]
    assert filter.feed('x"}}\n</tool') == [ArgumentsFound('x"}')]
    assert filter.feed("_call> done") == [CallEnded(), TextFound(" done")]


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "read", "arguments": {"path": "/x"}}</tool_call>',
        '<tool_call>{"arguments": {"path": "/x"}, "name": "read"}</tool_call>',
        '<tool_call>{"name": "read", "parameters": {"path": "/x"}}</tool_call>',
        '<tool_call>{"name": "read", "arguments": {"path": "/x"}}',
        '<tool_call>{"name": "read", "arguments": {"path": "/x"}</tool_call>',
        '<tool_call>{"name": "read", "arguments": "{\\"path\\": \\"/x\\"}"}</tool_call>',
        '<tool_call>{"name": "read", "arguments": {"path": "/x"}, "id": "a"}</tool_call>',
        '<tool_call>{"type": "function", "function": {"name": "read", "arguments": {"path": "/x"}}}</tool_call>',
        '<tool_call>[{"name": "read", "arguments": {"path": "/x"}}]</tool_call>',
        '<tool_call>{"name": "read", "arguments": {"path": "/x"}}<|im_end|>',
        "<tool_call><function=read><parameter=path>/x</parameter></function></tool_call>",
        "<tool_call>\n<function=read>\n<parameter=path>\n/x\n</function>\n</tool_call>",
        "<function=read><parameter=path>/x</parameter></function>",
        '<function=read>{"path": "/x"}</function>',
        "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>/x</arg_value>\n</tool_call>",
        "<tool_call>read<arg_key>path</arg_key><arg_value>/x</arg_value></tool_call>",
        "<tool_call>read\n<path>/x</path>\n</tool_call>",
    ],
)
def test_every_spelling_of_one_call(text: str) -> None:
    found = _read(text)
    assert found.parsed == [("read", {"path": "/x"})]
    assert (found.text, found.problems) == ("", [])


@pytest.mark.parametrize("name", ["qwen3-coder", "glm"])
def test_values_are_typed_by_the_schema(name: str) -> None:
    call = ToolCall("a", "read", '{"path": "42", "lines": 42}')
    assert _read(text_format(name).render_calls([call], ()), name).parsed == [("read", {"path": "42", "lines": 42})]


def test_a_missing_end_tag_before_the_next_call() -> None:
    one = '<tool_call>\n{"name": "now", "arguments": {}}\n'
    assert _read(one + one + "</tool_call>").parsed == [("now", {}), ("now", {})]


def test_two_functions_in_one_tag() -> None:
    found = _read("<tool_call><function=now></function>\n<function=now></function></tool_call>")
    assert found.parsed == [("now", {}), ("now", {})]
    assert found.problems == []


def test_text_behind_a_call_without_end_is_text() -> None:
    found = _read('<tool_call>{"name": "now", "arguments": {}}\nAnd then?')
    assert found.parsed == [("now", {})]
    assert found.text.strip() == "And then?"


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>{not json}</tool_call>",
        '<tool_call>{"arguments": {}}</tool_call>',
        '<tool_call>{"name": "now"',
        "<tool_call><function=read><parameter=path>/x",
        "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>/x",
    ],
)
def test_what_is_no_whole_call_is_reported(text: str) -> None:
    found = _read("Hm. " + text)
    assert (found.text, found.calls, len(found.problems)) == ("Hm. ", [], 1)


def test_arguments_cut_off_are_no_json() -> None:
    found = _read('<tool_call>{"name": "read", "arguments": {"path": "/x')
    assert found.calls == [("read", '{"path": "/x', None)]


@pytest.mark.parametrize("text", ["the `<tool_call>` tag", "<tool_call> plain words", "a <function=", "<function=x y>"])
def test_prose_about_tags_is_prose(text: str) -> None:
    assert _read(text) == Outcome(text)


def test_thoughts_about_calls_are_thoughts() -> None:
    text = '<think>I write <tool_call>{"name": "now", "arguments": {}}</tool_call></think>ok'
    found = outcome(feed(get_filter("qwen", TOOLS, tags=("<think>", "</think>")), [text]))
    assert found.calls == []
    assert found.text == "ok"


def test_a_think_tag_in_arguments_is_data() -> None:
    text = '<tool_call>{"name": "read", "arguments": {"path": "<think>x</think>"}}</tool_call>'
    found = outcome(feed(get_filter("qwen", TOOLS, tags=("<think>", "</think>")), [text]))
    assert found.parsed == [("read", {"path": "<think>x</think>"})]
    assert found.thinking == ""


def test_rendering() -> None:
    call = ToolCall("a", "read", '{"path": "/x", "lines": 2}')
    assert text_format("hermes").render_calls([call], ()) == (
        '<tool_call>\n{"name": "read", "arguments": {"path": "/x", "lines": 2}}\n</tool_call>'
    )
    assert text_format("qwen3-coder").render_calls([call], ()) == (
        "<tool_call>\n<function=read>\n<parameter=path>\n/x\n</parameter>\n<parameter=lines>\n2\n</parameter>\n</function>\n</tool_call>"
    )
    assert text_format("glm").render_calls([call], ()) == (
        "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>/x</arg_value>\n<arg_key>lines</arg_key>\n<arg_value>2</arg_value>\n</tool_call>"
    )
    response = ToolResponse("a", "read", (Text("ok"),))
    assert text_format("qwen").render_result(response, "") == "<tool_response>\nok\n</tool_response>"
    assert text_format("hermes").render_result(response, "") == (
        '<tool_response>\n{"name": "read", "content": "ok"}\n</tool_response>'
    )
