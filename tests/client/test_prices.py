"""What tokens cost: exact names, dated snapshots, estimates that say so, and hosts that are like another."""

from __future__ import annotations

import pytest

from midstream.client.catalog import Catalog
from midstream.client.config import Config, ProviderConfig
from midstream.client.prices import AS_OF, Price, dearest_price, known_prices, price_of
from midstream.core.blocks import Usage
from midstream.dialects.registry import REGISTRY

PRICE = Price(1.0, 10.0, 0.1, 2.0)
# Of vendors that publish no dollars for a token: subscriptions, weights that are run at home, hosts of any name.
UNPUBLISHED = {"kimi-coding", "ollama", "ollama-cloud"}
UNPRICED = {"moonshot/kimi-latest"}  # on no list any more


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


@pytest.mark.parametrize(("read", "cost"), [(200_000, 0.25), (200_001, 0.5000025)])
def test_a_long_request_costs_more_for_every_token(read: int, cost: float) -> None:
    price = price_of("gemini", "gemini-2.5-pro")
    assert price is not None and price.cost(Usage(input=read)) == pytest.approx(cost)


@pytest.mark.parametrize(
    ("name", "input", "output", "is_estimate"),
    [
        # named by the issue, each with its public price
        ("openai/gpt-5.2", 1.75, 14.0, False),
        ("openai/gpt-5.2-pro", 21.0, 168.0, False),
        ("openai-responses/gpt-5.4", 2.5, 15.0, False),
        ("moonshot/kimi-k2.7-code-highspeed", 1.9, 8.0, False),
        ("anthropic/claude-opus-5", 5.0, 25.0, False),
        ("moonshot/kimi-k3", 3.0, 15.0, False),
        ("moonshot/kimi-k2.6", 0.95, 4.0, False),
        ("mistral/mistral-medium-latest", 1.5, 7.5, False),
        ("mistral/mistral-small-latest", 0.15, 0.6, False),
        ("openai/o3", 2.0, 8.0, False),
        ("openai/o4-mini", 1.1, 4.4, False),
        ("gemini/gemini-3-pro-preview", 2.0, 12.0, False),
        # a dated snapshot shares the row of its model, unless it has one of its own
        ("openai/gpt-4o-2024-11-20", 2.5, 10.0, False),
        ("openai/gpt-4o-2024-05-13", 5.0, 15.0, False),
        ("anthropic/claude-opus-4-1-20250805", 15.0, 75.0, False),
        ("anthropic/claude-sonnet-4-5-20250929", 3.0, 15.0, False),
        # priced by the beginning of the name before: the same figures, as an estimate
        ("openai/gpt-5.9", 1.25, 10.0, True),
        ("openai/gpt-4o-audio-preview-2024-12-17", 2.5, 10.0, True),
        ("anthropic/claude-sonnet-6", 3.0, 15.0, True),
        ("moonshot/kimi-k2-new", 0.6, 2.5, True),
        ("groq/moonshotai/kimi-k2-instruct-0905", 1.0, 3.0, True),
        # as they are spelled
        ("deepinfra/moonshotai/Kimi-K2.5", 0.45, 2.25, False),
        ("minimax/MiniMax-M2.7", 0.3, 1.2, False),
    ],
)
def test_what_a_model_costs(name: str, input: float, output: float, is_estimate: bool) -> None:
    provider, _, model = name.partition("/")
    price = price_of(provider, model)
    assert price is not None
    assert (price.input, price.output, price.is_estimate) == (input, output, is_estimate)
    assert ("estimate" in price.source) is is_estimate


@pytest.mark.parametrize("name", ["openrouter/anything/else", "anthropic/claude-opus-6", "mistral/new", "openai/o9"])
def test_what_nobody_published_and_nothing_had_is_unknown(name: str) -> None:
    assert price_of(*name.split("/", 1)) is None  # type: ignore[arg-type]


def test_every_listed_model_of_a_vendor_that_publishes_prices_has_its_own() -> None:
    without = []
    for row in REGISTRY.providers.values():
        for model in row.models if row.name not in UNPUBLISHED else ():
            price = price_of(row.name, model)
            if price is None or (price.is_estimate and row.name != "moonshot-cn"):
                without.append(f"{row.name}/{model}")
    assert {name.replace("moonshot-cn", "moonshot") for name in without} == UNPRICED


def test_no_price_is_absurd_and_each_says_where_it_is_from() -> None:
    for name, price in known_prices():
        assert 0 <= price.cache_read <= price.input <= price.output < 1000, name
        for above, (read, written, cached, _) in price.longer:
            assert above > 0 and cached <= read and price.input < read and price.output < written, name
        page, _, date = price.source.removesuffix(", in place of yuan").rpartition(", ")
        assert "." in page and "2026-11-01" <= date <= AS_OF, name


def test_the_dearest_of_several() -> None:
    gemini, sonnet = price_of("gemini", "gemini-2.5-pro"), price_of("anthropic", "claude-sonnet-4-5")
    assert gemini is not None and sonnet is not None
    dearest = dearest_price([gemini, sonnet])
    assert dearest is not None and dearest.dearest == (3.0, 15.0, 0.3, 3.75)
    assert dearest_price([]) is None


def test_a_host_of_the_users_own_costs_what_the_one_it_is_like_costs() -> None:
    config = Config(providers={"work": ProviderConfig(like="kimi"), "other": ProviderConfig()})
    catalog = Catalog(config, environ={})
    price = catalog.price(catalog.resolve("work/kimi-k2.6"))
    assert price is not None and price == price_of("moonshot", "kimi-k2.6")
    assert catalog.price(catalog.resolve("work/kimi-nine")) is None
    assert catalog.price(catalog.resolve("other/gpt-5.2")) is None
