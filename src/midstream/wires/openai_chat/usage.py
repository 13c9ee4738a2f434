"""Token counts of the chat wire, wherever a host put them, read once at the end from the last object it sent."""

from __future__ import annotations

from typing import Any

from ...core.blocks import Usage


def read_usage(raw: dict[str, Any]) -> Usage:
    """Missing and null counts are 0. Reasoning is part of the output even where a host counts it apart."""
    prompt = _details(raw, "prompt_tokens_details", "input_tokens_details", "prompt_token_details")
    completion = _details(raw, "completion_tokens_details", "output_tokens_details")
    output = _count(raw, "completion_tokens", "output_tokens")
    reasoning = _count(completion, "reasoning_tokens") or _count(raw, "reasoning_tokens")
    if reasoning > output and _count(raw, "total_tokens") >= _count(raw, "prompt_tokens") + output + reasoning:
        output += reasoning  # hosts of Gemini and Grok leave reasoning out of completion_tokens
    cost = raw.get("cost", raw.get("estimated_cost"))
    return Usage(
        input=_count(raw, "prompt_tokens", "input_tokens"),
        output=output,
        cache_read=(
            _count(raw, "prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens", "num_cached_tokens")
            or _count(prompt, "cached_tokens")
        ),
        cache_write=_count(prompt, "cache_write_tokens") or _count(raw, "cache_creation_input_tokens"),
        reasoning=reasoning,
        cost=float(cost) if isinstance(cost, (int, float)) and not isinstance(cost, bool) else None,
        raw=raw,
    )


def has_counts(raw: dict[str, Any]) -> bool:
    """Whether it counts anything at all."""
    return any(isinstance(value, (int, float)) and value > 0 for value in raw.values())


def _details(raw: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        value = raw.get(name)
        if isinstance(value, dict):
            return value
    return {}


def _count(raw: dict[str, Any], *names: str) -> int:
    for name in names:
        value = raw.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf"):
            return int(value)
    return 0
