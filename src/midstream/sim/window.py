"""The window of a double: how many tokens a request has, counted by words and signs, and the refusal of one that has too many.

It counts everything that the model would read, thinking and arguments included, and not as the client estimates it.
"""

from __future__ import annotations

import re

import msgspec

from ..core.blocks import Block, Text, Thinking, ToolCall, ToolResponse
from ..wires.request import ParsedRequest
from .rules.rule import Problem

# On purpose another rule than the client's estimate: code that
# only works if both agree would pass here and fail at a host.
_TOKEN = re.compile(r"[A-Za-z]{1,8}|\d{1,3}|[^\W\dA-Za-z]|[^\w\s]|_")
_MESSAGE = 3
_MEDIA = 800

# by wire, as its hosts say it
# Clients tell "too long" from other refusals by these words, so they are the hosts' own.
_WORDS = {
    "openai-chat": "This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens.",
    "anthropic": "prompt is too long: {tokens} tokens > {window} maximum",
    "openai-responses": "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "gemini": "The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window}).",
    "cohere": "too many tokens: the total number of tokens cannot exceed {window}, received {tokens}",
}
_OTHERS = "the request has {tokens} tokens and exceeds the context window of {window} tokens"
_CODES = {"openai-chat": "context_length_exceeded", "openai-responses": "context_length_exceeded"}


def count_request(parsed: ParsedRequest) -> int:
    """How many tokens a model reads of this request."""
    total = _count(parsed.conversation.system_text)
    for turn in parsed.conversation.turns:
        total += _MESSAGE + sum([_count_block(block) for block in turn.blocks])
    for tool in parsed.tools:
        total += _count(f"{tool.name} {tool.description} {msgspec.json.encode(tool.parameters or {}).decode()}")
    return total


def too_long(wire: str, tokens: int, window: int) -> Problem:
    """The refusal of a request that does not fit."""
    words = _WORDS.get(wire, _OTHERS).format(tokens=tokens, window=window)
    return Problem("window", words, code=_CODES.get(wire))


def _count_block(block: Block) -> int:
    if isinstance(block, Text | Thinking):
        return _count(block.text)
    if isinstance(block, ToolCall):
        return _MESSAGE + _count(f"{block.name} {block.arguments}")
    if isinstance(block, ToolResponse):
        return _MESSAGE + sum([_count(part.text) if isinstance(part, Text) else _MEDIA for part in block.content])
    return _MEDIA


def _count(text: str) -> int:
    return sum(1 for _ in _TOKEN.finditer(text))
