"""Reporting calls: how every format reports what it found, whole or as it streams."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.patterns import late_pattern
from ..core.tools import ToolSpec
from .arguments import Balanced, WrittenCall, leading_value, properties_of, typed, written_calls
from .findings import ArgumentsFound, CallEnded, CallFound, ProblemFound
from .format import dump
from .json_text import JsonEnds, is_json, json_until
from .prose import Prose
from .reader import Collected, Markers, Reader, Step, pattern

# A call can stream its arguments only if its name comes first. The head is matched in two steps: `_HEAD_STOP` finds, in
# bounded look-ahead and at any split, where the arguments may begin; `_HEAD` then reads the name from the whole head.
_HEAD = late_pattern(r'\{\s*+"name"\s*+:\s*+"([^"\\]++)"\s*+,\s*+"(?:arguments|parameters)"\s*+:\s*+(?=\{)')
_ARGUMENTS = late_pattern(r'"(?:arguments|parameters)"\s*+:\s*+\{')
_HEAD_STOP = late_pattern(f"{_ARGUMENTS.pattern}|[}}<]")
_HEAD_SIZE = 400
"""By then a call that names its tool first has come to its arguments."""
_LOOK_AHEAD = 4096
"""How far behind what looks like a call's end the end of its value may be."""


class Values:
    """Values between an opening and a closing tag, inside a call that `ends` end.

    A model that writes about its own format puts an end inside a value. There it is data, if the value's own end still comes
    before the next call: cut off at it, the call would run with half of its arguments.
    """

    __slots__ = ("_closing", "_ends", "_opening", "_stop")

    def __init__(self, opening: str, closing: str, ends: Sequence[str], openers: Sequence[str]) -> None:
        self._opening = opening
        self._closing = closing
        self._ends = Markers(*ends)
        self._stop = re.compile(pattern((closing, *openers)))

    def until_end(self, reader: Reader) -> Step[tuple[str, str | None]]:
        """The text up to the end of the call, and the end; ("…", None) where the stream ended, or cannot be made out."""
        body = Collected()
        inside = False
        while True:
            piece = Collected()
            marker = yield from reader.until(self._ends, piece.add)
            text = piece.text
            body.add(text)
            # Only the last tags matter: the value is open if it was opened after the last one closed.
            opened, closed = text.rfind(self._opening), text.rfind(self._closing)
            inside = opened > closed if opened >= 0 or closed >= 0 else inside
            if marker is None or not inside:
                return body.text, marker
            # What follows is looked at without being read: this end may be data or the real one.
            ahead = yield from reader.head(self._stop, _LOOK_AHEAD)
            at = reader.pos + len(ahead)
            if reader.buffer.startswith(self._closing, at):
                body.add(marker)
            elif len(ahead) < _LOOK_AHEAD:
                # Another call comes first, or the stream ended: then the marker was the end of the call.
                return body.text, marker  # the value's end was forgotten
            else:
                # Neither within the look-ahead. Running it could mean running half of a command.
                return body.text + marker, None


class Section:
    """Calls between markers of their own, inside a section that has markers too, as Kimi and DeepSeek write them.

    Models forget any of these markers, so none is relied on: a call without a section is a call, a section without an end
    ends where the answer goes on, and text between the calls is reported unless it is that answer.
    """

    __slots__ = ("_begins", "_calls", "_ends", "_inner", "_markers")

    def __init__(
        self,
        begins: Sequence[str],
        ends: Sequence[str],
        calls: Sequence[str],
        inner: Sequence[str],
        others: Sequence[str],
    ) -> None:
        """`inner` are the markers inside a call, which mean nothing outside one; `others` end a call, or are noise."""
        self._begins = begins
        self._ends = ends
        self._calls = calls
        self._inner = inner
        self._markers = Markers(*begins, *ends, *calls, *inner, *others)

    def read(
        self,
        reader: Reader,
        prose: Prose,
        opener: str,
        call: Callable[[], Step[str | None]],
        problem: Callable[[str, str], None],
    ) -> Step[None]:
        """Read from an opener up to where prose goes on. `call` reads one call and gives the marker that ended it."""
        in_section = opener in self._begins
        called = False
        marker: str | None = opener
        while marker is not None and marker not in self._ends:
            if marker in self._calls:
                called = True
                marker = yield from call()
                # Outside a section one call stands alone: whatever comes next is the answer going on.
                if not in_section and marker not in self._begins and marker not in self._calls:
                    if marker in self._inner:
                        problem("a marker of a tool call without the call", str(marker))
                    return
                continue
            in_section = in_section or marker in self._begins
            between = Collected()
            marker = yield from reader.until(self._markers, between.add)
            if not between.text.strip():
                continue
            # A section without an end, then prose that quotes a marker: `quotes` judges the text since the last call.
            if marker is not None and prose.quotes(between.text):
                prose.say(between.text)  # the answer went on, and quotes the marker
                reader.unread(marker)
                return
            # Text and no marker behind it: nothing follows that a section could still hold.
            if marker is None and called:
                prose.say(between.text)  # the end of the section was forgotten: this is the answer going on
            else:
                problem("text inside a tool section", between.text)


class CallReport:
    """Where a script reports its calls, and the JSON call that most formats share is read."""

    __slots__ = ("_prose", "_reader", "_tools")

    def __init__(self, reader: Reader, prose: Prose, tools: Sequence[ToolSpec]) -> None:
        self._reader = reader
        self._prose = prose
        self._tools = tools

    def call(self, name: str, arguments: str, raw_id: str | None = None) -> None:
        self._prose.call()
        # Three findings at once: whole calls are reported as a streaming one would be, so readers need one way only.
        self._reader.out += (CallFound(name, raw_id), ArgumentsFound(arguments), CallEnded())

    def values(self, name: str, values: Mapping[str, Any]) -> None:
        """A call whose arguments are values already."""
        self.call(name, dump(values))

    def bare(self, name: str, texts: Mapping[str, str]) -> None:
        """A call whose arguments are bare text, to be typed by the schema."""
        schemas = properties_of(name, self._tools)
        self.values(name, {key: typed(text, schemas.get(key)) for key, text in texts.items()})

    def pairs(self, name: str, read: Callable[[str], Mapping[str, str]], text: str) -> None:
        """A call whose arguments are pairs in `text`, bare; a problem where `read` finds something else between them."""
        try:
            found = read(text)
        except ValueError as error:
            self.problem(str(error), f"{name}\n{text}")
        else:
            self.bare(name, found)

    def json_arguments(self, name: str, *spellings: str) -> None:
        """A call whose arguments are JSON in one of these spellings; a problem if none of them is."""
        arguments = next((text for text in spellings if is_json(text)), None)
        if arguments is not None:
            self.call(name, arguments)
        else:
            self.problem("the arguments are not JSON", f"{name} {spellings[0]}")

    def written(self, calls: Sequence[WrittenCall]) -> None:
        for call in calls:
            self.call(*call.whole)

    def json_until(self, ends: JsonEnds) -> Step[tuple[str | None, str]]:
        """Read a JSON call up to an end marker; the marker, and text that follows the JSON.

        Where the name comes first, as every template writes it, the arguments stream as they come.
        """
        reader = self._reader
        # Name and arguments are one pattern over a bounded head. A call that gives its arguments first is collected
        # whole instead: a call cannot start before its name is known.
        size = len((yield from reader.head(_HEAD_STOP, _HEAD_SIZE)))
        start = reader.pos
        # The head ends at its limit even if more is there, so that any split sees the same head.
        key = _ARGUMENTS.match(reader.buffer, start + size, start + _HEAD_SIZE)
        head = _HEAD.match(reader.buffer, start, key.end()) if key else None
        if head is None:
            text = Collected()
            marker = yield from json_until(reader, ends, text.add)
            return marker, self.json(text.text.lstrip(), ended=marker is not None)
        reader.pos = head.end()
        self._prose.call()
        reader.out.append(CallFound(head[1]))
        arguments = Balanced(reader)
        marker = yield from json_until(reader, ends, arguments.add, before=head[0])
        reader.out.append(CallEnded())
        rest = arguments.rest.lstrip()
        # `{"name": …, "arguments": {…}, "id": "x"}`: the arguments have streamed;
        # a 0 in their place shows whether the rest is the rest of one object.
        if rest.startswith(",") and is_json(head[0] + "0" + rest.rstrip()):
            return marker, ""  # further keys, such as an id
        return marker, rest.removeprefix("}")

    def json(self, text: str, *, ended: bool) -> str:
        """The call or calls in JSON text, and a problem if there are none; gives back text that follows the JSON.

        `ended` says that the end marker came: then one closing brace may have been forgotten.
        """
        try:
            value, rest = leading_value(text)
        except ValueError:
            # Models count braces badly at the end of nested arguments. One
            # is forgiven, where the marker shows that nothing was cut.
            value, rest = (text + "}" if ended else text), ""
        try:
            self.written(written_calls(value))
        except ValueError as error:
            self.problem(f"this is not a call in JSON: {error}", text.rstrip())
            return ""
        return rest

    def problem(self, why: str, raw: str) -> None:
        # Blanks around a problem are layout, as they are around a call.
        self._prose.call()
        self._reader.out.append(ProblemFound(why, raw))
