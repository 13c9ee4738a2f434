"""Mistral: `[TOOL_CALLS]` and a JSON array, or (newer tokenisers) `[TOOL_CALLS]name[ARGS]{json}` for each call."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.blocks import ToolCall, ToolResponse
from ..core.patterns import late_pattern
from ..core.tools import ToolSpec
from .arguments import json_call
from .calls import CallReport
from .format import TextFormat, dump, wrapped
from .json_text import bracketed, is_json
from .prose import Prose, Tags
from .reader import Collected, Markers, Reader, Step

_CALLS, _CALL_ID, _ARGS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
# Names end where anything that no tool's name contains begins:
# newer tokenisers put a marker there, some models a brace.
_NAME_END = late_pattern(r"[^\w.:/-]")
MAX_NAME = 128
# Whatever may follow a name, in any order: versions leave out parts.
_AFTER_NAME = Markers(_CALL_ID, _ARGS, "{", _CALLS, "</s>")


def script(reader: Reader, tools: Sequence[ToolSpec], tags: tuple[Tags, ...], starts_inside: bool) -> Step[None]:
    prose = Prose(
        reader,
        (_CALLS,),
        tags=tags,
        starts_inside=starts_inside,
        # The marker is a special token: a call in thinking is a real call.
        in_thinking=True,
        noise=("</s>",),
        stray=(_ARGS, _CALL_ID),
    )
    calls = _Calls(reader, prose, CallReport(reader, prose, tools))
    while (marker := (yield from prose.opener())) is not None:
        while marker == _CALLS:
            marker = yield from calls.read()


class _Calls:
    __slots__ = ("_prose", "_reader", "_report")

    def __init__(self, reader: Reader, prose: Prose, report: CallReport) -> None:
        self._prose = prose
        self._reader = reader
        self._report = report

    def read(self) -> Step[str | None]:
        blank = yield from self._reader.spaces()
        head = yield from self._reader.peek(1)
        # The older form: a JSON list, and sometimes a single object in its place.
        if head in ("[", "{"):
            text = Collected()
            whole = yield from bracketed(self._reader, text.add)
            if whole:
                self._report.json(text.text, ended=True)
            else:
                self._report.problem("a tool call was cut off", text.text)
            return None
        return (yield from self._named(blank))

    def _named(self, blank: str) -> Step[str | None]:
        """`name[CALL_ID]id[ARGS]{json}`, the id and even `[ARGS]` left out by some versions."""
        reader = self._reader
        name = yield from reader.head(_NAME_END, MAX_NAME)
        reader.pos += len(name)
        gap = yield from reader.spaces()
        # `[TOOL_CALLS]` that neither JSON nor a name follows is somebody writing about it.
        if not name or (yield from reader.peek(1)) not in ("[", "{"):
            self._prose.say(_CALLS + blank + name + gap)
            return None
        call_id, between = Collected(), Collected()
        marker = yield from reader.until(_AFTER_NAME, between.add)
        if marker == _CALL_ID:
            marker = yield from reader.until(_AFTER_NAME, call_id.add)
        if marker == _ARGS:
            marker = yield from reader.until(_AFTER_NAME, between.add)
        # Another call, the end of the message, or nothing more. The
        # marker is handed on, so that a call behind it is not lost.
        if marker != "{":
            self._report.problem("a tool call without arguments", f"{name} {call_id.text} {between.text}")
            return marker
        # Back to the brace, which is part of the JSON.
        reader.pos -= 1
        text = Collected()
        whole = yield from bracketed(reader, text.add)
        if whole and is_json(text.text):
            self._report.call(name, text.text, call_id.text.strip() or None)
        else:
            self._report.problem("a tool call that is broken or cut off", f"{name} {text.text}")
        return None


_HOW = """To call tools, write this marker and a JSON list with one object for each call:
[TOOL_CALLS][{"name": "the tool's name", "arguments": {"parameter": "value"}}]"""


def declare(tools: Sequence[ToolSpec]) -> str:
    return f"[AVAILABLE_TOOLS]{dump([wrapped(tool) for tool in tools])}[/AVAILABLE_TOOLS]\n\n{_HOW}"


def render_calls(calls: Sequence[ToolCall], ids: Sequence[str] = ()) -> str:
    if not calls:
        return ""
    parts = [json_call(call, call_id=ids[number] if ids else "") for number, call in enumerate(calls)]
    return f"{_CALLS}[{', '.join(parts)}]"


def render_result(response: ToolResponse, call_id: str = "") -> str:
    return f"[TOOL_RESULTS]{dump({'content': response.text, 'call_id': call_id})}[/TOOL_RESULTS]"


_FRAMES = ("[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]")

MISTRAL = TextFormat(
    "mistral",
    script,
    declare,
    render_calls,
    render_result,
    markers=(_CALLS, _ARGS, _CALL_ID, *_FRAMES),
    ids="mistral",
    between="",
)
