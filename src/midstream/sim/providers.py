"""The registry's providers with a double's address, and the provider `sim`, which stands for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from ..core.dialect import Dialect, Endpoint
from ..dialects.provider import Provider
from ..dialects.registry import REGISTRY

SIM = "sim"
"""The provider that stands for all of them."""


class Played(NamedTuple):
    """A provider that `sim/…` plays for the model names that `pattern` finds, some of them to offer, and who it is."""

    provider: str
    pattern: str
    models: str
    who: str


# The first pattern that finds something counts.
# The order keeps apart what shares letters: `moonshotai/…` is DeepInfra's spelling and must not be Moonshot's, and
# GPT from 5 on goes over Responses before a bare `gpt` is taken for chat.
PLAYED = (
    Played(
        "moonshot",
        r"^(?!moonshotai/).*?(?:kimi|moonshot)",
        "kimi-k2.5 kimi-k3 kimi-k2-thinking kimi-k2-0905-preview",
        "Kimi, by OpenAI's client",
    ),
    Played("anthropic", r"claude", "claude-sonnet-4-5 claude-sonnet-5", "Claude, by Anthropic's client"),
    Played("mistral", r"stral|mixtral", "mistral-large-latest", "Mistral"),
    Played("openai-responses", r"gpt(?!-[34])|^o\d|codex", "gpt-5.2", "GPT, by OpenAI's client, on Responses"),
    Played("openai", r"gpt", "gpt-4o", "GPT, by OpenAI's client"),
    Played("gemini", r"gemini", "gemini-3-pro-preview gemini-2.5-flash", "Gemini"),
    Played("deepseek", r"deepseek", "deepseek-reasoner deepseek-chat", "DeepSeek"),
    Played("deepinfra", r"^moonshotai/", "moonshotai/Kimi-K2.5", "DeepInfra, both paths"),
    Played("ollama", r"qwen3:|llama", "qwen3:4b", "Ollama"),
    Played("cohere", r"command", "command-a-03-2025 command-a-reasoning-08-2025", "Cohere"),
)
MODELS = tuple([model for row in PLAYED for model in row.models.split()])


def sim_providers(url: str) -> list[Provider]:
    """Every provider at the double's address, and `sim` itself; none needs a key. Answers of `sim` are `sim`'s own: nobody
    takes them for the real host's, or pays for them."""
    return [*_hosts(url), sim_provider(url)]


def sim_provider(url: str) -> Provider:
    """`sim` alone."""
    return _sim(url, lambda row, dialect: replace(dialect, provider=f"{SIM}:{row.provider}"))


def played_providers(url: str) -> list[Provider]:
    """The same as the doubles themselves need them: `sim` has the habits of whom it plays."""
    return [*_hosts(url), _sim(url, lambda _, dialect: dialect)]


def _hosts(url: str) -> list[Provider]:
    return [
        replace(provider, endpoint=_endpoint(f"{url}/{provider.name}", provider.endpoint))
        for provider in REGISTRY.providers.values()
    ]


def _sim(url: str, own: Callable[[Played, Dialect], Dialect]) -> Provider:
    dialects = tuple(
        [
            # Both patterns as lookaheads: the name must be one that `sim`
            # plays as this provider, and one of this dialect there.
            (f"(?={_anywhere(row.pattern)})(?={_anywhere(inner)})", own(row, dialect))
            for row in PLAYED
            for inner, dialect in REGISTRY.providers[row.provider].dialects
        ]
    )
    return Provider(SIM, _endpoint(f"{url}/sim", Endpoint("")), dialects, models=MODELS)


def _endpoint(base_url: str, like: Endpoint) -> Endpoint:
    # No key variables are taken over: a real key must never go to a double, however local it is.
    return Endpoint(base_url, auth="none", headers=like.headers)


def _anywhere(pattern: str) -> str:
    """The pattern so that it finds a match anywhere when matched from the start of the name."""
    return pattern if pattern.startswith("^") else rf"^.*?(?:{pattern})"
