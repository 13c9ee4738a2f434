"""A clock that is set by hand."""

from __future__ import annotations


class Clock:
    """Call it for the time; `pass_` moves it."""

    def __init__(self, time: float = 1_794_830_400.0) -> None:  # 2026-11-16 12:00:00 UTC, the begin of a minute
        self.time = time

    def __call__(self) -> float:
        return self.time

    def pass_(self, seconds: float) -> None:
        self.time += seconds
