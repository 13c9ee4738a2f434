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
from collections.abc import Callable
from typing import Any

import msgspec

_NOTHING: tuple[list[str], int] = ([], 0)
_PROBE = "\u0001stencil"
_OTHER = (b'"stencil"', b"9182736450")  # in place of a string, and of a number, that differs from event to event
_TOKEN = re.compile(rb'("(?:[^"\\]++|\\.)*+"|(?<![\w.+-])(?:0|[1-9][0-9]{0,14})(?![\w.+-]))')
_PREFIX = re.compile(rb"(?:(?:event:[^\r\n]*\r?\n)?data: ?)?")
_SUFFIXES = (b"\n\n", b"\r\n\r\n", b"\n", b"\r\n")
_ANCHOR = 48
"""The longest needle that is searched for: a longer one costs more than comparing the rest of each event."""
_DIGITS = 16
_ROWS = 64
_MOST_TOKENS = 400
_PLAIN = bytes([code for code in range(0x20, 0x7F) if code not in b'"\\'])
_LARGE = 8 * 1024
"""A larger event is not worth learning from: its text is what costs."""
_MOST = 4
"""How many stencils one answer keeps: calls may come interleaved."""
_PATIENCE = 6
_LONGEST_WAIT = 6
_decode_text = msgspec.json.Decoder(str).decode
_decode_texts = msgspec.json.Decoder(list[str]).decode
_decode_numbers = msgspec.json.Decoder(list[int]).decode
_encoded_probe = msgspec.json.encode(_PROBE)


class Template:
    """An event as its reader decoded it, to be told again with another text.

    `event` is all that the reader looks at, with fields left out that it never looks at again, and `owner` the part of it that
    holds the text, under `field`. `tell` handles the event as it stands. `tell_all` handles one event for each text at once, or
    gives False and does nothing where that is not so simple.
    """

    __slots__ = ("event", "field", "owner", "tell", "tell_all")

    def __init__(
        self,
        event: msgspec.Struct,
        owner: msgspec.Struct,
        field: str,
        tell: Callable[[], None],
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
        "_anchor", "_close", "_gaps", "_head", "_kinds", "_reach", "_size", "_tail", "_tail_size", "_two", "template",
    )  # fmt: skip

    def __init__(self, segments: list[bytes], kinds: list[str], template: Template) -> None:
        """`kinds` says what stands between two segments: the text (`text`), a number (`int`), the inside of a string (`str`)."""
        self._head, *between, self._tail = segments
        self._size, self._tail_size = len(self._head), len(self._tail)
        self._two = 2 * sum(map(len, segments))
        self._anchor, self._close = self._tail[-_ANCHOR:], self._tail[:-_ANCHOR]
        self._gaps = list(zip(kinds, between, strict=False))  # all but the last, which has the tail behind it
        self._kinds = kinds
        self._reach = 2
        self.template = template

    def read(self, data: bytes) -> tuple[list[str], int]:
        """The texts of the events that `data` begins with, and how many bytes these take; ([], 0) where one text is odd."""
        if not data.startswith(self._head):
            return _NOTHING
        try:
            if len(data) < self._two:  # one event at most: a live stream's case
                if not data.endswith(self._tail):
                    return _NOTHING
                middle = data[self._size : -self._tail_size]
                return [_decode_text(middle)] if not self._gaps else self._texts([middle]), len(data)
            return self._read_many(data)
        except (msgspec.DecodeError, ValueError):
            return _NOTHING

    def _read_many(self, data: bytes) -> tuple[list[str], int]:
        rows = data.split(self._anchor, self._reach)
        rest = len(rows.pop())
        middles = self._middles(rows)
        if not middles:
            return _NOTHING
        texts = self._texts(middles)
        if len(middles) == len(rows):
            self._reach = min(2 * self._reach, _ROWS)
            return texts, len(data) - rest
        self._reach = 1 + len(middles)
        return texts, sum(map(len, rows[: len(middles)])) + len(middles) * len(self._anchor)

    def _middles(self, rows: list[bytes]) -> list[bytes]:
        """What stands between head and tail, of all rows up to the first that has not both."""
        head, close, size = self._head, self._close, self._size
        if not close:
            found = [row[size:] for row in rows if row.startswith(head)]
            if len(found) == len(rows):
                return found
        found = []
        for row in rows:
            if not row.startswith(head) or not row.endswith(close, size):
                break
            found.append(row[size : len(row) - len(close)])
        return found

    def _texts(self, middles: list[bytes]) -> list[str]:
        """ValueError, or msgspec's, if anything is not what it should be."""
        if not self._gaps:
            return _each(middles)
        columns: dict[str, list[bytes]] = {"text": [], "int": [], "str": []}
        adders = [(columns[kind].append, segment) for kind, segment in self._gaps]
        add_last = columns[self._kinds[-1]].append
        for middle in middles:
            for add, segment in adders:
                value, found, middle = middle.partition(segment)
                if not found:
                    raise ValueError
                add(value)
            add_last(middle)
        _check_numbers(columns["int"])
        if b"".join(columns["str"]).translate(None, _PLAIN):
            raise ValueError
        return _each(columns["text"])


def _each(literals: list[bytes]) -> list[str]:
    if len(literals) == 1:
        return [_decode_text(literals[0])]
    # No string can go on behind a line break, so each literal holds at least one: as many as there are, each holds exactly one.
    texts = _decode_texts(b"[" + b",\n".join(literals) + b"]")
    if len(texts) != len(literals):
        raise ValueError
    return texts


def _check_numbers(numbers: list[bytes]) -> None:
    if not numbers:
        return
    if max(map(len, numbers)) >= _DIGITS or not b"".join(numbers).isdigit():
        raise ValueError
    if len(_decode_numbers(b"[" + b",\n".join(numbers) + b"]")) != len(numbers):
        raise ValueError


class StencilMemory:
    """The stencils of one answer, learned from events that were read in full."""

    __slots__ = ("_differs", "_failures", "_parts", "_read_template", "_stencils", "_wait")

    def __init__(self, read_template: ReadTemplate) -> None:
        self._read_template = read_template
        self._stencils: list[Stencil] = []  # the last that was used first
        self._parts: list[bytes] = []  # of the last event: what is between tokens, and the tokens, in turn
        self._differs: set[int] = set()  # places of tokens that differ from event to event
        self._failures = 0
        self._wait = 0

    @property
    def is_waiting(self) -> bool:
        """Whether events are not worth learning from: none of the last ones was repeated."""
        return self._wait > 0

    def skip(self, events: int) -> None:
        """So many events were read and not learned from."""
        self._wait = max(0, self._wait - events)

    def read(self, data: bytes) -> tuple[Template | None, list[str], int]:
        """The event that `data` begins with, the texts it comes with again and again, and how many bytes these take."""
        for stencil in self._stencils:
            texts, size = stencil.read(data)
            if size:
                if stencil is not self._stencils[0]:
                    self._stencils.remove(stencil)
                    self._stencils.insert(0, stencil)
                self._failures = 0
                return stencil.template, texts, size
        return None, [], 0

    def learn(self, raw: bytes, data: bytes, name: str) -> None:
        """From the bytes of one event, which the reader has just handled, and what they were framed as."""
        self._failures += 1
        if self._failures > _PATIENCE:
            self._wait = 1 << min(self._failures - _PATIENCE, _LONGEST_WAIT)
        stencil = self._cut(raw, data, name) if len(raw) <= _LARGE else None
        if stencil is not None:
            self._stencils = [stencil, *self._stencils[: _MOST - 1]]

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
            kinds.append("text")
            segments.append(b"")
        elif place in differs and part[:1] == b'"':
            segments[-1] += b'"'
            kinds.append("str")
            segments.append(b'"')
        elif place in differs:
            kinds.append("int")
            segments.append(b"")
        else:
            segments[-1] += part
    segments[-1] += end
    return Stencil(segments, kinds, template)
