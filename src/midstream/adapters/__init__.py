"""The shapes other programs expect, on top of midstream: see docs/adapters.md.

Kimi behind a plain completion function (`create_kimi_completion`, `create_kimi_completion_with_tools`), and conversations as
the AI SDK's model messages (`to_model_messages`, `from_model_messages`). Each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .ai_sdk import from_model_messages, to_model_messages
    from .kimi_completion import (
        BASE_DELAY_MS,
        DEFAULT_BASE_URL,
        DEFAULT_MAX_TOKENS,
        DEFAULT_MODEL,
        KIMI_RETRIES_EXHAUSTED,
        MAX_RETRIES,
        AnthropicTool,
        CompletionResult,
        KimiApiError,
        KimiConfigError,
        KimiResponse,
        create_kimi_completion,
        create_kimi_completion_with_tools,
        map_finish_reason,
        map_kimi_tool_calls_to_anthropic,
        map_tools_to_kimi,
    )

__all__ = [
    "BASE_DELAY_MS",
    "DEFAULT_BASE_URL",
    "DEFAULT_MAX_TOKENS",
    "DEFAULT_MODEL",
    "KIMI_RETRIES_EXHAUSTED",
    "MAX_RETRIES",
    "AnthropicTool",
    "CompletionResult",
    "KimiApiError",
    "KimiConfigError",
    "KimiResponse",
    "create_kimi_completion",
    "create_kimi_completion_with_tools",
    "from_model_messages",
    "map_finish_reason",
    "map_kimi_tool_calls_to_anthropic",
    "map_tools_to_kimi",
    "to_model_messages",
]

if not TYPE_CHECKING:  # a type checker must see that other names do not exist

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = "ai_sdk" if name.endswith("model_messages") else "kimi_completion"
        value = getattr(import_module(f".{home}", __name__), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
