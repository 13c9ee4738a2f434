"""Token counts of the Responses wire, read once from the final response object."""

from __future__ import annotations

from typing import Any

from ...core.blocks import Usage

_MOST = 2**53  # what is larger (or infinite) is no count
_TICKS = 1e10
"""xAI's cost_in_usd_ticks: ten billion to the dollar."""


def read_usage(raw: Any) -> Usage | None:
    """Missing and null counts are 0. Cached tokens are part of the input, reasoning is part of the output."""
    if not isinstance(raw, dict):
        return None
    read, written = _details(raw, "input_tokens_details"), _details(raw, "output_tokens_details")
    cost = raw.get("cost")
    if cost is None and isinstance(raw.get("cost_in_usd_ticks"), (int, float)):
        cost = raw["cost_in_usd_ticks"] / _TICKS
    return Usage(
        input=_count(raw, "input_tokens"),
        output=_count(raw, "output_tokens"),
        cache_read=_count(read, "cached_tokens"),
        cache_write=_count(read, "cache_write_tokens"),
        reasoning=_count(written, "reasoning_tokens"),
        cost=float(cost) if isinstance(cost, (int, float)) and not isinstance(cost, bool) else None,
        raw=raw,
    )


def _details(raw: dict[str, Any], name: str) -> dict[str, Any]:
    value = raw.get(name)
    return value if isinstance(value, dict) else {}


def _count(raw: dict[str, Any], name: str) -> int:
    value = raw.get(name)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < _MOST:
        return int(value)
    return 0
