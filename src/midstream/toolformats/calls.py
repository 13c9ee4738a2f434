"""Reporting whole calls: the one way formats that read a call to its end say what they found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from midstream.core.tools import ToolSpec

from .arguments import WrittenCall, leading_value, written_calls
from .declarations import dump
from .findings import ArgumentsFound, CallEnded, CallFound, ProblemFound
from .prose import Prose
from .script import Reader
from .values import properties_of, typed


class CallReport:
    """Where a script reports the calls it has read whole."""

    __slots__ = ("_prose", "_reader", "_tools")

    def __init__(self, reader: Reader, prose: Prose, tools: Sequence[ToolSpec]) -> None:
        self._reader = reader
        self._prose = prose
        self._tools = tools

    def call(self, name: str, arguments: str, raw_id: str | None = None) -> None:
        self._prose.call()
        self._reader.out += (CallFound(name, raw_id), ArgumentsFound(arguments), CallEnded())

    def values(self, name: str, values: Mapping[str, Any]) -> None:
        """A call whose arguments are values already."""
        self.call(name, dump(values))

    def bare(self, name: str, texts: Mapping[str, str]) -> None:
        """A call whose arguments are bare text, to be typed by the schema."""
        schemas = properties_of(name, self._tools)
        self.values(name, {key: typed(text, schemas.get(key)) for key, text in texts.items()})

    def written(self, calls: Sequence[WrittenCall]) -> None:
        for call in calls:
            self.call(*call.whole)

    def json(self, text: str, *, ended: bool) -> str:
        """The call or calls in JSON text, and a problem if there are none; gives back text that follows the JSON.

        `ended` says that the end marker came: then one closing brace may have been forgotten.
        """
        try:
            value, rest = leading_value(text)
        except ValueError:
            value, rest = (text + "}" if ended else text), ""
        try:
            self.written(written_calls(value))
        except ValueError as error:
            self.problem(f"this is not a call in JSON: {error}", text)
            return ""
        return rest

    def problem(self, why: str, raw: str) -> None:
        self._prose.call()
        self._reader.out.append(ProblemFound(why, raw))
