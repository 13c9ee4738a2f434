"""Cache breakpoints: up to here a prompt is kept for the next request. Anthropic takes only a few in one request."""

from __future__ import annotations

from typing import Any

from ...core.blocks import Block, Opaque

MAX_MARKS = 4
_EPHEMERAL = {"type": "ephemeral"}
_MARK = b',"cache_control":{"type":"ephemeral"}}'


def mark(block: bytes) -> bytes:
    """An encoded block with a breakpoint, if it has none."""
    return block if b'"cache_control":' in block else block[:-1] + _MARK


def is_marked(block: Block) -> bool:
    extra = block.data if type(block) is Opaque else getattr(block, "extra", None)
    return isinstance(extra, dict) and bool(extra.get("cache_control"))


def mark_head(tools: list[dict[str, Any]], system: Any, used: int) -> bool:
    """Put breakpoints on tools and system, of which `used` are gone; whether one is left for the last user message."""
    blocks = system if isinstance(system, list) else []
    room = MAX_MARKS - used - sum("cache_control" in block for block in (*tools, *blocks))
    loaded = [tool for tool in tools if not tool.get("defer_loading")]  # a deferred tool takes no mark
    for group in (loaded, blocks):
        if group and room > 0 and "cache_control" not in group[-1]:
            group[-1]["cache_control"] = _EPHEMERAL
            room -= 1
    return room > 0
