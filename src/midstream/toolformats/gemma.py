"""Gemma: `[TOOL_REQUEST]` with a JSON call or a name and JSON arguments, or a ```` ```tool_code ```` block of Python calls.

Also read: a JSON object with a name that only `[END_TOOL_REQUEST]` follows. Without that end it is the text it looks like.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.blocks import ToolCall, ToolResponse
from ..core.patterns import late_pattern
from ..core.tools import ToolSpec
from .arguments import json_call
from .calls import CallReport
from .format import TextFormat, declare_lines, dump, render_each, wrapped
from .json_text import JsonEnds, bracketed, json_until, parse
from .prose import Prose, Tags
from .pythonic import parse_calls
from .reader import Collected, Markers, Reader, Step

_BEGIN, _END = "[TOOL_REQUEST]", "[END_TOOL_REQUEST]"
# The second spelling is what some models make of the first.
_ENDS = (_END, "[TOOL_REQUEST_END]")
_CODE = "```tool_code"
_CODE_END = Markers("```")
_JSON_ENDS = JsonEnds(*_ENDS, _BEGIN)
# Spelled out and not a pattern: openers have to be literal, so that any split of the text finds them.
_OBJECTS = ('{"name"', '{ "name"', '{\n"name"', '{\n  "name"', '{\n    "name"')
_WORD = late_pattern(r"\w")
_LINE_NUMBER = late_pattern(r"\D")

_HOW = """To call a tool, write one JSON object with its name and arguments between these lines:
[TOOL_REQUEST]
{"name": "the tool's name", "arguments": {"parameter": "value"}}
[END_TOOL_REQUEST]"""


# Gemma was trained on no format, so three are read: what we teach it, its
# own habit of Python in a fence, and JSON that merely ends like a request.
def script(reader: Reader, tools: Sequence[ToolSpec], tags: tuple[Tags, ...], starts_inside: bool) -> Step[None]:
    prose = Prose(
        reader,
        (_BEGIN, *_OBJECTS),
        tags=tags,
        starts_inside=starts_inside,
        noise=("<end_of_turn>",),
        stray=_ENDS,
        fences=(_CODE,),
    )
    calls = _Calls(reader, tools, prose)
    while (opener := (yield from prose.opener())) is not None:
        if opener == _CODE:
            yield from calls.code()
        elif opener in _OBJECTS:
            yield from calls.object(opener)
        while opener == _BEGIN:
            opener = yield from calls.request()


class _Calls:
    __slots__ = ("_prose", "_reader", "_report", "_tools")

    def __init__(self, reader: Reader, tools: Sequence[ToolSpec], prose: Prose) -> None:
        self._reader = reader
        self._tools = tools
        self._prose = prose
        self._report = CallReport(reader, prose, tools)

    def request(self) -> Step[str | None]:
        """Read on from `[TOOL_REQUEST]`; the marker that ended it."""
        yield from self._reader.spaces()
        if (yield from self._reader.peek(1)) == "{":
            marker, rest = yield from self._report.json_until(_JSON_ENDS)
            # A brace too many, or a blank, is layout.
            if rest.strip(" \n}"):
                if marker == _BEGIN:  # the end was forgotten: this is prose, which may quote what follows
                    self._prose.say(rest)
                    self._reader.unread(marker)
                    return None
                self._report.problem("text inside a tool request", rest)
            return marker
        body = Collected()
        marker = yield from json_until(self._reader, _JSON_ENDS, body.add)
        text = body.text.strip()
        # `name {json}`, without a key for either.
        name, brace, rest = text.partition("{")
        if brace and (arguments := brace + rest) and _is_object(arguments):
            self._report.call(name.strip(), arguments)
        else:
            self._report.problem("this is not a tool request", text)
        return marker

    def object(self, opener: str) -> Step[None]:
        """A JSON object in the text, which only its end marker makes a call."""
        reader = self._reader
        reader.pos -= len(opener)
        text = Collected()
        whole = yield from bracketed(reader, text.add)
        if not whole and '"arguments"' in text.text:
            self._report.problem("a tool call was cut off", text.text)
            return
        gap = yield from reader.spaces()
        # Read with a bound: a number in prose may be long.
        number = yield from reader.head(_LINE_NUMBER, 8)  # some models number the lines of what they quote
        reader.pos += len(number)
        gap += number + (yield from reader.spaces())
        head = yield from reader.peek(len(_END))
        if head == _END:
            reader.pos += len(_END)
            self._report.json(text.text, ended=True)
        else:
            self._prose.say(text.text + gap)

    def code(self) -> Step[None]:
        # `tool_coder` is another language.
        if _WORD.match((yield from self._reader.peek(1))):
            self._prose.say(_CODE)  # another word that begins like it
            return
        body = Collected()
        marker = yield from self._reader.until(_CODE_END, body.add)
        try:
            calls = parse_calls(body.text, self._tools)
        except ValueError as error:
            self._report.problem(f"this is not a call in Python: {error}", body.text)
            return
        if marker is None:
            self._report.problem("a tool call was cut off", body.text)
            return
        for name, arguments in calls:
            self._report.values(name, arguments)


def _is_object(text: str) -> bool:
    try:
        return isinstance(parse(text), dict)
    except ValueError:
        return False


def _render(call: ToolCall) -> str:
    return f"{_BEGIN}\n{json_call(call)}\n{_END}"


def render_result(response: ToolResponse, call_id: str = "") -> str:
    return f"[TOOL_RESULT]\n{dump({'name': response.name, 'content': response.text})}\n[END_TOOL_RESULT]"


GEMMA = TextFormat(
    "gemma",
    script,
    declare_lines(wrapped, _HOW),
    render_each(_render),
    render_result,
    markers=(_BEGIN, *_ENDS, _CODE, "[TOOL_RESULT]", "[END_TOOL_RESULT]", "<end_of_turn>"),
)
