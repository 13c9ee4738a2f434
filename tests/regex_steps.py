"""How much work a regular expression does on a text: the items that a backtracking matcher tries, counted.

The engine in C counts nothing and a clock is not a test. This tries the parsed pattern as that engine does (alternatives in order,
repetitions longest first), without its shortcuts for literal beginnings, so what is linear here is linear there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}


def search_steps(pattern: str, text: str) -> int:
    """The steps of finding every match in the text, as `finditer` does."""
    walk = _Walk(text)
    items, at = list(_parser.parse(pattern)), 0
    while at <= len(text):
        end = next(walk.sequence(items, at), None)
        at = at + 1 if end is None or end == at else end
    return walk.steps


class _Walk:
    def __init__(self, text: str) -> None:
        self.text = text
        self.steps = 0

    def sequence(self, items: Sequence[Any], at: int) -> Iterator[int]:
        """Where a match of all the items that begins here may end, the preferred end first."""
        if not items:
            yield at
            return
        for end in self._item(items[0], at):
            yield from self.sequence(items[1:], end)

    def _item(self, item: Any, at: int) -> Iterator[int]:
        kind, value = item
        if kind in (op.LITERAL, op.NOT_LITERAL, op.IN, op.ANY):
            self.steps += 1
            if at < len(self.text) and _takes(kind, value, self.text[at]):
                yield at + 1
        elif kind is op.BRANCH:
            for branch in value[1]:
                yield from self.sequence(list(branch), at)
        elif kind is op.SUBPATTERN:
            yield from self.sequence(list(value[3]), at)
        elif kind is op.MAX_REPEAT:
            yield from self._repeat(*value, at)
        elif kind is op.POSSESSIVE_REPEAT:
            yield from _first(self._repeat(*value, at))
        elif kind is op.ATOMIC_GROUP:
            yield from _first(self.sequence(list(value), at))
        elif kind in (op.ASSERT, op.ASSERT_NOT):
            direction, inner = value
            begin = at - inner.getwidth()[0] if direction < 0 else at
            found = begin >= 0 and next(self.sequence(list(inner), begin), None) is not None
            if found is (kind is op.ASSERT):
                yield at
        else:
            raise NotImplementedError(f"{kind} in a pattern; teach it to {__name__}")

    def _repeat(self, least: int, most: int, inner: Any, at: int) -> Iterator[int]:
        items, ends = list(inner), [at]
        tried = [self.sequence(items, at)]
        while tried:
            end = next(tried[-1], None) if len(tried) <= most else None
            if end is not None and end > ends[-1]:
                ends.append(end)
                tried.append(self.sequence(items, end))
                continue
            tried.pop()
            end = ends.pop()
            if len(tried) >= least:
                yield end


def _first(ends: Iterator[int]) -> Iterator[int]:
    end = next(ends, None)
    if end is not None:
        yield end


def _takes(kind: Any, value: Any, character: str) -> bool:
    code = ord(character)
    if kind is op.LITERAL:
        return bool(code == value)
    if kind is op.NOT_LITERAL:
        return bool(code != value)
    if kind is op.ANY:
        return character != "\n"
    negated = value[0][0] is op.NEGATE
    for part, argument in value:
        if (
            (part is op.LITERAL and code == argument)
            or (part is op.RANGE and argument[0] <= code <= argument[1])
            or (part is op.CATEGORY and re.match(_CATEGORIES[argument], character))
        ):
            return not negated
    return negated
