"""Tokens: an estimate of how many a text has, how many a model can read, and what they cost. The tables are dated."""

from __future__ import annotations

import re

from ..core.blocks import (
    Conversation,
    Media,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResponse,
    ToolSpec,
    Turn,
    Usage,
    Value,
)
from ..core.compaction import sent_turns

# Hosts count images by their size, each in its own way; this is the order of magnitude, and estimates are only for
# warnings and for compaction. The overhead is that of the tokens with which templates separate turns.
_MEDIA_TOKENS = 800
_TURN_OVERHEAD = 4


def estimate_text(text: str) -> int:
    """Roughly how many tokens a text has, without a tokenizer: four ASCII characters a token, two thirds a token each for
    the others."""
    if not text:
        return 0
    plain = len(text.encode("ascii", "ignore"))
    return (plain + 3) // 4 + (len(text) - plain) * 2 // 3 + 1


def estimate_tool(tool: ToolSpec) -> int:
    """About how many tokens the declaration of a tool takes."""
    grammar = tool.grammar.definition if tool.grammar is not None else ""
    return estimate_text(tool.qualified_name + tool.description + str(tool.parameters or "") + grammar)


def estimate_conversation(conversation: Conversation, reader: Origin | None = None) -> int:
    """Roughly how many tokens a model would read of this conversation: a summary in place of what it stands for.

    Of the thinking, only that of `reader` counts: other models' is not sent.
    """
    turns = sent_turns(conversation.turns).turns
    return estimate_text(conversation.system_text) + sum([estimate_turn(turn, reader) for turn in turns])


def estimate_turn(turn: Turn, reader: Origin | None = None) -> int:
    """Roughly how many tokens `reader` would read of this turn."""
    if turn.failure:
        return 0  # never replayed
    total = _TURN_OVERHEAD + sum(map(estimate_tool, turn.tools))
    for block in turn.blocks:
        if isinstance(block, Text):
            total += estimate_text(block.text)
        elif isinstance(block, ToolCall):
            total += estimate_text(block.name) + estimate_text(block.arguments) + _TURN_OVERHEAD
        elif isinstance(block, ToolResponse):
            total += sum(
                [estimate_text(part.text) if isinstance(part, Text) else _MEDIA_TOKENS for part in block.content]
            )
        elif isinstance(block, Media):
            total += _MEDIA_TOKENS
        elif isinstance(block, Thinking) and reader is not None and block.origin == reader:
            total += estimate_text(block.text)
    return total


# By the model's name alone: the window belongs to the weights, and a host that offers less says so in its
# dialect or in the user's configuration. Narrow patterns stand before wide ones.
WINDOWS_AS_OF = "2026-11"

# the model's own name in lower case, whoever serves it; the first match wins
_WINDOWS = (
    (r"kimi-k3|(?:^|/)k3", 1_048_576),
    (r"kimi-(?:k2[.p][567]|k2-(?:thinking|turbo|0905|instruct-0905)|for-coding|latest)", 262_144),
    (r"kimi-k2", 131_072),
    (r"gpt-5", 400_000),
    (r"gpt-4\.1", 1_047_576),
    (r"gpt-4o", 128_000),
    (r"(?:^|/)o[34](?:$|-)", 200_000),
    (r"gpt-oss", 131_072),
    (r"claude-(?:opus|sonnet|haiku|3|fable|mythos)", 200_000),
    (r"gemini-(?:2|3)", 1_048_576),
    (r"mistral-(?:large|medium)|devstral|codestral", 262_144),
    (r"mistral-small|ministral|pixtral|magistral", 131_072),
    (r"deepseek-(?:chat|reasoner|v3)", 131_072),
    (r"glm-(?:4\.[67]|5)", 200_000),
    (r"glm-4\.5", 131_072),
    (r"minimax-m2", 204_800),
    (r"grok-4-fast", 2_000_000),
    (r"grok-(?:4|code)", 256_000),
    (r"grok-3", 131_072),
    (r"qwen3-(?:max|coder)", 262_144),
    (r"llama-?3\.[123]", 131_072),
)


def window_of(model: str) -> int | None:
    """How many tokens a model can read, by its name; None if it is not in the table."""
    lowered = model.lower()
    return next((tokens for pattern, tokens in _WINDOWS if re.search(pattern, lowered)), None)


# Prices go by provider and model, because the same weights cost differently everywhere. A missing row means
# "unknown", which is shown as such; a guess would be taken for a bill.
AS_OF = "2026-11"


class Price(Value, frozen=True):
    """Dollars for a million tokens."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    source: str = f"table of {AS_OF}"

    def cost(self, usage: Usage) -> float:
        """What one turn cost by this price; a cost that the host itself reported takes precedence (`Session.costs`)."""
        return (
            usage.fresh * self.input
            + usage.cache_read * self.cache_read
            + usage.cache_write * self.cache_write
            + usage.output * self.output
        ) / 1_000_000


def _row(
    pattern: str, input: float, output: float, read: float | None = None, write: float | None = None
) -> tuple[str, Price]:
    price = Price(input, output, input if read is None else read, input if write is None else write)
    return pattern, price


# provider/model in lower case; the first match wins
_PRICES = (
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
    # Not of later ones, whose price is not known here: none is better than a wrong one.
    _row(r"^anthropic/claude-opus-4", 15.0, 75.0, 1.50, 18.75),
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
    _row(r"^sim/", 0.0, 0.0),  # the doubles on this machine
)


def price_of(provider: str, model: str) -> Price | None:
    """The price of a model at a provider; None if it is not in the table."""
    name = f"{provider}/{model}".lower()
    return next((price for pattern, price in _PRICES if re.search(pattern, name)), None)
