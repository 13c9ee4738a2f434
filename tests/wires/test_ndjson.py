"""Lines of JSON come whole, however their bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.core.errors import LimitExceeded
from midstream.wires.ndjson import NDJSONParser
from tests.wires.feeding import by_byte


def lines(chunks: list[bytes], limit: int = 1000) -> tuple[list[bytes], bool]:
    parser = NDJSONParser(limit=limit)
    found: list[bytes] = []
    try:
        for data in chunks:
            found += parser.feed(data)
    except LimitExceeded:
        return found, True
    rest = parser.close()
    return ([*found, rest] if rest else found), False


@settings(max_examples=200, deadline=None)
@given(
    raw=st.lists(st.sampled_from([b"{}", b'{"a":1}', b"\n", b"\r\n", b" ", b"\r", b"x" * 9]), max_size=12).map(
        b"".join
    ),
    limit=st.sampled_from([8, 1000]),
)
def test_any_split_gives_the_same_lines(raw: bytes, limit: int) -> None:
    assert lines(by_byte(raw), limit) == lines([raw], limit)


def test_blank_lines_and_carriage_returns_are_passed_over() -> None:
    assert lines([b"\n{}\r\n\r\n  \n[1]"]) == ([b"{}", b"[1]"], False)


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_over_the_limit_is_refused_after_those_before_it(end: bytes) -> None:
    raw = b"{}\n" + b"x" * 20 + end
    assert lines([raw], limit=10) == lines(by_byte(raw), limit=10) == ([b"{}"], True)
