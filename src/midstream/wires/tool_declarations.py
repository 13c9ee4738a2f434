"""Tools as a request declares them: under a name the wire takes, with a schema the host reads, as many as it allows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, TypeVar

from ..core.dialect import Dialect, Limits
from ..core.handoff import Note
from ..core.schemas import PASSES
from ..core.tools import ToolSpec

T = TypeVar("T")


def declare(
    tool: ToolSpec, dialect: Dialect, names: ToolNames, notes: list[Note], *, schema_field: str = "parameters"
) -> dict[str, Any]:
    """Name, description and schema of a function."""
    name = names.wire(tool.name)
    if name != tool.name:
        notes.append(Note("adapted", "tool", f"{tool.name} is called {name} here"))
    described: dict[str, Any] = {"name": name}
    if tool.description:
        described["description"] = tool.description
    described[schema_field] = PASSES[dialect.schema](tool.parameters or {})
    return described


def within_limit(tools: Sequence[T], dialect: Dialect, notes: list[Note]) -> Sequence[T]:
    limit = dialect.limits.max_tools
    if limit is None or len(tools) <= limit:
        return tools
    notes.append(Note("dropped", "tool", f"this host takes {limit} tools; the last {len(tools) - limit} are left out"))
    return tools[:limit]


_DIGEST = 8


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


class ToolNames:
    """Names of one request: `wire(name)` on the way out, `changed` for the way back."""

    __slots__ = ("_back", "_forth", "_limit", "_pattern")

    def __init__(self, limits: Limits) -> None:
        self._pattern = _compiled(limits.tool_name_pattern)
        self._limit = limits.tool_name_max
        self._forth: dict[str, str] = {}
        self._back: dict[str, str] = {}

    def wire(self, name: str) -> str:
        known = self._forth.get(name)
        if known is None:
            known = self._forth[name] = name if self._pattern.fullmatch(name) else self._rewrite(name)
            if known != name:
                self._back[known] = name
        return known

    @property
    def changed(self) -> dict[str, str] | None:
        """Wire name -> own name, for the names that had to change."""
        return dict(self._back) or None

    def clone(self) -> ToolNames:
        twin = ToolNames.__new__(ToolNames)
        twin._pattern, twin._limit = self._pattern, self._limit
        twin._forth, twin._back = self._forth.copy(), self._back.copy()
        return twin

    def _rewrite(self, name: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
        if not plain[:1].isalpha():
            plain = "t_" + plain
        digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
        return f"{plain[: self._limit - _DIGEST - 1]}_{digest}"
