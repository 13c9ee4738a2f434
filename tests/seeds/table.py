"""One table of the requirements that the project started from, in the words of the documents that set them.

A requirement is `checked` by a function, or it is `not_run` and the table says why. Where midstream does the same in another
way, `differs` says how. A requirement stands in the table once, and only one that is checked can differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Check = TypeVar("Check", bound=Callable[[], None])


class Table:
    def __init__(self, *, not_run: dict[str, str], differs: dict[str, str]) -> None:
        self.checks: dict[str, Callable[[], None]] = {}
        self.not_run = not_run
        self.differs = differs

    def checked(self, *words: str) -> Callable[[Check], Check]:
        """This function checks the requirements of these words."""

        def register(check: Check) -> Check:
            for each in words:
                assert each not in self.checks, each
                self.checks[each] = check
            return check

        return register
