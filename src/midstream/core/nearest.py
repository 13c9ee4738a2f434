"""What somebody may have meant by a name that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], n: int = 1, cutoff: float = 0.6) -> list[str]:
    """The known names that are most like it, the best first; none if all are too different."""
    import difflib  # here: nobody who spells well needs it

    return difflib.get_close_matches(name, list(known), n, cutoff)
