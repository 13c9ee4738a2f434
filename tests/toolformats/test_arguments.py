from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.toolformats.arguments import TagEscape, bare, typed


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("42", {"type": "string"}, "42"),
        ("42", {"type": "integer"}, 42),
        ("42.0", {"type": "integer"}, 42),
        ("42", {"type": "number"}, 42),
        ("true", {"type": "boolean"}, True),
        ("True", {"type": "boolean"}, True),
        ("true", {"type": "string"}, "true"),
        (" 7 ", {"type": "integer"}, 7),
        ("many", {"type": "integer"}, "many"),
        ("1.5", {"type": "integer"}, "1.5"),
        ("null", {"type": ["string", "null"]}, None),
        ("x", {"type": ["string", "null"]}, "x"),
        ('"x"', {"type": ["string", "null"]}, "x"),
        ("None", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None),
        ("[1, 2]", {"type": "array"}, [1, 2]),
        ('{"a": 1}', {"type": "object"}, {"a": 1}),
        ('{"a": 1', {"type": "object"}, '{"a": 1'),
        ("2", {"enum": [1, 2]}, 2),
        ("2", {"enum": ["1", "2"]}, "2"),
        ("23.5", None, 23.5),
        ("+1", None, "+1"),
        ('"quoted"', None, '"quoted"'),
        ("words", None, "words"),
        ("[" * 100_000, {"type": "array"}, "[" * 100_000),
    ],
)
def test_typed(text: str, schema: Any, value: Any) -> None:
    came = typed(text, schema)
    assert (type(came), came) == (type(value), value)


def test_bare() -> None:
    assert [bare(value) for value in ("a\n", 1, True, None, {"é": [1]})] == ["a\n", "1", "true", "null", '{"é": [1]}']


ESCAPE = TagEscape("</v>", "<v>")


@settings(max_examples=300)
@given(
    text=st.lists(st.sampled_from(("</v>", "<v>", "&", "&lt;", "amp;", "lt;", "/v>", "v>", "<", "x")), max_size=12).map(
        "".join
    )
)
def test_tags_in_values_survive(text: str) -> None:
    escaped = ESCAPE.escape(text)
    assert "</v>" not in escaped
    assert "<v>" not in escaped
    assert ESCAPE.unescape(escaped) == text


def test_other_text_is_not_escaped() -> None:
    text = "a < b && c &lt; d <b>bold</b>"
    assert ESCAPE.escape(text) == text
    assert ESCAPE.unescape(text) == text
