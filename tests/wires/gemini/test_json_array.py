"""A streamed JSON array gives its elements whole, however its bytes are cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.core.errors import LimitExceeded, MalformedStream
from midstream.wires.gemini.json_array import JSONArrayParser
from tests.wires.feeding import by_byte

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab"\\{}[],: é', max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet='k"\\{', max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
_OBJECTS = st.lists(st.dictionaries(st.text(max_size=4), _VALUES, max_size=3), max_size=5)


def parse(chunks: list[bytes], limit: int = 1 << 20) -> tuple[list[Any], str, bool]:
    """The elements, the kind of the error if there was one, and whether the array was closed."""
    parser = JSONArrayParser(limit=limit)
    found: list[Any] = []
    try:
        for data in chunks:
            found.extend(map(json.loads, parser.feed(data)))
    except (MalformedStream, LimitExceeded) as error:
        return found, type(error).__name__, parser.closed
    return found, "", parser.closed


@settings(max_examples=200, deadline=None)
@given(objects=_OBJECTS, indent=st.sampled_from([None, 1]), cuts=st.lists(st.integers(0, 400), max_size=6))
def test_elements_come_as_they_were_written(objects: list[Any], indent: int | None, cuts: list[int]) -> None:
    raw = json.dumps(objects, indent=indent, ensure_ascii=False).encode() + b"\n"
    places = sorted({min(cut, len(raw)) for cut in cuts})
    chunks = [raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True)]
    assert parse(chunks) == (objects, "", True)
    assert parse(by_byte(raw)) == (objects, "", True)


@settings(max_examples=200, deadline=None)
@given(raw=st.text(alphabet='[]{}",\\:a1 \n', max_size=30).map(str.encode))
def test_any_split_of_anything_is_the_same(raw: bytes) -> None:
    def read(chunks: list[bytes]) -> tuple[list[bytes], str, bool]:
        parser = JSONArrayParser()
        found: list[bytes] = []
        try:
            for data in chunks:
                found += parser.feed(data)
        except MalformedStream as error:
            return found, str(error)[:30], False
        return found, "", parser.closed

    assert read(by_byte(raw)) == read([raw])


@pytest.mark.parametrize("raw", [b"[1]", b'["x"]', b"[[{}]]", b"{}", b"[{}}", b"[{} x]", b"]", b"[true,{}]"])
def test_what_is_no_array_of_objects_is_malformed(raw: bytes) -> None:
    assert parse([raw])[1] == parse(by_byte(raw))[1] == "MalformedStream"


@pytest.mark.parametrize("cut", [False, True])
def test_an_element_over_the_limit_is_refused_after_those_before_it(cut: bool) -> None:
    raw = b'[{"a":1},{"a":"' + b"x" * 50 + b'"}]'
    assert parse(by_byte(raw) if cut else [raw], limit=40) == ([{"a": 1}], "LimitExceeded", False)


def test_what_follows_the_array_is_left_unread() -> None:
    assert parse([b'\xef\xbb\xbf [{"a":1}] {"b":2}']) == ([{"a": 1}], "", True)
