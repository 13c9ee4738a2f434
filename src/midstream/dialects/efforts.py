"""How hard each model can be asked to think: one table for every host and wire, told by the model's name.

A row is a pattern searched in the lower-cased name, the levels the model takes, and the words that do not go to the nearest
level. A host that maps efforts by itself (a router) names its own levels in its dialect instead. What is sent as another word
than was asked for leaves a note. Sources: field-guide/reasoning.md#efforts; OpenAI's, Anthropic's, Google's, Mistral's
and xAI's pages of their models; models that are not here take no effort, or take any.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..core.dialect import Dialect
from .families import K3, search

_replace = msgspec.structs.replace

_THREE = ("low", "medium", "high")

# First fit wins, so narrow names stand above wide ones: `gpt-5-pro` before `gpt-5`, `codex-max` before `codex`.
# `(?!\d)` keeps gpt-5.1 from taking gpt-5.10. Which level is nearest to one that a model lacks is our choice; the
# third column is for words that must go to another (field-guide/reasoning.md#efforts).
EFFORTS: tuple[tuple[str, tuple[str, ...], dict[str, str] | None], ...] = (
    # OpenAI
    (r"gpt-oss", _THREE, None),
    (r"(?:^|/)o\d", _THREE, None),
    (r"gpt-5-pro", ("high",), None),
    (r"gpt-5\.\d+-pro", ("medium", "high", "xhigh"), None),
    (r"codex-max|gpt-5\.[2-9].*codex", (*_THREE, "xhigh"), None),
    (r"codex|computer-use", _THREE, None),
    (r"gpt-5\.1(?!\d)", ("none", *_THREE), None),
    (r"gpt-5(?![.\d])", ("minimal", *_THREE), None),
    (r"gpt-(?:5\.\d|[6-9])", ("none", *_THREE, "xhigh"), None),
    # Anthropic: from Opus 4.7 on there is a level between high and max
    (r"(?:opus|sonnet|haiku)-4[-.]6", (*_THREE, "max"), None),
    (r"(?:opus|sonnet|haiku)-(?:4[-.][7-9]|[5-9])|fable|mythos", (*_THREE, "xhigh", "max"), None),
    # Google
    (r"gemini-3-pro", ("low", "high"), {"medium": "high"}),
    (r"gemini-[3-9].*pro", _THREE, None),
    (r"gemini-[3-9]", ("minimal", *_THREE), None),
    # Moonshot, DeepSeek, Z.ai: medium is less than what they do by themselves, which is high or more
    (K3, ("low", "high", "max"), {"medium": "high", "xhigh": "max"}),
    (r"deepseek-(?:v4|chat|reasoner)", ("high", "max"), None),
    (r"glm-5\.2", ("high", "max"), None),
    (r"glm-(?:5\.[3-9]|[6-9])", ("low", "high", "max"), {"medium": "high"}),
    # xAI, Mistral
    (r"grok-3-mini", ("low", "high"), None),
    (r"grok-(?:4\.[3-9]|[5-9])", _THREE, None),
    (r"mistral-large-4", _THREE, None),
    (r"mistral-(?:small-(?:latest|2603|4)|medium-3[-.]5)", ("none", "high"), None),
)


def efforts_of(model: str) -> dict[str, Any]:
    """The fields of a dialect's reasoning that say which efforts a model takes; none if the table does not know it."""
    lowered = model.lower()
    for pattern, levels, words in EFFORTS:
        if search(pattern, lowered):
            return {"efforts": levels, "effort_words": words}
    return {}


_TAKES_ANY = ("reasoning_effort", "thinking.type+effort", "reasoning", "adaptive", "either")
"""The controls that say an effort by its word, whatever it is."""
_made: dict[tuple[int, tuple[str, ...]], tuple[Dialect, Dialect]] = {}


def with_efforts(dialect: Dialect, model: str) -> Dialect:
    """The dialect with the efforts of this model, where it takes efforts and names none itself."""
    rules = dialect.reasoning
    known = efforts_of(model) if rules.control in _TAKES_ANY and not rules.efforts else {}
    if not known:
        return dialect
    # The same value for the same dialect each time: encoded histories are kept by dialect.
    place = (id(dialect), known["efforts"])
    found = _made.get(place)
    # An id() can be given again after its object is gone; the dialect
    # kept beside the value makes sure that it is the same one.
    if found is None or found[0] is not dialect:
        found = _made[place] = (dialect, _replace(dialect, reasoning=_replace(rules, **known)))
    return found[1]
