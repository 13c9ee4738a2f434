"""Events that differ in one text only, read without reading the rest again.

Within one answer nearly every event repeats the bytes of the one before it, except for the text of its delta, and perhaps a
number or a padding that no reader looks at. A stencil is what stands around those: bytes that fit it, and whose text is one
JSON string, say what the learned event said, with that text in it. So the learned event is told again with the new text, by the
reader that told it first; of the bytes only the text is decoded. What does not fit is read in full.

What may differ is found by asking the reader, not by knowing the wire: an event with a probe in the text's place, and others
in those that were seen to differ, has to be read as the same event with that text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import msgspec

_TEXT, _NUMBER, _PADDING = "text", "number", "padding"
# A number as JSON writes it, and one that every field of numbers can hold; between quotes, what is one string for sure.
_KINDS = {
    _TEXT: rb'("(?:[^"\\\x00-\x1f]++|\\.)*+")',
    _NUMBER: rb"(0|[1-9][0-9]{0,14}+)",
    _PADDING: rb"([ !#-\[\]-~]*+)",
}
_NOTHING: tuple[list[str], int] = ([], 0)
_PROBE = "\u0001stencil"
_OTHER = (b'"stencil"', b"9182736450")  # in place of a string, and of a number, that differs from event to event
_TOKEN = re.compile(rb'("(?:[^"\\]++|\\.)*+"|(?<![\w.+-])(?:0|[1-9][0-9]{0,14})(?![\w.+-]))')
_PREFIX = re.compile(rb"(?:(?:event:[^\r\n]*\r?\n)?data: ?)?")
_SUFFIXES = (b"\n\n", b"\r\n\r\n", b"\n", b"\r\n")
_ANCHOR = 64
"""The longest needle that is searched for: a longer one costs more than comparing the rest of each event."""
_ROWS = 64
"""How many events are read at once, at most: what comes behind them may not fit."""
_MOST_TOKENS = 400
_LARGE = 8 * 1024
"""A larger event is not worth learning from: its text is what costs."""
_MOST = 4
"""How many stencils one answer keeps: calls may come interleaved."""
_PATIENCE = 6
_LONGEST_WAIT = 6
_decode_text = msgspec.json.Decoder(str).decode
_decode_texts = msgspec.json.Decoder(list[str]).decode
_encoded_probe = msgspec.json.encode(_PROBE)


class Template:
    """An event as its reader decoded it, to be told again with another text.

    `event` is all that the reader looks at, without the fields that it never looks at again; `owner` is the part of it that
    holds the text, under `field`. `tell` handles the event with this text in it. `tell_all` handles one event for each text,
    at once, or gives False and does nothing where that is not so simple.
    """

    __slots__ = ("event", "field", "owner", "tell", "tell_all")

    def __init__(
        self,
        event: msgspec.Struct,
        owner: msgspec.Struct,
        field: str,
        tell: Callable[[str], None],
        tell_all: Callable[[list[str]], bool] | None = None,
    ) -> None:
        self.event = event
        self.owner = owner
        self.field = field
        self.tell = tell
        self.tell_all = tell_all

    def is_same(self, other: Template, text: str) -> bool:
        """Whether `other` is this event with `text` in it."""
        if other.field != self.field or getattr(other.owner, other.field) != text:
            return False
        setattr(other.owner, other.field, getattr(self.owner, self.field))
        return bool(self.event == other.event)


def is_empty(shape: msgspec.Struct, *, but: str) -> bool:
    """Whether every other field holds nothing."""
    return not any(getattr(shape, name) for name in shape.__struct_fields__ if name != but)


ReadTemplate = Callable[[bytes, str], Template | None]
"""Given the data and the name of an event that the reader has just handled: the event as a template, if it is typed, adds one text
to the answer and changes nothing else. Asked for an event that differs, it says the same or gives another, or None."""


class Stencil:
    """What stands around the text, and around what else differs, in events that mean the same."""

    __slots__ = (
        "_anchor", "_close", "_head", "_pattern", "_reach", "_segments", "_size", "_tail", "_tail_size", "_text", "_two",
        "template",
    )  # fmt: skip

    def __init__(self, segments: list[bytes], kinds: list[str], template: Template) -> None:
        """`kinds` says what stands between two segments: the text, a number, or the inside of a string."""
        self._head, *_, self._tail = segments
        self._size, self._tail_size = len(self._head), len(self._tail)
        self._two = 2 * sum(map(len, segments))
        self._anchor, self._close = self._tail[-_ANCHOR:], self._tail[:-_ANCHOR]
        self._segments = tuple(segments)
        self._text = 2 * kinds.index(_TEXT) + 1
        self._pattern = _pattern(segments, kinds) if len(kinds) > 1 else None
        self._reach = 2
        self.template = template

    def read_one(self, data: bytes) -> str | None:
        """The text, if `data` is one such event and nothing else."""
        if len(data) >= self._two or not data.startswith(self._head) or not data.endswith(self._tail):
            return None
        try:
            if self._pattern is None:
                return _decode_text(data[self._size : -self._tail_size])
            found = self._pattern.fullmatch(data)
            if found is None or found.groups()[::2] != self._segments:
                return None
            return _decode_text(found[self._text + 1])
        except (msgspec.DecodeError, ValueError):
            return None

    def read(self, data: bytes) -> tuple[list[str], int]:
        """The texts of the events that `data` begins with, and how many bytes these take; ([], 0) where one text is odd."""
        if not data.startswith(self._head):
            return _NOTHING
        literals, size, is_all = self._repeated(data) if self._pattern is None else self._matched(data, self._pattern)
        self._reach = min(2 * self._reach, _ROWS) if is_all else 1 + len(literals)
        if not literals:
            return _NOTHING
        try:
            return _each(literals), size
        except (msgspec.DecodeError, ValueError):
            return _NOTHING

    def _repeated(self, data: bytes) -> tuple[list[bytes], int, bool]:
        """What stands between head and tail, as often as both come; how many bytes that takes, and whether more may follow."""
        rows = data.split(self._anchor, self._reach)
        rest = len(rows.pop())
        head, close, size = self._head, self._close, self._size
        if close:
            stop = -len(close)
            found = [row[size:stop] for row in rows if row.startswith(head) and row.endswith(close, size)]
        else:
            found = [row[size:] for row in rows if row.startswith(head)]
        if len(found) == len(rows):
            return found, len(data) - rest, True
        count = [row.startswith(head) and row.endswith(close, size) for row in rows].index(False)
        return found[:count], sum(map(len, rows[:count])) + count * len(self._anchor), False

    def _matched(self, data: bytes, pattern: re.Pattern[bytes]) -> tuple[Sequence[bytes], int, bool]:
        """The same, where more than the text differs."""
        scanner = pattern.scanner(data)  # type: ignore[attr-defined]  # as `re.Scanner` has it: one match right behind the other
        found: list[re.Match[bytes]] = list(islice(iter(scanner.match, None), self._reach))
        columns = list(zip(*[match.groups() for match in found], strict=True))
        count = len(found)
        for column, segment in zip(columns[::2], self._segments, strict=False):
            if column.count(segment) != len(found):
                count = min(count, [each == segment for each in column].index(False))
        if not count:
            return (), 0, False
        return columns[self._text][:count], found[count - 1].end(), count == len(found)


def _pattern(segments: list[bytes], kinds: list[str]) -> re.Pattern[bytes]:
    """Cuts an event at the places that differ. It knows the lengths only, so that it serves the answers to come as well:
    to make one costs as much as reading a hundred events."""
    parts = [rb"(.{%d})" % len(segments[0])]
    for kind, segment in zip(kinds, segments[1:], strict=True):
        parts.append(_KINDS[kind] + rb"(.{%d})" % len(segment))
    return re.compile(b"".join(parts), re.DOTALL)


def _each(literals: Sequence[bytes]) -> list[str]:
    if len(literals) == 1:
        return [_decode_text(literals[0])]
    # No string can go on behind a line break, so each literal holds at least one: as many as there are, each holds exactly one.
    texts = _decode_texts(b"[" + b",\n".join(literals) + b"]")
    if len(texts) != len(literals):
        raise ValueError
    return texts


class StencilMemory:
    """The stencils of one answer, learned from events that were read in full.

    `last` is the one that fitted last. `failures` counts the events that were learned from since one fitted.
    """

    __slots__ = ("_differs", "_parts", "_read_template", "_stencils", "_wait", "failures", "last")

    def __init__(self, read_template: ReadTemplate) -> None:
        self._read_template = read_template
        self._stencils: list[Stencil] = []  # the last one that fitted first
        self.last: Stencil | None = None
        self._parts: list[bytes] = []  # of the last event: what is between tokens, and the tokens, in turn
        self._differs: set[int] = set()  # places of tokens that differ from event to event
        self.failures = 0
        self._wait = 0

    @property
    def is_waiting(self) -> bool:
        """Whether events are not worth learning from: none of the last ones was repeated."""
        return self._wait > 0

    def skip(self, events: int) -> None:
        """So many events were read and not learned from."""
        self._wait = max(0, self._wait - events)

    def read(self, data: bytes) -> tuple[Template | None, list[str], int]:
        """The event that `data` begins with, the texts that it comes with again and again, and how many bytes these take."""
        for stencil in self._stencils:
            text = stencil.read_one(data)
            texts, size = ([text], len(data)) if text is not None else stencil.read(data)
            if size:
                if stencil is not self.last:
                    self._put_first(stencil)
                self.failures = 0
                return stencil.template, texts, size
        return None, [], 0

    def _put_first(self, stencil: Stencil) -> None:
        others = [each for each in self._stencils if each is not stencil]
        self._stencils = [stencil, *others[: _MOST - 1]]
        self.last = stencil

    def learn(self, raw: bytes, data: bytes, name: str) -> None:
        """From the bytes of one event, which the reader has just handled, and what they were framed as."""
        self.failures += 1
        if self.failures > _PATIENCE:
            self._wait = 1 << min(self.failures - _PATIENCE, _LONGEST_WAIT)
        stencil = self._cut(raw, data, name) if len(raw) <= _LARGE else None
        if stencil is not None:
            self._put_first(stencil)

    def _cut(self, raw: bytes, data: bytes, name: str) -> Stencil | None:
        at = raw.rfind(data)
        prefix, end = raw[:at], raw[at + len(data) :]
        if at < 0 or end not in _SUFFIXES or data[:1] != b"{" or not _PREFIX.fullmatch(prefix):
            return None
        template = self._read_template(data, name)
        if template is None:
            return None
        parts = _TOKEN.split(data, _MOST_TOKENS)
        self._compare(parts)
        text = getattr(template.owner, template.field)
        places = [place for place in range(1, len(parts), 2) if _is_text(parts, place, text)]
        for place in places:
            if self._fits(parts, place, self._differs, template, name):
                return _stencil(prefix, parts, place, self._differs, end, template)
        if self._differs:  # something that matters differed, such as whose arguments these are
            self._differs = set()
            for place in places:
                if self._fits(parts, place, self._differs, template, name):
                    return _stencil(prefix, parts, place, self._differs, end, template)
        return None

    def _compare(self, parts: list[bytes]) -> None:
        """Which tokens differ from those of the last event, if the rest does not."""
        before, self._parts = self._parts, parts
        if parts[::2] != before[::2]:
            self._differs = set()
            return
        for place in range(1, len(parts), 2):
            if parts[place] != before[place]:
                self._differs.add(place)

    def _fits(self, parts: list[bytes], place: int, differs: set[int], template: Template, name: str) -> bool:
        """Whether the event means the same with another text at this place, and with others where tokens differ."""
        probe = list(parts)
        for other in differs:
            if _is_key(parts, other):
                return False
            probe[other] = _OTHER[parts[other][:1] != b'"']
        probe[place] = _encoded_probe
        found = self._read_template(b"".join(probe), name)
        return found is not None and template.is_same(found, _PROBE)


def _is_key(parts: list[bytes], place: int) -> bool:
    return parts[place + 1].lstrip()[:1] == b":"


def _is_text(parts: list[bytes], place: int, text: Any) -> bool:
    token = parts[place]
    if token[:1] != b'"' or _is_key(parts, place):
        return False
    try:
        return bool(_decode_text(token) == text)
    except (msgspec.DecodeError, ValueError):
        return False


def _stencil(
    prefix: bytes, parts: list[bytes], text: int, differs: set[int], end: bytes, template: Template
) -> Stencil:
    segments, kinds = [prefix], []
    for place, part in enumerate(parts):
        if place == text:
            kinds.append(_TEXT)
            segments.append(b"")
        elif place in differs and part[:1] == b'"':
            segments[-1] += b'"'
            kinds.append(_PADDING)
            segments.append(b'"')
        elif place in differs:
            kinds.append(_NUMBER)
            segments.append(b"")
        else:
            segments[-1] += part
    segments[-1] += end
    return Stencil(segments, kinds, template)
