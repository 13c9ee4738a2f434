"""Tools and arguments as JSON text, written the way the templates' models were taught to read it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..core.blocks import ToolCall
from ..core.handoff import Note
from ..core.tools import ToolSpec

NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def callable_tools(tools: Sequence[ToolSpec], notes: list[Note]) -> list[ToolSpec]:
    """The tools a prompt can declare: what a provider runs itself does not exist behind a completion."""
    why = "is run by its provider and cannot stand in a prompt"
    notes.extend([Note("dropped", "tool", f"{tool.name} {why}") for tool in tools if tool.builtin is not None])
    return [tool for tool in tools if tool.builtin is None]


def function_object(tool: ToolSpec) -> dict[str, Any]:
    """`name`, `description`, `parameters` and, where the caller said so, `strict`."""
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = NO_PARAMETERS if tool.parameters is None else tool.parameters
    if tool.strict is not None:
        function["strict"] = tool.strict
    return function


def tool_object(tool: ToolSpec) -> dict[str, Any]:
    """The tool in OpenAI's wrapper, which nearly all templates keep."""
    return {"type": "function", "function": function_object(tool)}


def spaced_json(value: Any) -> str:
    """As `tojson` of the published templates writes it: a blank behind `,` and `:`, no escapes beyond ASCII's own."""
    return json.dumps(value, ensure_ascii=False)


def compact_json(value: Any) -> str:
    """Sorted and without blanks."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def parsed_arguments(call: ToolCall) -> Any:
    """The arguments as a value; the raw text itself where it is no JSON, an empty object where there is none."""
    raw = call.arguments
    if not raw.strip():
        return {}
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw


def raw_arguments(call: ToolCall) -> str:
    """The arguments exactly as the model wrote them."""
    return call.arguments if call.arguments.strip() else "{}"


def json_arguments(call: ToolCall) -> str:
    """The raw arguments if they are JSON, else that text as a JSON string, to stand inside a larger JSON text."""
    value = parsed_arguments(call)
    return spaced_json(value) if value is call.arguments else raw_arguments(call)
