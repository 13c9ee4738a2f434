"""The text formats by name, and the filters a wire asks for."""

from __future__ import annotations

from collections.abc import Sequence

from midstream.core.errors import UnknownToolFormat
from midstream.core.tools import ToolSpec

from .deepseek import DEEPSEEK
from .findings import TextFilter
from .format import TextFormat
from .gemma import GEMMA
from .glm import GLM
from .hermes import HERMES, QWEN
from .kimi import KIMI
from .kimi_k3 import KIMI_K3
from .llama import LLAMA
from .mistral import MISTRAL
from .prose import Tags
from .qwen3_coder import QWEN3_CODER
from .safety import Guard, Safety
from .script import ScriptFilter
from .think import think_filter
from .xml import XML

__all__ = ["FORMATS", "get_filter", "leak_filter", "text_format", "think_filter"]

_FORMATS: tuple[TextFormat, ...] = (
    KIMI, KIMI_K3, HERMES, QWEN, QWEN3_CODER, GLM, XML, LLAMA, GEMMA, DEEPSEEK, MISTRAL,
)  # fmt: skip

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
