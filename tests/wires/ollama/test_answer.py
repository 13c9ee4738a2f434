"""Dates, as this wire writes them beside every piece of an answer."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from midstream.wires.ollama.answer import utc


def _by_the_library(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_days_of_four_centuries() -> None:
    """As the calendar of the standard library has them: leap years, and years that are none."""
    for day in range(0, 400 * 366, 13):
        assert utc(day * 86400 + day % 86400) == _by_the_library(day * 86400 + day % 86400)


@given(st.integers(0, 253402300799))
def test_every_second(seconds: int) -> None:
    assert utc(seconds) == _by_the_library(seconds)
