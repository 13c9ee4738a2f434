"""Budgets and their windows."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.core.errors import ConfigError
from midstream.gateway.spend import (
    MICRO,
    SPEND_WINDOWS,
    Budget,
    micro_dollars,
    parse_budget,
    show_dollars,
    window_end,
    window_key,
)


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("20/month", Budget(20, "month")),
        ("$0.50/day", Budget(0.5, "day")),
        (" 100/total ", Budget(100, "total")),
        ("20", Budget(20, "month")),
        ("0/day", Budget(0, "day")),
    ],
)
def test_a_budget(text: str, budget: Budget) -> None:
    assert parse_budget(text) == budget


@pytest.mark.parametrize(
    ("dollars", "shown"),
    [(0, "$0.00"), (0.000125, "$0.000125"), (0.0001, "$0.0001"), (0.01, "$0.01"), (0.5, "$0.50"), (0.999999, "$0.999999"),
     (1, "$1.00"), (20.004512, "$20.00"), (1_000_000, "$1000000.00")],
)  # fmt: skip
def test_no_amount_is_shown_as_nothing(dollars: float, shown: str) -> None:
    assert show_dollars(dollars) == shown
    assert show_dollars(micro_dollars(dollars) / MICRO) == shown


def test_a_budget_is_shown_as_it_was_written() -> None:
    assert [str(parse_budget(text)) for text in ("20/month", "0.0001/day", "0.50/day", "2000000/total")] == [
        "$20 a month",
        "$0.0001 a day",
        "$0.50 a day",
        "$2000000 in total",
    ]


@pytest.mark.parametrize(
    "text", ["", "-1/day", "1/week", "ten", "1e3/day", "1/", "1//day", "1/day/day", "nan", "٣/day x"]
)
def test_what_is_not_a_budget(text: str) -> None:
    with pytest.raises(ConfigError, match="20/month"):
        parse_budget(text)


@pytest.mark.parametrize(
    ("window", "now", "key", "end"),
    [
        ("day", "2026-11-16T13:00:00", "2026-11-16", "2026-11-17T00:00:00"),
        ("day", "2026-12-31T23:59:59", "2026-12-31", "2027-01-01T00:00:00"),
        ("month", "2026-11-16T13:00:00", "2026-11", "2026-12-01T00:00:00"),
        ("month", "2026-01-31T00:00:00", "2026-01", "2026-02-01T00:00:00"),
        ("month", "2026-12-01T00:00:00", "2026-12", "2027-01-01T00:00:00"),
    ],
)
def test_windows(window: str, now: str, key: str, end: str) -> None:
    assert window_key(window, at(now)) == key
    assert window_end(window, at(now)) == at(end)


def test_a_total_never_ends() -> None:
    assert window_key("total", 0) == "total" and window_end("total", 0) is None


@given(st.floats(0, 4e9), st.sampled_from(SPEND_WINDOWS[:2]))
def test_a_window_ends_where_the_next_begins(now: float, window: str) -> None:
    end = window_end(window, now)
    assert end is not None and end > now
    assert window_key(window, end) != window_key(window, now) == window_key(window, end - 1)


def test_micro_dollars_are_exact_and_rounded_up() -> None:
    assert [micro_dollars(each) for each in (0, 0.1, 0.0000001, 20, 1.1)] == [0, 100_000, 1, 20_000_000, 1_100_000]
