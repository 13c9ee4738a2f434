"""Tokens: an estimate of how many a text has, and how many a model can read. The table is dated; prices are in prices.py."""

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
