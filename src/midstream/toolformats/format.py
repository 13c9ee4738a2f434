"""A text tool format: how tools are declared in a system prompt, how calls and results are written, and read back."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from ..core.blocks import ToolCall, ToolResponse
from ..core.tools import ToolSpec
from .prose import Tags
from .reader import Reader, Step

Declare: TypeAlias = Callable[[Sequence[ToolSpec]], str]
RenderCalls: TypeAlias = Callable[[Sequence[ToolCall], Sequence[str]], str]


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
    declare: Declare
    render_calls: RenderCalls
    render_result: Callable[[ToolResponse, str], str]
    # Decides whether a marker in a host's answer can be anything but a leak: `<tool_call>` may be prose about tags,
    # `<|tool_call_begin|>` is a token that only a model which calls writes.
    special: bool = False
    """The markers are special tokens of the model: nobody writes them as text, not even where no tool is declared."""
    markers: tuple[str, ...] = ()
    """What opens or closes a call, a result or a declaration: in anyone else's words it could pass for one."""
    ids: str = ""
    """The ids that `render_calls` and `render_result` print: an id scheme, `message` for a call's number in its message, or
    none."""
    between: str = "\n"
    """What stands between the words of an answer and its calls."""
    marks_errors: bool = False
    """`render_result` itself tells a failed result from another."""

    own_channels: bool = False
    """Thinking has a channel of this format's own; think tags around it are not read."""

    def answer(self, text: str, calls: Sequence[ToolCall], ids: Sequence[str] = ()) -> str:
        """An answer as the model writes it: its words, then its calls."""
        written = self.render_calls(calls, ids)
        return f"{text}{self.between}{written}" if text.strip() and written else text + written


# json, not msgspec: models were trained on the output of templates, which have a space behind separators.
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


def declare_lines(shape: Callable[[ToolSpec], dict[str, Any]], how: str, *, tagged: bool = False) -> Declare:
    """A `declare` that writes one tool per line as JSON, inside `<tools>` if `tagged`, and then how to call one."""
    # The same words for every format: what differs is the shape of a declaration and how a call is written.
    frame = "# Tools\n\n{}\n<tools>\n{}\n</tools>\n\n{}" if tagged else "{}\n{}\n\n{}"

    def declare(tools: Sequence[ToolSpec]) -> str:
        lines = "\n".join([dump(shape(tool)) for tool in tools])
        return frame.format("You can call these tools. Each line declares one as JSON:", lines, how)

    return declare


def render_each(render: Callable[[ToolCall], str], separator: str = "\n") -> RenderCalls:
    """A `render_calls` for formats that write one call after the other and no ids."""

    def render_calls(calls: Sequence[ToolCall], ids: Sequence[str] = ()) -> str:
        return separator.join([render(call) for call in calls])

    return render_calls
