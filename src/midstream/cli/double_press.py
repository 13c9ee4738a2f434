"""Ctrl-C twice quits: the first press arms for two seconds, and typing anything disarms it."""

from __future__ import annotations

import time
from collections.abc import Callable

ARMED_SECONDS = 2.0


class DoublePress:
    """Tells a second press from a first one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._armed_until: float | None = None

    def press(self) -> bool:
        """Whether this press follows another closely. If not, it arms."""
        now = self._clock()
        if self._armed_until is not None and now <= self._armed_until:
            return True
        self._armed_until = now + ARMED_SECONDS
        return False

    def disarm(self) -> None:
        self._armed_until = None
