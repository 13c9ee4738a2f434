"""Rates with their uncertainty: exact intervals, F1 with a seeded bootstrap over lines, McNemar's exact test.

No rate is given without n and an interval: with 0 failures in n the 95 % bound is about 3/n, so 100 lines cannot show 98 %.
The formulas are the textbook ones, written out here because a numerical library would be a dependency for five functions.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from ..core.blocks import Value
from ..core.plural import pluralize

T = TypeVar("T")
_LEVEL = 0.95


class Interval(Value, frozen=True):
    low: float
    high: float

    def __str__(self) -> str:
        return f"{percent(self.low)} to {percent(self.high)}"


class Rate(Value, frozen=True):
    """`hits` of `n`, with the exact interval (Clopper and Pearson) for the rate behind them.

    Answers to one line are alike, so asking it again proves little more: where `lines` is less than `n`, the interval is that of so
    many lines with the same share of hits, rounded to the wide side.
    """

    hits: int
    n: int
    lines: int | None = None

    @property
    def value(self) -> float | None:
        return self.hits / self.n if self.n else None

    @property
    def interval(self) -> Interval:
        if not self._is_repeated:
            return clopper_pearson(self.hits, self.n)
        assert self.lines is not None
        # In whole numbers: hits/n·lines, rounded down for the lower bound and up for the upper one.
        share = self.hits * self.lines
        low, high = clopper_pearson(share // self.n, self.lines), clopper_pearson(-(-share // self.n), self.lines)
        return Interval(low.low, high.high)

    @property
    def _is_repeated(self) -> bool:
        return self.lines is not None and 0 < self.lines < self.n

    def __str__(self) -> str:
        if not self.n:
            return "0 of 0"
        of = f" by {pluralize(self.lines or 0, 'line')}" if self._is_repeated else ""
        return f"{self.hits} of {self.n} ({percent(self.hits / self.n)}; 95 %{of}: {self.interval})"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def clopper_pearson(hits: int, n: int, level: float = _LEVEL) -> Interval:
    """The exact interval of a proportion: the rates under which so few, or so many, hits are not yet improbable."""
    if not 0 <= hits <= n:
        raise ValueError(f"expected 0 <= hits <= n, got {hits} of {n}")
    if n == 0:
        return Interval(0.0, 1.0)
    tail = (1 - level) / 2
    # Both functions rise with the rate, as `_root` expects.
    low = 0.0 if hits == 0 else _root(lambda rate: 1 - binomial_cdf(hits - 1, n, rate) - tail)
    high = 1.0 if hits == n else _root(lambda rate: tail - binomial_cdf(hits, n, rate))
    return Interval(low, high)


def zero_failures_bound(n: int, level: float = _LEVEL) -> float:
    """The greatest rate of failures, one-sided, that n lines without one leave possible: about 3/n at 95 %."""
    return 1.0 if n == 0 else 1 - (1 - level) ** (1 / n)


def binomial_cdf(hits: int, n: int, rate: float) -> float:
    """The probability of at most so many hits."""
    if hits < 0:
        return 0.0
    if hits >= n or rate <= 0:
        return 1.0
    if rate >= 1:
        return 0.0
    # In logarithms: the coefficients of a few thousand lines are greater than any float.
    terms = [
        math.lgamma(n + 1)
        - math.lgamma(k + 1)
        - math.lgamma(n - k + 1)
        + k * math.log(rate)
        + (n - k) * math.log1p(-rate)
        for k in range(hits + 1)
    ]
    greatest = max(terms)
    return min(1.0, math.exp(greatest) * math.fsum([math.exp(term - greatest) for term in terms]))


def _root(function: Callable[[float], float]) -> float:
    """Where a function that rises from below zero crosses it, between 0 and 1."""
    low, high = 0.0, 1.0
    for _ in range(60):  # beyond this the two are neighbouring floats
        middle = (low + high) / 2
        if function(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


class Agreement(Value, frozen=True):
    """Whether two runs called a tool on the same lines: the reference's calls are the truth."""

    both: int = 0
    only_host: int = 0
    only_reference: int = 0
    neither: int = 0

    @property
    def precision(self) -> float | None:
        said = self.both + self.only_host
        return self.both / said if said else None

    @property
    def recall(self) -> float | None:
        due = self.both + self.only_reference
        return self.both / due if due else None

    @property
    def f1(self) -> float | None:
        """2TP / (2TP + FP + FN); None if neither of them ever called."""
        whole = 2 * self.both + self.only_host + self.only_reference
        return 2 * self.both / whole if whole else None


def agreement(pairs: Sequence[tuple[bool, bool]]) -> Agreement:
    """Of (host called, reference called), line by line."""
    return Agreement(
        sum(1 for host, reference in pairs if host and reference),
        sum(1 for host, reference in pairs if host and not reference),
        sum(1 for host, reference in pairs if not host and reference),
        sum(1 for host, reference in pairs if not host and not reference),
    )


def bootstrap(
    lines: Sequence[T],
    statistic: Callable[[Sequence[T]], float | None],
    *,
    seed: int = 1,
    rounds: int = 1000,
    level: float = _LEVEL,
) -> Interval | None:
    """The percentile interval of a statistic over lines drawn with replacement; the same seed gives the same interval.

    Whole lines are drawn, never single answers: answers to one line are alike. None if no draw had a value.
    """
    dice = random.Random(seed)
    values = sorted(
        [
            value
            for _ in range(rounds)
            if (value := statistic(dice.choices(lines, k=len(lines)) if lines else ())) is not None
        ]
    )
    if not values:
        return None
    tail = (1 - level) / 2
    return Interval(_quantile(values, tail), _quantile(values, 1 - tail))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Linear between the two nearest, as most programs have it."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


class McNemar(Value, frozen=True):
    """Lines on which exactly one of two hosts was right, and how improbable such an imbalance is if both are equally good."""

    only_first: int
    only_second: int
    p: float


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> McNemar:
    """The exact, two-sided test on pairs. Lines on which both did the same say nothing about a difference."""
    if len(first) != len(second):
        raise ValueError(f"expected two outcomes for each line, got {len(first)} and {len(second)}")
    one = sum(1 for a, b in zip(first, second, strict=True) if a and not b)
    other = sum(1 for a, b in zip(first, second, strict=True) if b and not a)
    n = one + other
    # Twice the smaller tail; where both are equal, twice the tail counts the middle twice and exceeds 1.
    p = 1.0 if n == 0 else min(1.0, 2 * binomial_cdf(min(one, other), n, 0.5))
    return McNemar(one, other, p)
