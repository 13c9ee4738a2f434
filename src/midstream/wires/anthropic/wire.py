"""Anthropic's Messages wire as the registry knows it, with its default dialect: a host that follows it to the letter."""

from __future__ import annotations

from ...core.dialect import Dialect, Limits, Reasoning
from ..wire import Wire

DEFAULT = Dialect(
    "anthropic",
    "anthropic",
    "anthropic",
    ids="anthropic",
    tool_format="anthropic",
    reasoning=Reasoning(
        fields=("thinking",),
        field="thinking",
        echo="always",
        signed=True,
        required=True,  # of the tool calls it goes on from, in the manual mode
        control="budget",
    ),
    limits=Limits(tool_name_pattern=r"[A-Za-z0-9_-]{1,64}", tool_name_max=64),
    schema="anthropic",
    answer_pass="closed",
    default_max_tokens=8192,
    tool_result_media="inline",
    media=("image", "file"),
    file_ids=r"file_|file-(?!\w+$)",  # a hyphen and one word is OpenAI's
    # While it thinks, Claude refuses every forced choice (field-guide/anthropic-messages.md#thinking).
    forced_choice_thinking=(),
    sampling=("temperature", "top_p", "stop", "response_format"),
    merge_turns=True,
    first_speaker_user=True,
    strict_tools=True,
    arguments_object=True,
    required_word="any",
    user_field="user_id",
)

WIRE = Wire(__package__, DEFAULT, json_mode=False)
