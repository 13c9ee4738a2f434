"""The registry's providers with a double's address, and the provider `sim`, which stands for all of them."""

from __future__ import annotations

from msgspec.structs import replace

from ..core.dialect import Endpoint
from ..dialects.provider import Provider
from ..dialects.registry import REGISTRY

# `sim/…`: a pattern over the model name, and the provider whose dialects it uses
_PLAYED = (
    (r"claude", "anthropic"),
    (r"gemini", "gemini"),
    (r"stral|mixtral", "mistral"),
    (r"deepseek", "deepseek"),
    (r"^moonshotai/", "deepinfra"),
    (r"kimi|moonshot", "moonshot"),
    (r"qwen3:|llama", "ollama"),
    (r"command", "cohere"),
    (r"gpt-4|gpt-3", "openai"),
    (r"gpt|^o\d|codex", "openai-responses"),
)
MODELS = (
    "kimi-k2.5", "kimi-k3", "kimi-k2-thinking", "kimi-k2-0905-preview", "claude-sonnet-4-5", "claude-sonnet-5",
    "mistral-large-latest", "gpt-5.2", "gpt-4o", "gemini-3-pro-preview", "gemini-2.5-flash", "deepseek-reasoner",
    "deepseek-chat", "moonshotai/Kimi-K2.5", "qwen3:4b", "command-a-03-2025",
)  # fmt: skip


def sim_providers(url: str) -> list[Provider]:
    """Every provider at the double's address, and `sim` itself; none needs a key."""
    providers = [
        replace(provider, endpoint=_endpoint(f"{url}/{provider.name}", provider.endpoint))
        for provider in REGISTRY.providers.values()
    ]
    dialects = tuple(
        [
            (f"(?={_anywhere(pattern)})(?={_anywhere(inner)})", dialect)
            for pattern, name in _PLAYED
            for inner, dialect in REGISTRY.providers[name].dialects
        ]
    )
    return [*providers, Provider("sim", _endpoint(f"{url}/sim", Endpoint("")), dialects, models=MODELS)]


def _endpoint(base_url: str, like: Endpoint) -> Endpoint:
    return Endpoint(base_url, auth="none", headers=like.headers)


def _anywhere(pattern: str) -> str:
    """The pattern so that it finds a match anywhere when matched from the start of the name."""
    return pattern if pattern.startswith("^") else rf"^.*?(?:{pattern})"
