"""The laws every text format keeps: calls survive the way into a prompt and back, and no split of the text matters."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.core.blocks import Text, ToolCall, ToolResponse
from midstream.core.errors import UnknownToolFormat
from midstream.core.ids import TOOL_FORMATS
from midstream.core.tools import ToolSpec, parse_arguments
from midstream.toolformats.registry import FORMATS, get_filter, leak_filter, text_format
from midstream.wires.tool_format import TEXT_FORMATS
from tests.long_run import each_once

from .feeding import PLACES, cut, feed, outcome, splits, tool

NAMES = sorted(FORMATS)
TOOLS = (
    tool("read", path="string", lines="integer", deep="object", flags="array", wide="boolean", share="number"),
    tool("list-files", dir="string"),
    tool("now"),
)
PROPERTIES = {spec.name: (spec.parameters or {})["properties"] for spec in TOOLS}

# Every marker of every format, for texts that try to be mistaken for one.
TOKENS = (
    "<|tool_calls_section_begin|>", "<|tool_call_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|im_end|>", "functions.read:0", "<tool_call>", "</tool_call>",
    "<function=", "<function=now>", "</function>", "<parameter=", "<parameter=path>", "</parameter>", "<arg_key>", "</arg_key>", "<arg_value>",
    "</arg_value>", "<function_calls>", "<invoke ", 'name="now">', "</invoke>", "<tool>", "<name>", "</name>", "</tool>",
    "<use_tool", "<use ", "</use>", "<|python_tag|>", "[now()]", "[TOOL_REQUEST]", "[END_TOOL_REQUEST]", "```tool_code", "```",
    "now()", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>",
    "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>", "call tool=\"now\"",
    'argument key="path" type="string"', "call", "argument", "response", "think", "<think>", "</think>", '{"name": "now", "arguments": {}}',
    '{"name"', '{"path": "x"}', "{", "}", "[", "]", '"', "\\", "'", "\n", " ", "<", "<|", "&lt;", "&amp;lt;", ">", "é日本", "a", "1", ";",
)  # fmt: skip
HOSTILE = st.lists(st.sampled_from(TOKENS), max_size=24).map("".join)
UNQUOTED = st.lists(
    st.sampled_from([token for token in TOKENS if not set(token) & set("`\"'") and token != ">"]), max_size=24
).map("".join)
GARBAGE = st.lists(st.sampled_from((*TOKENS, "\ud800")), max_size=24).map("".join)
STRINGS = st.one_of(
    st.text(max_size=20), HOSTILE, st.sampled_from(["", "\n", " x ", "\nx\n", "null", "42", "true", "{}"])
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | STRINGS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
BY_TYPE = {
    "string": STRINGS,
    "integer": st.integers(-(2**53), 2**53),
    "number": st.integers(-100, 100) | st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
    "object": st.dictionaries(st.text(max_size=6), JSON, max_size=3),
    "array": st.lists(JSON, max_size=3),
}


@st.composite
def calls(draw: st.DrawFn) -> list[ToolCall]:
    made = []
    for number in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(PROPERTIES)))
        keys = draw(st.sets(st.sampled_from(sorted(PROPERTIES[name])))) if PROPERTIES[name] else ()
        arguments = {key: draw(BY_TYPE[PROPERTIES[name][key]["type"]]) for key in sorted(keys)}
        text = json.dumps(arguments, ensure_ascii=draw(st.booleans()))
        made.append(ToolCall(f"id{number}", name, text))
    return made


def test_every_canonical_format_is_structured_or_a_text_format() -> None:
    assert set(TOOL_FORMATS) - set(TEXT_FORMATS) == {
        *("openai", "anthropic", "mistral", "kimi", "native", "qwen", "deepseek", "gemma"),
        *("qwen-json", "deepseek-json", "gemma-json"),
    }
    assert sorted(TEXT_FORMATS.values()) == sorted(FORMATS)
    for name in ("openai", "anthropic", "nonsense"):
        with pytest.raises(UnknownToolFormat, match="kimi-k3"):
            text_format(name)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=100, deadline=None)
@given(made=calls(), places=PLACES, before=st.sampled_from(["", "Let me look. "]))
def test_calls_survive_the_prompt_and_back(name: str, made: list[ToolCall], places: list[int], before: str) -> None:
    text = text_format(name).render_calls(made, ())
    if name != "llama":  # there, only the beginning of an answer is a call
        text = before + text
    findings = feed(leak_filter(name, TOOLS), cut(text, places))
    found = outcome(findings)
    assert found.parsed == [(call.name, json.loads(call.arguments)) for call in made]
    assert found.problems == []
    assert found.text == ("" if name == "llama" else before)


@each_once(("name", NAMES), ("arguments", [{"dir": "/a b"}, {}]))
def test_a_call_that_is_cut_off_runs_as_it_was_meant_or_not_at_all(name: str, arguments: dict[str, str]) -> None:
    tools = [ToolSpec("list", "lists", {"type": "object", "properties": {"dir": {"type": "string"}}})]
    text = text_format(name).render_calls([ToolCall("id0", "list", json.dumps(arguments))], ())
    for size in range(len(text)):
        for called, said, _ in outcome(feed(leak_filter(name, tools), [text[:size]])).calls:
            read = parse_arguments(ToolCall("id0", called, said))
            assert read == arguments or "_parse_error" in read, text[:size]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=150, deadline=None)
@given(text=GARBAGE, places=PLACES, starts_inside=st.booleans(), with_tools=st.booleans())
def test_any_split_gives_the_same_findings(
    name: str, text: str, places: list[int], starts_inside: bool, with_tools: bool
) -> None:
    def findings(portions: list[str]) -> Any:
        tools = TOOLS if with_tools else ()
        return feed(get_filter(name, tools, tags=("<think>", "</think>"), starts_inside=starts_inside), portions)

    whole = findings([text])
    assert findings(cut(text, places)) == whole
    assert findings(list(text)) == whole
    outcome(whole)


@pytest.mark.parametrize("name", ["kimi", "kimi-k3", "deepseek"])
@settings(max_examples=150, deadline=None)
@given(text=UNQUOTED, tagged=st.booleans())
def test_special_tokens_never_reach_the_text_unless_quoted(name: str, text: str, tagged: bool) -> None:
    found = outcome(feed(get_filter(name, TOOLS, tags=("<think>", "</think>") if tagged else None), [text]))
    own = {
        "kimi": ("<|tool_call", "<|im_end|>"),
        "kimi-k3": ("<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"),
        "deepseek": ("<｜tool▁",),
    }[name]
    for marker in own:
        # What the model never wrote as one piece can come together when a token between is taken out.
        if text.count(marker) and not any(f"{marker[:k]}<" in text for k in range(1, len(marker))):
            assert marker not in found.text
            assert marker not in found.thinking


@pytest.mark.parametrize("name", NAMES)
def test_plain_text_passes_at_once_and_prose_is_kept_to_the_letter(name: str) -> None:
    filter = get_filter(name, TOOLS)
    for piece in ("Hello", ", wor", "ld. 1 < 2", " & all."):
        assert "".join([f.text for f in filter.feed(piece)]) == piece
    assert filter.close() == []
    text = "  A list: [1] {x} <b>bold</b> `<tool>` <use case> a < b\n\n```python\nf(1)\n```\n"
    for portions in splits(text):
        assert outcome(feed(get_filter(name, TOOLS), portions)).text == text


@pytest.mark.parametrize("name", NAMES)
def test_tools_and_results_are_told_and_no_calls_are_nothing(name: str) -> None:
    """Choosing a format changes what is asked: each declares every tool, with its schema, in its own words."""
    text = text_format(name).declare(TOOLS)
    for spec in TOOLS:
        assert spec.name in text
        assert spec.description in text
    assert '"path"' in text
    assert len({text_format(other).declare(TOOLS) for other in NAMES}) == len(NAMES)
    response = ToolResponse("id0", "read", (Text("line one\n"), Text("line two")))
    text = text_format(name).render_result(response, "functions.read:0")
    assert "line one" in text
    assert "line two" in text
    assert text_format(name).render_calls((), ()) == ""
