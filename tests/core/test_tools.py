from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.core.blocks import ToolCall
from midstream.core.tools import ToolSpec, parse_arguments


def parse(arguments: str) -> dict[str, Any]:
    return parse_arguments(ToolCall("1", "f", arguments))


@pytest.mark.parametrize("arguments", ["", " \n\t", "{}", " {} ", "null", " null\n"])
def test_no_arguments(arguments: str) -> None:
    assert parse(arguments) == {}


@given(st.dictionaries(st.text(max_size=4), st.integers(-9, 9) | st.text(max_size=4) | st.none(), max_size=4))
def test_an_object_is_what_it_says(value: dict[str, Any]) -> None:
    assert parse(msgspec.json.encode(value).decode()) == value


BROKEN = [
    '{"a": 1', '{"a": 1}}', "{'a': 1}", "[1]", '"{}"', '"null"', "nul", "1", '{"a": 1,}', "{} {}", '{"a": NaN}', "[" * 100_000,
    '{"a":' * 100_000, '{"a": "\ud800"}',
]  # fmt: skip


@pytest.mark.parametrize("arguments", BROKEN, ids=lambda text: ascii(text[:12]))
def test_what_is_no_object_goes_back_to_the_model_whole(arguments: str) -> None:
    told = parse(arguments)
    assert set(told) == {"_parse_error", "_raw"}
    assert told["_raw"] == arguments
    assert told["_parse_error"]


@given(st.text(st.characters(codec=None), max_size=12))
def test_any_text_gives_an_object(arguments: str) -> None:
    assert isinstance(parse(arguments), dict)


def test_a_tool_is_a_name_and_the_rest_has_defaults() -> None:
    spec = msgspec.json.decode(b'{"name":"f","new":1}', type=ToolSpec)
    assert (spec.name, spec.description, spec.parameters, spec.strict, spec.builtin) == ("f", "", None, None, None)
    assert msgspec.json.encode(spec) == b'{"name":"f"}'
