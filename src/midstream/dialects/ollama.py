"""Ollama on this machine, and its cloud.

Sources: field-guide/ollama.md#stream (`done` is required), field-guide/ollama.md#tools (no rule for ids is known).
"""

from __future__ import annotations

import msgspec

from ..core.dialect import Endpoint
from ..wires.ollama.wire import DEFAULT
from . import efforts
from .kimi import kimi_on_ollama
from .provider import Provider

_replace = msgspec.structs.replace

OLLAMA = DEFAULT
# gpt-oss takes levels, ignores `false`, and always thinks.
OLLAMA_LEVELS = _replace(
    DEFAULT,
    name="ollama-levels",
    reasoning=_replace(DEFAULT.reasoning, default_on=True, can_disable=False, **efforts.GPT_OSS),
)

# "registry.ollama.ai/library/gemma3:4b does not support tools" (ollama#9680), nor does the first Llama 3 (ollama#5793): Ollama
# has no template of theirs that writes tools.
OLLAMA_PLAIN = _replace(DEFAULT, name="ollama-plain", native_tools=False)

LOCAL = Provider(
    "ollama",
    Endpoint("http://127.0.0.1:11434", base_env=("OLLAMA_BASE_URL",), auth="none"),
    (
        *kimi_on_ollama(OLLAMA),
        (r"gpt-oss", OLLAMA_LEVELS),
        # `llama3.1` and later have tools, so only the bare `llama3` is meant; gemma3n is another model.
        (r"gemma3(?!n)|(?:^|/)llama3(?![.\d])", OLLAMA_PLAIN),
        ("", OLLAMA),
    ),
    models=("qwen3:4b", "llama3.1", "gpt-oss:20b", "gemma3"),
)

_CLOUD = _replace(OLLAMA, name="ollama-cloud", provider="ollama-cloud")
CLOUD = Provider(
    "ollama-cloud",
    Endpoint("https://ollama.com", key_env=("OLLAMA_API_KEY",)),
    (
        *kimi_on_ollama(_CLOUD),
        (r"gpt-oss", _replace(OLLAMA_LEVELS, name="ollama-cloud-levels", provider="ollama-cloud")),
        ("", _CLOUD),
    ),
    models=("gpt-oss:120b", "kimi-k2:1t", "qwen3-coder:480b"),
)

PROVIDERS = (LOCAL, CLOUD)
