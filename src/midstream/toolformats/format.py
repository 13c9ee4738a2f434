"""A text tool format: how tools are declared in a prompt, how calls and results are written into one, and read back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from midstream.core.blocks import ToolCall, ToolResponse
from midstream.core.tools import ToolSpec

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
