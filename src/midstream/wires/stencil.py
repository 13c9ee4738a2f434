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
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import astuple, replace

from ..core.patterns import late_pattern

# A text is the payload. A number or a padding differs and means nothing (a sequence number, OpenAI's obfuscation). A
# choice is a number that decides whose text it is (the index of a call or a block).
_TEXT, _NUMBER, _PADDING, _CHOICE = "text", "number", "padding", "choice"
# A number as JSON writes it, and one that every field of numbers can hold; between quotes, what is one string for sure.
# Possessive, so that each is one pass.
_KINDS = {
    _TEXT: rb'"[^"\\\x00-\x1f]*+(?:"|(?:\\.[^"\\\x00-\x1f]*+)++")',
    _NUMBER: rb"(?:0|[1-9][0-9]{0,14}+)",
    _PADDING: rb"[ !#-\[\]-~]*+",
}
_KINDS[_CHOICE] = _KINDS[_NUMBER]
_WHOLE = {kind: late_pattern(pattern) for kind, pattern in _KINDS.items()}
_ZERO = ord("0")
# A control character first: no host sends it, so the probe cannot be mistaken for what was there.
_PROBE = "\u0001stencil"
_OTHER = (b'"stencil"', b"9182736450")  # in place of a string, and of a number, that differs from event to event
# Strings and numbers that stand alone. Everything else (brackets, `true`, `null`, keys' colons) has to stay the same.
_TOKEN = late_pattern(rb'("(?:[^"\\]++|\\.)*+"|(?<![\w.+-])(?:0|[1-9][0-9]{0,14})(?![\w.+-]))')
_PREFIX = late_pattern(rb"(?:(?:event:[^\r\n]*\r?\n)?data: ?)?")
_SUFFIXES = (b"\n\n", b"\r\n\r\n", b"\n", b"\r\n")
_ROOM = 256
"""For a text and what else differs, where it is guessed how many bytes some events take."""
_ROWS = 256
"""How many events are read at once, at most: what comes behind them may not fit."""
_SHORT = 64
"""Up to this many single events, compiling a pattern would cost more than it saves."""
_MOST_TOKENS = 400
_LARGE = 8 * 1024
"""A larger event is not worth learning from: its text is what costs."""
_MOST = 4
"""How many stencils one answer keeps."""
_MOST_KNOWN = 4
"""How many stencils of earlier answers are kept for each kind of reader."""
_KNOWN_REACH = 128
"""How many events a kept stencil matches at once: a host that wrote this way before will do so again."""
_MOST_CHOICES = 32
"""How many templates one stencil chooses from: calls may come interleaved."""
# After so many events that fitted nothing, learning pauses, twice as long each
# time: a stream of unlike events must not pay for stencils that never fit.
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

    # The texts are made equal before the rest is compared: two events are the same if nothing else differs.
    def is_same(self, other: Template, text: str) -> bool:
        """Whether `other` is this event with `text` in it."""
        if other.field != self.field or getattr(other.owner, other.field) != text:
            return False
        setattr(other.owner, other.field, getattr(self.owner, self.field))
        return bool(self.event == other.event)


Run = tuple[Template, list[str]]
"""An event, and the texts that it comes with again and again."""
_NOTHING: tuple[list[Run], int] = ([], 0)


def is_empty(shape: msgspec.Struct, *, but: str) -> bool:
    """Whether every other field holds nothing."""
    filled = list(filter(None, astuple(shape)))
    return not filled or (len(filled) == 1 and filled[0] is getattr(shape, but))


ReadTemplate = Callable[[bytes, str], Template | None]
"""Given the data and the name of an event that the reader has just handled: the event as a template, if it is typed, adds one text
to the answer and changes nothing else. Asked for an event that differs, it says the same or gives another, or None."""


class Stencil:
    """What stands around the text, and around what else differs, in events that mean the same.

    `layout` is the event it was learned from. One number may choose between several templates: whose arguments these are, say.
    """

    __slots__ = ("_alone", "_chosen", "_columns", "_glue", "_layout", "_parts", "_pattern", "_reach", "_segments", "_size", "_templates", "_text", "_two", "template")  # fmt: skip

    def __init__(self, layout: _Layout, templates: dict[bytes, Template]) -> None:
        """`templates` are given by the number that chooses, or by b"" if there is none."""
        self._layout = layout
        segments, kinds = layout.cut()
        self._segments = segments
        # With it, many events are joined into the bytes they should
        # have been and compared in one go: the check costs a memcmp.
        self._glue = [*segments[1:-1], segments[-1] + segments[0]]  # what stands behind each value but the last one
        self._size = len(segments[0])
        # As long as two frames it may be two events, which `read_one` does not take.
        self._two = 2 * sum(map(len, segments))
        self._columns = kinds
        self._text = kinds.index(_TEXT)
        self._chosen = kinds.index(_CHOICE) if _CHOICE in kinds else None
        self._pattern: re.Pattern[bytes] | None = None
        self._alone = 0  # events that came alone and were read without a pattern
        self._parts = [part for segment in segments for part in (segment, b"")][
            :-1
        ]  # with room for the values of one event
        # How many events to look for at once. It doubles while everything fits and falls back when something does not,
        # so that a mismatch costs little more than what fitted.
        self._reach = 8
        self._templates = templates
        self.template = next(iter(templates.values()))

    @property
    def is_plain(self) -> bool:
        """Whether nothing but the text differs, so that events of another answer may fit it, too."""
        return len(self._segments) == 2

    def bare(self) -> Stencil:
        """The same without what belongs to the answer it was learned from: the reader, and the text of an event."""
        layout = self._layout
        twin = self._twin({})
        twin._layout = replace(layout, parts=[*layout.parts[: layout.text], b'""', *layout.parts[layout.text + 1 :]])
        return twin

    def of(self, template: Template) -> Stencil:
        """The same for another answer, whose reader gave this template of an event that fits."""
        twin = self._twin({b"": template})
        twin._reach = _KNOWN_REACH
        twin.template = template
        return twin

    def _twin(self, templates: dict[bytes, Template]) -> Stencil:
        twin = object.__new__(Stencil)
        twin._layout, twin._segments, twin._glue, twin._columns = (
            self._layout,
            self._segments,
            self._glue,
            self._columns,
        )
        twin._size, twin._two, twin._text, twin._chosen = self._size, self._two, self._text, self._chosen
        twin._pattern = self._pattern
        twin._reach, twin._templates = self._reach, templates
        return twin

    def covers(self, other: Stencil) -> bool:
        """Whether what fits the other one fits this one."""
        return not other._layout.choice and self._layout.differences(other._layout) == []

    def joined(self, other: Stencil) -> Stencil | None:
        """Both in one, where they differ in one number."""
        layout = self._layout.joined(other._layout)
        if layout is None or len(self._templates) >= _MOST_CHOICES:
            return None
        templates = dict(self._templates)
        if not self._layout.choice:
            templates = {self._layout.parts[layout.choice]: self.template}
        return Stencil(layout, {**templates, other._layout.parts[layout.choice]: other.template})

    def read_one(self, data: bytes) -> str | None:
        """The text, if `data` is one such event and nothing else; then `template` is the event."""
        segments = self._segments
        # Cheap refusals first: length, beginning, end.
        if len(data) >= self._two or not data.startswith(segments[0]) or not data.endswith(segments[-1]):
            return None
        try:
            if len(segments) == 2:
                return _decode_text(data[self._size : -len(segments[1])])
            return self._read_values(data)
        except (msgspec.DecodeError, ValueError):
            return None

    def _read_values(self, data: bytes) -> str | None:
        """As `read_one`, where more than the text differs."""
        if self._pattern is None:
            # On a cold start a pattern costs more than it finds.
            if self._alone < _SHORT:
                self._alone += 1
                return self._find_values(data)
            self._pattern = self._compiled()
        found = self._pattern.fullmatch(data)
        if found is None:
            return None
        values = found.groups()
        # What stands around the values is proved as in `read`.
        parts = self._parts
        parts[1::2] = values
        if b"".join(parts) != data:
            return None
        if self._chosen is not None:
            template = self._templates.get(values[self._chosen])
            if template is None:
                return None
            self.template = template
        return _decode_text(values[self._text])

    def _find_values(self, data: bytes) -> str | None:
        segments, at, text = self._segments, self._size, ""
        last = len(segments) - 1
        for place, kind in enumerate(self._columns, 1):
            # The last segment is looked for at the end, since a text may contain the same bytes.
            end = len(data) - len(segments[last]) if place == last else data.find(segments[place], at)
            if end < at:
                return None
            value = data[at:end]
            if kind is _TEXT:
                text = _decode_text(value)
            elif not _is_plain(kind, value) and not _WHOLE[kind].fullmatch(value):
                return None
            if kind is _CHOICE:
                template = self._templates.get(value)
                if template is None:
                    return None
                self.template = template
            at = end + len(segments[place])
        return text

    def _compiled(self) -> re.Pattern[bytes]:
        return _pattern(self._segments[0][:1], tuple(map(len, self._segments)), tuple(self._columns))

    def read(self, data: bytes, at: int, stop: int) -> tuple[list[Run], int]:
        """The events that begin at this place, and how many bytes these take; ([], 0) where one text is odd."""
        if not data.startswith(self._segments[0], at):
            return _NOTHING
        if stop - at < self._two:
            text = self.read_one(data[at:stop])
            if text is not None:
                return [(self.template, [text])], stop - at
        # Only now: in a short answer the pattern would cost more than it saves.
        if self._pattern is None:
            self._pattern = self._compiled()
        found: list[Any] = self._pattern.findall(data, at, min(stop, at + self._reach * (self._two // 2 + _ROOM)))
        columns: list[Sequence[bytes]] = [found] if len(self._columns) == 1 else list(zip(*found, strict=True))
        count = len(found)
        if self._chosen is not None and count and not self._templates.keys() >= set(columns[self._chosen]):
            count = [choice in self._templates for choice in columns[self._chosen]].index(False)
            columns = [column[:count] for column in columns]
        rows = self._together(columns, count)
        size = len(rows)
        # The pattern knows lengths, not bytes. That the rest really is what
        # it was is proved here, by building the bytes and comparing them.
        if not data.startswith(rows, at):
            count, size = self._fitting(data, at, columns, count)
        self._reach = min(2 * self._reach, _ROWS) if count == len(found) else 2 + count
        if not count:
            return _NOTHING
        try:
            texts = _each(columns[self._text][:count])
        # A text that is no JSON string after all: nothing of this is used.
        except (msgspec.DecodeError, ValueError):
            return _NOTHING
        return (
            self._runs(columns[self._chosen], texts) if self._chosen is not None else [(self.template, texts)]
        ), size

    def _together(self, columns: list[Sequence[bytes]], count: int) -> bytes:
        """The bytes of so many events with these values."""
        if not count:
            return b""
        first, last = self._segments[0], self._segments[-1]
        if len(columns) == 1:
            return first + self._glue[0].join(columns[0]) + last
        width = 2 * len(columns)
        parts = [first] * (width * count + 1)
        for place, (column, glue) in enumerate(zip(columns, self._glue, strict=True)):
            parts[2 * place + 1 :: width] = column
            parts[2 * place + 2 :: width] = [glue] * count
        parts[-1] = last
        return b"".join(parts)

    def _fitting(self, data: bytes, at: int, columns: list[Sequence[bytes]], count: int) -> tuple[int, int]:
        """How many events of these fit at this place, before the first that does not, and how many bytes they take."""
        fitting, size = 0, 0
        # Binary search: each step compares a prefix, so finding the first misfit among n costs log n comparisons.
        while fitting < count:
            middle = (fitting + count + 1) // 2
            rows = self._together([column[:middle] for column in columns], middle)
            if data.startswith(rows, at):
                fitting, size = middle, len(rows)
            else:
                count = middle - 1
        return fitting, size

    def _runs(self, choices: Sequence[bytes], texts: list[str]) -> list[Run]:
        runs: list[Run] = []
        before = None
        for choice, text in zip(choices, texts, strict=False):
            if choice == before:
                runs[-1][1].append(text)
            else:
                runs.append((self._templates[choice], [text]))
                before = choice
        return runs


class _Layout(msgspec.Struct, frozen=True):
    """The bytes of an event, cut at its tokens: which of them is the text, which differ from event to event without meaning
    anything, and which chooses what the event means (0 for none)."""

    prefix: bytes
    parts: list[bytes]
    text: int
    differs: frozenset[int]
    end: bytes
    choice: int = 0

    def cut(self) -> tuple[list[bytes], list[str]]:
        """What stays the same, and the kind of what stands between."""
        segments, kinds = [self.prefix], []
        for place, part in enumerate(self.parts):
            if place == self.text:
                kinds.append(_TEXT)
                segments.append(b"")
            # The quotes stay outside: what differs is the padding between them.
            elif place in self.differs and part[:1] == b'"':
                segments[-1] += b'"'
                kinds.append(_PADDING)
                segments.append(b'"')
            elif place in self.differs or (place == self.choice and place):
                kinds.append(_CHOICE if place == self.choice else _NUMBER)
                segments.append(b"")
            else:
                segments[-1] += part
        segments[-1] += self.end
        return segments, kinds

    def differences(self, other: _Layout) -> list[int] | None:
        """Where the other one differs from what must not; None if the two cannot be compared."""
        mine, theirs = self.parts, other.parts
        if (self.prefix, self.text, self.end, len(mine)) != (other.prefix, other.text, other.end, len(theirs)):
            return None
        free = {self.text, *self.differs}
        if not free >= other.differs:
            return None
        return [place for place, part in enumerate(mine) if part != theirs[place] and place not in free]

    def joined(self, other: _Layout) -> _Layout | None:
        """Of both, if they differ in one number and it is the only one that chooses."""
        # Both must call the same things meaningless, or one would hide what the other tells by.
        places = self.differences(other) if self.differs == other.differs and not other.choice else None
        if not places or len(places) > 1 or self.choice not in (0, places[0]):
            return None
        if not (self.parts[places[0]] + other.parts[places[0]]).isdigit():
            return None
        return replace(self, choice=places[0])


@lru_cache(maxsize=256)
def _pattern(first: bytes, sizes: tuple[int, ...], kinds: tuple[str, ...]) -> re.Pattern[bytes]:
    """Finds what differs. It knows the lengths of the rest only, so that it serves the answers to come as well: to make one costs
    as much as reading a thousand events. Whether the rest is as it should be is looked at afterwards, in one comparison."""
    parts = [re.escape(first), rb".{%d}+" % (sizes[0] - 1)]
    for kind, size in zip(kinds, sizes[1:], strict=True):
        parts.append(b"(" + _KINDS[kind] + rb").{%d}+" % size)
    return re.compile(b"".join(parts), re.DOTALL)


def _each(literals: Sequence[bytes]) -> list[str]:
    if len(literals) == 1:
        return [_decode_text(literals[0])]
    # No string can go on behind a line break, so each literal holds at least one: as many as there are, each holds exactly one.
    texts = _decode_texts(b"[" + b",\n".join(literals) + b"]")
    if len(texts) != len(literals):
        raise ValueError
    return texts


class _HostMemory:
    """Stencils of earlier answers, without their readers: where a host writes the same around each text in every answer, the next
    one need not find that out again. By what reads the events; the last that was learned first."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[Stencil, ...]] = {}

    def find(self, kind: object, raw: bytes) -> Iterator[tuple[Stencil, str]]:
        """Those that an event fits, with its text."""
        for stencil in self._known.get(kind, ()):
            text = stencil.read_one(raw)
            if text is not None:
                yield stencil, text

    def add(self, kind: object, stencil: Stencil) -> None:
        others = [each for each in self._known.get(kind, ()) if each._segments != stencil._segments]
        # A new tuple each time: another thread may be reading the old one.
        self._known[kind] = (stencil.bare(), *others[: _MOST_KNOWN - 1])


_hosts = _HostMemory()


class StencilMemory:
    """The stencils of one answer, learned from events that were read in full.

    `last` is the one that fitted last. `failures` counts the events that were learned from since one fitted.
    """

    __slots__ = ("_differs", "_kind", "_parts", "_read_template", "_stencils", "_unsplit", "_wait", "failures", "last")

    def __init__(self, read_template: ReadTemplate) -> None:
        self._read_template = read_template
        # The function without its reader: all readers of a wire read the bytes of an event alike.
        self._kind = getattr(read_template, "__func__", read_template)
        self._stencils: list[Stencil] = []  # the last one that fitted first
        self.last: Stencil | None = None
        self._parts: list[bytes] = []  # of the last event: what is between tokens, and the tokens, in turn
        self._unsplit = b""  # the last event, where nobody has looked for its tokens yet
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

    def read(self, data: bytes, at: int, stop: int) -> tuple[list[Run], int]:
        """The events that begin at this place, as far as they end before `stop`, and how many bytes these take."""
        for stencil in self._stencils:
            runs, size = stencil.read(data, at, stop)
            if size:
                if stencil is not self.last:
                    self._return_to(stencil)
                self.failures = 0
                return runs, size
        return _NOTHING

    def _return_to(self, stencil: Stencil) -> None:
        """Another one than the last fits, not for the first time: perhaps both take turns."""
        last = self.last
        # Two that take turns differ in one number, such as the index of
        # two interleaved calls: as one stencil they are a single run.
        joined = None if last is None else stencil.joined(last) or last.joined(stencil)
        if joined is not None:
            self._stencils = [each for each in self._stencils if each is not last and each is not stencil]
        self._put_first(joined or stencil)

    def _put_first(self, stencil: Stencil) -> None:
        others = [each for each in self._stencils if each is not stencil]
        self._stencils = [stencil, *others[: _MOST - 1]]
        self.last = stencil

    def learn(self, raw: bytes, data: bytes, name: str) -> None:
        """From the bytes of one event, which the reader has just handled, and what they were framed as."""
        self.failures += 1
        if self.failures > _PATIENCE:
            self._wait = 1 << min(self.failures - _PATIENCE, _LONGEST_WAIT)
        stencil = (self._known(raw, data, name) or self._cut(raw, data, name)) if len(raw) <= _LARGE else None
        if stencil is None:
            return
        # The new one covers what an older one did: it was learned with more tokens known to differ.
        self._stencils = [known for known in self._stencils if not stencil.covers(known)]
        self._put_first(stencil)

    def _known(self, raw: bytes, data: bytes, name: str) -> Stencil | None:
        """A stencil of an earlier answer that this event fits. That the text is all of it that matters was proved there, of the
        same bytes; what the event means is this answer's reader's to say."""
        for stencil, text in _hosts.find(self._kind, raw):
            template = self._read_template(data, name)
            if template is not None and getattr(template.owner, template.field) == text:
                self._parts, self._unsplit, self._differs = [], data, set()
                return stencil.of(template)
        return None

    def _cut(self, raw: bytes, data: bytes, name: str) -> Stencil | None:
        found = self._learned(raw, data, name)
        if found is not None and found.is_plain:
            _hosts.add(self._kind, found)
        return found

    def _learned(self, raw: bytes, data: bytes, name: str) -> Stencil | None:
        # From the end: the name of an event may contain the same bytes.
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
        if type(text) is not str:
            return None
        written = msgspec.json.encode(text)
        # Usually the text is written as msgspec writes it. Otherwise each token is decoded: hosts escape differently.
        places = [place for place in range(1, len(parts), 2) if parts[place] == written and not _is_key(parts, place)]
        if not places:  # written in another way
            places = [place for place in range(1, len(parts), 2) if _is_text(parts, place, text)]
        # Several tokens may hold the same text by chance. Only the probe tells which of them is read.
        for place in places:
            if self._fits(parts, place, self._differs, template, name):
                return Stencil(_Layout(prefix, parts, place, frozenset(self._differs), end), {b"": template})
        # Whatever differed changed the meaning, so only the text may differ.
        if self._differs:  # something that matters differed, such as whose arguments these are
            self._differs = set()
            for place in places:
                if self._fits(parts, place, self._differs, template, name):
                    return Stencil(_Layout(prefix, parts, place, frozenset(self._differs), end), {b"": template})
        return None

    def _compare(self, parts: list[bytes]) -> None:
        """Which tokens differ from those of the last event, if the rest does not."""
        before, self._parts = self._parts or _TOKEN.split(self._unsplit, _MOST_TOKENS), parts
        # Another layout: what was learned about differences belongs to the old one.
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
            # A key that differs is another field.
            if _is_key(parts, other):
                return False
            probe[other] = _OTHER[parts[other][:1] != b'"']
        probe[place] = _encoded_probe
        found = self._read_template(b"".join(probe), name)
        return found is not None and template.is_same(found, _PROBE)


def _is_plain(kind: str, value: bytes) -> bool:
    """Whether this is a number or a padding as nearly all are."""
    return value.isalnum() if kind is _PADDING else value.isdigit() and len(value) < 10 and value[0] != _ZERO


def _is_key(parts: list[bytes], place: int) -> bool:
    return parts[place + 1].lstrip()[:1] == b":"


def _is_text(parts: list[bytes], place: int, text: str) -> bool:
    token = parts[place]
    if token[:1] != b'"' or _is_key(parts, place):
        return False
    try:
        return bool(_decode_text(token) == text)
    except (msgspec.DecodeError, ValueError):
        return False
