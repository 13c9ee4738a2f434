"""How each generation of Gemini is told to think, as a table: control name -> `thinkingConfig`.

`thinkingBudget` is the 2.5 generation's: a number of tokens, 0 for none. `thinkingLevel` is that of Gemini 3, which cannot be
told not to think. An empty config leaves the model's default alone. A dialect names its control.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.dialect import Options
from ..encode_context import EncodeContext
from ..reasoning import asked_off, effort_for

LEAST_BUDGET = 128
"""The least a model that always thinks may be given."""
# The host's word for "as much as it needs".
DYNAMIC = -1
# Ours to choose: this generation takes a number where our
# options have a word. 24576 is the most the smaller models take.
_BUDGETS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}

Control = Callable[[EncodeContext, int | None], dict[str, Any]]


def thinking_config(context: EncodeContext, limit: int | None) -> dict[str, Any]:
    """The config; thinking comes out of the `limit` of tokens, as the answer does."""
    return CONTROLS[context.dialect.reasoning.control](context, limit)


def _asked(options: Options) -> bool:
    return options.thinking == "on" or options.effort is not None or options.thinking_budget is not None


def _none(context: EncodeContext, limit: int | None) -> dict[str, Any]:
    if _asked(context.options) and not asked_off(context.options):
        context.option_dropped("thinking", "this model does not think")
    return {}


def _budget(context: EncodeContext, limit: int | None) -> dict[str, Any]:
    options, rules = context.options, context.dialect.reasoning
    if asked_off(options):
        if rules.can_disable:
            return {"thinkingBudget": 0}
        context.always_thinks(f"a budget of {LEAST_BUDGET} tokens")
        return {"thinkingBudget": LEAST_BUDGET}
    if not _asked(options):
        return {}
    # Thoughts are shown only if asked for, and whoever asks about thinking wants to see it.
    config: dict[str, Any] = {"includeThoughts": True}
    if options.thinking_budget is not None:
        config["thinkingBudget"] = options.thinking_budget  # the caller's own: the host takes any
    elif options.effort is not None:
        return _of_effort(context, options.effort, limit)
    # A model that does not think by itself needs a budget to begin.
    elif not rules.default_on:
        config["thinkingBudget"] = DYNAMIC
    return config


def _of_effort(context: EncodeContext, effort: str, limit: int | None) -> dict[str, Any]:
    """The budget we give an effort must leave the answer some of the caller's limit: thinking comes out of it too."""
    budget = context.budget_within(_BUDGETS[effort], limit, LEAST_BUDGET)
    if not budget:
        if context.disable_thinking(f"max_tokens {limit} leaves no room for it"):
            return {"thinkingBudget": 0}
        context.always_thinks(f"a budget of {LEAST_BUDGET} tokens")
        budget = LEAST_BUDGET
    return {"includeThoughts": True, "thinkingBudget": budget}


def _level(context: EncodeContext, limit: int | None) -> dict[str, Any]:
    options, rules = context.options, context.dialect.reasoning
    if asked_off(options):
        least = effort_for("none", rules)
        context.always_thinks(least)
        return {"thinkingLevel": least}
    if not _asked(options):
        return {}
    config: dict[str, Any] = {"includeThoughts": True}
    if options.effort is not None:
        config["thinkingLevel"] = context.effort(options.effort)
    # Newer models take a number as well, but not beside a level.
    elif options.thinking_budget is not None:
        config["thinkingBudget"] = options.thinking_budget
    return config


CONTROLS: dict[str, Control] = {"none": _none, "thinkingBudget": _budget, "thinkingLevel": _level}
