"""What xml, llama, gemma, deepseek and mistral read and write beyond what every format does."""

from __future__ import annotations

import pytest

from midstream.core.blocks import Text, ToolCall, ToolResponse
from midstream.toolformats.registry import get_filter, text_format

from .feeding import Outcome, feed, outcome, splits, tool

TOOLS = (tool("read", path="string", lines="integer"), tool("now"))
CALL = ("read", {"path": "/x"})
DS = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"


def _read(name: str, text: str) -> Outcome:
    first, *others = [outcome(feed(get_filter(name, TOOLS), portions)) for portions in splits(text)]
    assert all(other == first for other in others)
    return first


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "xml",
            '<function_calls>\n<invoke name="read">\n<parameter name="path">/x</parameter>\n</invoke>\n</function_calls>',
        ),
        ("xml", "<invoke name='read'><parameter name='path'>\n/x\n</parameter></invoke>"),
        ("xml", "<tool><name>read</name><arguments><path>/x</path></arguments></tool>"),
        ("xml", '<tool>\n<name>read</name>\n<arguments>{"path": "/x"}</arguments>\n</tool>'),
        ("xml", '<use_tool name="read" path="/x"/>'),
        ("xml", '<use_tool name="read" path="/x"></use_tool>'),
        ("xml", "<use_tool><name>read</name><path>/x</path></use_tool>"),
        ("xml", '<use read path="/x"></use>'),
        ("llama", '{"name": "read", "parameters": {"path": "/x"}}'),
        ("llama", '<|python_tag|>{"name": "read", "parameters": {"path": "/x"}}<|eom_id|>'),
        ("llama", '{"type": "function", "name": "read", "parameters": {"path": "/x"}}'),
        ("llama", "[read(path='/x')]"),
        ("llama", "<|python_start|>[read(path='/x')]<|python_end|>"),
        ("llama", '[{"name": "read", "arguments": {"path": "/x"}}]'),
        ("gemma", '[TOOL_REQUEST]\n{"name": "read", "arguments": {"path": "/x"}}\n[END_TOOL_REQUEST]'),
        ("gemma", '[TOOL_REQUEST] read {"path": "/x"} [TOOL_REQUEST_END]'),
        ("gemma", "```tool_code\nread(path='/x')\n```"),
        ("gemma", '```tool_code\nprint(default_api.read(path="/x"))\n```'),
        ("gemma", '{"name": "read", "arguments": {"path": "/x"}}\n[END_TOOL_REQUEST]'),
        ("deepseek", DS.format('read<｜tool▁sep｜>{"path": "/x"}')),
        ("deepseek", DS.format('function<｜tool▁sep｜>read\n```json\n{"path": "/x"}\n```')),
        ("deepseek", DS.format('read<｜tool▁sep｜>{"path": "/x"}').replace("｜", "|").replace("▁", "_")),
        ("deepseek", '<｜tool▁call▁begin｜>read<｜tool▁sep｜>{"path": "/x"}<｜end▁of▁sentence｜>'),
        ("mistral", '[TOOL_CALLS][{"name": "read", "arguments": {"path": "/x"}}]</s>'),
        ("mistral", '[TOOL_CALLS] {"name": "read", "arguments": {"path": "/x"}}'),
        ("mistral", '[TOOL_CALLS]read[ARGS]{"path": "/x"}'),
        ("mistral", '[TOOL_CALLS]read[CALL_ID]abc123XYZ[ARGS]{"path": "/x"}'),
        ("mistral", '[TOOL_CALLS]read{"path": "/x"}'),
    ],
)
def test_every_spelling_of_one_call(name: str, text: str) -> None:
    found = _read(name, text)
    assert found.parsed == [CALL]
    assert (found.text, found.problems) == ("", [])


def test_mistral_ids_are_kept() -> None:
    assert _read("mistral", '[TOOL_CALLS]read[CALL_ID]abc123XYZ[ARGS]{"path": "/x"}').calls[0][2] == "abc123XYZ"
    assert (
        _read("mistral", '[TOOL_CALLS][{"name": "now", "arguments": {}, "id": "abc123XYZ"}]').calls[0][2] == "abc123XYZ"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("llama", '{"name": "Bob", "age": 7}'),
        ("llama", '{"city": "Rome"}'),
        ("llama", '{"name": "Bob'),
        ("llama", "[1, 2, 3]"),
        ("llama", "[link(x)](y)"),
        ("llama", 'Here: {"name": "read", "parameters": {}}'),
        ("gemma", '{"name": "read", "arguments": {}} is what I would write'),
        ("gemma", "```python\nread()\n```"),
        ("xml", "a <use case> and <tool> and <invoke it>"),
        ("xml", '<svg><use href="#a"/></svg>'),
        ("mistral", "[TOOL_CALLS] is a token"),
    ],
)
def test_what_is_no_call_is_text_to_the_letter(name: str, text: str) -> None:
    assert _read(name, text) == Outcome(text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("xml", '<invoke name="read"><parameter name="path">/x'),
        ("xml", "<tool><name>read</name><arguments>{no json}</arguments></tool>"),
        ("llama", '{"name": "read", "parameters": {"path": '),
        ("gemma", "[TOOL_REQUEST]\nread {path: 1}\n[END_TOOL_REQUEST]"),
        ("gemma", "```tool_code\nimport os\n```"),
        ("gemma", "```tool_code\nread(path='/x')"),
        ("deepseek", DS.format("read")),
        ("mistral", '[TOOL_CALLS][{"name": "read", "arguments": {"path": '),
        ("mistral", "[TOOL_CALLS]read[ARGS]nothing"),
    ],
)
def test_what_is_no_whole_call_is_reported(name: str, text: str) -> None:
    found = _read(name, text)
    assert (found.text, found.calls, len(found.problems)) == ("", [], 1)


def test_several_llama_calls() -> None:
    one = '{"name": "now", "parameters": {}}'
    assert _read("llama", f"{one}; {one}").parsed == [("now", {}), ("now", {})]
    assert _read("llama", "[now(), read(path='a]')]").parsed == [("now", {}), ("read", {"path": "a]"})]


def test_rendering() -> None:
    call = ToolCall("a", "read", '{"path": "<&>", "lines": 2}')
    assert text_format("xml").render_calls([call], ()) == (
        '<function_calls>\n<invoke name="read">\n<parameter name="path">&lt;&amp;&gt;</parameter>\n'
        '<parameter name="lines">2</parameter>\n</invoke>\n</function_calls>'
    )
    assert text_format("mistral").render_calls([ToolCall("a", "now")], ["abc123XYZ"]) == (
        '[TOOL_CALLS][{"name": "now", "arguments": {}, "id": "abc123XYZ"}]'
    )
    assert text_format("deepseek").render_calls([ToolCall("a", "now")], ()) == DS.format("now<｜tool▁sep｜>{}")
    response = ToolResponse("a", "read", (Text("ok"),), is_error=True)
    assert "<error>ok</error>" in text_format("xml").render_result(response, "")
    assert text_format("mistral").render_result(response, "abc123XYZ") == (
        '[TOOL_RESULTS]{"content": "ok", "call_id": "abc123XYZ"}[/TOOL_RESULTS]'
    )
