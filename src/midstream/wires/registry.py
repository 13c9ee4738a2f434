"""The wires by name."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.dialect import Dialect
from ..core.errors import UnknownModel
from ..core.tools import ToolSpec
from ..toolformats.findings import TextFilter
from ..toolformats.registry import get_filter, leak_filter, think_filter
from .anthropic import PLAIN, AnthropicDecoder, encode_messages, read_messages_request
from .completion import CompletionDecoder, encode_completion
from .gemini import PLAIN as GEMINI_PLAIN
from .gemini import GeminiDecoder, encode_gemini, read_gemini_request
from .ollama import PLAIN as OLLAMA_PLAIN
from .ollama import OllamaDecoder, encode_ollama, read_ollama_request
from .openai_chat import ChatDecoder, encode_chat, read_chat_request
from .openai_responses import ResponsesDecoder, encode_responses, read_responses_request
from .wire import Decoder, Wire


def _text_filter(dialect: Dialect, tools: Sequence[ToolSpec]) -> TextFilter | None:
    rules = dialect.reasoning
    if dialect.leaks is not None:
        return leak_filter(dialect.leaks, tools, tags=rules.tags, starts_inside=rules.starts_inside)
    return think_filter(rules.tags, rules.starts_inside) if rules.tags is not None else None


def _chat_decoder(
    dialect: Dialect,
    *,
    turn_key: str,
    model: str = "",
    tool_names: dict[str, str] | None = None,
    tools: Sequence[ToolSpec] = (),
) -> Decoder:
    leaks = dialect.leaks
    return ChatDecoder(
        dialect,
        turn_key=turn_key,
        model=model,
        tool_names=tool_names,
        text_filter=_text_filter(dialect, tools),
        reasoning_filter=None if leaks is None else lambda: leak_filter(leaks, tools),
    )


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


def _gemini_decoder(
    dialect: Dialect,
    *,
    turn_key: str,
    model: str = "",
    tool_names: dict[str, str] | None = None,
    tools: Sequence[ToolSpec] = (),
) -> Decoder:
    return GeminiDecoder(dialect, turn_key=turn_key, model=model, tool_names=tool_names)


GEMINI = Wire("gemini", encode_gemini, _gemini_decoder, GEMINI_PLAIN, read_gemini_request)


def _ollama_decoder(
    dialect: Dialect,
    *,
    turn_key: str,
    model: str = "",
    tool_names: dict[str, str] | None = None,
    tools: Sequence[ToolSpec] = (),
) -> Decoder:
    text_filter = _text_filter(dialect, tools)
    return OllamaDecoder(dialect, turn_key=turn_key, model=model, tool_names=tool_names, text_filter=text_filter)


OLLAMA = Wire("ollama", encode_ollama, _ollama_decoder, OLLAMA_PLAIN, read_ollama_request)


def _completion_decoder(
    dialect: Dialect,
    *,
    turn_key: str,
    model: str = "",
    tool_names: dict[str, str] | None = None,
    tools: Sequence[ToolSpec] = (),
) -> Decoder:
    rules = dialect.reasoning
    # Writing a call as text is how a raw model calls: it is no leak, and one of an unknown tool is a call all the same.
    text_filter = (
        think_filter(rules.tags, rules.starts_inside)
        if dialect.leaks is None
        else get_filter(dialect.leaks, tools, tags=rules.tags, starts_inside=rules.starts_inside)
    )
    return CompletionDecoder(dialect, turn_key=turn_key, model=model, text_filter=text_filter)


COMPLETION = Wire(
    "completion",
    encode_completion,
    _completion_decoder,
    Dialect("completion", "completion", template="chatml", leaks="hermes", stop=("<|im_end|>", "<|endoftext|>")),
)

WIRES: dict[str, Wire] = {
    wire.name: wire for wire in (OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC, GEMINI, OLLAMA, COMPLETION)
}


def get_wire(name: str) -> Wire:
    wire = WIRES.get(name)
    if wire is None:
        raise UnknownModel(f"no wire {name!r}: choose one of {', '.join(sorted(WIRES))}")
    return wire
