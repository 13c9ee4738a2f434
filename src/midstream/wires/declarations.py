"""Tools as a request declares them: under a name the wire takes, with a schema the host reads, as many as it allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ..core.dialect import Dialect
from ..core.handoff import Note
from ..core.schemas import PASSES
from ..core.tools import ToolSpec
from .tool_names import ToolNames

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
