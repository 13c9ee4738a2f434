"""The text formats by name, and the filters a wire asks for."""

from __future__ import annotations

from collections.abc import Sequence

from midstream.core.errors import UnknownToolFormat
from midstream.core.tools import ToolSpec

from .findings import TextFilter
from .format import TextFormat
from .prose import Tags
from .safety import Guard, Safety
from .script import ScriptFilter
from .think import ThinkFilter

_FORMATS: tuple[TextFormat, ...] = ()

FORMATS: dict[str, TextFormat] = {format.name: format for format in _FORMATS}


def text_format(name: str) -> TextFormat:
    """The text format of this name. `openai` and `anthropic` have none: their calls never travel as text."""
    try:
        return FORMATS[name]
    except KeyError:
        raise UnknownToolFormat(f"no text tool format {name!r}: choose one of {', '.join(sorted(FORMATS))}") from None


def get_filter(
    name: str, tools: Sequence[ToolSpec] = (), *, tags: Tags | None = None, starts_inside: bool = False
) -> TextFilter:
    """A filter that reads every call of this format, declared or not, and thinking between `tags`."""
    script = text_format(name).script
    pairs = () if tags is None else (tags,)
    return ScriptFilter(lambda reader: script(reader, tools, pairs, starts_inside))


def leak_filter(
    name: str,
    tools: Sequence[ToolSpec],
    *,
    tags: Tags | None = None,
    starts_inside: bool = False,
    safety: Safety = "execute",
) -> TextFilter:
    """`get_filter` under a safety policy: by default only calls of declared tools come through.

    Where a host both leaks calls and leaves thinking in the text, give the tags here instead of chaining a ThinkFilter: a
    tag inside a call's arguments is data, and only one pass over both can tell.
    """
    return Guard(get_filter(name, tools, tags=tags, starts_inside=starts_inside), tools, safety)


def think_filter(tags: Tags | None = None, starts_inside: bool = False) -> TextFilter:
    """A filter for thinking alone; without `tags`, every pair we know."""
    return ThinkFilter(tags, starts_inside)
