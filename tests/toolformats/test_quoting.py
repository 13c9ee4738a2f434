"""A call in code or in a quotation is text, in every format: the cases are in tests/data/toolformats/quoting.json.

`rescued` is how many calls run where the format is only rescued (`leak_filter`), `chosen` where it was chosen (`get_filter`).
"""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.core.blocks import ToolCall
from midstream.toolformats.quoting import Quoting
from midstream.toolformats.registry import FORMATS, get_filter, leak_filter, text_format, think_filter

from .feeding import PLACES, cut, feed, outcome, splits, tool

TOOLS = (tool("read", path="string"),)
ARGUMENTS = {"path": "/x y"}
THINK = ("<think>", "</think>")


class Case(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    text: str
    rescued: int
    chosen: int


DATA = Path(__file__).resolve().parents[1] / "data" / "toolformats" / "quoting.json"
CASES = msgspec.json.decode(DATA.read_bytes(), type=list[Case])


def _call(format: str) -> str:
    written = text_format(format).render_calls([ToolCall("id0", "read", '{"path": "/x y"}')], ())
    # A bare object is a call only where the answer begins, so nothing can quote it.
    return f"<|python_tag|>{written}" if format == "llama" else written


CALLS = {
    **{format: (format, _call(format)) for format in FORMATS},
    "kimi without a section": (
        "kimi",
        '<|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{"path": "/x y"}<|tool_call_end|>',
    ),
    "function without a tag": ("qwen3-coder", "<function=read>\n<parameter=path>\n/x y\n</parameter>\n</function>"),
    "gemma's object": ("gemma", '{"name": "read", "arguments": {"path": "/x y"}}\n[END_TOOL_REQUEST]'),
    "a tool element": ("xml", '<tool><name>read</name><arguments>{"path": "/x y"}</arguments></tool>'),
    "a use element": ("xml", '<use read path="/x y"/>'),
    "mistral with arguments": ("mistral", '[TOOL_CALLS]read[ARGS]{"path": "/x y"}'),
    "python": ("llama", "<|python_tag|>[read(path='/x y')]"),
}


def by_name(names: Set[str]) -> list[Any]:
    """The cases by their names, those with other names marked as long."""
    return [pytest.param(case, id=case.name, marks=() if case.name in names else pytest.mark.long) for case in CASES]


DIFFERENT = {case.name for case in CASES if case.rescued != case.chosen}
"""Where it matters whether the format was chosen."""
KINDS = {
    "bare", "a fence", "a fence of tildes", "a closed fence", "a nested fence", "inline code", "inline code that never ends",
    "closed inline code", "a paragraph after quoted code", "a code tag", "a closed pre tag", "a block quote", "after a block quote",
    "straight marks", "curly marks around words", "closed marks", "apostrophes", "marks end with their paragraph", "three marks",
}  # fmt: skip
"""One or two of each way to quote."""


@pytest.mark.parametrize("case", by_name({case.name for case in CASES}))
def test_what_is_quoted_is_not_rescued(case: Case) -> None:
    judged(case, False)


@pytest.mark.parametrize("case", by_name(DIFFERENT | KINDS))
def test_what_is_quoted_is_not_called_where_the_format_was_chosen(case: Case) -> None:
    judged(case, True)


def judged(case: Case, chosen: bool) -> None:
    for call, (format, written) in CALLS.items():
        text = case.text.replace("{call}", written)
        for portions in splits(text):
            filter = get_filter(format, TOOLS) if chosen else leak_filter(format, TOOLS)
            found = outcome(feed(filter, portions))
            assert found.parsed == [("read", ARGUMENTS)] * (case.chosen if chosen else case.rescued), call
            assert found.problems == [], call
            if not found.calls:
                assert found.text == text, call
            quoted = case.text.count("{call}") - len(found.calls)
            assert found.text.count(written) == quoted, call


IN_THINKING = ("kimi", "deepseek", "mistral")
"""Formats whose calls count inside thinking."""


@pytest.mark.parametrize(
    ("call", "case"),
    [
        pytest.param(
            call, case, marks=() if case.name in KINDS and number % len(IN_THINKING) == place else pytest.mark.long
        )
        for number, case in enumerate(CASES)
        for place, call in enumerate(IN_THINKING)
    ],
)
def test_the_same_in_thinking(call: str, case: Case) -> None:
    """The text after it begins anew."""
    format, written = CALLS[call]
    thought = case.text.replace("{call}", written)
    for portions in splits(f"<think>{thought}</think>\n{written}"):
        found = outcome(feed(leak_filter(format, TOOLS, tags=THINK), portions))
        if case.rescued:
            assert found.parsed[0] == ("read", ARGUMENTS)
        else:
            assert found.thinking == thought
            assert found.parsed == [("read", ARGUMENTS)]


@pytest.mark.parametrize("case", by_name(KINDS))
def test_the_same_in_a_channel(case: Case) -> None:
    """K3 writes its calls behind its text: a channel's end is its end, whatever was left open in it."""
    call = _call("kimi-k3")
    said = case.text.replace("{call}", call)
    for channel in ("think", "response"):
        text = f"<|open|>{channel}<|sep|>{said}<|close|>{channel}<|sep|>{call}<|end_of_msg|>"
        for portions in splits(text):
            found = outcome(feed(get_filter("kimi-k3", TOOLS), portions))
            assert found.parsed == [("read", ARGUMENTS)] * (case.chosen + 1)
            if not case.chosen:
                assert (found.thinking if channel == "think" else found.text) == said


def test_a_whole_message_may_be_quoted_in_a_channel() -> None:
    call = _call("kimi-k3")
    sample = f"```\n<|open|>think<|sep|>hm<|close|>think<|sep|><|open|>response<|sep|>hi<|close|>response<|sep|>{call}\n```\n"
    text = f"<|open|>response<|sep|>{sample}<|close|>response<|sep|><|end_of_msg|>"
    for portions in splits(text):
        found = outcome(feed(get_filter("kimi-k3", TOOLS), portions))
        assert (found.calls, found.thinking, found.text) == ([], "", sample)


GEMMA_FENCES = [
    ("```tool_code\n{}\n```", True),
    ("Let me look.\n  ```tool_code\n{}\n```\n", True),
    ("Use ```tool_code\n{}\n```\n", False),
    ("````tool_code\n{}\n````\n", False),
    ("```tool_codes\n{}\n```\n", False),
    ("```python\n{}\n```\n", False),
    ("```markdown\n```tool_code\n{}\n```\n```\n", False),
    ("~~~\n```tool_code\n{}\n```\n~~~\n", False),
    ("> ```tool_code\n> {}\n> ```\n", False),
    ("`\n```tool_code\n{}\n```\n", False),
]


@pytest.mark.parametrize(("frame", "runs"), GEMMA_FENCES, ids=[frame for frame, _ in GEMMA_FENCES])
def test_gemmas_own_fence_is_a_call_where_gemmas_format_was_chosen(frame: str, runs: bool) -> None:
    text = frame.format("read(path='/x y')")
    for portions in splits(text):
        chosen = outcome(feed(get_filter("gemma", TOOLS), portions))
        rescued = outcome(feed(leak_filter("gemma", TOOLS), portions))
        assert chosen.parsed == ([("read", ARGUMENTS)] if runs else [])
        assert (rescued.calls, rescued.text, rescued.problems) == ([], text, [])
        if not runs:
            assert (chosen.text, chosen.problems) == (text, [])


FORGOTTEN_ENDS = [
    ("kimi", '<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{"path": "/x y"}<|tool_call_end|>'),
    ("deepseek", '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>{"path": "/x y"}<｜tool▁call▁end｜>'),
    ("hermes", '<tool_call>{"name": "read", "arguments": {"path": "/x y"}}'),
    ("hermes", '<tool_call>{"arguments": {"path": "/x y"}, "name": "read"}'),
    ("glm", "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>/x y</arg_value>"),
    ("qwen", "<tool_call>read\n<path>/x y</path>"),
    ("gemma", '[TOOL_REQUEST]{"name": "read", "arguments": {"path": "/x y"}}'),
]  # fmt: skip


@pytest.mark.parametrize(("format", "unended"), FORGOTTEN_ENDS)
def test_a_call_without_its_end_does_not_run_what_the_text_after_it_quotes(format: str, unended: str) -> None:
    after = f"\nThat was it. In code:\n```\n{_call(format)}\n```\n"
    for portions in splits(unended + after):
        found = outcome(feed(leak_filter(format, TOOLS), portions))
        assert found.parsed == [("read", ARGUMENTS)]
        assert found.text.strip() == after.strip()


@pytest.mark.parametrize(
    "text", ["Use `<think>` and `</think>`.", "```\n<think>a</think>\n```\n", "<code></think></code>"]
)
def test_a_think_tag_in_code_is_text(text: str) -> None:
    for portions in splits(text):
        for filter in (think_filter(), get_filter("kimi", TOOLS, tags=THINK)):
            found = outcome(feed(filter, portions))
            assert (found.text, found.thinking, found.problems) == (text, "", [])


def test_thinking_ends_in_an_open_fence_too() -> None:
    for portions in splits("<think>so:\n```\nls</think>Yes."):
        found = outcome(feed(think_filter(), portions))
        assert (found.text, found.thinking) == ("Yes.", "so:\n```\nls")


def test_the_end_of_the_message_is_no_text_after_a_fence() -> None:
    assert outcome(feed(leak_filter("kimi", TOOLS), ["```\nls\n```<|im_end|>"])).text == "```\nls\n```"


PIECES = st.lists(
    st.sampled_from(["```", "`", "~~~", "\n", "\n\n", ">", "- ", " ", '"', "'", "“", "”", "«", "»", "<code>", "</code>", "<pre>", "a",
                     "\\", "py", "{call}", "{call}", "<think>", "</think>"]),
    max_size=20,
).map("".join)  # fmt: skip


@pytest.mark.parametrize("call", ["kimi", "hermes", "xml", "gemma", "kimi-k3"])
@settings(max_examples=150)
@given(text=PIECES, places=PLACES, rescue=st.booleans())
def test_any_split_quotes_the_same(call: str, text: str, places: list[int], rescue: bool) -> None:
    format, written = CALLS[call]
    text = text.replace("{call}", written)
    make = lambda: get_filter(format, TOOLS, tags=THINK, rescue=rescue)  # noqa: E731
    whole = feed(make(), [text])
    assert feed(make(), cut(text, places)) == whole
    assert feed(make(), list(text)) == whole
    found = outcome(whole)
    assert len(found.calls) <= text.count(written)


def test_each_thinking_has_its_own_fences() -> None:
    call = CALLS["kimi"][1]
    for portions in splits(f"<think>```\nls</think>Hm.<think>{call}"):
        found = outcome(feed(get_filter("kimi", TOOLS, tags=THINK), portions))
        assert found.parsed == [("read", ARGUMENTS)]


@pytest.mark.parametrize(
    ("pieces", "quoted"),
    [
        (["```\nls\n", "```\n"], [True, False]),
        (["```\nls\n``", "`\n"], [True, True]),
        (["it", "'s fine "], [False, False]),
        (["it ", "'so "], [False, True]),
        (["\\", "` "], [False, False]),
        ([" ", "> x"], [False, True]),
    ],
)
def test_the_place_is_known_between_pieces(pieces: list[str], quoted: list[bool]) -> None:
    quoting = Quoting(marks=True)
    seen = []
    for piece in pieces:
        quoting.text.append(piece)
        seen.append(quoting.covers())
    assert seen == quoted


class CountedPieces(list[str]):
    """Counts how often the text is taken up."""

    taken = 0

    def clear(self) -> None:
        CountedPieces.taken += 1
        super().clear()


def test_text_without_markers_is_not_looked_at() -> None:
    quoting = Quoting(marks=True)
    quoting.text = pieces = CountedPieces()
    for _ in range(1000):
        quoting.text.append('`quoted` "text"\n')
    assert CountedPieces.taken == 0
    assert not quoting.covers()
    assert not quoting.covers()
    assert (CountedPieces.taken, pieces) == (1, [])
