"""Ollama's chat wire as the registry knows it, with its default dialect: a host that follows it to the letter."""

from __future__ import annotations

from ...core.dialect import Dialect, Reasoning
from ..wire import Wire

DEFAULT = Dialect(
    "ollama",
    "ollama",
    "ollama",
    tool_format="native",
    # Thinking comes in this field and goes back there (field-guide/ollama.md#thinking).
    reasoning=Reasoning(fields=("thinking",), field="thinking", echo="always", control="think"),
    answer_ways=("grammar",),
    answer_pass="grammar",
    answer_beside_tools=False,  # the grammar leaves no room for a call
    tool_result_media="user",
    # An image has no label on this wire, so that one of no known type can be sent too.
    image_types=("image/jpeg", "image/png", "image/gif", "image/webp", "image/*"),
    tool_result_name=True,
    forced_choice=(),
    forced_choice_thinking=(),
    parallel_option=False,
    arguments_object=True,
    max_tokens_field="num_predict",
    user_field="",
)

WIRE = Wire(__package__, DEFAULT)
