"""Feeding filters, and what came out of them in a form that any split of the text agrees on."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from hypothesis import strategies as st

from midstream.core.tools import ToolSpec
from midstream.toolformats.findings import (
    ArgumentsFound,
    CallEnded,
    CallFound,
    Finding,
    ProblemFound,
    TextFilter,
    TextFound,
    ThinkingFound,
)


def feed(filter: TextFilter, portions: Iterable[str]) -> list[Finding]:
    """All findings, neighbouring pieces of the same kind joined."""
    found: list[Finding] = []
    for portion in portions:
        found += filter.feed(portion)
    found += filter.close()
    return joined(found)


def joined(findings: Iterable[Finding]) -> list[Finding]:
    groups: list[tuple[type[Finding], list[Finding]]] = []
    for finding in findings:
        kind = type(finding)
        if groups and groups[-1][0] is kind and kind in (TextFound, ThinkingFound, ArgumentsFound):
            groups[-1][1].append(finding)
        else:
            groups.append((kind, [finding]))
    out: list[Finding] = []
    for kind, group in groups:
        if kind is ArgumentsFound:
            out.append(ArgumentsFound("".join([f.json for f in group])))
        elif kind in (TextFound, ThinkingFound):
            out.append(kind("".join([f.text for f in group])))
        else:
            out += group
    return out


class Outcome(msgspec.Struct):
    text: str = ""
    thinking: str = ""
    calls: list[tuple[str, str, str | None]] = []
    problems: list[ProblemFound] = []

    @property
    def parsed(self) -> list[tuple[str, Any]]:
        return [(name, msgspec.json.decode(arguments)) for name, arguments, _ in self.calls]


def outcome(findings: Iterable[Finding]) -> Outcome:
    """Findings told as a whole; asserts that calls open and close in order."""
    out = Outcome()
    open_call: CallFound | None = None
    arguments: list[str] = []
    for finding in findings:
        match finding:
            case TextFound():
                assert open_call is None
                out.text += finding.text
            case ThinkingFound():
                assert open_call is None
                out.thinking += finding.text
            case CallFound():
                assert open_call is None
                open_call, arguments = finding, []
            case ArgumentsFound():
                assert open_call is not None
                arguments.append(finding.json)
            case CallEnded():
                assert open_call is not None
                out.calls.append((open_call.name, "".join(arguments), open_call.raw_id))
                open_call = None
            case ProblemFound():
                out.problems.append(finding)
    assert open_call is None
    return out


def splits(text: str) -> list[list[str]]:
    """The text whole, character by character, and at some fixed random cuts."""
    ways = [[text], list(text)]
    for seed in range(4):
        dice = random.Random(seed)
        cuts = sorted(dice.sample(range(len(text) + 1), min(len(text), 8)))
        ways.append([text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)])
    return ways


def cut(text: str, places: Sequence[int]) -> list[str]:
    """The text cut at these places (taken modulo its length)."""
    at = sorted({place % (len(text) + 1) for place in places})
    return [text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True)]


PLACES = st.lists(st.integers(min_value=0, max_value=10_000), max_size=12)


def tool(name: str, **types: str) -> ToolSpec:
    """A tool whose parameters have these types, all required."""
    properties = {key: {"type": kind} for key, kind in types.items()}
    return ToolSpec(name, f"does {name}", {"type": "object", "properties": properties, "required": list(types)})
