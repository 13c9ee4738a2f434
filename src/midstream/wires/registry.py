"""The wires by name."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dialect import Dialect
from ..core.errors import UnknownModel
from ..core.tools import ToolSpec
from ..toolformats.registry import leak_filter, think_filter
from .anthropic import PLAIN, AnthropicDecoder, encode_messages, read_messages_request
from .openai_chat import ChatDecoder, encode_chat, read_chat_request
from .openai_responses import ResponsesDecoder, encode_responses, read_responses_request
from .wire import Decoder, Wire


def _chat_decoder(
    dialect: Dialect,
    *,
    turn_key: str,
    model: str = "",
    tool_names: dict[str, str] | None = None,
    tools: Sequence[ToolSpec] = (),
) -> Decoder:
    rules = dialect.reasoning
    text_filter = None
    if dialect.leaks is not None:
        text_filter = leak_filter(dialect.leaks, tools)
    elif rules.tags is not None:
        text_filter = think_filter(rules.tags, rules.starts_inside)
    return ChatDecoder(dialect, turn_key=turn_key, model=model, tool_names=tool_names, text_filter=text_filter)


OPENAI_CHAT = Wire("openai-chat", encode_chat, _chat_decoder, Dialect("openai-chat", "openai-chat"), read_chat_request)


def _responses_decoder(
    dialect: Dialect,
    *,
    turn_key: str,
    model: str = "",
    tool_names: dict[str, str] | None = None,
    tools: Sequence[ToolSpec] = (),
) -> Decoder:
    return ResponsesDecoder(dialect, turn_key=turn_key, model=model, tool_names=tool_names)


OPENAI_RESPONSES = Wire(
    "openai-responses",
    encode_responses,
    _responses_decoder,
    Dialect("openai-responses", "openai-responses", system_role="instructions", tool_result_media="inline"),
    read_responses_request,
)


def _anthropic_decoder(
    dialect: Dialect,
    *,
    turn_key: str,
    model: str = "",
    tool_names: dict[str, str] | None = None,
    tools: Sequence[ToolSpec] = (),
) -> Decoder:
    return AnthropicDecoder(dialect, turn_key=turn_key, model=model, tool_names=tool_names)


ANTHROPIC = Wire("anthropic", encode_messages, _anthropic_decoder, PLAIN, read_messages_request)

WIRES: dict[str, Wire] = {wire.name: wire for wire in (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC)}


def get_wire(name: str) -> Wire:
    wire = WIRES.get(name)
    if wire is None:
        raise UnknownModel(f"no wire {name!r}: choose one of {', '.join(sorted(WIRES))}")
    return wire
