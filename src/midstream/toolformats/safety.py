"""What a call found in text may do: the caller's choice, applied to the findings of any format.

`execute` (the default) lets calls of declared tools through and reports the rest; `reask` lets none through, so that the
caller can ask the model to use the real channel; `show` lets none through either, so that a person can look at it. What is
not let through is a ProblemFound with the whole call: kept out of the text in every case, and never replayed.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dialect import TextCalls
from ..core.tools import ToolSpec
from .findings import ArgumentsFound, CallEnded, CallFound, Finding, ProblemFound, TextFilter
from .script import Collected

_WHY = {
    "reask": "a call was written as text; ask again for a real one",
    "show": "a call was written as text; it is shown and not run",
}


class Guard:
    """A TextFilter that holds another to a safety policy."""

    __slots__ = ("_filter", "_held", "_names", "_safety", "_why")

    def __init__(self, filter: TextFilter, tools: Sequence[ToolSpec], safety: TextCalls = "execute") -> None:
        self._filter = filter
        self._names = frozenset([tool.name for tool in tools])
        self._safety = safety
        self._held: Collected | None = None
        self._why = ""

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
        return "" if call.name in self._names else f"no tool {call.name!r} is declared"
