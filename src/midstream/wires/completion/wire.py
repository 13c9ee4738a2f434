"""This wire as the registry knows it."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.dialect import Dialect, TextCalls
from ...core.tools import ToolSpec
from ...toolformats.registry import get_filter, think_filter
from ..wire import Decoder, Wire
from .decoder import CompletionDecoder
from .encoder import encode_completion


def _decoder(
    dialect: Dialect,
    *,
    turn_key: str,
    model: str = "",
    tool_names: dict[str, str] | None = None,
    tools: Sequence[ToolSpec] = (),
    text_calls: TextCalls = "execute",
) -> Decoder:
    rules = dialect.reasoning
    # Writing a call as text is how a raw model calls: it is no leak, and one of an unknown tool is a call all the same.
    text_filter = (
        think_filter(rules.tags, rules.starts_inside)
        if dialect.leaks is None
        else get_filter(dialect.leaks, tools, tags=rules.tags, starts_inside=rules.starts_inside)
    )
    return CompletionDecoder(dialect, turn_key=turn_key, model=model, text_filter=text_filter)


_PLAIN = Dialect("completion", "completion", template="chatml", leaks="hermes", stop=("<|im_end|>", "<|endoftext|>"))

WIRE = Wire("completion", encode_completion, _decoder, _PLAIN)
