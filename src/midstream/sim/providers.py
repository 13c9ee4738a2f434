"""The registry's providers with their addresses turned to a double, and the `sim` provider that plays them all."""

from __future__ import annotations

from msgspec.structs import replace

from ..core.dialect import Endpoint
from ..dialects.provider import Provider
from ..dialects.registry import REGISTRY

# what `sim/…` offers: a pattern over the model name, and whose dialects answer to it
_PLAYED = (
    (r"claude", "anthropic"),
    (r"gemini", "gemini"),
    (r"stral|mixtral", "mistral"),
    (r"deepseek", "deepseek"),
    (r"^moonshotai/", "deepinfra"),
    (r"kimi|moonshot", "moonshot"),
    (r"qwen3:|llama", "ollama"),
    (r"gpt-4|gpt-3", "openai"),
    (r"gpt|^o\d|codex", "openai-responses"),
)
MODELS = (
    "kimi-k2.5", "kimi-k3", "kimi-k2-thinking", "kimi-k2-0905-preview", "claude-sonnet-4-5", "claude-sonnet-5",
    "mistral-large-latest", "gpt-5.2", "gpt-4o", "gemini-3-pro-preview", "gemini-2.5-flash", "deepseek-reasoner",
    "deepseek-chat", "moonshotai/Kimi-K2.5", "qwen3:4b",
)  # fmt: skip


def sim_rows(url: str) -> list[Provider]:
    """Every provider at the double's address, and `sim` itself; none wants a key."""
    rows = [replace(row, endpoint=_endpoint(f"{url}/{row.name}", row.endpoint)) for row in REGISTRY.providers.values()]
    dialects = tuple(
        [
            (f"(?={_anywhere(pattern)})(?={_anywhere(inner)})", dialect)
            for pattern, name in _PLAYED
            for inner, dialect in REGISTRY.providers[name].dialects
        ]
    )
    return [*rows, Provider("sim", _endpoint(f"{url}/sim", Endpoint("")), dialects, models=MODELS)]


def _endpoint(base_url: str, like: Endpoint) -> Endpoint:
    return Endpoint(base_url, auth="none", headers=like.headers)


def _anywhere(pattern: str) -> str:
    """A pattern that is searched, as a look-ahead from the beginning of the name."""
    return rf"^.*?(?:{pattern.removeprefix('^')})" if not pattern.startswith("^") else pattern
