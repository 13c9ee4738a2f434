"""Prices: each kind of token at its own, whoever counts how; unknown is None."""

from __future__ import annotations

import pytest

from midstream.client.tokens import AS_OF, Price, price_of, window_of
from midstream.core.blocks import Usage
from midstream.dialects.registry import REGISTRY

PRICE = Price(1.0, 10.0, 0.1, 2.0)


@pytest.mark.parametrize(
    "usage, cost",
    [
        (Usage(), 0.0),
        (Usage(input=1_000_000), 1.0),
        (Usage(output=1_000_000, reasoning=900_000), 10.0),
        (Usage(input=1_000_000, cache_read=400_000), 0.6 + 0.04),
        (Usage(input=600_000, cache_read=400_000, cache_in_input=False), 0.6 + 0.04),
        (Usage(input=500_000, cache_write=500_000, cache_in_input=False), 0.5 + 1.0),
    ],
)
def test_a_turn_costs_its_tokens_each_once(usage: Usage, cost: float) -> None:
    assert PRICE.cost(usage) == pytest.approx(cost)


@pytest.mark.parametrize(
    "provider, model, input",
    [
        ("moonshot", "kimi-k2.5", 0.6),
        ("moonshot", "kimi-k2-turbo-preview", 1.15),
        ("openai", "gpt-5-mini", 0.25),
        ("openai-responses", "gpt-5.1", 1.25),
        ("anthropic", "claude-opus-4-5", 5.0),
        ("anthropic", "claude-opus-4-1", 15.0),
    ],
)
def test_known_models_have_their_price(provider: str, model: str, input: float) -> None:
    price = price_of(provider, model)
    assert price is not None and price.input == input and AS_OF in price.source


def test_an_unknown_price_is_none_and_no_price_is_absurd() -> None:
    assert price_of("openrouter", "anything/else") is None
    for name in REGISTRY.known_models():
        price = price_of(*name.split("/", 1))  # type: ignore[arg-type]
        if price is not None:
            assert 0 < price.cache_read <= price.input <= price.output


@pytest.mark.parametrize(
    "model, window",
    [
        ("kimi-k2.5", 262_144),
        ("moonshotai/Kimi-K2.5", 262_144),
        ("kimi-k2-0711-preview", 131_072),
        ("kimi-k2-0905-preview", 262_144),
        ("gpt-5.1", 400_000),
        ("o4-mini", 200_000),
        ("claude-sonnet-4-5", 200_000),
        ("anthropic/claude-sonnet-4.5", 200_000),
        ("gemini-2.5-flash", 1_048_576),
        ("somebody/new", None),
        ("solo3", None),
    ],
)
def test_windows_go_by_the_models_own_name(model: str, window: int | None) -> None:
    assert window_of(model) == window
