"""Calls inside `<tool_call>` (Hermes, Qwen, Qwen3-Coder, GLM): whatever a model writes there, every form is read.

JSON (Hermes, Qwen), `<function=f><parameter=k>` (Qwen3-Coder, also without the outer tag), a name and
`<arg_key>/<arg_value>` pairs (GLM), a name and `<key>value</key>` lines. A tag that none of these follows is prose about
tags and stays text. One script reads them all; the formats differ only in what they declare and render.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.blocks import ToolCall, ToolResponse
from ..core.patterns import late_pattern
from ..core.tools import ToolSpec
from .arguments import TagEscape, arguments_of, bare, json_call
from .calls import CallReport, Values
from .format import TextFormat, declare_lines, dump, plain, render_each, wrapped
from .json_text import JsonEnds
from .prose import Prose, Tags
from .reader import Reader, Step

BEGIN, END = "<tool_call>", "</tool_call>"
FUNCTION, FUNCTION_END = "<function=", "</function>"
PARAMETER, PARAMETER_END = "<parameter=", "</parameter>"
KEY, KEY_END = "<arg_key>", "</arg_key>"
VALUE, VALUE_END = "<arg_value>", "</arg_value>"

# Neither format can say its own tags inside a value, and a model that writes about them needs to.
CODER_ESCAPE = TagEscape(FUNCTION, FUNCTION_END, PARAMETER, PARAMETER_END, BEGIN, END)
GLM_ESCAPE = TagEscape(KEY, KEY_END, VALUE, VALUE_END, BEGIN, END)

# Ends of messages, and the headers of the next one that a model makes up when it is not stopped.
_NOISE = ("<|im_end|>", "<|im_start|>assistant", "<|endoftext|>", "<|observation|>", "<|user|>")
_JSON_ENDS = JsonEnds(END, BEGIN, "<|im_end|>")
_GLM_VALUES = Values(VALUE, VALUE_END, (END, BEGIN), (BEGIN,))
_CODER_VALUES = Values(PARAMETER, PARAMETER_END, (FUNCTION_END, END), (FUNCTION, BEGIN))
_VALUE_ENDS = late_pattern(f"{PARAMETER_END}|{PARAMETER}")
_NAME = late_pattern(r"[A-Za-z_][\w.:/-]*")
_NAME_END = late_pattern(r"[^\w.:/-]")
_TAG_END = late_pattern(r"[<>\n]")
_CHILD = late_pattern(r"<([A-Za-z_][\w.-]*)>")
MAX_NAME = 128


# `<function=` is an opener of its own, since Qwen3-Coder forgets the outer tag.
def script(reader: Reader, tools: Sequence[ToolSpec], tags: tuple[Tags, ...], starts_inside: bool) -> Step[None]:
    prose = Prose(reader, (BEGIN, FUNCTION), tags=tags, starts_inside=starts_inside, noise=_NOISE, stray=(END,))
    body = _Body(reader, prose, CallReport(reader, prose, tools))
    while (marker := (yield from prose.opener())) is not None:
        if marker == FUNCTION:
            yield from body.function(FUNCTION)
            continue
        while marker == BEGIN:
            marker = yield from body.read()


class _Body:
    __slots__ = ("_prose", "_reader", "_report")

    def __init__(self, reader: Reader, prose: Prose, report: CallReport) -> None:
        self._reader = reader
        self._prose = prose
        self._report = report

    def read(self) -> Step[str | None]:
        """Read what follows `<tool_call>`; the marker that ended it."""
        # What follows decides the form. Each is certain after a bounded look ahead, so prose is not held back.
        blank = yield from self._reader.spaces()
        head = yield from self._reader.peek(len(FUNCTION))
        if head[:1] in ("{", "["):
            return (yield from self._json())
        if head == FUNCTION:
            return (yield from self._functions())
        name = yield from self._reader.head(_NAME_END, MAX_NAME)
        self._reader.pos += len(name)
        gap = yield from self._reader.spaces()
        follows = yield from self._reader.peek(1)
        if follows == "<" and _NAME.fullmatch(name):
            return (yield from self._named(name))
        self._prose.say(BEGIN + blank + name + gap)
        return None

    def _json(self) -> Step[str | None]:
        marker, rest = yield from self._report.json_until(_JSON_ENDS)
        if rest.strip(" \n}"):
            # With an end marker the JSON was followed by more inside the
            # tag. Without, the tag was never closed and the answer goes on.
            if marker == END:
                self._report.problem("text inside a tool call", rest)
            else:
                self._prose_goes_on(rest, marker)
                return None
        return marker

    def _prose_goes_on(self, text: str, marker: str | None) -> None:
        """The end of the call was forgotten: this is prose, which may quote the marker behind it."""
        self._prose.say(text)
        if marker is not None:
            self._reader.unread(marker)

    def _named(self, name: str) -> Step[str | None]:
        """A name was read; its arguments are pairs of tags."""
        text, marker = yield from _GLM_VALUES.until_end(self._reader)
        # The next call begins without an end of this one: what stands behind the last tag is prose.
        rest = text.rpartition(">")[2] if marker == BEGIN else ""
        text = text[: len(text) - len(rest)]
        # A name with nothing behind it is a call without arguments; one with half a tag behind it was cut.
        if marker is None and text.strip():
            self._report.problem("a tool call was cut off", f"{name}\n{text}")
        else:
            self._report.pairs(name, glm_pairs if KEY in text else child_pairs, text)
        if rest.strip():
            self._prose_goes_on(rest, marker)
            return None
        return marker

    def _functions(self) -> Step[str | None]:
        """One or more functions inside the outer tag."""
        while True:
            self._reader.pos += len(FUNCTION)
            closed = yield from self.function(BEGIN + FUNCTION)
            if not closed:
                return None
            yield from self._reader.spaces()
            # Models close the outer tag, forget it, or go on with another function inside of it.
            head = yield from self._reader.peek(len(END))
            if head == END:
                self._reader.pos += len(END)
                return END
            if not head.startswith(FUNCTION):
                return None

    def function(self, opened: str) -> Step[bool]:
        """Read on from `<function=`; False when what followed was no function, or its outer tag has ended too."""
        head = yield from self._reader.head(_TAG_END, MAX_NAME)
        self._reader.pos += len(head)
        # Quotes around the name are a habit from XML.
        name = head.strip().strip("\"'")
        if not _NAME.fullmatch(name) or (yield from self._reader.peek(1)) != ">":
            self._prose.say(opened + head)
            return False
        self._reader.pos += 1
        text, marker = yield from _CODER_VALUES.until_end(self._reader)
        if marker is None:
            self._report.problem("a tool call was cut off", f"{name}\n{text}")
        elif text.lstrip().startswith("{"):
            self._report.json_arguments(name, text.strip())  # Llama 3.1's custom calls: `<function=f>{json}</function>`
        else:
            self._report.pairs(name, coder_pairs, text)
        return marker == FUNCTION_END


def coder_pairs(text: str) -> dict[str, str]:
    """`<parameter=k>` value pairs; a forgotten end tag ends at the next parameter.

    ValueError where text follows an end: the end stood in the value, and what came before is only half of it.
    """
    pairs: dict[str, str] = {}
    at = text.find(PARAMETER)
    while at >= 0:
        key_end = text.find(">", at)
        if key_end < 0:
            break
        key = text[at + len(PARAMETER) : key_end].strip().strip("\"'")
        # The next parameter ends a value as well: a forgotten end tag is common, and the values are not lost by it.
        end = _VALUE_ENDS.search(text, key_end + 1)
        value = text[key_end + 1 : end.start() if end else len(text)]
        pairs[key] = CODER_ESCAPE.unescape(_without_frame(value))
        at = text.find(PARAMETER, end.start()) if end else -1
        # Behind an end nothing but layout may come: see the docstring.
        if end and end[0] == PARAMETER_END:
            check_gap(text[end.end() : at if at >= 0 else len(text)])
    return pairs


def check_gap(text: str) -> None:
    if text.strip():
        raise ValueError("text between the arguments of a call; one of them may have been cut short")


def glm_pairs(text: str) -> dict[str, str]:
    """`<arg_key>`, `<arg_value>` pairs; ValueError as in `coder_pairs`."""
    pairs: dict[str, str] = {}
    at = 0
    while (start := text.find(KEY, at)) >= 0:
        key_end = text.find(KEY_END, start)
        value_start = text.find(VALUE, key_end) if key_end >= 0 else -1
        if value_start < 0:
            break
        value_end = text.find(VALUE_END, value_start)
        if value_end < 0:
            value_end = len(text)
        key = text[start + len(KEY) : key_end].strip()
        pairs[key] = GLM_ESCAPE.unescape(text[value_start + len(VALUE) : value_end])
        at = value_end
        if value_end < len(text):
            following = text.find(KEY, value_end)
            check_gap(text[value_end + len(VALUE_END) : following if following >= 0 else len(text)])
    return pairs


def child_pairs(text: str) -> dict[str, str]:
    """`<key>value</key>` pairs, as far as they are well formed."""
    pairs: dict[str, str] = {}
    at = 0
    while match := _CHILD.search(text, at):
        end = text.find(f"</{match[1]}>", match.end())
        if end < 0:
            break
        pairs[match[1]] = text[match.end() : end]
        at = end + len(match[1]) + 3
    return pairs


def _without_frame(value: str) -> str:
    """A value without the line breaks that set it apart from its tags."""
    # One at each end, and no more: further ones are part of the value.
    return value.removeprefix("\n").removesuffix("\n")


_JSON_HOW = """To call a tool, write one JSON object with its name and arguments between tags, and nothing else between them:
<tool_call>
{"name": "the tool's name", "arguments": {"parameter": "value"}}
</tool_call>
Write one such block for each call. Results come back between <tool_response> and </tool_response>."""

_CODER_HOW = """To call a tool, name it and give each parameter its own tag. Write values bare, without quotes; only lists and objects are JSON.
<tool_call>
<function=tool_name>
<parameter=parameter_name>
value
</parameter>
</function>
</tool_call>
Write one such block for each call, after anything you have to say."""

_GLM_HOW = """To call a tool, write its name and then a key and a value for each argument; strings bare, everything else as JSON:
<tool_call>tool_name
<arg_key>parameter_name</arg_key>
<arg_value>value</arg_value>
</tool_call>"""


def _render_json(call: ToolCall) -> str:
    return f"{BEGIN}\n{json_call(call)}\n{END}"


def _render_coder(call: ToolCall) -> str:
    parts = [f"{BEGIN}\n{FUNCTION}{call.name}>\n"]
    for key, value in arguments_of(call).items():
        parts.append(f"{PARAMETER}{key}>\n{CODER_ESCAPE.escape(bare(value))}\n{PARAMETER_END}\n")
    parts.append(f"{FUNCTION_END}\n{END}")
    return "".join(parts)


def _render_glm(call: ToolCall) -> str:
    parts = [f"{BEGIN}{call.name}\n"]
    for key, value in arguments_of(call).items():
        parts.append(f"{KEY}{key}{KEY_END}\n{VALUE}{GLM_ESCAPE.escape(bare(value))}{VALUE_END}\n")
    parts.append(END)
    return "".join(parts)


def _named_result(response: ToolResponse, call_id: str = "") -> str:
    return f"<tool_response>\n{dump({'name': response.name, 'content': response.text})}\n</tool_response>"


def _bare_result(response: ToolResponse, call_id: str = "") -> str:
    return f"<tool_response>\n{response.text}\n</tool_response>"


_declare_hermes = declare_lines(plain, _JSON_HOW, tagged=True)
_declare_qwen = declare_lines(wrapped, _JSON_HOW, tagged=True)
_declare_coder = declare_lines(plain, _CODER_HOW, tagged=True)
_declare_glm = declare_lines(wrapped, _GLM_HOW, tagged=True)

_MARKERS = (BEGIN, END, "<tool_response>", "</tool_response>", "<tools>", "</tools>")
_CODER_MARKERS = (*_MARKERS, FUNCTION, FUNCTION_END, PARAMETER, PARAMETER_END)
_GLM_MARKERS = (*_MARKERS, KEY, KEY_END, VALUE, VALUE_END)

HERMES = TextFormat(
    "hermes", script, _declare_hermes, render_each(_render_json), _named_result, markers=(*_MARKERS, FUNCTION)
)
QWEN = TextFormat("qwen", script, _declare_qwen, render_each(_render_json), _bare_result, markers=(*_MARKERS, FUNCTION))
QWEN3_CODER = TextFormat(
    "qwen3-coder", script, _declare_coder, render_each(_render_coder), _bare_result, markers=_CODER_MARKERS
)
GLM = TextFormat("glm", script, _declare_glm, render_each(_render_glm), _bare_result, markers=_GLM_MARKERS)
