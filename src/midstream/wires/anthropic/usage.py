"""Token counts of Anthropic's wire: `message_start` gives them, each `message_delta` revises the fields it carries."""

from __future__ import annotations

from typing import Any

from ...core.blocks import Usage


def revise(kept: dict[str, Any] | None, new: Any) -> dict[str, Any] | None:
    """`kept` with the fields that `new` really carries: null does not unsay a count."""
    if not isinstance(new, dict):
        return kept
    told = {name: value for name, value in new.items() if value is not None or not kept or name not in kept}
    return {**kept, **told} if kept else told


def read_usage(raw: dict[str, Any]) -> Usage:
    """`input_tokens` leaves out what the cache served or stored."""
    details = raw.get("output_tokens_details")
    return Usage(
        input=_count(raw, "input_tokens"),
        output=_count(raw, "output_tokens"),
        cache_read=_count(raw, "cache_read_input_tokens"),
        cache_write=_count(raw, "cache_creation_input_tokens"),
        reasoning=_count(details, "thinking_tokens") if isinstance(details, dict) else 0,
        cache_in_input=False,
        raw=raw,
    )


def _count(raw: dict[str, Any], name: str) -> int:
    value = raw.get(name)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        return int(value)
    return 0
