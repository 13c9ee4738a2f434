"""How many tokens a text is, roughly, without a tokenizer: an estimate that says it is one.

Latin text runs at about four characters a token in the tokenizers of today, CJK at about one and a half; digits and symbols
lie between. It is meant for "does this fit" and "what will be re-read", not for bills.
"""

from __future__ import annotations

from ..core.blocks import Conversation, Media, Text, Thinking, ToolCall, ToolResponse

_MEDIA_TOKENS = 800
_TURN_OVERHEAD = 4


def estimate_text(text: str) -> int:
    if not text:
        return 0
    plain = len(text.encode("ascii", "ignore"))
    return (plain + 3) // 4 + (len(text) - plain) * 2 // 3 + 1


def estimate_conversation(conversation: Conversation) -> int:
    """What a model would read of this conversation, thinking left out (other models' thinking is not sent)."""
    total = estimate_text(conversation.system_text)
    for turn in conversation.turns:
        if turn.failure:
            continue  # never replayed
        total += _TURN_OVERHEAD
        for block in turn.blocks:
            if isinstance(block, Text):
                total += estimate_text(block.text)
            elif isinstance(block, ToolCall):
                total += estimate_text(block.name) + estimate_text(block.arguments) + _TURN_OVERHEAD
            elif isinstance(block, ToolResponse):
                total += sum(
                    estimate_text(part.text) if isinstance(part, Text) else _MEDIA_TOKENS for part in block.content
                )
            elif isinstance(block, Media):
                total += _MEDIA_TOKENS
            elif isinstance(block, Thinking):
                continue
    return total
