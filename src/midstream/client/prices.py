"""What tokens cost: by the exact name of a model at a provider, each list with its source and the day its figures were compared.

A missing row means "unknown", and is shown as such: a guess would be taken for a bill. What an earlier version priced by the beginning
of a name keeps that price, as an estimate that says so, for budgets rest on it; a new row is for one name, or for a dated snapshot of it.

The figures are the vendors' standard rates for one request: no batch, flex or priority. They were read off the page that a list
names, or out of two public tables that cite it (litellm 1.106.10, genai-prices 0.2.3; models.dev where one of them is silent). Where they
disagree the row says so, and has the dearer figure unless the page itself decides: a budget that ends too early can be raised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..core.blocks import Usage, Value

AS_OF = "2026-11-20"
"""When the lists below were last gone through."""

_DATED = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8})\Z")
Figures = tuple[float, float, float, float]
"""Dollars for a million tokens: read, written, read from the cache, written to it."""


class Price(Value, frozen=True):
    """Dollars for a million tokens."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    source: str = f"table of {AS_OF}"
    longer: tuple[tuple[int, Figures], ...] = ()
    """What every token of a request costs that reads more than so many, the largest number first."""
    is_estimate: bool = False
    """Whether it is a guess from the beginning of the model's name, and no figure that the vendor published."""

    def cost(self, usage: Usage) -> float:
        """What one turn cost by this price; a cost that the host itself reported takes precedence (`Session.costs`)."""
        figures = next(
            (each for above, each in self.longer if usage.read > above),
            (self.input, self.output, self.cache_read, self.cache_write),
        )
        return (
            usage.fresh * figures[0]
            + usage.output * figures[1]
            + usage.cache_read * figures[2]
            + usage.cache_write * figures[3]
        ) / 1_000_000

    @property
    def dearest(self) -> Figures:
        """The highest figure of each kind that a request can meet."""
        return _highest(
            [(self.input, self.output, self.cache_read, self.cache_write), *[each for _, each in self.longer]]
        )


def price_of(provider: str, model: str) -> Price | None:
    """The price of a model at a provider; None if it is not known."""
    name, model = f"{provider}/{model}".lower(), model.lower()
    rows = _LISTS.get(provider.lower(), {})
    found = rows.get(model) or rows.get(_DATED.sub("", model))
    if found is not None:
        return found
    return next((price for pattern, price in _ESTIMATES if re.search(pattern, name)), None)


def dearest_price(prices: Iterable[Price]) -> Price | None:
    """A price as high as the highest of these in each of its figures; None if there are none."""
    every = [price.dearest for price in prices]
    return Price(*_highest(every), "the dearest that is known here", (), True) if every else None


def _highest(every: Sequence[Figures]) -> Figures:
    read, written, cached, kept = zip(*every, strict=True)
    return max(read), max(written), max(cached), max(kept)


def known_prices() -> Iterator[tuple[str, Price]]:
    """Every row, by `provider/model`."""
    for provider, rows in _LISTS.items():
        for model, price in rows.items():
            yield f"{provider}/{model}", price


def _figures(input: float, output: float, read: float | None = None, write: float | None = None) -> Figures:
    return input, output, input if read is None else read, input if write is None else write


def _row(
    input: float,
    output: float,
    read: float | None = None,
    write: float | None = None,
    *,
    above: Mapping[int, Figures] | None = None,
) -> Price:
    """`read` and `write` are the cache's, `input` where nothing is published; `above`, what longer requests cost."""
    longer = tuple(sorted((above or {}).items(), reverse=True))
    return Price(*_figures(input, output, read, write), "", longer)


_LISTS: dict[str, dict[str, Price]] = {}


def _list(source: str, date: str, rows: Mapping[str, Price], *providers: str) -> None:
    """One vendor's list. `providers` have the same prices."""
    dated: dict[str, Price] = {}
    for name, price in rows.items():
        figures = price.input, price.output, price.cache_read, price.cache_write
        dated[name] = Price(*figures, f"{source}, {date}", price.longer)
    for provider in providers:
        _LISTS.setdefault(provider, {}).update(dated)


_list(
    "platform.kimi.ai/docs/pricing",
    AS_OF,
    {
        "kimi-k3.1-pro": _row(2.0, 10.0, 0.20),
        "kimi-k3.1-pro-highspeed": _row(4.0, 20.0, 0.20),
        "kimi-k3": _row(3.0, 15.0, 0.30),
        "kimi-k2.7-code": _row(0.95, 4.0, 0.19),
        "kimi-k2.7-code-highspeed": _row(1.90, 8.0, 0.38),
        "kimi-k2.6": _row(0.95, 4.0, 0.16),
        "kimi-k2.5": _row(0.60, 3.0, 0.10),
        # No longer on the page; what it said until they were retired.
        "kimi-k2-thinking": _row(0.60, 2.50, 0.15),
        "kimi-k2-0905-preview": _row(0.60, 2.50, 0.15),
        "kimi-k2-0711-preview": _row(0.60, 2.50, 0.15),
        "kimi-k2-thinking-turbo": _row(1.15, 8.00, 0.15),
        # models.dev has 2.40/10.00, which it was for its first months.
        "kimi-k2-turbo-preview": _row(1.15, 8.00, 0.15),
    },
    "moonshot",
    "moonshot-anthropic",
)
# api.moonshot.cn bills yuan (K3: 20 and 100 for a million), a little less than the dollars of the international platform.
_LISTS["moonshot-cn"] = {
    name: Price(
        price.input, price.output, price.cache_read, price.cache_write, f"{price.source}, in place of yuan", (), True
    )
    for name, price in _LISTS["moonshot"].items()
}

_OPENAI = {
    "gpt-6.1-sol": _row(2.0, 10.0, 0.10, 2.50, above={272_000: (4.0, 15.0, 0.20, 5.0)}),
    "gpt-6-astra": _row(10.0, 50.0, 1.0, 12.50, above={272_000: (20.0, 75.0, 2.0, 25.0)}),
    "gpt-6-sol": _row(2.0, 10.0, 0.20, 2.50, above={272_000: (4.0, 15.0, 0.40, 5.0)}),
    "gpt-6-luna": _row(0.10, 0.50, 0.01, 0.125, above={272_000: (0.20, 0.75, 0.02, 0.25)}),
    "gpt-5.6": _row(4.0, 20.0, 0.40, 5.0, above={272_000: (8.0, 30.0, 0.80, 10.0)}),
    "gpt-5.6-sol": _row(4.0, 20.0, 0.40, 5.0, above={272_000: (8.0, 30.0, 0.80, 10.0)}),
    "gpt-5.6-terra": _row(2.0, 12.0, 0.20, 2.50, above={272_000: (4.0, 18.0, 0.40, 5.0)}),
    "gpt-5.6-luna": _row(0.20, 1.20, 0.02, 0.25, above={272_000: (0.40, 1.80, 0.04, 0.50)}),
    "gpt-5.5": _row(5.0, 30.0, 0.50, above={272_000: _figures(10.0, 45.0, 1.0)}),
    "gpt-5.5-pro": _row(30.0, 180.0, above={272_000: _figures(60.0, 270.0)}),
    "gpt-5.4": _row(2.50, 15.0, 0.25, above={272_000: _figures(5.0, 22.50, 0.50)}),
    "gpt-5.4-pro": _row(30.0, 180.0, above={272_000: _figures(60.0, 270.0)}),
    "gpt-5.4-mini": _row(0.75, 4.50, 0.075),
    "gpt-5.4-nano": _row(0.20, 1.25, 0.02),
    "gpt-5.3-codex": _row(1.75, 14.0, 0.175),
    "gpt-5.3-chat-latest": _row(1.75, 14.0, 0.175),
    "gpt-5.2": _row(1.75, 14.0, 0.175),
    "gpt-5.2-codex": _row(1.75, 14.0, 0.175),
    "gpt-5.2-chat-latest": _row(1.75, 14.0, 0.175),
    "gpt-5.2-pro": _row(21.0, 168.0),
    "gpt-5.1": _row(1.25, 10.0, 0.125),
    "gpt-5.1-codex": _row(1.25, 10.0, 0.125),
    "gpt-5.1-codex-max": _row(1.25, 10.0, 0.125),
    "gpt-5.1-codex-mini": _row(0.25, 2.0, 0.025),
    "gpt-5.1-chat-latest": _row(1.25, 10.0, 0.125),
    "gpt-5": _row(1.25, 10.0, 0.125),
    "gpt-5-codex": _row(1.25, 10.0, 0.125),
    "gpt-5-chat-latest": _row(1.25, 10.0, 0.125),
    "gpt-5-pro": _row(15.0, 120.0),
    "gpt-5-mini": _row(0.25, 2.0, 0.025),
    "gpt-5-nano": _row(0.05, 0.40, 0.005),
    "gpt-4.1": _row(2.0, 8.0, 0.50),
    "gpt-4.1-mini": _row(0.40, 1.60, 0.10),
    "gpt-4.1-nano": _row(0.10, 0.40, 0.025),
    "gpt-4o": _row(2.50, 10.0, 1.25),
    # The one snapshot of gpt-4o with a price of its own.
    "gpt-4o-2024-05-13": _row(5.0, 15.0),
    "gpt-4o-mini": _row(0.15, 0.60, 0.075),
    # models.dev rounds the cached figures of these two and of gpt-5.1 and gpt-4o-mini.
    "o4-mini": _row(1.10, 4.40, 0.275),
    "o3": _row(2.0, 8.0, 0.50),
    "o3-pro": _row(20.0, 80.0),
    "o3-mini": _row(1.10, 4.40, 0.55),
    "o1": _row(15.0, 60.0, 7.50),
    "o1-pro": _row(150.0, 600.0),
}
_list("developers.openai.com/api/docs/pricing", AS_OF, _OPENAI, "openai", "openai-responses")
_list(
    "prices.azure.com, global standard",
    AS_OF,
    {
        name: _OPENAI[name]
        for name in ("gpt-5.4", "gpt-5.2", "gpt-5.1", "gpt-5", "gpt-5-mini", "gpt-5-nano", "gpt-4.1", "gpt-4.1-mini", "gpt-4o", "gpt-4o-mini", "o4-mini", "o3")
    },
    "azure",
    "azure-responses",
    # A deployment has the name that its owner gave it: these are the prices where that is the model's own.
    "azure-deployment",
)  # fmt: skip
_list(
    "platform.claude.com/docs/en/about-claude/pricing, caches of 5 minutes",
    AS_OF,
    {
        "claude-fable-5-1": _row(10.0, 50.0, 0.25, 12.50),
        "claude-fable-5": _row(10.0, 50.0, 1.0, 12.50),
        "claude-mythos-5-1": _row(10.0, 50.0, 0.25, 12.50),
        "claude-mythos-5": _row(10.0, 50.0, 1.0, 12.50),
        "claude-opus-5-5": _row(4.0, 20.0, 0.20, 5.0),
        "claude-opus-5": _row(5.0, 25.0, 0.50, 6.25),
        "claude-opus-4-8": _row(5.0, 25.0, 0.50, 6.25),
        "claude-opus-4-7": _row(5.0, 25.0, 0.50, 6.25),
        "claude-opus-4-6": _row(5.0, 25.0, 0.50, 6.25),
        "claude-opus-4-5": _row(5.0, 25.0, 0.50, 6.25),
        "claude-opus-4-1": _row(15.0, 75.0, 1.50, 18.75),
        "claude-opus-4-0": _row(15.0, 75.0, 1.50, 18.75),
        "claude-opus-4": _row(15.0, 75.0, 1.50, 18.75),
        "claude-sonnet-5-5": _row(2.0, 10.0, 0.10, 2.50),
        "claude-sonnet-5": _row(2.0, 10.0, 0.20, 2.50),
        "claude-sonnet-4-6": _row(3.0, 15.0, 0.30, 3.75),
        # Above 200,000 tokens it cost twice as much until that beta ended (2026-04-30); now such a request is refused.
        "claude-sonnet-4-5": _row(3.0, 15.0, 0.30, 3.75),
        "claude-sonnet-4-0": _row(3.0, 15.0, 0.30, 3.75),
        "claude-sonnet-4": _row(3.0, 15.0, 0.30, 3.75),
        "claude-3-7-sonnet-latest": _row(3.0, 15.0, 0.30, 3.75),
        "claude-3-7-sonnet": _row(3.0, 15.0, 0.30, 3.75),
        "claude-haiku-5-5": _row(0.10, 0.50, 0.01, 0.125, above={100_000: (0.50, 2.50, 0.05, 0.625)}),
        "claude-haiku-4-5": _row(1.0, 5.0, 0.10, 1.25),
        "claude-3-5-haiku-latest": _row(0.80, 4.0, 0.08, 1.0),
        "claude-3-5-haiku": _row(0.80, 4.0, 0.08, 1.0),
    },
    "anthropic",
)
_list(
    "docs.mistral.ai/inference/pricing",
    AS_OF,
    {
        # litellm has 0.68/2.09/0.068.
        "mistral-large-4": _row(0.70, 2.10, 0.07),
        # genai-prices has 2/6 for every mistral-large, which Large 2 cost; `latest` has been Large 3 since 2025-12-02.
        "mistral-large-latest": _row(0.50, 1.50, 0.05),
        "mistral-large-2512": _row(0.50, 1.50, 0.05),
        "mistral-large-2411": _row(2.0, 6.0),
        # `latest` moved from Medium 3.1 to 3.5 on 2026-06-16.
        "mistral-medium-latest": _row(1.50, 7.50, 0.15),
        "mistral-medium-2604": _row(1.50, 7.50, 0.15),
        "mistral-medium-3-5": _row(1.50, 7.50, 0.15),
        "mistral-medium-2508": _row(0.40, 2.0, 0.04),
        "mistral-medium-2505": _row(0.40, 2.0, 0.04),
        # `latest` moved from Small 3.2 to Small 4 on 2026-03-16.
        "mistral-small-latest": _row(0.15, 0.60, 0.015),
        "mistral-small-2603": _row(0.15, 0.60, 0.015),
        "mistral-small-2506": _row(0.10, 0.30),
        "codestral-latest": _row(0.30, 0.90, 0.03),
        "codestral-2508": _row(0.30, 0.90, 0.03),
        "devstral-medium-latest": _row(0.40, 2.0, 0.04),
        "devstral-small-latest": _row(0.10, 0.30, 0.01),
        # litellm: now Medium 3.5; genai-prices and models.dev: 2/5, which Magistral Medium 1.2 cost.
        "magistral-medium-latest": _row(1.50, 7.50, 0.15),
        # models.dev has 0.10/0.10, which Ministral 24.10 cost.
        "ministral-8b-latest": _row(0.15, 0.15, 0.015),
        "ministral-8b-2512": _row(0.15, 0.15, 0.015),
        "pixtral-large-latest": _row(2.0, 6.0, 0.20),
    },
    "mistral",
)
_list(
    "api-docs.deepseek.com/quick_start/pricing, peak hours",
    "2026-11-15",
    {
        # Twice what the other hours cost: which hour a request came in is not known here.
        "deepseek-v4-pro": _row(1.32, 3.96, 0.044),
        "deepseek-flash": _row(0.30, 1.20, 0.006),
        "deepseek-v4-flash": _row(0.30, 1.20, 0.006),
        # Retired on 2026-07-24. The page's last figures, as litellm kept them; models.dev has 0.14/0.28/0.028.
        "deepseek-chat": _row(0.28, 0.42, 0.028),
        "deepseek-reasoner": _row(0.28, 0.42, 0.028),
    },
    "deepseek",
    "deepseek-anthropic",
)
_list(
    "alibabacloud.com/help/en/model-studio/models, Singapore",
    AS_OF,
    {
        "qwen3.7-max": _row(2.50, 7.50, 0.50, 3.125),
        # models.dev alone.
        "qwen3.6-plus": _row(0.50, 3.0, 0.05, 0.625, above={256_000: (2.0, 6.0, 0.20, 2.50)}),
        "qwen3-max": _row(1.20, 6.0, above={32_000: _figures(2.40, 12.0), 128_000: _figures(3.0, 15.0)}),
        "qwen3-coder-plus": _row(
            1.0,
            5.0,
            0.10,
            above={
                32_000: _figures(1.80, 9.0, 0.18),
                128_000: _figures(3.0, 15.0, 0.30),
                256_000: _figures(6.0, 60.0, 0.60),
            },
        ),
        # What thinking writes costs more: 4.00 and 0.50. Which of the two an answer was is not known here.
        "qwen-plus": _row(0.40, 4.0),
        "qwen-turbo": _row(0.05, 0.50),
        "qwq-plus": _row(0.80, 2.40),
    },
    "qwen",
)
_list(
    "docs.z.ai/guides/overview/pricing",
    AS_OF,
    {
        "glm-5.3": _row(1.40, 4.40, 0.26),
        "glm-5.3-flash": _row(0.15, 0.50, 0.03),
        "glm-5.2": _row(1.40, 4.40, 0.26),
        "glm-5.1": _row(1.40, 4.40, 0.26),
        "glm-5": _row(1.0, 3.20, 0.20),
        "glm-4.7": _row(0.60, 2.20, 0.11),
        "glm-4.6": _row(0.60, 2.20, 0.11),
        "glm-4.5": _row(0.60, 2.20, 0.11),
        "glm-4.5-air": _row(0.20, 1.10, 0.03),
        "glm-4.5-flash": _row(0.0, 0.0),
    },
    "zai",
)
_list(
    "platform.minimax.io/docs/guides/pricing-paygo",
    AS_OF,
    {
        "minimax-m3": _row(0.30, 1.20, 0.06, above={512_000: _figures(0.60, 2.40, 0.12)}),
        "minimax-m2.7": _row(0.30, 1.20, 0.06, 0.375),
        "minimax-m2.5": _row(0.30, 1.20, 0.03, 0.375),
        "minimax-m2.1": _row(0.30, 1.20, 0.03, 0.375),
        "minimax-m2": _row(0.30, 1.20, 0.03, 0.375),
    },
    "minimax",
    "minimax-anthropic",
)
_list(
    "docs.x.ai/developers/models",
    AS_OF,
    {
        "grok-4.7": _row(2.0, 6.0, 0.50, above={199_999: _figures(4.0, 12.0, 1.0)}),
        "grok-4.6": _row(2.0, 6.0, 0.50, above={199_999: _figures(4.0, 12.0, 1.0)}),
        "grok-4.5": _row(2.0, 6.0, 0.30, above={199_999: _figures(4.0, 12.0, 0.60)}),
        "grok-4.3": _row(1.25, 2.50, 0.20, above={199_999: _figures(2.50, 5.0, 0.40)}),
        # No longer on the page; what genai-prices kept of it.
        "grok-4": _row(3.0, 15.0, 0.75),
        "grok-4-fast": _row(0.20, 0.50, 0.05),
        "grok-3": _row(3.0, 15.0, 0.75),
        "grok-3-mini": _row(0.30, 0.50, 0.075),
        # Now another name of grok-build-0.1, which has this price; genai-prices has 0.20/1.50, which it cost before.
        "grok-code-fast-1": _row(1.0, 2.0, 0.20, above={199_999: _figures(2.0, 4.0, 0.40)}),
    },
    "xai",
    "xai-responses",
)
_GEMINI = {
    "gemini-3.1-pro-preview": _row(2.0, 12.0, 0.20, above={200_000: _figures(4.0, 18.0, 0.40)}),
    # Shut down; what the page said of it.
    "gemini-3-pro-preview": _row(2.0, 12.0, 0.20, above={200_000: _figures(4.0, 18.0, 0.40)}),
    "gemini-3.5-flash": _row(1.50, 9.0, 0.15),
    "gemini-3.5-flash-lite": _row(0.30, 2.50, 0.03),
    "gemini-3.1-flash-lite": _row(0.25, 1.50, 0.025),
    "gemini-3-flash-preview": _row(0.50, 3.0, 0.05),
    "gemini-2.5-pro": _row(1.25, 10.0, 0.125, above={200_000: _figures(2.50, 15.0, 0.25)}),
    "gemini-2.5-flash": _row(0.30, 2.50, 0.03),
    "gemini-2.5-flash-lite": _row(0.10, 0.40, 0.01),
}
_list("ai.google.dev/gemini-api/docs/pricing, text", AS_OF, _GEMINI, "gemini")
# models.dev has 0.075 for what 2.5-flash reads from the cache there.
_list("cloud.google.com/vertex-ai/generative-ai/pricing, text, global", AS_OF, _GEMINI, "vertex")
_list(
    "cohere.com/pricing",
    AS_OF,
    {
        "command-a-03-2025": _row(2.50, 10.0),
        # These three: models.dev alone. litellm has 0/0 for command-a-plus.
        "command-a-reasoning-08-2025": _row(2.50, 10.0),
        "command-a-vision-07-2025": _row(2.50, 10.0),
        "command-a-plus-05-2026": _row(2.50, 10.0),
        "command-r-plus-08-2024": _row(2.50, 10.0),
        "command-r-08-2024": _row(0.15, 0.60),
        "command-r7b-12-2024": _row(0.0375, 0.15),
    },
    "cohere",
)
_list(
    "aws.amazon.com/bedrock/pricing, us-east-1",
    AS_OF,
    {
        "openai.gpt-oss-120b-1:0": _row(0.15, 0.60),
        "openai.gpt-oss-120b": _row(0.15, 0.60),
        "openai.gpt-oss-20b-1:0": _row(0.07, 0.30),
        "openai.gpt-oss-20b": _row(0.07, 0.30),
    },
    "bedrock",
    "bedrock-mantle",
)
_list(
    "openrouter.ai/models",
    AS_OF,
    {
        # Its answers say what they cost, and that counts first.
        "moonshotai/kimi-k2.5": _row(0.532, 3.325, 0.209),
        "moonshotai/kimi-k2-thinking": _row(0.60, 2.50, 0.15),
        "anthropic/claude-sonnet-4.5": _row(3.0, 15.0, 0.30, 3.75, above={200_000: (6.0, 22.50, 0.60, 7.50)}),
        "openai/gpt-5.2": _row(1.75, 14.0, 0.175),
        "google/gemini-3-flash-preview": _row(0.50, 3.0, 0.05),
    },
    "openrouter",
    "openrouter-responses",
)
_list(
    "deepinfra.com/pricing",
    AS_OF,
    {
        # models.dev has 0.50/2.80 in its last release and 0.45/2.25 in its files.
        "moonshotai/kimi-k2.5": _row(0.45, 2.25, 0.07),
        # models.dev has 0.47/2.00 and, for the other, 0.40/2.00/0.15.
        "moonshotai/kimi-k2-thinking": _row(0.50, 2.0, 0.15),
        "moonshotai/kimi-k2-instruct-0905": _row(0.50, 2.0, 0.40),
    },
    "deepinfra",
)


def _estimate(pattern: str, input: float, output: float, read: float, write: float | None = None) -> tuple[str, Price]:
    source = "an estimate: what its family cost in 2026-11, for no price of this model is known"
    return pattern, Price(input, output, read, input if write is None else write, source, (), True)


# provider/model in lower case; the first match wins. Not to be extended: a model has a row, or no price.
_ESTIMATES = (
    _estimate(r"^moonshot/kimi-k3", 1.2, 5.0, 0.2),
    _estimate(r"^moonshot/kimi-k2\.[567]", 0.60, 3.00, 0.10),
    _estimate(r"^moonshot/kimi-k2-(?:turbo|thinking-turbo)", 1.15, 8.00, 0.15),
    _estimate(r"^moonshot/kimi-k2", 0.60, 2.50, 0.15),
    _estimate(r"^openai(?:-responses)?/gpt-5\.[12](?!-(?:mini|nano))", 1.25, 10.0, 0.125),
    _estimate(r"^openai(?:-responses)?/gpt-5-mini", 0.25, 2.0, 0.025),
    _estimate(r"^openai(?:-responses)?/gpt-5-nano", 0.05, 0.4, 0.005),
    _estimate(r"^openai(?:-responses)?/gpt-5", 1.25, 10.0, 0.125),
    _estimate(r"^openai(?:-responses)?/gpt-4\.1-mini", 0.40, 1.60, 0.10),
    _estimate(r"^openai(?:-responses)?/gpt-4\.1", 2.00, 8.00, 0.50),
    _estimate(r"^openai(?:-responses)?/gpt-4o-mini", 0.15, 0.60, 0.075),
    # gpt-4o-audio and -realtime among them: what they hear and say costs more, but is not counted apart here.
    _estimate(r"^openai(?:-responses)?/gpt-4o", 2.50, 10.0, 1.25),
    _estimate(r"^anthropic/claude-opus-4-[5-9]", 5.0, 25.0, 0.50, 6.25),
    _estimate(r"^anthropic/claude-opus-4", 15.0, 75.0, 1.50, 18.75),
    _estimate(r"^anthropic/claude-sonnet", 3.0, 15.0, 0.30, 3.75),
    _estimate(r"^anthropic/claude-haiku-4", 1.0, 5.0, 0.10, 1.25),
    _estimate(r"^mistral/mistral-large", 0.50, 1.50, 0.50),
    _estimate(r"^mistral/mistral-medium", 0.40, 2.00, 0.40),
    _estimate(r"^mistral/(?:mistral-small|devstral-small)", 0.10, 0.30, 0.10),
    _estimate(r"^mistral/codestral", 0.30, 0.90, 0.30),
    _estimate(r"^deepseek/deepseek-(?:chat|reasoner)", 0.28, 0.42, 0.028),
    _estimate(r"^gemini/gemini-2\.5-pro", 1.25, 10.0, 0.125),
    _estimate(r"^gemini/gemini-2\.5-flash-lite", 0.10, 0.40, 0.01),
    _estimate(r"^gemini/gemini-2\.5-flash", 0.30, 2.50, 0.03),
    _estimate(r"^deepinfra/moonshotai/kimi-k2\.5", 0.45, 2.25, 0.07),
    _estimate(r"^deepinfra/moonshotai/kimi-k2", 0.50, 2.00, 0.15),
    _estimate(r"^groq/moonshotai/kimi-k2", 1.00, 3.00, 0.50),
    (r"^sim/", Price(0.0, 0.0, 0.0, 0.0, "the doubles on this machine")),
)
