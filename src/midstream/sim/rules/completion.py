"""Raw completion rules: one prompt and no chat fields. DeepInfra's native endpoint refuses unknown fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .rule import Body, Problem, Rule, Traits

WIRE = "completion"
_FIELDS = frozenset(
    "input max_new_tokens temperature top_p min_p top_k repetition_penalty stop num_responses response_format"
    " presence_penalty frequency_penalty user seed prompt_cache_key webhook stream".split()
)


def _shape(body: Body, traits: Traits) -> Iterator[str | Problem]:
    if not isinstance(body.get("input"), str) or not body["input"]:
        yield Problem("shape", "input: Field required", 422)
    for field in body:
        if field not in _FIELDS:
            yield Problem("shape", f"{field}: Extra inputs are not permitted", 422)
    if len(body.get("stop") or ()) > 16:
        yield "stop: at most 16 strings"
    if body.get("stream") and (body.get("num_responses") or 1) > 1:
        yield "num_responses is incompatible with streaming"


def _prompt_shape(body: Body, traits: Traits) -> Iterator[str]:
    """These hosts ignore unknown fields, so a chat field would be lost silently: refused here."""
    if not isinstance(body.get("prompt"), str) or not body["prompt"]:
        yield "prompt: Field required"
    for field in ("messages", "tools", "tool_choice", "input"):
        if field in body:
            yield f"{field} is not a field of a completion request"


def _model_is_named(body: Body, traits: Traits) -> Iterator[str]:
    if not body.get("model"):
        yield "model: Field required"


def _prompt_is_the_models(body: Body, traits: Traits) -> Iterator[str]:
    """Role headers are `user` and `system`; the vendor's page shows a Python enum by mistake (facts/kimi.md §5)."""
    prompt = str(body.get("input") or body.get("prompt"))
    if "ChatMessageRole." in prompt:
        yield "the prompt contains ChatMessageRole, which the model was not trained on"
    if "<|im_assistant|>assistant<|im_middle|>" not in prompt and "<|im_user|>" in prompt:
        yield "the prompt does not open the assistant's turn"


def error(problem: Problem, traits: Traits) -> dict[str, Any]:
    return {"detail": {"error": problem.message}}


_PROMPT = Rule("prompt is the model's", "facts/kimi.md §1.2, §5", _prompt_is_the_models)

RULES = (Rule("shape", "facts/deepinfra-native-schema.json", _shape), _PROMPT)
LLAMACPP = (Rule("shape", "llama.cpp tools/server/README.md, POST /completion", _prompt_shape), _PROMPT)
OPENAI = (
    Rule("shape", "OpenAI API reference, POST /v1/completions", _prompt_shape),
    Rule("model is named", "OpenAI API reference, POST /v1/completions", _model_is_named),
    _PROMPT,
)
