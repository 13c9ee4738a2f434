"""How hard each model can be asked to think: one table for every host and wire, told by the model's name.

A row is a pattern searched in the lower-cased name, and the levels the model takes. A host that maps efforts by itself (a router) names its own levels in its dialect instead. What is sent as another word
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


def _levels(*efforts: str, **words: str) -> dict[str, Any]:
    """The fields of a dialect's reasoning: the levels a model takes, and the words that do not go to the nearest of them."""
    return {"efforts": efforts, "effort_words": words or None}


# Models with a dialect of their own have a name here: their rows need it at import, and a search would compile patterns.
GPT_OSS = _levels(*_THREE)
CLAUDE_OPUS_46 = _levels(*_THREE, "max")
CLAUDE_OPUS_5 = _levels(*_THREE, "xhigh", "max")
GEMINI_3_PRO = _levels("low", "high", medium="high")
GEMINI_31_PRO = _levels(*_THREE)
GEMINI_3 = _levels("minimal", *_THREE)
KIMI_K3 = _levels("low", "high", "max", medium="high", xhigh="max")
DEEPSEEK_V4 = _levels("high", "max")

# First fit wins, so narrow names stand above wide ones: `gpt-5-pro` before `gpt-5`, `codex-max` before `codex`.
# `(?!\d)` keeps gpt-5.1 from taking gpt-5.10. Which level is nearest to one that a model lacks is our choice; a level
# that is named as a word is for what must go to another (field-guide/reasoning.md#efforts).
EFFORTS: tuple[tuple[str, dict[str, Any]], ...] = (
    # OpenAI
    (r"gpt-oss", GPT_OSS),
    (r"(?:^|/)o\d", _levels(*_THREE)),
    (r"gpt-5-pro", _levels("high")),
    (r"gpt-5\.\d+-pro", _levels("medium", "high", "xhigh")),
    (r"codex-max|gpt-5\.[2-9].*codex", _levels(*_THREE, "xhigh")),
    (r"codex|computer-use", _levels(*_THREE)),
    (r"gpt-5\.1(?!\d)", _levels("none", *_THREE)),
    (r"gpt-5(?![.\d])", _levels("minimal", *_THREE)),
    (r"gpt-(?:5\.\d|[6-9])", _levels("none", *_THREE, "xhigh")),
    # Anthropic: from Opus 4.7 on there is a level between high and max
    (r"(?:opus|sonnet|haiku)-4[-.]6", CLAUDE_OPUS_46),
    (r"(?:opus|sonnet|haiku)-(?:4[-.][7-9]|[5-9])|fable|mythos", CLAUDE_OPUS_5),
    # Google
    (r"gemini-3-pro", GEMINI_3_PRO),
    (r"gemini-[3-9].*pro", GEMINI_31_PRO),
    (r"gemini-[3-9]", GEMINI_3),
    # Moonshot, DeepSeek, Z.ai: medium is less than what they do by themselves, which is high or more
    (K3, KIMI_K3),
    (r"deepseek-(?:v4|chat|reasoner)", DEEPSEEK_V4),
    (r"glm-5\.2", _levels("high", "max")),
    (r"glm-(?:5\.[3-9]|[6-9])", _levels("low", "high", "max", medium="high")),
    # xAI, Mistral
    (r"grok-3-mini", _levels("low", "high")),
    (r"grok-(?:4\.[3-9]|[5-9])", _levels(*_THREE)),
    (r"mistral-large-4", _levels(*_THREE)),
    (r"mistral-(?:small-(?:latest|2603|4)|medium-3[-.]5)", _levels("none", "high")),
)


def efforts_of(model: str) -> dict[str, Any]:
    """The fields of a dialect's reasoning that say which efforts a model takes; none if the table does not know it."""
    lowered = model.lower()
    return next((levels for pattern, levels in EFFORTS if search(pattern, lowered)), {})


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
