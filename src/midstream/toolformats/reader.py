"""Reading text that arrives in pieces: the Reader that holds it, the Markers it stops at, and filters written as scripts.

A script is a generator that reads from a Reader and yields only where it needs more text. The Reader holds the unread text
and the findings not yet taken. Each character is looked at a bounded number of times, and what a script collects before it
can tell what it is has a limit. A script never sees where a piece ended, except through the text it waits for: so any
split gives the same findings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from functools import lru_cache
from typing import TypeAlias, TypeVar

from ..core.errors import LimitExceeded
from ..core.patterns import late_pattern
from .findings import Finding, Idle

_Tree: TypeAlias = dict[str, "_Tree"]


class Markers:
    """Literal markers, compiled once and shared by many filters.

    `search` finds the first one; `held` tells how much of the end of the text may still become one and must wait. No marker
    may begin another, so the first match is the only match and any split of the text finds the same markers. Both are one
    pattern made from the tree of the markers' letters: no letter is tried twice at one place.
    """

    __slots__ = ("_beginning", "_longest", "_whole", "firsts", "words")

    def __init__(self, *words: str) -> None:
        self.words = words
        self.firsts = "".join(sorted({word[0] for word in words}))
        """The characters that a marker begins with."""
        self._longest = max([len(word) for word in words], default=1)
        self._whole = re.compile(pattern(words))
        self._beginning = re.compile(_pattern(_tree(words), r"\Z|"))

    def search(self, text: str, start: int) -> re.Match[str] | None:
        return self._whole.search(text, start)

    def held(self, text: str, start: int) -> int:
        """How many characters at the end of `text`, after `start`, are the beginning of a marker."""
        # Only where a marker could still be unfinished: in the last characters, one fewer than the longest has.
        match = self._beginning.search(text, max(start, len(text) - self._longest + 1))
        return len(text) - match.start() if match else 0


# Filters of a dialect differ only in their tags, so few sets of markers exist.
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
            # Checked when a format is defined. `<tool` beside `<tool_call`
            # would match or not depending on what has arrived.
            if (number + 1 == len(word) and node) or (not fresh and not node):
                raise ValueError(
                    f"marker {word!r} begins another marker or is begun by one: the match would depend on the split"
                )
    return root


# A tree of letters, not a list of words, because the same shape serves twice: as it is it matches a whole marker, and with the
# end of the text allowed after each letter (`here`) it matches whatever may still become one.
def _pattern(node: _Tree, here: str) -> str:
    """The pattern of a tree; `here` is what may stand in the place of a letter inside a word."""
    # No words: a pattern that never matches, so callers need no special case.
    if not node:
        return r"(?!)"
    branches: list[str] = []
    for char, below in node.items():
        inner = f"(?:{here}{_pattern(below, here)})" if below and here else _pattern(below, here) if below else ""
        branches.append(re.escape(char) + (inner if below or not here else r"(?!)"))
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


MAX_COLLECTED = 16 * 1024 * 1024
"""How much of one call may wait for its end."""

_SPACES = late_pattern(r"\s*+")

# A generator is the whole trick: a script reads as if the text were all there, and is suspended wherever it is not. No
# state machine has to be written, and nothing in a script depends on where a piece was cut.
T = TypeVar("T")
Step: TypeAlias = Generator[None, None, T]


class Collected:
    """Text gathered until it can be judged, up to a limit."""

    __slots__ = ("_limit", "_size", "parts")

    def __init__(self, limit: int = MAX_COLLECTED) -> None:
        self.parts: list[str] = []
        self._size = 0
        self._limit = limit

    def add(self, piece: str) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            raise LimitExceeded(f"a tool call written as text is longer than {self._limit} characters")
        self.parts.append(piece)

    @property
    def text(self) -> str:
        return "".join(self.parts)


class Reader:
    """The unread text of a stream and the findings made in it.

    `rescue` says that this text should hold no calls: they are read out of it only because a host leaks them.
    """

    __slots__ = ("buffer", "ended", "idle", "out", "pos", "rescue", "rewound", "unclosed")

    def __init__(self, *, rescue: bool = False) -> None:
        self.rescue = rescue
        self.buffer = ""
        self.pos = 0
        self.ended = False
        # See json_text: whether the text was pushed back for a
        # second reading. Once is enough, and keeps the cost linear.
        self.rewound = False
        self.idle: Idle | None = None  # set by a script while all it does is pass text on
        self.unclosed = False  # set by a script at its end, see TextFilter
        self.out: list[Finding] = []

    def add(self, text: str) -> None:
        # What was read is dropped here and only here: one copy for each piece, not one for each marker.
        self.buffer = self.buffer[self.pos :] + text if self.pos < len(self.buffer) else text
        self.pos = 0

    def push_back(self, text: str) -> None:
        """Put text back to be read again. Do this a bounded number of times, or with bounded text: the cost must stay linear."""
        self.buffer = text + self.buffer[self.pos :]
        self.pos = 0

    def unread(self, marker: str) -> None:
        """Put back the marker that was just read."""
        if self.buffer.endswith(marker, 0, self.pos):
            self.pos -= len(marker)
        else:
            self.push_back(marker)

    def until(self, markers: Markers, sink: Callable[[str], object]) -> Step[str | None]:
        """Pass text to `sink` up to the next marker and past it; the marker, or None at the end of the stream."""
        while True:
            buffer, pos = self.buffer, self.pos
            match = markers.search(buffer, pos)
            # At the end nothing is held back: a beginning of a marker that gets no more letters is text.
            end = match.start() if match else len(buffer) - (0 if self.ended else markers.held(buffer, pos))
            if end > pos:
                sink(buffer[pos:end])
            if match:
                self.pos = match.end()
                return match[0]
            self.pos = end
            if self.ended:
                return None
            yield

    def peek(self, size: int) -> Step[str]:
        """The next `size` characters, unread; fewer only at the end of the stream."""
        while len(self.buffer) - self.pos < size and not self.ended:
            yield
        return self.buffer[self.pos : self.pos + size]

    def head(self, stop: re.Pattern[str], limit: int) -> Step[str]:
        """The text up to the first `stop`, unread; at most `limit` characters, fewer where the stream ends."""
        while True:
            # The end position bounds the search, so that a match never depends on text beyond the limit having arrived.
            match = stop.search(self.buffer, self.pos, self.pos + limit)
            if match:
                return self.buffer[self.pos : match.start()]
            if len(self.buffer) - self.pos >= limit or self.ended:
                return self.buffer[self.pos : self.pos + limit]
            yield

    def spaces(self) -> Step[str]:
        """Read white space; gives it back."""
        taken: list[str] = []
        while True:
            match = _SPACES.match(self.buffer, self.pos)
            assert match
            taken.append(match[0])
            self.pos = match.end()
            # More blanks may follow in the next piece.
            if self.pos < len(self.buffer) or self.ended:
                return "".join(taken)
            yield


class ScriptFilter:
    """A TextFilter run by a script."""

    __slots__ = ("_done", "_reader", "_steps")

    def __init__(self, script: Callable[[Reader], Step[None]], *, rescue: bool = False) -> None:
        self._reader = Reader(rescue=rescue)
        self._steps = script(self._reader)
        self._done = False
        # Run to the first place where it waits: feeding can then always resume it.
        next(self._steps)

    @property
    def idle(self) -> Idle | None:
        reader = self._reader
        # Unread text may be the beginning of a marker; then nothing may go past it.
        return reader.idle if reader.pos >= len(reader.buffer) else None

    @property
    def unclosed(self) -> bool:
        return self._reader.unclosed

    def feed(self, text: str) -> list[Finding]:
        if not text:
            return []
        self._reader.add(text)
        # The default is for a script that has ended: more text changes nothing.
        next(self._steps, None)
        return self._take()

    def close(self) -> list[Finding]:
        if self._done:
            return []
        self._done = True
        self._reader.ended = True
        for _ in self._steps:
            raise AssertionError("a script waited for more text after the end of the stream")
        return self._take()

    def _take(self) -> list[Finding]:
        out = self._reader.out
        self._reader.out = []
        return out
