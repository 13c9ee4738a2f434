"""Tool-call ids: the canonical id that a call keeps for life, and the ids that each wire requires instead.

    from midstream.ids import canonical_tool_call_id, get_tool_id_strategy

    canonical = canonical_tool_call_id("moonshot", "functions.look:0", "look", turn_key, 0)     # hist_tool_…
    mapper = get_tool_id_strategy("kimi").create_mapper(conversation.turns)
    mapper.resolve_tool_call_id(call)                                                            # functions.look:0

`encode_request` and Session do this by themselves; these names are for programs that write requests of their own.
"""

from __future__ import annotations

from .core.ids import *

__all__ = [
    "STRATEGIES",
    "TOOL_FORMATS",
    "ToolFormat",
    "ToolIdMapper",
    "ToolIdStrategy",
    "anthropic_strategy",
    "canonical_tool_call_id",
    "canonical_tool_response_id",
    "detect_tool_format",
    "from_own_id",
    "get_tool_id_strategy",
    "is_kimi_model",
    "kimi_k3_strategy",
    "kimi_strategy",
    "mistral_strategy",
    "standard_strategy",
    "valid_tool_format",
]
