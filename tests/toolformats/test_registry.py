"""The registry: formats by name, the policy for calls found in text, and thinking between tags."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream import toolformats
from midstream.core.dialect import TextCalls
from midstream.toolformats.findings import TextFound, ThinkingFound
from midstream.toolformats.format import TextFormat
from midstream.toolformats.registry import FORMATS, leak_filter, text_format, think_filter

from .feeding import PLACES, cut, feed, outcome, splits, tool

TOOLS = (tool("read", path="string"),)
TEXT = 'Hm. <tool_call>{{"name": "{}", "arguments": {{"path": "/x"}}}}</tool_call>'


@pytest.mark.parametrize(
    ("name", "safety", "runs", "why"),
    [
        ("read", "execute", True, ""),
        ("rm", "execute", False, "declared"),
        ("read", "reask", False, "ask it to make a real call"),
        ("rm", "reask", False, "ask it to make a real call"),
        ("read", "show", False, "was not run"),
    ],
)
def test_policy(name: str, safety: TextCalls, runs: bool, why: str) -> None:
    for portions in splits(TEXT.format(name)):
        found = outcome(feed(leak_filter("hermes", TOOLS, safety=safety), portions))
        assert found.text == "Hm. "  # in every case the leaked call stays out of what later requests replay
        assert bool(found.calls) is runs
        assert [why in problem.why for problem in found.problems] == ([] if runs else [True])
        if not runs:
            assert '{"path": "/x"}' in found.problems[0].raw


TOKENS = ("<think>", "</think>", "<thinking>", "</thinking>", "◁think▷", "◁/think▷", "<", "a", "</", "\n", " ", ">")


@pytest.mark.parametrize(
    ("text", "starts_inside", "thinking", "said"),
    [
        ("<think>a</think>b", False, "a", "b"),
        ("<thinking>a</thinking>b", False, "a", "b"),
        ("◁think▷a◁/think▷b", False, "a", "b"),
        ("a</think>b", True, "a", "b"),
        ("<think>a</think>b", True, "a", "b"),
        ("a", True, "a", ""),
        ("<think>a", False, "a", ""),
        ("<think>a</think>b<think>c</think>d", False, "ac", "bd"),
        ("<think>a </thinking> b</think>c", False, "a </thinking> b", "c"),
        ("a < b </thin", False, "", "a < b </thin"),
        ("  \n", False, "", "  \n"),
        ("<think>a <think> b</think>c", False, "a <think> b", "c"),
        ("<think>a</think>say </think> to end", False, "a", "say </think> to end"),
    ],
)
def test_cases(text: str, starts_inside: bool, thinking: str, said: str) -> None:
    found = outcome(feed(think_filter(starts_inside=starts_inside), [text]))
    assert (found.thinking, found.text) == (thinking, said)


def test_only_the_dialects_pair_is_read() -> None:
    found = outcome(feed(think_filter(("[THINK]", "[/THINK]")), ["[THINK]a[/THINK]<think>b"]))
    assert (found.thinking, found.text) == ("a", "<think>b")


def test_empty_thinking_is_not_absent() -> None:
    assert feed(think_filter(), ["<think></think>b"]) == [ThinkingFound(""), TextFound("b")]
    assert feed(think_filter(starts_inside=True), ["</think>b"]) == [ThinkingFound(""), TextFound("b")]
    assert feed(think_filter(), ["b"]) == [TextFound("b")]


def test_an_end_that_had_no_beginning_is_reported() -> None:
    found = outcome(feed(think_filter(), ["plan</think>answer"]))
    assert found.text == "plananswer"
    assert found.problems[0].raw == "</think>"


def test_text_is_not_held_back() -> None:
    filter = think_filter()
    assert filter.feed("a <thi") == [TextFound("a ")]
    assert filter.feed("s") == [TextFound("<this")]


@settings(max_examples=300, deadline=None)
@given(text=st.lists(st.sampled_from(TOKENS), max_size=30).map("".join), places=PLACES, starts_inside=st.booleans())
def test_any_split(text: str, places: list[int], starts_inside: bool) -> None:
    whole = feed(think_filter(starts_inside=starts_inside), [text])
    assert feed(think_filter(starts_inside=starts_inside), cut(text, places)) == whole
    assert feed(think_filter(starts_inside=starts_inside), list(text)) == whole


def test_a_format_is_its_module_and_its_name_in_one_list() -> None:
    """Nothing else names the formats: a module without a name in the list is found here, and so is a name without a module."""
    names: list[str] = []
    for info in pkgutil.iter_modules(toolformats.__path__):
        module = import_module(f"{toolformats.__name__}.{info.name}")
        made = [value for value in vars(module).values() if isinstance(value, TextFormat)]
        names += [value.name for value in made]
        assert all(text_format(value.name) is value for value in made)
    assert sorted(names) == sorted(FORMATS)
