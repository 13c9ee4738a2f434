"""This wire as the registry knows it."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.dialect import Dialect, TextCalls
from ...core.tools import ToolSpec
from ...toolformats.registry import text_filter
from ..wire import Decoder, Wire
from .decoder import OllamaDecoder
from .encoder import encode_ollama
from .plain import PLAIN
from .reader import read_ollama_request


def _decoder(
    dialect: Dialect,
    *,
    turn_key: str,
    model: str = "",
    tool_names: dict[str, str] | None = None,
    tools: Sequence[ToolSpec] = (),
    text_calls: TextCalls = "execute",
) -> Decoder:
    found = text_filter(dialect, tools, text_calls)
    return OllamaDecoder(dialect, turn_key=turn_key, model=model, tool_names=tool_names, text_filter=found)


WIRE = Wire("ollama", encode_ollama, _decoder, PLAIN, read_ollama_request)
