"""A tool as JSON, in the two shapes text formats use: wrapped as OpenAI does, or plain."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from midstream.core.tools import ToolSpec

_ENCODE = json.JSONEncoder(ensure_ascii=False).encode


def plain(tool: ToolSpec) -> dict[str, Any]:
    """`{name, description, parameters}`."""
    parameters = tool.parameters if tool.parameters is not None else {"type": "object", "properties": {}}
    return {"name": tool.name, "description": tool.description, "parameters": parameters}


def wrapped(tool: ToolSpec) -> dict[str, Any]:
    """`{type: function, function: {name, description, parameters}}`."""
    return {"type": "function", "function": plain(tool)}


def dump(value: Any) -> str:
    """JSON as chat templates print it: a space after separators, no escapes for letters."""
    return _ENCODE(value)


def wrapped_lines(tools: Sequence[ToolSpec]) -> str:
    return "\n".join([dump(wrapped(tool)) for tool in tools])


def plain_lines(tools: Sequence[ToolSpec]) -> str:
    return "\n".join([dump(plain(tool)) for tool in tools])
