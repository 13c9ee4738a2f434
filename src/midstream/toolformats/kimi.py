"""Kimi K2 to K2.7: calls between special tokens (field-guide/kimi-formats.md#output).

Read leniently, because hosts leak these tokens in every broken form: singular section markers, no section, no end, several
sections, a section inside unclosed thinking, malformed ids. Arguments stream as they come. A token never reaches the text;
what cannot be read as a call is reported with the text it stood for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..core.blocks import ToolCall, ToolResponse
from ..core.patterns import late_pattern
from ..core.tools import ToolSpec
from .arguments import Trimmed, unwrap
from .calls import Section
from .findings import ArgumentsFound, CallEnded, CallFound, ProblemFound
from .format import TextFormat, dump, wrapped
from .json_text import JsonEnds, json_until, parse
from .prose import Prose, Tags
from .reader import Collected, Markers, Reader, Step

SECTION_BEGIN = "<|tool_calls_section_begin|>"
SECTION_END = "<|tool_calls_section_end|>"
CALL_BEGIN = "<|tool_call_begin|>"
ARGUMENTS_BEGIN = "<|tool_call_argument_begin|>"
CALL_END = "<|tool_call_end|>"

# The singular form was vLLM's for half a year (field-guide/kimi-formats.md#special-tokens-of-k2-to-k27).
_SECTION_BEGINS = (SECTION_BEGIN, "<|tool_call_section_begin|>")
_SECTION_ENDS = (SECTION_END, "<|tool_call_section_end|>")
_OPENERS = (*_SECTION_BEGINS, CALL_BEGIN)
_STRAY = (*_SECTION_ENDS, ARGUMENTS_BEGIN, CALL_END)
# Headers of messages: a model that runs past its end begins the next message.
_NOISE = ("<|im_end|>", "<|im_middle|>", "<|im_system|>", "<|im_user|>", "<|im_assistant|>")
_SECTION = Section(_SECTION_BEGINS, _SECTION_ENDS, (CALL_BEGIN,), (ARGUMENTS_BEGIN,), (CALL_END, *_NOISE))
# A brace cannot be part of an id, so it is where the arguments begin if their marker is missing.
_IN_ID = Markers(*_OPENERS, *_STRAY, "<|im_end|>", "{")
# A missing end of a call: the next marker of any kind ends it.
_IN_ARGUMENTS = JsonEnds(*_OPENERS, *_STRAY, "<|im_end|>")


def script(reader: Reader, tools: Sequence[ToolSpec], tags: tuple[Tags, ...], starts_inside: bool) -> Step[None]:
    prose = Prose(
        reader, _OPENERS, tags=tags, starts_inside=starts_inside, in_thinking=True, noise=_NOISE, stray=_STRAY
    )
    calls = _Calls(reader, tools, prose)
    while (marker := (yield from prose.opener())) is not None:
        yield from _SECTION.read(reader, prose, marker, calls.read, calls.problem)


class _Calls:
    """Reads the calls of a section, one at a time."""

    __slots__ = ("_prose", "_reader", "_tools")

    def __init__(self, reader: Reader, tools: Sequence[ToolSpec], prose: Prose) -> None:
        self._reader = reader
        self._tools = tools
        self._prose = prose

    def read(self) -> Step[str | None]:
        reader = self._reader
        written = Collected()
        marker = yield from reader.until(_IN_ID, written.add)
        raw_id = written.text.strip()
        name = recover_name(raw_id, self._tools)
        if marker == "{":
            reader.pos -= 1  # the argument marker was forgotten, and no id holds a brace
        elif marker != ARGUMENTS_BEGIN:
            # What the stream's end cut off is never taken for a call without arguments.
            # A tool that requires nothing may be called without arguments. One that does was cut short.
            bare = [tool for tool in self._tools if tool.name == name and not (tool.parameters or {}).get("required")]
            if bare and name and marker is not None:
                self._whole(raw_id, name, "{}")
            else:
                self.problem("a tool call without arguments", raw_id)
            return marker
        yield from reader.spaces()
        head = yield from reader.peek(1)
        if not head:
            self.problem("a tool call without arguments", raw_id)
            return None
        # A fence or a string has to be unwrapped first, and an unknown
        # name may be found by the arguments: those wait for the end.
        if name and head not in ("`", '"'):
            return (yield from self._streamed(raw_id, name))
        collected = Collected()
        marker = yield from json_until(reader, _IN_ARGUMENTS, collected.add)
        arguments = unwrap(collected.text.strip())
        # Only for ids without any name in them. A name that is unknown stays unknown.
        if not name and is_nameless(raw_id):
            name = name_by_arguments(arguments, self._tools)
        if name:
            self._whole(raw_id, name, arguments)
        else:
            self.problem("cannot tell which tool this call is for", f"{raw_id} {arguments}")
        return marker

    def _streamed(self, raw_id: str, name: str) -> Step[str | None]:
        self._prose.call()
        out = Trimmed(self._reader)
        self._reader.out.append(CallFound(name, raw_id))
        marker = yield from json_until(self._reader, _IN_ARGUMENTS, out.add)
        # A call must have arguments, and these were blank.
        if not out.said:
            self._reader.out.append(ArgumentsFound("{}"))
        self._reader.out.append(CallEnded())
        return marker

    def _whole(self, raw_id: str, name: str, arguments: str) -> None:
        self._prose.call()
        self._reader.out += (CallFound(name, raw_id or None), ArgumentsFound(arguments or "{}"), CallEnded())

    def problem(self, why: str, raw: str) -> None:
        self._reader.out.append(ProblemFound(why, raw))


_HOW = f"""To call tools, write exactly this, with one inner block for each call. An id is functions.NAME:NUMBER; go on
counting through the whole conversation, from 0:
{SECTION_BEGIN}{CALL_BEGIN}functions.tool_name:0{ARGUMENTS_BEGIN}{{"parameter": "value"}}{CALL_END}{SECTION_END}"""
RESULT = "## Return of "


def declare(tools: Sequence[ToolSpec]) -> str:
    """The tools as in the `tool_declare` message of the model's template, and how to call them."""
    return f"# Tools\n\n{dump([wrapped(tool) for tool in tools])}\n\n{_HOW}"


def render_calls(calls: Sequence[ToolCall], ids: Sequence[str] = ()) -> str:
    """The calls of one message. Without ids they are numbered from 0, as in a conversation that has had none."""
    if not calls:
        return ""
    parts = [SECTION_BEGIN]
    for number, call in enumerate(calls):
        # As the template prints them (field-guide/kimi-formats.md#messages).
        call_id = ids[number] if ids else f"functions.{call.name}:{number}"
        parts.append(f"{CALL_BEGIN}{call_id}{ARGUMENTS_BEGIN}{call.arguments}{CALL_END}")
    parts.append(SECTION_END)
    return "".join(parts)


def render_result(response: ToolResponse, call_id: str = "") -> str:
    """The body of a tool message."""
    return f"{RESULT}{call_id or response.name}\n{response.text}"


# Which declared tool a call means, from the id or name the model wrote. A name that is written is the name: declared, or a
# call of an unknown tool; it never runs another tool that looks like it, in other case or in another namespace. We undo only
# what hosts add to a name to make an id: the prefix `functions.`, a counter (`read:0`, `read_0`), and the deletions of a
# sanitised id (`functionsread5`, `functions_read_1`), where exactly one declared tool fits. Only an id that holds no name at
# all (`3`, `call_59ad…`) leaves the tool to be found by the argument names. Two that fit are as bad as none.
_PREFIX = late_pattern(r"(?:call_)?functions?[._]?")
_COUNTER = late_pattern(r"[._:-]\d+\Z")
_GLUED_COUNTER = late_pattern(r"[._:-]?\d+\Z")
_SANITISED = late_pattern(r"[^A-Za-z0-9_-]+")
# Counters, and the random ids that OpenAI, Anthropic and vLLM mint: they appear where a client put foreign ids into the
# history and the model imitates them (field-guide/kimi.md#ids).
_NAMELESS = late_pattern(
    r"(?:functions?[.:_]*)?:?\d*"  # nothing, or a counter
    r"|(?:call|tool|toolu|tooluse|fc|chatcmpl-tool)[_-]?(?:\d[0-9A-Za-z]*|(?=[A-Za-z]*\d)[A-Za-z0-9]{16,})"
    r"|(?:(?:call|tool|toolu|tooluse|fc|chatcmpl-tool)[_-]?)?(?=[a-f-]*\d)[0-9a-f-]{8,}"
)
MAX_ID = 1024


def written_name(raw_id: str) -> str | None:
    """The name in `functions.{name}:{n}` or `{prefix.}{name}:{n}`, declared or not; None when the id has no such form."""
    body, colon, index = raw_id.rpartition(":")
    if not colon or not index or not index.replace("_", "").replace("-", "").isalnum():
        return None
    head, dot, tail = body.partition(".")
    # `functions.fs.read:0` is `fs.read`: only the first word is the namespace. Without it the last word is what engines
    # take (field-guide/kimi-formats.md#how-engines-read-it).
    name = tail if dot and head == "functions" else body.rpartition(".")[2]
    return name or None


def recover_name(raw_id: str, tools: Sequence[ToolSpec]) -> str | None:
    """The tool an id names. An id in good form that names no declared tool gives the name as written."""
    declared = [tool.name for tool in tools]
    # A bound before any pattern looks at it: this is a model's text.
    if len(raw_id) > MAX_ID:
        return None
    for exact in (raw_id, raw_id.removeprefix("functions."), raw_id.rpartition(":")[0].removeprefix("functions.")):
        if exact in declared:
            return exact
    written = written_name(raw_id)
    if written is None:
        return _sanitised(raw_id, declared)
    # Other engines cut any prefix off. Where tools are declared, `os.read` would then run `read`.
    return raw_id.rpartition(":")[0].removeprefix("functions.") if tools else written


def is_nameless(raw_id: str) -> bool:
    """Whether an id holds no name at all: nothing, a counter, or random letters under a known prefix."""
    return _NAMELESS.fullmatch(raw_id) is not None


def name_by_arguments(arguments: str, tools: Sequence[ToolSpec]) -> str | None:
    """The one tool these arguments fit: none missing that it requires, none that it does not know."""
    try:
        value = parse(arguments)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    fitting = [tool.name for tool in tools if _fits(tool, value.keys())]
    return fitting[0] if len(fitting) == 1 else None


def _fits(tool: ToolSpec, keys: Iterable[str]) -> bool:
    schema = tool.parameters or {}
    properties, required = schema.get("properties"), schema.get("required")
    known = set(properties) if isinstance(properties, dict) else set()
    return set(keys) <= known and set(required if isinstance(required, list) else ()) <= set(keys)


def _sanitised(raw_id: str, declared: Sequence[str]) -> str | None:
    """The one declared tool whose id is this one after a host or client took out of it what it does not allow."""
    # A counter glued to the name is only read behind the prefix: `read5` by itself may be a tool's name.
    prefix = _PREFIX.match(raw_id)
    bare = raw_id[prefix.end() :] if prefix else raw_id
    wanted = {bare, (_GLUED_COUNTER if prefix else _COUNTER).sub("", bare)} - {""}
    found = {name for name in declared if name in wanted or _SANITISED.sub("", name) in wanted}
    return found.pop() if len(found) == 1 else None


KIMI = TextFormat(
    "kimi",
    script,
    declare,
    render_calls,
    render_result,
    special=True,
    markers=(*_OPENERS, *_STRAY, *_NOISE, RESULT),
    ids="kimi",
    between="",
)
