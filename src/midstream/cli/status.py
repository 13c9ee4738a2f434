"""The figures of an answer: how long, by whom, how many tokens, what it cost."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable

from ..client.session import Session, TurnCost
from ..client.tokens import estimate_text

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Status:
    """The line beside a spinner. Tokens are an estimate until the host has counted them."""

    def __init__(self, model: str, cost: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.model = model
        self.doing = ""
        self._cost = cost
        self._clock = clock
        self._began = clock()
        self._tokens = 0
        self._frames = itertools.cycle(FRAMES)

    def add(self, text: str) -> None:
        self._tokens += max(1, estimate_text(text) - 1) if text else 0

    @property
    def seconds(self) -> float:
        return self._clock() - self._began

    def line(self) -> str:
        parts = [f"{next(self._frames)} {self.seconds:.1f} s", self.model]
        if self._tokens:
            parts.append(f"~{self._tokens} tokens")
        if self._cost:
            parts.append(money(self._cost))
        if self.doing:
            parts.append(self.doing)
        return " · ".join(parts)


def total_cost(costs: Iterable[TurnCost]) -> float | None:
    """The sum of what is known; None when nothing is."""
    known = [each.cost for each in costs if each.cost is not None]
    return sum(known) if known else None


def money(dollars: float) -> str:
    return f"${dollars:.4f}" if dollars < 1 else f"${dollars:.2f}"


def summary(session: Session, first_turn: int, seconds: float) -> str:
    """One line about the answers since `first_turn`."""
    costs = session.costs(first_turn)
    read = sum(each.usage.read for each in costs)
    written = sum(each.usage.output for each in costs)
    parts = [session.model, f"{read:,} in, {written:,} out"]
    cost = total_cost(costs)
    if cost is not None:
        parts.append(money(cost))
    return " · ".join([*parts, f"{seconds:.1f} s"])
