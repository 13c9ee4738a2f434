"""DeepInfra: OpenAI's chat for all models, and a native raw path for those whose prompt we can write.

Facts: facts/kimi.md §5, facts/deepinfra-native-schema.json. Without tools the native path is quicker and gives the
thinking token by token; tools need the chat. `Options.path` overrides: on the native path Kimi's own text format calls.
"""

from __future__ import annotations

from ..core.dialect import Dialect, Endpoint, Limits
from .completion import with_native
from .kimi import kimi_on
from .provider import Provider

_CHAT = "/openai/chat/completions"
_MAX_OUTPUT = 16384  # a hard cap for most models

_KIMI = kimi_on(
    "deepinfra",
    reasoning={"control": "reasoning"},
    path=_CHAT,
    leaks="kimi",
    limits=Limits(max_tools=128, tool_name_pattern=r"[A-Za-z_][A-Za-z0-9_-]{0,63}", max_output=_MAX_OUTPUT),
)
_OTHER = Dialect("deepinfra", "openai-chat", "deepinfra", path=_CHAT, limits=Limits(max_output=_MAX_OUTPUT))

DEEPINFRA = Provider(
    "deepinfra",
    Endpoint(
        "https://api.deepinfra.com/v1",
        key_env=("DEEPINFRA_API_KEY", "DEEPINFRA_TOKEN"),
        base_env=("DEEPINFRA_BASE_URL", "DEEPINFRA_API_BASE"),
        base_tails=("/openai", "/inference"),
    ),
    (*with_native(_KIMI, completion="deepinfra"), ("", _OTHER)),
    models=("moonshotai/Kimi-K2.5", "moonshotai/Kimi-K2-Thinking", "moonshotai/Kimi-K2-Instruct-0905"),
)

PROVIDERS = (DEEPINFRA,)
