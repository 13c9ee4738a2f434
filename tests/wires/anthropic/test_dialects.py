"""Which dialect each model of the Anthropic wire speaks, and where it is reached."""

from __future__ import annotations

import pytest

from midstream.dialects.registry import resolve


@pytest.mark.parametrize(
    ("model", "dialect", "control"),
    [
        ("anthropic/claude-3-opus-20240229", "claude-3", "none"),
        ("anthropic/claude-3-5-haiku-latest", "claude-3.5", "none"),
        ("anthropic/claude-3-7-sonnet-latest", "claude-3.7", "budget"),
        ("anthropic/claude-opus-4-20250514", "claude-4-opus", "budget"),
        ("anthropic/claude-opus-4-1", "claude-4-opus", "budget"),
        ("anthropic/claude-sonnet-4-0", "claude-4", "budget"),
        ("anthropic/claude-sonnet-4-20250514", "claude-4", "budget"),
        ("anthropic/claude-haiku-4-5-20251001", "claude", "budget"),
        ("anthropic/claude-opus-4.5", "claude", "budget"),
        ("anthropic/claude-sonnet-4-6", "claude-4.6", "either"),
        ("anthropic/claude-opus-4-7", "claude-4.7", "adaptive"),
        ("anthropic/claude-opus-4-8", "claude-4.8", "adaptive"),
        ("anthropic/claude-sonnet-5", "claude-5", "adaptive"),
        ("claude:claude-fable-5", "claude-5-always", "adaptive"),
        ("moonshot-anthropic/kimi-k2.6", "moonshot-anthropic-k2.5", "budget"),
        ("moonshot-anthropic/kimi-k2-thinking", "moonshot-anthropic-k2-thinking", "none"),
        ("moonshot-anthropic/kimi-k3", "moonshot-anthropic-always-thinking", "budget"),
        ("moonshot-anthropic/kimi-k2-turbo-preview", "moonshot-anthropic-k2", "none"),
        ("deepseek-anthropic/deepseek-v4-pro", "deepseek-anthropic", "budget"),
        ("minimax-anthropic/MiniMax-M2.1", "minimax-anthropic", "budget"),
    ],
)
def test_models_and_their_dialects(model: str, dialect: str, control: str) -> None:
    found = resolve(model)
    assert (found.dialect.name, found.dialect.reasoning.control) == (dialect, control)
    assert (found.dialect.wire, found.dialect.ids, found.dialect.provider) == ("anthropic", "anthropic", found.provider)
    assert found.dialect.default_max_tokens is not None


@pytest.mark.parametrize(
    ("model", "base", "auth"),
    [
        ("anthropic/claude-sonnet-5", "https://api.anthropic.com", "x-api-key"),
        ("moonshot-anthropic/kimi-k2.5", "https://api.moonshot.ai/anthropic", "bearer"),
        ("deepseek-anthropic/deepseek-chat", "https://api.deepseek.com/anthropic", "x-api-key"),
        ("minimax-anthropic/MiniMax-M2", "https://api.minimax.io/anthropic", "x-api-key"),
    ],
)
def test_where_they_are_reached(model: str, base: str, auth: str) -> None:
    endpoint = resolve(model).endpoint
    assert (endpoint.base_url, endpoint.auth) == (base, auth)
    assert endpoint.key_env
