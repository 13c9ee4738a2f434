"""The text formats by name, and the filters a wire asks for."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import get_args

from ..core.dialect import Dialect, TextCalls
from ..core.dialect import TextFormat as FormatName
from ..core.errors import UnknownToolFormat
from ..core.tools import ToolSpec
from .findings import TextFilter
from .format import TextFormat
from .prose import Tags
from .safety import Guard
from .script import ScriptFilter
from .think import think_filter

__all__ = ["FORMATS", "get_filter", "leak_filter", "text_filter", "text_format", "think_filter"]

# A format is loaded when it is first read or written: `qwen3-coder` is QWEN3_CODER in qwen3_coder.py.
FORMATS: tuple[str, ...] = get_args(FormatName)
"""The names of all text formats."""

_ELSEWHERE = {"qwen": "hermes"}  # formats in the module of another

_loaded: dict[str, TextFormat] = {}


def text_format(name: str) -> TextFormat:
    """The text format of this name. `openai` and `anthropic` have none: their calls never travel as text."""
    found = _loaded.get(name)
    if found is None:
        if name not in FORMATS:
            raise UnknownToolFormat(f"unknown text tool format {name!r}; expected one of {', '.join(sorted(FORMATS))}")
        module = _ELSEWHERE.get(name, name).replace("-", "_")
        found = getattr(import_module(f"{__package__}.{module}"), name.replace("-", "_").upper())
        _loaded[name] = found
    return found


def get_filter(
    name: str,
    tools: Sequence[ToolSpec] = (),
    *,
    tags: Tags | None = None,
    starts_inside: bool = False,
    rescue: bool = False,
) -> TextFilter:
    """A filter that reads every call of this format, declared or not, and thinking between `tags`.

    With `rescue` the format was not chosen: calls are leaks, and what may be a quotation is one (quoting.py).
    """
    script = text_format(name).script
    pairs = () if tags is None else (tags,)
    return ScriptFilter(lambda reader: script(reader, tools, pairs, starts_inside), rescue=rescue)


def leak_filter(
    name: str,
    tools: Sequence[ToolSpec],
    *,
    tags: Tags | None = None,
    starts_inside: bool = False,
    safety: TextCalls = "execute",
) -> TextFilter:
    """`get_filter` for leaked calls, under a safety policy: by default only calls of declared tools come through.

    Where a host both leaks calls and leaves thinking in the text, give the tags here instead of chaining a ThinkFilter: a
    tag inside a call's arguments is data, and only one pass over both can tell.
    """
    return Guard(get_filter(name, tools, tags=tags, starts_inside=starts_inside, rescue=True), tools, safety)


def text_filter(dialect: Dialect, tools: Sequence[ToolSpec], safety: TextCalls = "execute") -> TextFilter | None:
    """What a host of structured answers needs read out of its text all the same: leaked calls, thinking in tags."""
    rules = dialect.reasoning
    if dialect.leaks is not None:
        return leak_filter(dialect.leaks, tools, tags=rules.tags, starts_inside=rules.starts_inside, safety=safety)
    return think_filter(rules.tags, rules.starts_inside) if rules.tags is not None else None
