from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.toolformats.pythonic import MAX_CALLS, MAX_DEPTH, parse_calls

from .feeding import tool

TOOLS = (tool("search", query="string", limit="integer"), tool("now"))
LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("[search(query='a', limit=3), now()]", [("search", {"query": "a", "limit": 3}), ("now", {})]),
        ("now()", [("now", {})]),
        ('print(default_api.search(query="it\'s"))', [("search", {"query": "it's"})]),
        ("search('a', 3)", [("search", {"query": "a", "limit": 3})]),
        ("now()\nnow()", [("now", {}), ("now", {})]),
        ("search(query='\\x41\\u00e9\\n\\'', limit=-1,)", [("search", {"query": "Aé\n'", "limit": -1})]),
        ("other(a=True, b=None, c=(1, 2), d=null)", [("other", {"a": True, "b": None, "c": [1, 2], "d": None})]),
        ("# first\nnow()  # then", [("now", {})]),
        ("search(query='\\ud83d')", [("search", {"query": "\ufffd"})]),
        ("search(query='\\ud83d\\ude00')", [("search", {"query": "\U0001f600"})]),
    ],
)
def test_calls(text: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    assert parse_calls(text, TOOLS) == calls


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "words", "[1, 2]", "search(query=x)", "search(query='a'", "search(query='a)", "search(limit=1+1)", "now(1)", "now() and",
        "__import__('os').system('ls')", "search(query=f'a')", "search({1: 2})", "x = now()",
        "search(query=" + "[" * (MAX_DEPTH + 2), "print(" * 5000 + "now()", "search(limit=1e999)", "now();" * (MAX_CALLS + 1),
    ],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_calls(text, TOOLS)


@settings(max_examples=200, deadline=None)
@given(value=LITERALS)
def test_a_literal_means_what_python_means(value: Any) -> None:
    text = repr(value)
    assert ast.literal_eval(text) == value
    assert parse_calls(f"f(a={text})", ()) == [("f", {"a": value})]
