"""How much a model can read: a small table with its date, in tokens.

As publicly stated by the date below; a user's own figure in the configuration wins, and so does what a dialect knows. A
model that is not here has no known window, and whether a conversation fits is then left open.
"""

from __future__ import annotations

import re

AS_OF = "2026-11"

# the model's own name in lower case, whoever serves it; the first fit wins
_TABLE = tuple(
    (re.compile(pattern), tokens)
    for pattern, tokens in (
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
)


def window_of(model: str) -> int | None:
    """The window of a model by its name, or None."""
    lowered = model.lower()
    return next((tokens for pattern, tokens in _TABLE if pattern.search(lowered)), None)
