"""The text formats by name, and the filters a wire asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TypeGuard, get_args

from ..core.dialect import Dialect, TextCalls
from ..core.dialect import TextFormat as FormatName
from ..core.errors import UnknownToolFormat
from ..core.tools import ToolSpec
from .findings import ArgumentsFound, CallEnded, CallFound, Finding, Idle, ProblemFound, TextFilter
from .format import TextFormat
from .prose import KNOWN_TAGS, Prose, Tags
from .reader import Collected, Reader, ScriptFilter, Step

__all__ = ["FORMATS", "get_filter", "leak_filter", "reasoning_filter", "text_filter", "text_format", "think_filter"]

# A format is loaded when it is first used: `kimi-k3` is KIMI_K3 in kimi_k3.py. A new one is its module and its name in
# core.dialect.TextFormat, the list that FORMATS is read from.
FORMATS: tuple[str, ...] = get_args(FormatName)
"""The names of all text formats."""

_FAMILY = dict.fromkeys(("hermes", "qwen", "qwen3-coder", "glm"), "tool_call_tag")  # formats that share one script

_loaded: dict[str, TextFormat] = {}


def text_format(name: str) -> TextFormat:
    """The text format of this name. `openai` and `anthropic` have none: their calls never travel as text."""
    found = _loaded.get(name)
    if found is None:
        if name not in FORMATS:
            raise UnknownToolFormat(f"unknown text tool format {name!r}; expected one of {', '.join(sorted(FORMATS))}")
        module = _FAMILY.get(name, name).replace("-", "_")
        found = getattr(import_module(f"{__package__}.{module}"), name.replace("-", "_").upper())
        _loaded[name] = found
    return found


def get_filter(
    name: str,
    tools: Sequence[ToolSpec] = (),
    *,
    tags: Tags | None = None,
    starts_inside: bool = False,
    rescue: bool = False,
) -> TextFilter:
    """A filter that reads every call of this format, declared or not, and thinking between `tags`.

    With `rescue` the format was not chosen: calls are leaks, and what may be a quotation is one (quoting.py).
    """
    script = text_format(name).script
    # Where the caller names no tags, thinking is not looked for: `<think>` may be what the text is about.
    pairs = () if tags is None else (tags,)
    return ScriptFilter(lambda reader: script(reader, tools, pairs, starts_inside), rescue=rescue)


def leak_filter(
    name: str,
    tools: Sequence[ToolSpec],
    *,
    tags: Tags | None = None,
    starts_inside: bool = False,
    safety: TextCalls = "execute",
) -> TextFilter:
    """`get_filter` for leaked calls, under a safety policy: by default only calls of declared tools come through.

    Where a host both leaks calls and leaves thinking in the text, give the tags here instead of chaining a `think_filter`: a
    tag inside a call's arguments is data, and only one pass over both can tell.
    """
    return Guard(get_filter(name, tools, tags=tags, starts_inside=starts_inside, rescue=True), tools, safety)


def text_filter(dialect: Dialect, tools: Sequence[ToolSpec], safety: TextCalls = "execute") -> TextFilter | None:
    """The filter for the text of a structured answer, where the host leaks calls or leaves thinking in it; else None."""
    rules = dialect.reasoning
    # One filter for both: see `leak_filter`.
    if _rescues(dialect.leaks, tools):
        return leak_filter(dialect.leaks, tools, tags=rules.tags, starts_inside=rules.starts_inside, safety=safety)
    return think_filter(rules.tags, rules.starts_inside) if rules.tags is not None else None


def reasoning_filter(
    dialect: Dialect, tools: Sequence[ToolSpec], safety: TextCalls = "execute"
) -> Callable[[], TextFilter] | None:
    """What makes a filter for each stretch of reasoning that a host sends apart, where calls leak into it."""
    leaks = dialect.leaks
    # Made anew for each stretch: quoting and fences of one stretch of reasoning say nothing about the next.
    return (lambda: leak_filter(leaks, tools, safety=safety)) if _rescues(leaks, tools) else None


def _rescues(leaks: FormatName | None, tools: Sequence[ToolSpec]) -> TypeGuard[FormatName]:
    """Without a tool there is no call to rescue, and what looks like one is text."""
    # A special token is never meant as text, so it is taken out even where no tool could be called.
    return leaks is not None and (bool(tools) or text_format(leaks).special)


_WHY = {
    "reask": "the model wrote a call as text; ask it to make a real call",
    "show": "the model wrote a call as text; it was not run",
}


class Guard:
    """A TextFilter that applies the caller's policy for calls found in text to what another filter finds.

    `execute` (the default) lets calls of declared tools through and reports the rest; `reask` lets none through, so that
    the caller can ask the model to use the real channel; `show` lets none through either, so that a person can look at it.
    A call that is not let through becomes a ProblemFound with the whole call: kept out of the text and never replayed.
    """

    __slots__ = ("_filter", "_held", "_names", "_safety", "_why")

    def __init__(self, filter: TextFilter, tools: Sequence[ToolSpec], safety: TextCalls = "execute") -> None:
        self._filter = filter
        self._names = frozenset([tool.name for tool in tools])
        self._safety = safety
        self._held: Collected | None = None
        self._why = ""

    @property
    def idle(self) -> Idle | None:
        # Nothing is held while the inner filter is at rest: a held call ends with a finding of its own.
        return self._filter.idle

    @property
    def unclosed(self) -> bool:
        return self._filter.unclosed

    def feed(self, text: str) -> list[Finding]:
        return self._judge(self._filter.feed(text))

    def close(self) -> list[Finding]:
        return self._judge(self._filter.close())

    def _judge(self, findings: list[Finding]) -> list[Finding]:
        out: list[Finding] = []
        for finding in findings:
            if type(finding) is CallFound and (why := self._objection(finding)):
                self._why = why
                self._held = Collected()
                # What the model wrote, for a person to look at: the id tells more than the name where it is malformed.
                self._held.add(f"{finding.raw_id or finding.name} ")
            elif self._held is None:
                out.append(finding)
            elif type(finding) is ArgumentsFound:
                self._held.add(finding.json)
            elif type(finding) is CallEnded:
                out.append(ProblemFound(self._why, self._held.text))
                self._held = None
            else:
                out.append(finding)
        return out

    def _objection(self, call: CallFound) -> str:
        if self._safety != "execute":
            return _WHY[self._safety]
        # Never a tool that merely looks like it: a call in text may be talk, or planted
        # (field-guide/text-calls.md#what-is-a-call-and-what-is-talk).
        return "" if call.name in self._names else f"no tool {call.name!r} is declared"


def think_filter(tags: Tags | None = None, starts_inside: bool = False) -> TextFilter:
    """A filter that splits text into text and thinking; without `tags`, every pair we know.

    With `starts_inside` the prompt already opened the thinking and the answer begins in it. A tag is read wherever it is,
    since models think more than once; an end without a beginning is kept out of the text and reported.
    """
    pairs = KNOWN_TAGS if tags is None else (tags,)

    def script(reader: Reader) -> Step[None]:
        yield from Prose(reader, tags=pairs, starts_inside=starts_inside).opener()

    return ScriptFilter(script)
