"""The dialect of a plain Ollama server; models that think by levels replace fields."""

from __future__ import annotations

from ...core.dialect import Dialect, Reasoning

WIRE = "ollama"

PLAIN = Dialect(
    "ollama",
    WIRE,
    "ollama",
    reasoning=Reasoning(fields=("thinking",), field="thinking", echo="always", control="think"),
    tool_result_media="user",
    tool_result_name=True,
    forced_choice=(),
    forced_choice_thinking=(),
    parallel_option=False,
    arguments_object=True,
    max_tokens_field="num_predict",
)
