"""Tools over plain text, read by a double: which format a system prompt declares them in, and what was called in it.

Nothing marks the format but its structure: the tools are read out of the prompt, declared again in each format, and the one
whose declaration stands there is meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from ..core.blocks import Block, Text, ToolCall, ToolResponse, Turn
from ..core.dialect import TextFormat as FormatName
from ..core.errors import InvalidHistory
from ..core.tools import ToolSpec
from ..toolformats.findings import ArgumentsFound, CallFound, TextFound
from ..toolformats.registry import get_filter, text_format
from ..wires.request import ParsedRequest
from ..wires.tool_format import TEXT_FORMATS
from .answer import Answer, Style

# At the beginning of a line, or right behind a bracket, as
# formats put a marker before their JSON (`[AVAILABLE_TOOLS][{…`).
_JSON_START = re.compile(r"(?:^|(?<=\]))(?=[\[{])", re.M)


class Spoken(msgspec.Struct, frozen=True):
    """A request whose tools are declared in text, as if they had been declared to the host."""

    parsed: ParsedRequest
    format: FormatName

    def answer(self, answer: Answer, style: Style) -> Answer:
        """The answer with its calls in its text."""
        if not answer.calls:
            return answer
        calls = [ToolCall(f"sim{number}", call.name, call.json) for number, call in enumerate(answer.calls)]
        ids = [replace(style, ids="functions").call_id(call.name, number) for number, call in enumerate(answer.calls)]
        known = text_format(self.format)
        return replace(answer, text=known.answer(answer.text, calls, ids if known.ids == "kimi" else ()), calls=())


def read_text_tools(parsed: ParsedRequest) -> Spoken | None:
    """The request with its text calls and results as blocks; None if its system prompt declares no tools."""
    system = parsed.conversation.system_text
    tools = _declared(system)
    if not tools:
        return None
    # Rendered again and compared, so a format that changes its
    # words is still recognized, with no second copy of them here.
    for name in TEXT_FORMATS.values():
        if text_format(name).declare(tools) in system:
            turns = _Reader(name, tools).turns(parsed.conversation.turns)
            return Spoken(
                replace(parsed, conversation=replace(parsed.conversation, turns=turns), tools=tuple(tools)), name
            )
    return None


def _declared(system: str) -> list[ToolSpec]:
    """The tools whose JSON stands at the beginning of a line, one by one or in a list."""
    tools: list[ToolSpec] = []
    for start in _JSON_START.finditer(system):
        try:
            found, _ = json.JSONDecoder().raw_decode(system, start.end())
        except ValueError:
            continue
        for item in found if isinstance(found, list) else [found]:
            inner = item.get("function", item) if isinstance(item, dict) else None
            if isinstance(inner, dict) and isinstance(inner.get("parameters"), dict) and "description" in inner:
                tools.append(ToolSpec(inner["name"], inner["description"], inner["parameters"]))
    return tools


class _Reader:
    """Reads turns of words as the calls and results they tell of, in order."""

    def __init__(self, name: FormatName, tools: Sequence[ToolSpec]) -> None:
        self._name = name
        self._tools = tools
        self._result = _result_pattern(name)
        self._open: list[ToolCall] = []
        self._count = 0

    def turns(self, turns: Sequence[Turn]) -> tuple[Turn, ...]:
        read: list[Turn] = []
        for turn in turns:
            read += [self._answer(turn)] if turn.speaker == "ai" else self._said(turn)
        return tuple(read)

    def _answer(self, turn: Turn) -> Turn:
        filter = get_filter(self._name, self._tools)
        said: list[str] = []
        calls: list[tuple[str, list[str]]] = []
        for finding in [*filter.feed(turn.text), *filter.close()]:
            if type(finding) is TextFound:
                said.append(finding.text)
            elif type(finding) is CallFound:
                calls.append((finding.name, []))
            elif type(finding) is ArgumentsFound:
                calls[-1][1].append(finding.json)
        self._open = [
            ToolCall(f"hist_tool_{self._count + number}", name, "".join(parts))
            for number, (name, parts) in enumerate(calls)
        ]
        self._count += len(calls)
        return replace(turn, blocks=(Text("".join(said)), *self._open)) if calls else turn

    def _said(self, turn: Turn) -> list[Turn]:
        """A message after calls begins with all of their results; a host may have joined more words to it."""
        if turn.speaker != "human" or not self._open:
            return [turn]
        first, *more = turn.blocks
        found = list(self._result.finditer(first.text)) if type(first) is Text else []
        # A client that drops a result would be refused by the model's
        # template, or confuse the model; tests should see it.
        if len(found) != len(self._open):
            raise InvalidHistory(f"expected {len(self._open)} results of {self._name}, got {len(found)}")
        results: list[Block] = [
            ToolResponse(
                call.id, call.name, (Text(match["content"] or match["error"] or ""),), match["error"] is not None
            )
            for call, match in zip(self._open, found, strict=True)
        ]
        self._open = []
        read = [Turn("tool", tuple(results), key=turn.key)]
        return [*read, replace(turn, blocks=tuple(more))] if more else read


def _result_pattern(name: FormatName) -> re.Pattern[str]:
    """What a result of this format looks like, by two that were rendered: one that went well and one that failed, which
    some formats write differently."""
    both = (
        _rendered_pattern(name, is_error=False, group="content"),
        _rendered_pattern(name, is_error=True, group="error"),
    )
    return re.compile("|".join(both), re.S)


def _rendered_pattern(name: FormatName, *, is_error: bool, group: str) -> str:
    rendered = text_format(name).render_result(ToolResponse("", "NAME", (Text("CONTENT"),), is_error), "ID")
    # A name ends with its line: else one result could reach as far as the content of the next.
    pattern = re.escape(rendered).replace("NAME", r"[^\n]*?").replace("ID", r"[^\n]*?")
    pattern = pattern.replace("CONTENT", f"(?P<{group}>.*?)")
    # A format without a closing mark: a result ends where the next begins.
    return pattern + (rf"(?=\n{rendered.split('ID')[0]}|\Z)" if rendered.endswith("CONTENT") else "")
