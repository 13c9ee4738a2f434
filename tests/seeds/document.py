"""The statements of one of the five documents that the project started from, each with a verdict and a check.

A statement is quoted from its document. It is `yes`, or it `differs`, and then the reason is given; a check runs for either, with
the document's own data and words. A check may stand for several statements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

Check = TypeVar("Check", bound=Callable[[], None])


class Statement(NamedTuple):
    words: str
    check: str
    because: str = ""
    """Why it is otherwise here; empty where it is as the document says."""


class Document:
    def __init__(self, number: str, title: str) -> None:
        self.number = number
        self.title = title
        self.statements: list[Statement] = []
        self.checks: dict[str, Callable[[], None]] = {}

    def yes(self, *words: str) -> Callable[[Check], Check]:
        """It is as these statements say, and this function checks it."""
        return self._register("", words)

    def differs(self, because: str, *words: str) -> Callable[[Check], Check]:
        """It is otherwise than these statements say; this function checks how it is."""
        assert because
        return self._register(because, words)

    def _register(self, because: str, words: tuple[str, ...]) -> Callable[[Check], Check]:
        def register(check: Check) -> Check:
            assert words
            name = check.__name__.strip("_")
            # Decorators are applied from the inside out; the first to come registers the check.
            assert self.checks.setdefault(name, check) is check, f"two checks are called {name}"
            for each in words:
                assert all(each != known.words for known in self.statements), each
                self.statements.append(Statement(each, name, because))
            return check

        return register
