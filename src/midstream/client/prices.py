"""What tokens cost: a small table with its date, in dollars for a million tokens.

Prices change without notice; these are list prices as publicly stated by the date below, and a user's own figures in the
configuration win. A model that is not here has no price, and says so, rather than a guess.
"""

from __future__ import annotations

import re

from ..core.blocks import Usage, Value

AS_OF = "2026-11"


class Price(Value, frozen=True):
    """Dollars for a million tokens."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    source: str = f"table of {AS_OF}"

    def cost(self, usage: Usage) -> float:
        """What one turn cost; a cost the host itself reported wins elsewhere."""
        return (
            usage.fresh * self.input
            + usage.cache_read * self.cache_read
            + usage.cache_write * self.cache_write
            + usage.output * self.output
        ) / 1_000_000


def _row(
    pattern: str, input: float, output: float, read: float | None = None, write: float | None = None
) -> tuple[re.Pattern[str], Price]:
    price = Price(input, output, input if read is None else read, input if write is None else write)
    return re.compile(pattern), price


# provider/model in lower case; the first fit wins
_TABLE = (
    _row(r"^moonshot/kimi-k3", 1.2, 5.0, 0.2),
    _row(r"^moonshot/kimi-k2\.[567]", 0.60, 3.00, 0.10),
    _row(r"^moonshot/kimi-k2-(?:turbo|thinking-turbo)", 1.15, 8.00, 0.15),
    _row(r"^moonshot/kimi-k2", 0.60, 2.50, 0.15),
    _row(r"^openai(?:-responses)?/gpt-5\.[12](?!-(?:mini|nano))", 1.25, 10.0, 0.125),
    _row(r"^openai(?:-responses)?/gpt-5-mini", 0.25, 2.0, 0.025),
    _row(r"^openai(?:-responses)?/gpt-5-nano", 0.05, 0.4, 0.005),
    _row(r"^openai(?:-responses)?/gpt-5", 1.25, 10.0, 0.125),
    _row(r"^openai(?:-responses)?/gpt-4\.1-mini", 0.40, 1.60, 0.10),
    _row(r"^openai(?:-responses)?/gpt-4\.1", 2.00, 8.00, 0.50),
    _row(r"^openai(?:-responses)?/gpt-4o-mini", 0.15, 0.60, 0.075),
    _row(r"^openai(?:-responses)?/gpt-4o", 2.50, 10.0, 1.25),
    _row(r"^anthropic/claude-opus-4-[5-9]", 5.0, 25.0, 0.50, 6.25),
    _row(r"^anthropic/claude-opus", 15.0, 75.0, 1.50, 18.75),
    _row(r"^anthropic/claude-sonnet", 3.0, 15.0, 0.30, 3.75),
    _row(r"^anthropic/claude-haiku-4", 1.0, 5.0, 0.10, 1.25),
    _row(r"^mistral/mistral-large", 0.50, 1.50),
    _row(r"^mistral/mistral-medium", 0.40, 2.00),
    _row(r"^mistral/(?:mistral-small|devstral-small)", 0.10, 0.30),
    _row(r"^mistral/codestral", 0.30, 0.90),
    _row(r"^deepseek/deepseek-(?:chat|reasoner)", 0.28, 0.42, 0.028),
    _row(r"^gemini/gemini-2\.5-pro", 1.25, 10.0, 0.125),
    _row(r"^gemini/gemini-2\.5-flash-lite", 0.10, 0.40, 0.01),
    _row(r"^gemini/gemini-2\.5-flash", 0.30, 2.50, 0.03),
    _row(r"^deepinfra/moonshotai/kimi-k2\.5", 0.45, 2.25, 0.07),
    _row(r"^deepinfra/moonshotai/kimi-k2", 0.50, 2.00, 0.15),
    _row(r"^groq/moonshotai/kimi-k2", 1.00, 3.00, 0.50),
)


def price_of(provider: str, model: str) -> Price | None:
    name = f"{provider}/{model}".lower()
    return next((price for pattern, price in _TABLE if pattern.search(name)), None)
