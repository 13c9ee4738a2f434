"""The formulas against published tables and values worked out by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.verify.statistics import (
    Agreement,
    Rate,
    agreement,
    binomial_cdf,
    bootstrap,
    clopper_pearson,
    mcnemar,
    zero_failures_bound,
)

# 0/10, 10/10: by hand, 1 - (0.025)^(1/10). 5/10, 1/20, 7/50: the usual tables of exact limits (e.g. Brown, Cai & DasGupta 2001
# and the NIST handbook 7.2.4.1, where 4 of 20 is 0.057 to 0.437).
EXACT = [
    (0, 10, 0.0, 0.3085),
    (10, 10, 0.6915, 1.0),
    (5, 10, 0.1871, 0.8129),
    (1, 20, 0.0013, 0.2487),
    (4, 20, 0.0573, 0.4366),
    (7, 50, 0.0582, 0.2674),
    (0, 0, 0.0, 1.0),
]


@pytest.mark.parametrize(("hits", "n", "low", "high"), EXACT)
def test_exact_intervals_are_those_of_the_tables(hits: int, n: int, low: float, high: float) -> None:
    interval = clopper_pearson(hits, n)
    assert [interval.low, interval.high] == pytest.approx([low, high], abs=6e-5)


@pytest.mark.parametrize("n", [30, 100, 1000])
def test_without_a_failure_the_bound_is_about_three_by_n(n: int) -> None:
    assert zero_failures_bound(n) == pytest.approx(3 / n, rel=0.05)
    assert (1 - zero_failures_bound(n)) ** n == pytest.approx(0.05)


def test_a_hundred_lines_cannot_show_98_percent() -> None:
    assert Rate(100, 100).interval.low < 0.98 < Rate(200, 200).interval.low


def test_asking_the_same_lines_again_does_not_make_them_more() -> None:
    """A hundred lines, ten times each: still not 98 %."""
    again = Rate(1000, 1000, 100)
    assert again.interval == Rate(100, 100).interval and again.interval.low < 0.98 < Rate(1000, 1000).interval.low
    assert str(again) == "1000 of 1000 (100.0 %; 95 % by 100 lines: 96.4 % to 100.0 %)"
    # 95.5 lines of a hundred: the lower end of 95, the upper end of 96.
    half = Rate(955, 1000, 100).interval
    assert (half.low, half.high) == (Rate(95, 100).interval.low, Rate(96, 100).interval.high)


@given(st.integers(1, 60), st.data())
def test_the_distribution_is_the_sum_of_its_terms(n: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, n))
    rate = data.draw(st.integers(1, 99))
    share = Fraction(rate, 100)
    whole = sum((math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(hits + 1)), Fraction(0))
    assert binomial_cdf(hits, n, rate / 100) == pytest.approx(float(whole), abs=1e-12)


@settings(max_examples=30)
@given(st.integers(1, 80), st.data())
def test_an_interval_holds_its_rate_and_shrinks_with_n(n: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, n))
    interval = clopper_pearson(hits, n)
    assert interval.low <= hits / n <= interval.high
    wider = clopper_pearson(hits * 3, n * 3)
    assert wider.high - wider.low < interval.high - interval.low


def test_f1_by_hand() -> None:
    pairs = [(True, True)] * 6 + [(True, False)] * 2 + [(False, True)] * 1 + [(False, False)] * 11
    found = agreement(pairs)
    assert found == Agreement(6, 2, 1, 11)
    assert (found.precision, found.recall) == (6 / 8, 6 / 7)
    assert found.f1 == pytest.approx(2 * (6 / 8) * (6 / 7) / (6 / 8 + 6 / 7))
    assert agreement([(False, False)]).f1 is None


# McNemar's exact test is a binomial test with p = 1/2 on the discordant pairs: 2 * (1 + 10 + 45) / 1024 for 2 against 8, and
# 2 * 0.5^5 for 0 against 5; scipy.stats.binomtest and R's exact2x2 give the same.
@pytest.mark.parametrize(
    ("one", "other", "p"), [(2, 8, 0.109375), (0, 5, 0.0625), (0, 0, 1.0), (3, 3, 1.0), (1, 12, 0.00341796875)]
)
def test_mcnemar_by_hand(one: int, other: int, p: float) -> None:
    first = [True] * one + [False] * other + [True] * 7
    second = [False] * one + [True] * other + [True] * 7
    assert mcnemar(first, second).p == pytest.approx(p)
    assert mcnemar(second, first).p == pytest.approx(p)


def test_mcnemar_wants_the_same_lines() -> None:
    with pytest.raises(ValueError, match="expected two outcomes for each line"):
        mcnemar([True], [])


def test_the_bootstrap_is_seeded_and_near_the_exact_interval() -> None:
    lines = [True] * 70 + [False] * 30

    def rate(drawn: object) -> float:
        assert isinstance(drawn, (list, tuple))
        return sum(drawn) / len(drawn)

    interval = bootstrap(lines, rate, seed=4)
    assert interval is not None and interval == bootstrap(lines, rate, seed=4) != bootstrap(lines, rate, seed=5)
    exact = clopper_pearson(70, 100)
    assert [interval.low, interval.high] == pytest.approx([exact.low, exact.high], abs=0.02)
    assert bootstrap([], lambda drawn: None) is None
