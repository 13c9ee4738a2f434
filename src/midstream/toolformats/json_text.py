"""JSON inside a stream of text: where it ends, knowing that a marker inside a JSON string is data.

`json_until` reads up to an end marker outside strings. A model that forgets to escape a quote turns the strings
inside out and would swallow every later marker; so when the text does not end as JSON, it is cut at the first marker inside
a "string" that another marker or the end follows, and from there on strings are no longer trusted (once per stream, which
keeps the cost linear). `bracketed` reads one balanced value where a format has no end marker.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from ..core.patterns import late_pattern
from .reader import Collected, Markers, Reader, Step, pattern

# Keyed by which quotes open a string: JSON's, or Python's two. Round brackets count only in Python.
_OUTSIDE = {'"': late_pattern(r'["{}\[\]]'), "\"'": late_pattern(r"[\"'{}\[\]()]")}
# A quote that follows a backslash does not close: the pair is one match.
_STRING = {quote: late_pattern(rf"{quote}|\\.", re.DOTALL) for quote in "\"'"}


def parse(text: str) -> Any:
    """The value of a JSON text; ValueError for anything else, however hostile."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise ValueError(str(error)) from None


def is_json(text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


class JsonEnds:
    """The markers that end a JSON text, compiled."""

    __slots__ = ("_cut", "held", "outside", "plain", "string")

    # Compiled at once: a format's module is loaded only where the format is used.
    def __init__(self, *words: str) -> None:
        any_word = pattern(words)
        self.plain = Markers(*words)
        self.held = self.plain.held
        self.outside = re.compile(f'"|{any_word}')
        self.string = re.compile(f'"|\\\\.|{any_word}', re.DOTALL)
        # Possessive, so that a long run of blanks is not tried from each of its places.
        self._cut = re.compile(rf"({any_word})\s*+(?:(?={any_word})|\Z)")

    def cut(self, text: str) -> re.Match[str] | None:
        """The first marker that another marker or the end follows."""
        return self._cut.search(text)


def json_until(reader: Reader, ends: JsonEnds, sink: Callable[[str], object], before: str = "") -> Step[str | None]:
    """Pass JSON text to `sink` up to an end marker outside strings and past it; the marker, or None at the end.

    `before` is the part of the JSON that was read already.
    """
    # Strings were found to be broken before in this stream. From then on a marker ends the call wherever it stands.
    if reader.rewound:
        return (yield from reader.until(ends.plain, sink))
    # Text goes to the sink as long as it is certain. The first marker inside a string makes what follows doubtful: it is data
    # if the JSON turns out whole, and the end of the call if a quote was left unescaped. Only the end of the text decides.
    seen = Collected()
    seen.add(before)
    doubtful: Collected | None = None  # the text since the first marker inside a string
    in_string = False
    while True:
        buffer, start = reader.buffer, reader.pos
        # What may still become a marker waits; at the end of the stream nothing can.
        limit = len(buffer) - (0 if reader.ended else ends.held(buffer, start))
        pos, mark, end = start, -1, None
        while match := (ends.string if in_string else ends.outside).search(buffer, pos, limit):
            pos = match.end()
            char = buffer[match.start()]
            if char == '"':
                in_string = not in_string
            elif char != "\\":
                if not in_string:
                    end = match
                    break
                # Remember only the first: from there on everything is doubtful.
                if mark < 0:
                    mark = match.start()
        if end:
            stop = end.start()
        else:
            # An escape cut in half waits for its other half.
            escape = in_string and not reader.ended and limit > pos and buffer[limit - 1] == "\\"
            stop = limit - 1 if escape else limit
        reader.pos = end.end() if end else stop
        if doubtful is not None:
            doubtful.add(buffer[start:stop])
        else:
            sure = stop if mark < 0 else mark
            if sure > start:
                seen.add(buffer[start:sure])
                sink(buffer[start:sure])
            if mark >= 0:
                doubtful = Collected()
                doubtful.add(buffer[mark:stop])
        if end or reader.ended:
            # Without doubt nothing is parsed here at all: the everyday case.
            marker = end[0] if end else None
            return marker if doubtful is None else _settle(reader, ends, sink, seen.text, doubtful.text, marker)
        yield


def _settle(
    reader: Reader, ends: JsonEnds, sink: Callable[[str], object], seen: str, doubtful: str, marker: str | None
) -> str | None:
    """Decide about text that has markers inside strings, now that it has ended.

    What follows the cut is read again, once per stream (`rewound`): otherwise a stream of such texts would cost O(n²).
    """
    cut = None if is_json(seen + doubtful) else ends.cut(doubtful)
    # Whole JSON, so the markers were data; or no place to cut, so nothing better can be said.
    if cut is None:
        sink(doubtful)
        return marker
    if cut.start():
        sink(doubtful[: cut.start()])
    reader.push_back(doubtful[cut.end(1) :] + (marker or ""))
    reader.rewound = True
    return cut[1]


def bracketed(reader: Reader, sink: Callable[[str], object], quotes: str = '"') -> Step[bool]:
    """Read one balanced object, array or list (the reader is at its opening bracket); False when the stream ends inside it.

    `quotes` are the characters that open strings: Python has two.
    """
    # Only brackets are counted, not matched: what does not parse
    # is found out afterwards, and this never has to go back.
    depth = 0
    string: str | None = None
    outside = _OUTSIDE[quotes]
    while True:
        buffer, start = reader.buffer, reader.pos
        pos, stop, done = start, len(buffer), False
        while match := (_STRING[string] if string else outside).search(buffer, pos):
            pos = match.end()
            char = buffer[match.start()]
            if char in quotes:
                string = None if string else char
            elif char in "{[(":
                depth += 1
            elif char != "\\":
                depth -= 1
                if depth <= 0:
                    stop, done = pos, True
                    break
        # An escape cut in half waits for its other half.
        if not done and string and not reader.ended and stop > pos and buffer[stop - 1] == "\\":
            stop -= 1
        if stop > start:
            sink(buffer[start:stop])
        reader.pos = stop
        if done or reader.ended:
            return done
        yield
