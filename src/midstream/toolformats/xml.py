"""XML calls: `<invoke name="f"><parameter name="k">v</parameter></invoke>`, `<tool><name>…<arguments>…`, `<use_tool f k="v">`.

The first form is what we declare and render; the others are read because models write them. Values are escaped as XML is,
and typed by the schema. A tag that no call follows is prose and stays text.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.blocks import ToolCall, ToolResponse
from ..core.patterns import late_pattern
from ..core.tools import ToolSpec
from .arguments import arguments_of, bare
from .calls import CallReport, Values
from .format import TextFormat, declare_lines, plain
from .prose import Prose, Tags
from .reader import Collected, Markers, Reader, Step
from .tool_call_tag import check_gap, child_pairs

# Anthropic's and MiniMax's form first. The others are what models of many families fall back to when told "use XML".
_INVOKE, _TOOL, _USE_TOOL, _USE = "<invoke ", "<tool>", "<use_tool", "<use "
_ENDS = {_INVOKE: "</invoke>", _TOOL: "</tool>", _USE_TOOL: "</use_tool>", _USE: "</use>"}
_END_MARKERS = {end: Markers(end) for end in _ENDS.values()}
# `</invoke>` inside a parameter is data as long as the parameter's own end comes first.
_INVOKE_VALUES = Values("<parameter", "</parameter>", ("</invoke>",), (_INVOKE,))
_WRAPPERS = (
    "<function_calls>", "</function_calls>", "<tool_calls>", "</tool_calls>", "<minimax:tool_call>", "</minimax:tool_call>",
)  # fmt: skip
# An opening tag: quoted values may contain brackets. Possessive
# throughout, so a tag that is never closed costs one pass.
_TAG = late_pattern(r"""(?:[^<>"']++|"[^"]*+"|'[^']*+')*+""")
_ATTRIBUTE = late_pattern(r"""([A-Za-z_][\w.-]*+)\s*+=\s*+(?:"([^"]*+)"|'([^']*+)')""")
_BARE_NAME = late_pattern(r"\s*+([A-Za-z_][\w.-]*+)(?!\s*=)")
_PARAMETER = late_pattern(r"""<parameter\s++name\s*+=\s*+(?:"([^"<>]*+)"|'([^'<>]*+)')[^<>]*+>""")
_ENTITY = late_pattern(r"&(lt|gt|amp|quot|apos|#39|#10|#13);")
_CHARACTERS = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'", "#39": "'", "#10": "\n", "#13": "\r"}
# A tag longer than this is prose with a stray bracket.
MAX_TAG = 1024

_HOW = """To call a tool, write it as XML; escape <, > and & in values, write lists and objects as JSON:
<function_calls>
<invoke name="tool_name">
<parameter name="parameter_name">value</parameter>
</invoke>
</function_calls>"""


def script(reader: Reader, tools: Sequence[ToolSpec], tags: tuple[Tags, ...], starts_inside: bool) -> Step[None]:
    prose = Prose(reader, tuple(_ENDS), tags=tags, starts_inside=starts_inside, wrappers=_WRAPPERS)
    element = _Element(reader, prose, CallReport(reader, prose, tools), frozenset([tool.name for tool in tools]))
    while (opener := (yield from prose.opener())) is not None:
        yield from element.read(opener)


class _Element:
    __slots__ = ("_names", "_prose", "_reader", "_report")

    def __init__(self, reader: Reader, prose: Prose, report: CallReport, names: frozenset[str]) -> None:
        self._names = names
        self._reader = reader
        self._prose = prose
        self._report = report

    def read(self, opener: str) -> Step[None]:
        attributes = ""
        if opener != _TOOL:
            tag = yield from self._tag()
            if tag is None or not self._calls(opener, tag):
                # Only what was read is given back as text; what follows the opener has not been read yet.
                self._prose.say(opener)
                return
            attributes = tag[:-1]
            self._reader.pos += len(tag)
        else:
            blank = yield from self._reader.spaces()
            if (yield from self._reader.peek(6)) != "<name>":
                self._prose.say(opener + blank)
                return
        # An element without a body: all arguments are attributes.
        if attributes.endswith("/"):
            self._found(attributes[:-1], "")
            return
        if opener == _INVOKE:
            text, marker = yield from _INVOKE_VALUES.until_end(self._reader)
        else:
            body = Collected()
            marker = yield from self._reader.until(_END_MARKERS[_ENDS[opener]], body.add)
            text = body.text
        if marker is None:
            self._report.problem("a tool call was cut off", opener + attributes + "\n" + text)
        elif opener == _INVOKE:
            self._report.pairs(named(attributes), parameters, text)
        else:
            self._found(attributes, text)

    def _calls(self, opener: str, tag: str) -> bool:
        """Whether an opening tag is a call. `<use …>` is also SVG and prose: it must name a tool, or have attributes."""
        name = named(tag)
        if opener == _INVOKE:
            return bool(_attributes(tag).get("name"))
        if opener == _USE_TOOL and tag == ">":
            return True
        # With tools declared the name decides. Without, attributes are the only sign that a call is meant.
        return name in self._names if self._names else bool(name and _ATTRIBUTE.search(tag))

    def _tag(self) -> Step[str | None]:
        """The rest of the opening tag, unread; None when this is not a tag."""
        reader = self._reader
        while True:
            start = reader.pos
            # Bounded by the end position, so that a tag is too long or not whatever has arrived by now.
            inner = _TAG.match(reader.buffer, start, start + MAX_TAG)
            assert inner
            follows = reader.buffer[inner.end() : inner.end() + 1]
            if follows == ">":
                return reader.buffer[start : inner.end() + 1]
            # Another tag begins, or it is too long: this was none.
            if follows == "<" or reader.ended or len(reader.buffer) - start >= MAX_TAG:
                return None
            yield

    def _found(self, attributes: str, body: str) -> None:
        """A call by attributes and child elements."""
        given = _attributes(attributes)
        children = child_pairs(body)
        name = unescape(children.pop("name", "")).strip() or named(attributes)
        given.pop("name", None)
        arguments = children.pop("arguments", None)
        texts = {**given, **{key: unescape(value) for key, value in children.items()}}
        content = body if arguments is None else arguments
        # JSON where elements were expected. Some models escape it as XML and some do not, so both spellings are tried.
        if content.lstrip().startswith("{"):
            self._report.json_arguments(name, content.strip(), unescape(content.strip()))
            return
        if arguments is not None:
            texts |= {key: unescape(value) for key, value in child_pairs(arguments).items()}
        self._report.bare(name, texts)


def named(tag: str) -> str:
    """The tool's name in an opening tag: its `name`, or the bare word it begins with."""
    name = _attributes(tag).get("name")
    if name is not None:
        return name.strip()
    match = _BARE_NAME.match(tag)
    return match[1] if match else ""


def _attributes(tag: str) -> dict[str, str]:
    return {match[1]: unescape(match[2] or match[3] or "") for match in _ATTRIBUTE.finditer(tag)}


def parameters(body: str) -> dict[str, str]:
    """The `<parameter name=…>` elements of a call; ValueError where text follows an end, as in `coder_pairs`."""
    pairs: dict[str, str] = {}
    at = 0
    # A search, not a parse: models indent, and put blank lines between parameters.
    while match := _PARAMETER.search(body, at):
        end = body.find("</parameter>", match.end())
        stop = end if end >= 0 else len(body)
        value = body[match.end() : stop].removeprefix("\n").removesuffix("\n")
        pairs[unescape(match[1] or match[2] or "")] = unescape(value)
        at = stop
        if end >= 0:
            following = _PARAMETER.search(body, end)
            check_gap(body[end + len("</parameter>") : following.start() if following else len(body)])
    return pairs


def unescape(text: str) -> str:
    return _ENTITY.sub(lambda match: _CHARACTERS[match[1]], text)


def escape(text: str) -> str:
    """XML text; a line break at either end is an entity, for readers take those as layout."""
    # The ampersand first, or the entities made after it would be escaped again.
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    if safe.startswith("\n"):
        safe = "&#10;" + safe[1:]
    return safe[:-1] + "&#10;" if safe.endswith("\n") else safe


def render_calls(calls: Sequence[ToolCall], ids: Sequence[str] = ()) -> str:
    if not calls:
        return ""
    parts = ["<function_calls>\n"]
    for call in calls:
        parts.append(f'<invoke name="{escape(call.name)}">\n')
        for key, value in arguments_of(call).items():
            parts.append(f'<parameter name="{escape(key)}">{escape(bare(value))}</parameter>\n')
        parts.append("</invoke>\n")
    parts.append("</function_calls>")
    return "".join(parts)


def render_result(response: ToolResponse, call_id: str = "") -> str:
    kind = "error" if response.is_error else "output"
    return (
        f'<function_results>\n<result name="{escape(response.name)}">\n'
        f"<{kind}>{escape(response.text)}</{kind}>\n</result>\n</function_results>"
    )


_RESULTS = ("<function_results>", "</function_results>", "<tools>", "</tools>")

XML = TextFormat(
    "xml",
    script,
    declare_lines(plain, _HOW, tagged=True),
    render_calls,
    render_result,
    markers=(_INVOKE, _ENDS[_INVOKE], *_WRAPPERS, *_RESULTS),
    marks_errors=True,
)
