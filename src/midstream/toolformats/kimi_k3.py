"""Kimi K3 (XTML): channels and calls between `<|open|>tag<|sep|>` and `<|close|>tag<|sep|>` (field-guide/kimi-formats.md#k3).

The answer is made of the channels think, response and tools; the prompt opens think, so with `starts_inside` the stream
begins there. Each argument says its own type; arguments stream as JSON as they come. Tags in code or in a quotation are text
(quoting.py), all but the end of the channel they stand in.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..core.blocks import ToolCall, ToolResponse
from ..core.patterns import late_pattern
from ..core.tools import ToolSpec
from .arguments import bare
from .findings import ArgumentsFound, CallEnded, CallFound, Idle, ProblemFound, TextFound, ThinkingFound
from .format import TextFormat, dump, wrapped
from .json_text import is_json, parse
from .prose import Tags
from .quoting import Quoting
from .reader import Collected, Markers, Reader, Step
from .xml import escape, unescape

OPEN, CLOSE, SEP, END = "<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>"

_ALL = Markers(OPEN, CLOSE, SEP, END)
_ATTRIBUTE = late_pattern(r'([A-Za-z_][\w-]*+)="([^"]*+)"')
# What K3 writes as the type of each argument; integers are numbers.
_TYPES = {
    str: "string",
    bool: "boolean",
    int: "number",
    float: "number",
    dict: "object",
    list: "array",
    type(None): "null",
}


def script(reader: Reader, tools: Sequence[ToolSpec], tags: tuple[Tags, ...], starts_inside: bool) -> Step[None]:
    yield from _Message(reader, starts_inside).read()


class _Message:
    """Where in the message the stream is: a channel, a call in it, an argument in that."""

    __slots__ = ("_argument", "_blank", "_call", "_channel", "_quoted_opens", "_quoting", "_reader", "_tagged")

    # Unlike the other formats this one needs no Prose: text has a channel of its own, and markers are special tokens.
    def __init__(self, reader: Reader, starts_inside: bool) -> None:
        self._reader = reader
        self._channel = "think" if starts_inside else "message"
        self._call: _Call | None = None
        self._argument: _Argument | None = None
        self._blank: list[str] | None = []  # white space between channels is layout
        self._tagged = False
        self._quoting = Quoting(marks=reader.rescue)
        self._quoted_opens = 0  # how often the channel we are in was opened again in quoted text

    def read(self) -> Step[None]:
        while (marker := (yield from self._reader.until(_ALL, self._say))) is not None:
            self._reader.idle = None
            # Inside a call nothing is quoted: everything there is an argument.
            if self._call is None and self._quoting.covers() and not (yield from self._ends_channel(marker)):
                self._say(marker)
                continue
            self._blank = []
            self._tagged = True
            if marker == END:
                self._leave_call()
            elif marker != SEP:
                tag = yield from self._tag()
                if tag is None:
                    break
                if marker == OPEN:
                    self._opened(tag)
                else:
                    self._closed(tag.partition(" ")[0])
        self._reader.unclosed = self._channel == "think" and not self._tagged
        if self._call is not None:
            self._call.cut_off(self._argument)
        elif self._blank and not self._tagged:
            self._reader.out.append(TextFound("".join(self._blank)))

    def _ends_channel(self, marker: str) -> Step[bool]:
        """Whether a quoted marker is nevertheless the end of its channel, which may quote a whole message."""
        # A response may show a whole message of this format in a fence, with channels of the same name. Counting
        # openings and closings finds the end that is not part of it.
        tag = self._channel + SEP
        if marker not in (OPEN, CLOSE) or (yield from self._reader.peek(len(tag))) != tag:
            return False
        self._quoted_opens += 1 if marker == OPEN else -1
        return self._quoted_opens < 0

    def _say(self, piece: str) -> None:
        if self._call is None:
            self._quoting.text.append(piece)
        if self._argument is not None:
            self._argument.add(piece)
        elif self._call is not None:
            # Between the arguments only layout is expected.
            if piece.strip():
                self._call.problems.append(ProblemFound("text inside a call", piece))
        elif self._channel == "think":
            self._reader.out.append(ThinkingFound(piece))
        elif self._channel == "response" or self._blank is None:
            self._reader.out.append(TextFound(piece))
            if self._reader.idle is None:
                self._reader.idle = Idle(self._quoting.text, _ALL.firsts)
        elif piece.isspace():
            self._blank.append(piece)
        else:  # words outside a channel are text: never dropped
            self._reader.out.append(TextFound("".join(self._blank) + piece))
            self._blank = None

    def _tag(self) -> Step[str | None]:
        """The inside of a tag, up to its separator; None if the stream ends first. Another marker ends it too, and is read
        again."""
        tag = Collected()
        marker = yield from self._reader.until(_ALL, tag.add)
        if marker is None:
            return None
        # The separator was forgotten. The marker opens or closes the next tag.
        if marker != SEP:
            self._reader.pos -= len(marker)
        return tag.text

    def _opened(self, tag: str) -> None:
        kind = tag.partition(" ")[0]
        attributes = _attributes(tag)
        # A model may forget to close an argument or a call: opening the next one does it.
        if kind in ("argument", "json") and self._call is not None:
            self._leave_argument()
            self._argument = _Argument(self._call, attributes, whole=kind == "json")
            return
        self._leave_call()
        if kind == "call":
            self._call = _Call(self._reader, attributes.get("tool", ""), tag)
        elif kind in ("think", "response", "tools", "message"):
            self._enter(kind)
            if kind == "think":
                # Empty thinking is thinking: see `Prose`.
                self._reader.out.append(ThinkingFound(""))
        else:
            self._reader.out.append(ProblemFound("unexpected tag", tag))

    def _closed(self, kind: str) -> None:
        if kind in ("argument", "json"):
            self._leave_argument()
            return
        self._leave_call()
        if kind != "call":
            self._enter("message")

    def _enter(self, channel: str) -> None:
        self._channel = channel
        self._quoting = Quoting(marks=self._reader.rescue)
        self._quoted_opens = 0

    def _leave_argument(self) -> None:
        if self._argument is not None:
            self._argument.end()
            self._argument = None

    def _leave_call(self) -> None:
        self._leave_argument()
        if self._call is not None:
            self._call.end()
            self._call = None


class _Call:
    """An open call. Without a tool's name it is read to its end and reported."""

    __slots__ = ("_nameless", "_reader", "_tag", "keys", "problems")

    def __init__(self, reader: Reader, name: str, tag: str) -> None:
        self._reader = reader
        self._tag = tag
        # Its arguments are collected instead of streamed, since there is no call to stream them to.
        self._nameless = None if name else Collected()
        self.keys = 0
        self.problems: list[ProblemFound] = []
        if name:
            reader.out.append(CallFound(name))

    def write(self, piece: str) -> None:
        if self._nameless is not None:
            self._nameless.add(piece)
        else:
            self._reader.out.append(ArgumentsFound(piece))

    def end(self) -> None:
        # -1: the object was written whole, braces included.
        if self.keys >= 0:
            self.write("}" if self.keys else "{}")
        self._finish("a call without a tool")

    def cut_off(self, argument: _Argument | None) -> None:
        """The stream ended inside: the arguments stay unfinished, so that nothing runs on half of them."""
        if argument is not None:
            argument.flush()
        if not self.keys:
            self.write("{")
        self.problems.append(ProblemFound("a tool call was cut off", self._tag))
        self._finish("a call without a tool was cut off")

    def _finish(self, why: str) -> None:
        if self._nameless is not None:
            self._reader.out.append(ProblemFound(why, f"{self._tag} {self._nameless.text}"))
        else:
            self._reader.out.append(CallEnded())
        self._reader.out += self.problems


class _Argument:
    """An open argument: a string streams, anything else waits until it can be judged."""

    __slots__ = ("_call", "_held", "_whole")

    def __init__(self, call: _Call, attributes: dict[str, str], whole: bool) -> None:
        self._call = call
        self._whole = whole
        self._held: Collected | None = None
        if whole:
            self._held = Collected()
            return
        # The object is put together as it comes: brace or comma, key, value.
        call.write(("," if call.keys else "{") + dump(attributes.get("key", "")) + ":")
        call.keys += 1
        if attributes.get("type", "string") == "string":
            call.write('"')
        else:
            self._held = Collected()

    def add(self, piece: str) -> None:
        if self._held is not None:
            self._held.add(piece)
        else:
            # Each piece is escaped by itself; no escape spans two pieces.
            self._call.write(dump(piece)[1:-1])

    def end(self) -> None:
        if self._held is None:
            self._call.write('"')
        elif not self._whole:
            text = self._held.text
            # A number that is no number becomes a string: the JSON stays whole, and validation reports it.
            self._call.write(text.strip() if is_json(text) else dump(text))
        elif self._call.keys:
            self._call.problems.append(ProblemFound("arguments given twice", self._held.text))
        else:
            self._call.keys = -1  # the whole object came at once: no brace is ours to write
            self._call.write(self._held.text)

    def flush(self) -> None:
        """What came of it, unfinished."""
        if self._held is not None and self._held.parts:
            if self._whole:
                self._call.keys = -1
            self._call.write(self._held.text)


def _attributes(tag: str) -> dict[str, str]:
    return {match[1]: unescape(match[2]) for match in _ATTRIBUTE.finditer(tag)}


_HOW = f"""To call tools, write exactly this, with one call block for each call, numbered from 1:
{OPEN}tools{SEP}{OPEN}call tool="tool_name" index="1"{SEP}{OPEN}argument key="parameter" type="string"{SEP}value\
{CLOSE}argument{SEP}{CLOSE}call{SEP}{CLOSE}tools{SEP}"""


def declare(tools: Sequence[ToolSpec]) -> str:
    """The JSON of the `tool-declare` message of the model's template, and how to call a tool."""
    declared = json.dumps([wrapped(tool) for tool in tools], ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return f"# Tools\n\n{declared}\n\n{_HOW}"


def render_calls(calls: Sequence[ToolCall], ids: Sequence[str] = ()) -> str:
    """The tools channel; calls are numbered from 1 in each message, whatever their ids."""
    if not calls:
        return ""
    inner = [
        f'{OPEN}call tool="{escape(call.name)}" index="{number}"{SEP}{_render_arguments(call)}{CLOSE}call{SEP}'
        for number, call in enumerate(calls, 1)
    ]
    return f"{OPEN}tools{SEP}{''.join(inner)}{CLOSE}tools{SEP}"


def _render_arguments(call: ToolCall) -> str:
    text = call.arguments.strip() or "{}"
    try:
        value = parse(text)
    except ValueError:
        value = None
    # Keys are checked too: the whole object is searched.
    if not isinstance(value, dict) or "<|" in dump(value):
        # A string that holds the format's own tokens can only travel inside JSON, where `<` has another spelling.
        safe = text.replace("<|", "\\u003c|")
        return f'{OPEN}json type="object"{SEP}{safe}{CLOSE}json{SEP}'
    return "".join([_render_argument(key, item) for key, item in value.items()])


def _render_argument(key: str, value: object) -> str:
    return f'{OPEN}argument key="{escape(key)}" type="{_TYPES[type(value)]}"{SEP}{bare(value)}{CLOSE}argument{SEP}'


def render_result(response: ToolResponse, call_id: str = "") -> str:
    """The whole tool message: its header names the tool, and by `call_id` the call's number in its message."""
    head = f'{OPEN}message role="tool" tool="{escape(response.name)}" index="{call_id or 1}"{SEP}'
    return f"{head}{response.text}{CLOSE}message{SEP}{END}"


KIMI_K3 = TextFormat(
    "kimi-k3",
    script,
    declare,
    render_calls,
    render_result,
    special=True,
    markers=(OPEN, CLOSE, SEP, END),
    ids="message",
    between="",
    own_channels=True,
)
