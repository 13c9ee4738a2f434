"""How much a key may spend, and until when: `20/month`, the window that a moment falls into, and when the window ends.

Money is counted in whole micro-dollars, so that sums are exact. Windows are calendar days and months in UTC.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

from ..core.blocks import Value
from ..core.errors import ConfigError

SpendWindow: TypeAlias = Literal["day", "month", "total"]
SPEND_WINDOWS: tuple[SpendWindow, ...] = get_args(SpendWindow)
MICRO = 1_000_000

_BUDGET = re.compile(r"\$?(\d{1,9}(?:\.\d{1,6})?)(?:/(\w+))?\Z")


class Budget(Value, frozen=True):
    """US dollars in a window."""

    dollars: float
    window: SpendWindow = "month"

    def __str__(self) -> str:
        return show_budget(self.dollars, self.window)


def parse_budget(text: str) -> Budget:
    """`20/month`, `$0.5/day`, `100/total`; without a window it is a month."""
    match = _BUDGET.match(text.strip())
    window = next((each for each in SPEND_WINDOWS if match and each == (match[2] or "month")), None)
    if match is None or window is None:
        raise ConfigError(
            f"invalid spend {text!r}; expected dollars and a window, such as 20/month, 0.50/day or 100/total"
        )
    return Budget(float(match[1]), window)


def show_budget(dollars: float, window: str) -> str:
    """`$20 a month`, `$0.50 a day`, `$100 in total`."""
    return f"{show_dollars(dollars).removesuffix('.00')} {'in total' if window == 'total' else f'a {window}'}"


def show_dollars(dollars: float) -> str:
    """`$20.00`, `$3.21`, `$0.000125`: whole cents from a dollar on, and below it every micro-dollar that counts."""
    cents = f"{dollars:.2f}"
    if dollars < 1 and float(cents) != dollars:
        return "$" + f"{dollars:.6f}".rstrip("0")
    return f"${cents}"


def micro_dollars(dollars: float) -> int:
    """Whole micro-dollars, rounded up: what was spent is never counted as nothing."""
    # Rounded first: 0.1 * 1_000_000 may be a hair above a whole number, and `ceil` would add one.
    return math.ceil(round(dollars * MICRO, 3))


def window_key(window: str, now: float) -> str:
    """The name of the window that a moment falls into: `2026-11-16`, `2026-11` or `total`."""
    if window == "total":
        return "total"
    return _calendar_key(window, int(now // 86_400))


@lru_cache(maxsize=64)  # asked for with every request
def _calendar_key(window: str, day: int) -> str:
    return datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m-%d" if window == "day" else "%Y-%m")


def window_end(window: str, now: float) -> float | None:
    """When that window ends; None for one that never does."""
    if window == "total":
        return None
    today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if window == "day":
        return (today + timedelta(days=1)).timestamp()
    # The first of the month plus 32 days is always in the next month.
    return (today.replace(day=1) + timedelta(days=32)).replace(day=1).timestamp()
