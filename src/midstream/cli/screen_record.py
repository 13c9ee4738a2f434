"""What the live view has printed that is still on the screen, so that it can be printed anew in the same place.

A terminal can be overwritten only where it is still on the screen: what has scrolled away stays as it is. So the record ends
where something else was written (a line that a human typed, a question), and does not count when the window was resized.
"""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.control import Control
from rich.segment import ControlType

_SPARE = 2  # rich writes an empty line below the live part when it stops


class ScreenRecord:
    """The parts that were printed one below the other, from a place that is known by counting lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.forget()

    def forget(self) -> None:
        """Begin anew: what was printed so far is no longer directly above the cursor."""
        self.parts: list[RenderableType] = []
        self._lines = 0
        self._extent = 0
        self._width = self._console.width

    def add(self, part: RenderableType) -> None:
        """A part that is printed now."""
        if not self.parts:
            self._width = self._console.width
        self.parts.append(part)
        self._lines += len(self._console.render_lines(part, pad=False))
        self.painted(0)

    def painted(self, lines: int) -> None:
        """So many lines are painted below the record for the moment. Where they made the screen scroll, it stays scrolled."""
        self._extent = max(self._extent, self._lines + lines + _SPARE)

    def is_on_screen(self, rows_above: int | None = None) -> bool:
        """Whether all of it can be overwritten. `rows_above`: how many rows are above the cursor, if somebody knows."""
        # After a resize the terminal has wrapped the lines anew, and nobody knows how many there are.
        if not self.parts or self._width != self._console.width:
            return False
        return self._extent <= self._console.height if rows_above is None else self._lines <= rows_above

    def take_back(self) -> list[RenderableType]:
        """Erase it from the screen, with all that is below, and hand over its parts to be printed again."""
        parts, lines = self.parts, self._lines
        self._console.control(Control((ControlType.CURSOR_MOVE_TO_COLUMN, 0)))
        if lines:
            self._console.control(Control((ControlType.CURSOR_UP, lines)))
        self._console.file.write("\x1b[J")
        self.forget()
        return parts
