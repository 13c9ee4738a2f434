"""Gemini's wire as the registry knows it, with its default dialect: a host that follows it to the letter."""

from __future__ import annotations

from ...core.dialect import Dialect, Limits, Reasoning
from ..wire import Wire

BYPASS = "skip_thought_signature_validator"
"""What Google documents as the signature of a call that its reader did not make (field-guide/gemini.md#thought-signatures)."""

DEFAULT = Dialect(
    "gemini",
    "gemini",
    "gemini",
    tool_format="native",
    reasoning=Reasoning(
        fields=("thought",),
        field="thought",
        echo="always",
        signed=True,
        required=True,  # a signature, on the first call of each model turn
        placeholder=BYPASS,
        default_on=True,
        # Gemini 3, which is the wire's reference; 2.5 has a dialect of its own.
        can_disable=False,
        control="thinkingLevel",
        efforts=("minimal", "low", "medium", "high"),
    ),
    limits=Limits(tool_name_pattern=r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}", tool_name_max=64),
    schema="gemini",
    answer_ways=("schema",),
    answer_pass="gemini",
    # A schema beside functions is refused.
    answer_beside_tools=False,
    max_tokens_field="maxOutputTokens",
    tool_result_media="inline",
    media=("image", "audio", "video", "file"),
    image_types=("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"),
    file_ids=r"files/|gs://|https://generativelanguage\.googleapis\.com/",
    merge_turns=True,
    first_speaker_user=True,
    parallel_option=False,
    arguments_object=True,
    required_word="ANY",
    user_field="",
    extras=("cachedContent", "generationConfig", "labels", "safetySettings", "toolConfig"),
    server_tools={"web_search": {"builtin": "googleSearch"}, "code_execution": {"builtin": "codeExecution"}},
    # Likewise the host's tools beside functions.
    server_tools_alone=True,
)

WIRE = Wire(__package__, DEFAULT, names_in_path=True)
