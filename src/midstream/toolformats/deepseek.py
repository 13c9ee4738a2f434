"""DeepSeek: calls between its own tokens, `NAME<sep>{json}` (V3.1) or `function<sep>NAME` and fenced JSON (V3, R1).

The tokens are written with a full-width bar and a low line; hosts that fold them to ASCII are read too.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.blocks import ToolCall, ToolResponse
from ..core.tools import ToolSpec
from .arguments import Trimmed, json_arguments, unwrap
from .calls import CallReport, Section
from .findings import CallEnded, CallFound
from .format import TextFormat, declare_lines, plain
from .json_text import JsonEnds, is_json, json_until
from .prose import Prose, Tags
from .reader import Collected, Markers, Reader, Step


# Both spellings are read and only the first is written.
def _spellings(token: str) -> tuple[str, str]:
    return token, token.replace("｜", "|").replace("▁", "_")


_CALLS_BEGIN = _spellings("<｜tool▁calls▁begin｜>")
_CALLS_END = _spellings("<｜tool▁calls▁end｜>")
_CALL_BEGIN = _spellings("<｜tool▁call▁begin｜>")
_CALL_END = _spellings("<｜tool▁call▁end｜>")
_SEP = _spellings("<｜tool▁sep｜>")
_NOISE = _spellings("<｜end▁of▁sentence｜>")
_OUTPUT_BEGIN = _spellings("<｜tool▁output▁begin｜>")
_OUTPUT_END = _spellings("<｜tool▁output▁end｜>")
_OPENERS = (*_CALLS_BEGIN, *_CALL_BEGIN)
_STRAY = (*_CALLS_END, *_CALL_END, *_SEP)
_SECTION = Section(_CALLS_BEGIN, _CALLS_END, _CALL_BEGIN, _SEP, (*_CALL_END, *_NOISE))
_ALL = Markers(*_OPENERS, *_STRAY, *_NOISE)
# V3 and R1 write `function`, the separator and the name on a line of its own, and then fenced JSON.
_AFTER_NAME = Markers(*_OPENERS, *_STRAY, "\n", "{", "```")
_ENDS = JsonEnds(*_OPENERS, *_STRAY, *_NOISE)

_HOW = """To call tools, write exactly this, with one inner block for each call:
<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>tool_name<｜tool▁sep｜>{"parameter": "value"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"""


def script(reader: Reader, tools: Sequence[ToolSpec], tags: tuple[Tags, ...], starts_inside: bool) -> Step[None]:
    prose = Prose(
        reader, _OPENERS, tags=tags, starts_inside=starts_inside, in_thinking=True, noise=_NOISE, stray=_STRAY
    )
    report = CallReport(reader, prose, tools)
    calls = _Calls(reader, prose, report)
    while (marker := (yield from prose.opener())) is not None:
        yield from _SECTION.read(reader, prose, marker, calls.read, report.problem)


class _Calls:
    __slots__ = ("_prose", "_reader", "_report")

    def __init__(self, reader: Reader, prose: Prose, report: CallReport) -> None:
        self._reader = reader
        self._prose = prose
        self._report = report

    def read(self) -> Step[str | None]:
        reader = self._reader
        head = Collected()
        marker = yield from reader.until(_ALL, head.add)
        name = head.text.strip()
        if marker not in _SEP:
            self._report.problem("a tool call without arguments", name)
            return marker
        yield from reader.spaces()
        # The older form: "function" is the kind of the call, and the name comes next.
        if (yield from reader.peek(1)) != "{" and name in ("function", ""):
            line = Collected()
            marker = yield from reader.until(_AFTER_NAME, line.add)
            name = line.text.strip()
            if marker in ("{", "```"):
                reader.pos -= len(marker)
            elif marker != "\n":
                # A marker right behind the name: a call without arguments, or one that was cut off.
                self._whole(name, "", marker)
                return marker
            yield from reader.spaces()
        # The arguments begin as an object should, so they can stream.
        # Anything else (a fence, a string) is collected and judged.
        if name and (yield from reader.peek(1)) == "{":
            return (yield from self._streamed(name))
        text = Collected()
        marker = yield from json_until(reader, _ENDS, text.add)
        self._whole(name, text.text.strip(), marker)
        return marker

    def _streamed(self, name: str) -> Step[str | None]:
        self._prose.call()
        self._reader.out.append(CallFound(name))
        marker = yield from json_until(self._reader, _ENDS, Trimmed(self._reader).add)
        self._reader.out.append(CallEnded())
        return marker

    def _whole(self, name: str, text: str, marker: str | None) -> None:
        # What the stream's end cut off is never taken for a call without arguments.
        arguments = unwrap(text) or ("{}" if marker is not None else "")
        if name and is_json(arguments):
            self._report.call(name, arguments)
        else:
            self._report.problem("a tool call that is broken or cut off", f"{name} {text}")


def render_calls(calls: Sequence[ToolCall], ids: Sequence[str] = ()) -> str:
    if not calls:
        return ""
    inner = [f"{_CALL_BEGIN[0]}{call.name}{_SEP[0]}{json_arguments(call)}{_CALL_END[0]}" for call in calls]
    return f"{_CALLS_BEGIN[0]}{''.join(inner)}{_CALLS_END[0]}"


def render_result(response: ToolResponse, call_id: str = "") -> str:
    return f"{_OUTPUT_BEGIN[0]}{response.text}{_OUTPUT_END[0]}"


DEEPSEEK = TextFormat(
    "deepseek",
    script,
    declare_lines(plain, _HOW),
    render_calls,
    render_result,
    special=True,
    markers=(*_OPENERS, *_STRAY, *_NOISE, *_OUTPUT_BEGIN, *_OUTPUT_END),
    between="",
)
