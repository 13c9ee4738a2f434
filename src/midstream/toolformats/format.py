"""A text tool format: how tools are declared in a prompt, how calls and results are written into one, and read back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from ..core.blocks import ToolCall, ToolResponse
from ..core.tools import ToolSpec
from .prose import Tags
from .script import Reader, Step


class Script(Protocol):
    """The reading half: a script for these tools, with these think tags."""

    def __call__(
        self, reader: Reader, tools: Sequence[ToolSpec], tags: tuple[Tags, ...], starts_inside: bool
    ) -> Step[None]: ...


class TextFormat(msgspec.Struct, frozen=True):
    """`render_calls` takes the wire ids of the calls where the format prints them (none: it makes its own);
    `render_result` takes the response and its call's wire id."""

    name: str
    script: Script
    declare: Callable[[Sequence[ToolSpec]], str]
    render_calls: Callable[[Sequence[ToolCall], Sequence[str]], str]
    render_result: Callable[[ToolResponse, str], str]


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
