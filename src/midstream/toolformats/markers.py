"""A set of literal markers to look for in text that comes in portions.

`search` finds the first one; `held` says how much of the end of the text may still become one and must wait. No marker may
begin another, so the first match is the only match and any split of the text finds the same markers. Both are one pattern
made from the tree of the markers' letters: no letter is tried twice at one place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

_Tree: TypeAlias = dict[str, "_Tree"]


class Markers:
    """Literal markers, compiled once and shared by many filters."""

    __slots__ = ("_beginning", "_longest", "_whole", "words")

    def __init__(self, *words: str) -> None:
        self.words = words
        self._longest = max([len(word) for word in words], default=1)
        self._whole = re.compile(pattern(words))
        self._beginning = re.compile(_pattern(_tree(words), r"\Z|"))

    def search(self, text: str, start: int) -> re.Match[str] | None:
        return self._whole.search(text, start)

    def held(self, text: str, start: int) -> int:
        """How many characters at the end of `text`, after `start`, are the beginning of a marker."""
        match = self._beginning.search(text, max(start, len(text) - self._longest + 1))
        return len(text) - match.start() if match else 0


@lru_cache(maxsize=256)
def markers(*words: str) -> Markers:
    """The compiled markers for these words, made once."""
    return Markers(*words)


def pattern(words: Iterable[str]) -> str:
    """A pattern for any of these words."""
    return _pattern(_tree(words), "")


def _tree(words: Iterable[str]) -> _Tree:
    root: _Tree = {}
    for word in words:
        node = root
        for number, char in enumerate(word):
            fresh = char not in node
            node = node.setdefault(char, {})
            if (number + 1 == len(word) and node) or (not fresh and not node):
                raise ValueError(
                    f"marker {word!r} begins another marker or is begun by one: the match would depend on the split"
                )
    return root


def _pattern(node: _Tree, here: str) -> str:
    """The pattern of a tree; `here` is what may stand in the place of a letter inside a word."""
    if not node:
        return r"(?!)"
    branches: list[str] = []
    for char, below in node.items():
        inner = f"(?:{here}{_pattern(below, here)})" if below and here else _pattern(below, here) if below else ""
        branches.append(re.escape(char) + (inner if below or not here else r"(?!)"))
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
