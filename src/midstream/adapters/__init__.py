"""The shapes other programs expect, on top of midstream: see docs/adapters.md.

Kimi behind a plain completion function (`create_kimi_completion`, `create_kimi_completion_with_tools`), conversations as
the AI SDK's model messages (`to_model_messages`, `from_model_messages`), and a client for code that is written against
OpenAI's (`openai_client`, `async_openai_client`). Each is imported when it is first used. Models for other libraries are in
modules of their own, which only that library's users import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

# A name and its home are said twice: here for editors and type checkers, below for the import at first use.
if TYPE_CHECKING:
    from .ai_sdk import from_model_messages as from_model_messages
    from .ai_sdk import to_model_messages as to_model_messages
    from .kimi_completion import BASE_DELAY_MS as BASE_DELAY_MS
    from .kimi_completion import DEFAULT_BASE_URL as DEFAULT_BASE_URL
    from .kimi_completion import DEFAULT_MAX_TOKENS as DEFAULT_MAX_TOKENS
    from .kimi_completion import DEFAULT_MODEL as DEFAULT_MODEL
    from .kimi_completion import KIMI_RETRIES_EXHAUSTED as KIMI_RETRIES_EXHAUSTED
    from .kimi_completion import MAX_RETRIES as MAX_RETRIES
    from .kimi_completion import AnthropicTool as AnthropicTool
    from .kimi_completion import CompletionResult as CompletionResult
    from .kimi_completion import KimiApiError as KimiApiError
    from .kimi_completion import KimiCompletionOptions as KimiCompletionOptions
    from .kimi_completion import KimiConfigError as KimiConfigError
    from .kimi_completion import KimiResponse as KimiResponse
    from .kimi_completion import create_kimi_completion as create_kimi_completion
    from .kimi_completion import create_kimi_completion_with_tools as create_kimi_completion_with_tools
    from .kimi_completion import map_finish_reason as map_finish_reason
    from .kimi_completion import map_kimi_tool_calls_to_anthropic as map_kimi_tool_calls_to_anthropic
    from .kimi_completion import map_tools_to_kimi as map_tools_to_kimi
    from .openai_sdk import async_openai_client as async_openai_client
    from .openai_sdk import openai_client as openai_client

_HOMES = {
    "ai_sdk": "from_model_messages to_model_messages",
    "kimi_completion": (
        "BASE_DELAY_MS DEFAULT_BASE_URL DEFAULT_MAX_TOKENS DEFAULT_MODEL KIMI_RETRIES_EXHAUSTED MAX_RETRIES AnthropicTool CompletionResult "
        "KimiApiError KimiCompletionOptions KimiConfigError KimiResponse create_kimi_completion "
        "create_kimi_completion_with_tools map_finish_reason map_kimi_tool_calls_to_anthropic map_tools_to_kimi"
    ),
    "openai_sdk": "async_openai_client openai_client",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_HOME)  # noqa: PLE0605  (for a type checker, the imports above say it)

if not TYPE_CHECKING:  # a type checker must see that other names do not exist

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
