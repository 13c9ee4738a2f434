"""Search: the words of a text and the queries they match, the same for every store.

A word is a run of letters and digits, without case or accents; `get_weather` is two words. Chinese and Japanese have no spaces
between words, so there each character is a word. A query is divided at white space: every part must occur with its words side
by side, and the very last word may be a prefix.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from ..core.blocks import Text, ToolCall, ToolResponse, Turn

MAX_QUERY_WORDS = 64
_SNIPPET = 160

_UNSPACED = (
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = rf"[{_UNSPACED}]|[^\W_{_UNSPACED}](?:[\u0300-\u036f]|[^\W_{_UNSPACED}])*"


@cache
def _word() -> re.Pattern[str]:
    """Compiled when a text is first indexed: it takes longer than most modules do to import."""
    return re.compile(_WORD)


class Word(NamedTuple):
    folded: str
    start: int
    end: int


def words(text: str) -> Iterator[Word]:
    """The words of a text, in order."""
    for match in _word().finditer(text):
        yield Word(_fold(match[0]), match.start(), match.end())


def _fold(word: str) -> str:
    if word.isascii():
        return word.lower()
    bare = [char for char in unicodedata.normalize("NFKD", word.casefold()) if not unicodedata.combining(char)]
    return unicodedata.normalize("NFC", "".join(bare)).casefold() or word


def folded(text: str) -> list[str]:
    return [word.folded for word in words(text)]


def searchable(turn: Turn) -> str:
    """The text of a turn that can be searched: its text, tool names, arguments and results."""
    parts: list[str] = []
    for block in turn.blocks:
        if type(block) is Text:
            parts.append(block.text)
        elif type(block) is ToolCall:
            parts += [block.name, block.arguments]
        elif type(block) is ToolResponse:
            parts += [block.name, block.text]
    return "\n".join(parts)


class Query:
    """A search: `phrases` of folded words, of which the very last is a prefix."""

    __slots__ = ("phrases",)

    def __init__(self, text: str) -> None:
        self.phrases: list[list[str]] = []
        left = MAX_QUERY_WORDS
        for chunk in text.split():
            phrase = folded(chunk)[:left]
            if phrase:
                self.phrases.append(phrase)
                left -= len(phrase)

    def __bool__(self) -> bool:
        return bool(self.phrases)

    def matches(self, held: Sequence[str]) -> bool:
        """Whether every phrase is somewhere in these words."""
        return all(next(self._places(index, held), None) is not None for index in range(len(self.phrases)))

    def snippet(self, text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
        """The text around the first match, and the positions of all matches within it."""
        held = list(words(text))
        plain = [word.folded for word in held]
        first = next(self._places(0, plain), None) if self.phrases else None
        start = held[first].start if first is not None else 0
        begin = max(0, start - _SNIPPET // 4)
        window = text[begin : begin + _SNIPPET]
        marks = {
            (held[place].start - begin, held[place + len(phrase) - 1].end - begin)
            for index, phrase in enumerate(self.phrases)
            for place in self._places(index, plain)
            if begin <= held[place].start and held[place + len(phrase) - 1].end <= begin + len(window)
        }
        return window, tuple(sorted(marks))

    def _places(self, index: int, held: Sequence[str]) -> Iterator[int]:
        """The positions in `held` where the phrase begins."""
        phrase = self.phrases[index]
        *whole, last = phrase
        open_end = index == len(self.phrases) - 1
        for place in range(len(held) - len(phrase) + 1):
            final = held[place + len(whole)]
            if (final.startswith(last) if open_end else final == last) and all(
                held[place + step] == word for step, word in enumerate(whole)
            ):
                yield place
