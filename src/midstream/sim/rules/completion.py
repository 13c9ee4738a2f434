"""Raw completion rules: one prompt and no chat fields. DeepInfra's native endpoint refuses unknown fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .rule import Apart, Assumed, Body, Problem, Rule, Traits

WIRE = "completion"
# The fields of DeepInfra's published schema; that any other is refused is assumed.
_FIELDS = frozenset(
    "input max_new_tokens temperature top_p min_p top_k repetition_penalty stop num_responses response_format"
    " presence_penalty frequency_penalty user seed prompt_cache_key webhook stream".split()
)


def _shape(body: Body, traits: Traits) -> Iterator[str]:
    if not isinstance(body.get("input"), str) or not body["input"]:
        yield "input: Field required"
    for field in body:
        if field not in _FIELDS:
            yield Assumed(f"{field}: Extra inputs are not permitted")


def _in_range(body: Body, traits: Traits) -> Iterator[str]:
    stops, responses = body.get("stop"), body.get("num_responses")
    if isinstance(stops, list) and len(stops) > 16:
        yield "stop: at most 16 strings"
    if body.get("stream") and isinstance(responses, int) and responses > 1:
        yield "num_responses is incompatible with streaming"


def _prompt_shape(body: Body, traits: Traits) -> Iterator[str]:
    """These hosts ignore unknown fields, so a chat field would be lost silently: refused here."""
    if not isinstance(body.get("prompt"), (str, list)) or not body["prompt"]:  # texts or tokens come as a list
        yield "prompt: Field required"
    for field in ("messages", "tools", "tool_choice", "input"):
        if field in body:
            yield Assumed(f"{field} is not a field of a completion request")


def _model_is_named(body: Body, traits: Traits) -> Iterator[str]:
    if not body.get("model"):
        yield "model: Field required"


def _prompt_is_the_models(body: Body, traits: Traits) -> Iterator[str]:
    """Role headers are `user` and `system`; the vendor's page shows a Python enum by mistake (field-guide/raw-completion.md#deepinfras-native-path)."""
    prompt = str(body.get("input") or body.get("prompt"))
    if "ChatMessageRole." in prompt:
        yield "the prompt contains ChatMessageRole, which the model was not trained on"
    # A prompt that ends with the user's turn makes the model go on speaking as the user.
    if "<|im_assistant|>assistant<|im_middle|>" not in prompt and "<|im_user|>" in prompt:
        yield "the prompt does not open the assistant's turn"


def error(problem: Problem, traits: Traits) -> dict[str, Any]:
    return {"detail": {"error": problem.message}}


_PROMPT = Rule(
    "prompt is the model's", "assumed",
    "the templates of Kimi's weights: no host refuses another prompt, but the model was not trained on it",
    _prompt_is_the_models,
    guide="raw-completion.md#prompts",
)  # fmt: skip
_CHAT_FIELDS = (Apart("assumed", "fields of a chat request, which these hosts ignore"),)
_COMPLETIONS = "OpenAI API reference, POST /v1/completions"

RULES = (
    Rule(
        "shape", "documented", "DeepInfra API page of Kimi-K2.5: request schema", _shape, 422,
        apart=(Apart("assumed", "a field that the schema does not list"),),
        guide="raw-completion.md#who-offers-it",
    ),
    Rule("in range", "documented", "DeepInfra API page of Kimi-K2.5: at most 16 stops, one streamed response", _in_range, guide="raw-completion.md#deepinfras-native-path"),
    _PROMPT,
)  # fmt: skip
LLAMACPP = (
    Rule(
        "shape",
        "documented",
        "llama.cpp tools/server/README.md, POST /completion",
        _prompt_shape,
        apart=_CHAT_FIELDS,
        guide="raw-completion.md#who-offers-it",
    ),
    _PROMPT,
)
OPENAI = (
    Rule(
        "shape",
        "documented",
        f"{_COMPLETIONS}: prompt",
        _prompt_shape,
        apart=_CHAT_FIELDS,
        guide="raw-completion.md#who-offers-it",
    ),
    Rule(
        "model is named",
        "documented",
        f"{_COMPLETIONS}: model",
        _model_is_named,
        guide="raw-completion.md#who-offers-it",
    ),
    _PROMPT,
)
