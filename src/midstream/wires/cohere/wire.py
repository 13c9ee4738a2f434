"""Cohere's chat wire (v2) as the registry knows it, with its default dialect: a host that follows it to the letter."""

from __future__ import annotations

from ...core.dialect import Dialect, Limits, Reasoning
from ..wire import Wire

THINKING = "thinking"
"""Where a reasoning model's thinking stands: in parts of the content."""
PLAN = "tool_plan"
"""Where the other models say, beside their calls, what they are about to do."""

DEFAULT = Dialect(
    "cohere",
    "cohere",
    "cohere",
    reasoning=Reasoning(fields=(PLAN,), field=PLAN, echo="calls"),
    # Letters, digits and underscores only (field-guide/cohere.md#pairing).
    limits=Limits(tool_name_pattern=r"[A-Za-z_][A-Za-z0-9_]{0,63}"),
    answer_pass="cohere",
    answer_beside_tools=False,
    media=(),
    forced_choice=("required",),
    forced_choice_thinking=("required",),
    required_word="REQUIRED",
    parallel_option=False,
    stream_usage=False,
    user_field="",
)

WIRE = Wire(__package__, DEFAULT)
