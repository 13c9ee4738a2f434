"""A set of literal markers to look for in text that comes in portions.

`search` finds the first one; `held` says how much of the end of the text may still become one and must wait. No marker may
begin another, so the first match is the only match and any split of the text finds the same markers.
"""

from __future__ import annotations

import re


class Markers:
    """Literal markers, compiled once per format and shared by all its filters."""

    __slots__ = ("_first", "_longest", "_pattern", "_prefixes", "words")

    def __init__(self, *words: str) -> None:
        for word in words:
            for other in words:
                if other is not word and other.startswith(word):
                    raise ValueError(
                        f"marker {word!r} begins marker {other!r}: the first match would depend on the split"
                    )
        self.words = words
        self._pattern = re.compile("|".join([re.escape(word) for word in words]) or r"(?!)")
        self._prefixes = frozenset([word[:size] for word in words for size in range(1, len(word))])
        self._longest = max([len(word) for word in words], default=1)
        self._first = re.compile("[" + "".join([re.escape(word[0]) for word in words]) + "]" if words else r"(?!)")

    def search(self, text: str, start: int) -> re.Match[str] | None:
        return self._pattern.search(text, start)

    def held(self, text: str, start: int) -> int:
        """How many characters at the end of `text`, after `start`, are the beginning of a marker."""
        at = max(start, len(text) - self._longest + 1)
        while match := self._first.search(text, at):
            at = match.start()
            if text[at:] in self._prefixes:
                return len(text) - at
            at += 1
        return 0
