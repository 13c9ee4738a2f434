"""Llama 3.x and 4: a bare JSON object or a Python list of calls where the answer begins, or behind `<|python_tag|>`.

Bare JSON is also an answer people ask for: an object is a call only if it names a tool and has arguments, or names a declared
tool; a list is one only if it reads as calls. Anything else is text, whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.blocks import ToolCall, ToolResponse
from ..core.patterns import late_pattern
from ..core.tools import ToolSpec
from .arguments import json_call, written_calls
from .calls import CallReport
from .format import TextFormat, declare_lines, dump, plain, render_each
from .json_text import bracketed
from .prose import Prose, Tags
from .pythonic import parse_calls
from .reader import Collected, Reader, Step

_TAGS = ("<|python_tag|>", "<|python_start|>")
_NOISE = ("<|eom_id|>", "<|eot_id|>", "<|python_end|>", "<|start_header_id|>assistant<|end_header_id|>")
# The keys a call begins with. An object that starts otherwise is the JSON that the user asked for.
_OBJECT = late_pattern(r'\{\s*"(?:name|type|function|parameters|arguments)"')
# A list of objects, or of something that looks like Python calls.
_LIST = late_pattern(r'\[\s*(?:\{\s*"|[A-Za-z_][\w.-]*\()')
_SURE = 80
"""By then a bare object or list has shown whether it may be a call."""

_HOW = """To call a tool, answer with nothing but one JSON object; several calls are separated by "; ". If you say something
first, write <|python_tag|> between your words and the call:
{"name": "the tool's name", "parameters": {"parameter": "value"}}"""


def script(reader: Reader, tools: Sequence[ToolSpec], tags: tuple[Tags, ...], starts_inside: bool) -> Step[None]:
    prose = Prose(reader, _TAGS, tags=tags, starts_inside=starts_inside, noise=_NOISE, starts=("{", "["))
    calls = _Calls(reader, tools, prose)
    while (opener := (yield from prose.opener())) is not None:
        yield from calls.read(opener)


class _Calls:
    __slots__ = ("_names", "_prose", "_reader", "_report", "_tools")

    def __init__(self, reader: Reader, tools: Sequence[ToolSpec], prose: Prose) -> None:
        self._reader = reader
        self._tools = tools
        self._names = frozenset([tool.name for tool in tools])
        self._prose = prose
        self._report = CallReport(reader, prose, tools)

    def read(self, opener: str) -> Step[None]:
        reader = self._reader
        if opener in _TAGS:
            yield from reader.spaces()
            head = yield from reader.peek(1)
            # Behind the tag anything else is Python for an interpreter that we do not have.
            if head not in ("{", "["):
                return  # code for a built-in interpreter: shown as text
        else:
            reader.pos -= 1
            head = opener
            # Bounded look-ahead: an answer in JSON must not wait for its end before its first character is shown.
            start = yield from reader.peek(_SURE)
            if not (_OBJECT if head == "{" else _LIST).match(start):
                reader.pos += 1
                self._prose.say(opener)
                return
        text = Collected()
        # Python has two kinds of quotes, JSON one: an apostrophe inside a JSON string opens nothing.
        whole = yield from bracketed(reader, text.add, quotes='"' if head == "{" else "\"'")
        if self._take(text.text, whole):
            yield from reader.spaces()
            # Several calls are separated; what follows may be another one.
            if (yield from reader.peek(1)) in (";", ","):
                reader.pos += 1

    def _take(self, text: str, whole: bool) -> bool:
        """Report the text as calls if it is any; whether it was."""
        if not whole:
            # Cut off and clearly a call: not shown, since half a call in the history would be imitated.
            if '"parameters"' in text or '"arguments"' in text or text.startswith("["):
                self._report.problem("a tool call was cut off", text)
            else:
                self._prose.say(text)
            return False
        try:
            calls = written_calls(text)
        except ValueError:
            return self._take_python(text)
        # A name alone is enough only if it is a tool's: `{"name": "Ada"}` is data.
        if not calls or not all(call.has_arguments or call.whole[0] in self._names for call in calls):
            self._prose.say(text)
            return False
        self._report.written(calls)
        return True

    def _take_python(self, text: str) -> bool:
        try:
            # Objects that are not calls in JSON are not Python either.
            calls = parse_calls(text, self._tools) if text.startswith("[") else []
        except ValueError:
            calls = []
        if not calls:
            self._prose.say(text)
            return False
        for name, arguments in calls:
            self._report.values(name, arguments)
        return True


def _render(call: ToolCall) -> str:
    return json_call(call, "parameters")


def render_result(response: ToolResponse, call_id: str = "") -> str:
    return dump({"output": response.text})


LLAMA = TextFormat(
    "llama",
    script,
    declare_lines(plain, _HOW),
    render_each(_render, "; "),
    render_result,
    markers=(*_TAGS, *_NOISE),
    between=_TAGS[0],
)
