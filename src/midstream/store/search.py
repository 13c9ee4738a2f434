"""Search: the words of a text and the queries they match, the same for every store.

A word is a run of letters and digits, without case or accents; `get_weather` is two words. Chinese and Japanese have no spaces
between words, so there each character is a word. A query is divided at white space: every part must occur with its words side
by side, and the very last word may be a prefix.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import islice
from typing import NamedTuple

import msgspec

from ..core.blocks import Text, ToolCall, ToolResponse, Turn

# A pasted page as a query must not become a pattern of thousands of parts.
MAX_QUERY_WORDS = 64
_SNIPPET = 160
_PIECE = 1024

# CJK radicals, kana, bopomofo, ideographs and their extensions. Hangul is not here: Korean puts spaces between words.
_UNSPACED = (
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_SPACED_WORD = rf"[^\W_{_UNSPACED}](?:[\u0300-\u036f]|[^\W_{_UNSPACED}])*"
# Text may be megabytes of a tool's output: it is folded by the run, by table, and not word by word wherever that gives the same.
_ASCII = bytes([ord(chr(code).lower()) if chr(code).isalnum() and code < 128 else 32 for code in range(256)])


@cache
def _word() -> re.Pattern[str]:
    """Compiled when a text is first indexed: it takes longer than most modules do to import."""
    return re.compile(rf"[{_UNSPACED}]|{_SPACED_WORD}")


@cache
def _run() -> re.Pattern[str]:
    """A word, or (group 1) characters that are a word each."""
    return re.compile(rf"([{_UNSPACED}]+)|{_SPACED_WORD}")


@cache
def _unspaced() -> re.Pattern[str]:
    """In folded text: words that begin with a character of an unspaced script, side by side."""
    return re.compile(rf"(?<![^ ])(?:[{_UNSPACED}][^ ]* *)+")


@cache
def _character() -> re.Pattern[str]:
    return re.compile(f"[{_UNSPACED}]+")


class Word(NamedTuple):
    folded: str
    start: int
    end: int


def words(text: str) -> Iterator[Word]:
    """The words of a text, in order."""
    for match in _word().finditer(text):
        yield Word(_fold(match[0]), match.start(), match.end())


@lru_cache(maxsize=1 << 14)
def _fold(word: str) -> str:
    if word.isascii():
        return word.lower()
    # Decomposed, accents are characters of their own and can be dropped. Case is folded again afterwards,
    # because composing may give a character that has a folded form.
    bare = [char for char in unicodedata.normalize("NFKD", word.casefold()) if not unicodedata.combining(char)]
    return unicodedata.normalize("NFC", "".join(bare)).casefold() or word


class _FoldedCharacters(dict[int, str]):
    """For `str.translate`: a character that is a word, folded."""

    def __missing__(self, code: int) -> str:
        self[code] = _fold(chr(code))
        return self[code]


_CHARACTERS = _FoldedCharacters()


def folded(text: str) -> list[str]:
    return folded_text(text).split()


def folded_text(text: str) -> str:
    """The words of a text, folded, with spaces between them: what an index holds. Of ASCII each stands where it stood."""
    if text.isascii():
        return text.encode().translate(_ASCII).decode()
    return " ".join([part for piece in _pieces(text) if (part := _folded_piece(piece))])


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces that end at a space: in a long text most of them are ASCII."""
    begin = 0
    while begin < len(text):
        end = text.find(" ", begin + _PIECE) + 1 or len(text)
        yield text[begin:end]
        begin = end


def _folded_piece(text: str) -> str:
    if text.isascii():
        return " ".join(text.encode().translate(_ASCII).decode().split())
    parts: list[str] = []
    for match in _run().finditer(text):
        run = match[0]
        if match.lastindex is None:
            parts.append(
                # A very long "word" (base64, say) is folded without the cache: it would only push others out of it.
                run.lower() if run.isascii() else _fold(run) if len(run) < _SNIPPET else _fold.__wrapped__(run)
            )
            continue
        bare = run.translate(_CHARACTERS)  # a few characters are two when folded, and still one word
        parts.append(" ".join(bare if len(bare) == len(run) else [_CHARACTERS[ord(char)] for char in run]))
    return " ".join(parts)


_ONE = "\u4e00"
GAP = "|"
"""In folded text, where words stood that are indexed elsewhere: no word, so that those around it are not side by side."""


def is_unspaced(word: str) -> bool:
    """Whether a folded word begins with a character of a script without spaces between words."""
    return _unspaced().match(word) is not None


def indexed(text: str) -> tuple[str, str]:
    """The words of a text for an index of two parts: those of spaced scripts, and the others, each once, in no order."""
    if text.isascii():
        return folded_text(text), ""
    characters = "".join(_character().findall("".join(set(text))))
    # One character stands for all that follow it: they need not be folded where they are, only once each.
    held = folded_text(_character().sub(_ONE, text) if characters else text)
    spaced = _unspaced().sub(GAP + " ", held)
    if spaced == held:
        return held, ""
    # What else begins with such a character when folded: half-width katakana, say.
    found = {word for run in _unspaced().findall(held) for word in run.split()} - {_ONE}
    bare = characters.translate(_CHARACTERS)
    if " " in bare or len(bare) != len(characters):
        found.update(*[_CHARACTERS[ord(char)].split() for char in characters])
    else:
        found.update(bare)
    return spaced if spaced.strip(GAP + " ") else "", " ".join(found)


def searchable(turn: Turn) -> str:
    """The text of a turn that can be searched: its text, tool names, arguments and results."""
    parts: list[str] = []
    for block in turn.blocks:
        if type(block) is Text:
            parts.append(block.text)
        elif type(block) is ToolCall:
            parts += [block.name, _as_read(block.arguments)]
        elif type(block) is ToolResponse:
            parts += [block.name, block.text]
    return "\n".join(parts)


def _as_read(arguments: str) -> str:
    """Arguments in the words that a person reads in them: JSON may write `ü` as six signs, and every line's end as a letter that
    sticks to the next word."""
    if "\\" not in arguments:
        return arguments
    try:
        waiting = [msgspec.json.decode(arguments)]
    except (ValueError, RecursionError):
        return arguments
    said: list[str] = []
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [each for pair in reversed(value.items()) for each in reversed(pair)]
        elif isinstance(value, list):
            waiting += reversed(value)
        else:
            said.append(value if isinstance(value, str) else msgspec.json.encode(value).decode())
    return "\n".join(said)


class Query:
    """A search: `phrases` of folded words, of which the very last is a prefix."""

    __slots__ = ("_patterns", "phrases")

    def __init__(self, text: str) -> None:
        self.phrases: list[list[str]] = []
        left = MAX_QUERY_WORDS
        for chunk in text.split():
            phrase = folded(chunk)[:left]
            if phrase:
                self.phrases.append(phrase)
                left -= len(phrase)
        self._patterns = [
            re.compile(
                # Whole words between spaces. " +" because folded ASCII keeps its places, with a space for
                # every sign. The last phrase has no end, which makes its last word a prefix.
                "(?<![^ ])" + " +".join(map(re.escape, phrase)) + ("(?![^ ])" if index < len(self.phrases) - 1 else "")
            )
            for index, phrase in enumerate(self.phrases)
        ]

    def __bool__(self) -> bool:
        return bool(self.phrases)

    def matches(self, held: str) -> bool:
        """Whether every phrase is somewhere in this folded text."""
        return all(pattern.search(held) for pattern in self._patterns)

    def snippet(self, text: str) -> tuple[str, tuple[tuple[int, int], ...]]:
        """The text around the first match, and the positions of all matches within it."""
        start = self._first(text)
        begin = max(0, start - _SNIPPET // 4)
        window = text[begin : begin + _SNIPPET]
        # A few characters before it, so that a word that begins there is not taken for its end.
        around = max(0, begin - _SNIPPET)
        held = [
            Word(word.folded, word.start + around, word.end + around)
            for word in words(text[around : begin + 2 * _SNIPPET])
            if not (around and word.start == 0)
        ]
        plain = [word.folded for word in held]
        marks = {
            (held[place].start - begin, held[place + len(phrase) - 1].end - begin)
            for index, phrase in enumerate(self.phrases)
            for place in self._places(index, plain)
            if begin <= held[place].start and held[place + len(phrase) - 1].end <= begin + len(window)
        }
        return window, tuple(sorted(marks))

    def _first(self, text: str) -> int:
        """Where the first phrase begins for the first time; 0 if nowhere."""
        held = folded_text(text) if self.phrases else ""
        found = self._patterns[0].search(held) if held else None
        if found is None:
            return 0
        if text.isascii():
            return found.start()
        # Outside ASCII folding moves characters, so positions do not carry over; the number of the word does.
        number = held.count(" ", 0, found.start())
        match = next(islice(_word().finditer(text), number, None), None)
        return 0 if match is None else match.start()

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
