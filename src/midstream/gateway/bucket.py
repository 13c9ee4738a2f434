"""A token bucket: at most `size` at once, and `size` more with every period."""

from __future__ import annotations


class Bucket:
    """Full at first. The caller brings the time, in seconds of a clock that never goes back."""

    __slots__ = ("_level", "_rate", "_then", "size")

    def __init__(self, size: int, now: float, period: float = 1.0) -> None:
        self.size = size
        self._rate = size / period
        self._level = float(size)
        self._then = now

    def take(self, now: float) -> bool:
        """Whether there was one left; it is gone now."""
        self._fill(now)
        if self._level < 1.0:
            return False
        self._level -= 1.0
        return True

    def give_back(self) -> None:
        """One that was taken was not needed."""
        self._level = min(self.size, self._level + 1.0)

    def wait(self, now: float) -> float:
        """Seconds until there is one."""
        self._fill(now)
        return max(0.0, (1.0 - self._level) / self._rate)

    def _fill(self, now: float) -> None:
        if now > self._then:
            level = self._level + (now - self._then) * self._rate
            # Never above the size: an idle hour must not become a burst of an hour's requests.
            self._level = level if level < self.size else float(self.size)
            self._then = now
