"""Cache breakpoints: up to here a prompt is kept for the next request. Anthropic takes only a few in one request."""

from __future__ import annotations

from typing import Any

from ...core.blocks import Block, Opaque

MAX_MARKS = 4
_EPHEMERAL = {"type": "ephemeral"}
_MARK = b',"cache_control":{"type":"ephemeral"}}'


def mark(block: bytes) -> bytes:
    """An encoded block with a breakpoint, if it has none."""
    # Bytes, not a parse: the block is encoded already, and the
    # key cannot stand in a text without its quotes being escaped.
    return block if b'"cache_control":' in block else block[:-1] + _MARK


def is_marked(block: Block) -> bool:
    extra = block.data if type(block) is Opaque else getattr(block, "extra", None)
    return isinstance(extra, dict) and bool(extra.get("cache_control"))


def mark_head(tools: list[dict[str, Any]], system: Any, used: int) -> bool:
    """Put breakpoints on tools and system, of which `used` are gone; whether one is left for the last user message."""
    blocks = system if isinstance(system, list) else []
    # Marks of the caller's own count: a fifth is refused.
    room = MAX_MARKS - used - sum("cache_control" in block for block in (*tools, *blocks))
    loaded = [tool for tool in tools if not tool.get("defer_loading")]  # a deferred tool takes no mark
    # Tools first: they come first in the prompt, and a cached beginning serves the most requests.
    for group in (loaded, blocks):
        if group and room > 0 and "cache_control" not in group[-1]:
            group[-1]["cache_control"] = _EPHEMERAL
            room -= 1
    return room > 0
