"""The chat wire as the registry knows it."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.dialect import Dialect, TextCalls
from ...core.tools import ToolSpec
from ...toolformats.registry import leak_filter, text_filter
from ..wire import Decoder, Wire
from .decoder import ChatDecoder
from .encoder import encode_chat
from .reader import read_chat_request


def _decoder(
    dialect: Dialect,
    *,
    turn_key: str,
    model: str = "",
    tool_names: dict[str, str] | None = None,
    tools: Sequence[ToolSpec] = (),
    text_calls: TextCalls = "execute",
) -> Decoder:
    leaks = dialect.leaks
    return ChatDecoder(
        dialect,
        turn_key=turn_key,
        model=model,
        tool_names=tool_names,
        text_filter=text_filter(dialect, tools, text_calls),
        reasoning_filter=None if leaks is None else lambda: leak_filter(leaks, tools, safety=text_calls),
    )


WIRE = Wire("openai-chat", encode_chat, _decoder, Dialect("openai-chat", "openai-chat"), read_chat_request)
