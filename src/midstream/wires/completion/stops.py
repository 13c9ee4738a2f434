"""The end of an answer, found by its spelling: what stands behind a stop text is no part of the answer.

The host is told the same stop texts; this is for hosts that send the end token itself, or run on. What may still become
one is held back, at most one stop text long, so any split gives the same answer.
"""

from __future__ import annotations

from ...toolformats.markers import markers


class StopText:
    __slots__ = ("_held", "_stops", "reached")

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = markers(*stops) if stops else None
        self._held = ""
        self.reached = False

    def feed(self, text: str) -> str:
        """What of this, and of what was held back, belongs to the answer for sure."""
        if self._stops is None:
            return text
        if self.reached:
            return ""
        text = self._held + text if self._held else text
        found = self._stops.search(text, 0)
        if found is not None:
            self.reached = True
            self._held = ""
            return text[: found.start()]
        end = len(text) - self._stops.held(text, 0)
        self._held = text[end:]
        return text[:end]

    def close(self) -> str:
        """What was held back and became nothing."""
        held, self._held = self._held, ""
        return held
