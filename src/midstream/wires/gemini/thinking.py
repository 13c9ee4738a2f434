"""How each generation of Gemini is told to think, as a table: control name -> `thinkingConfig`.

`thinkingBudget` is the 2.5 generation's: a number of tokens, 0 for none. `thinkingLevel` is that of Gemini 3, which cannot be
told not to think. An empty config leaves the model's default alone. A dialect names its control.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.dialect import Options
from ..encode_context import EncodeContext
from ..reasoning import nearest_effort

LEAST_BUDGET = 128
"""The least a model that always thinks may be given."""
DYNAMIC = -1
_BUDGETS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}

Control = Callable[[EncodeContext], dict[str, Any]]


def thinking_config(context: EncodeContext) -> dict[str, Any]:
    return CONTROLS[context.dialect.reasoning.control](context)


def _asked(options: Options) -> bool:
    return options.thinking == "on" or options.effort is not None or options.thinking_budget is not None


def _off(options: Options) -> bool:
    return options.thinking == "off" or (options.thinking is None and options.effort == "none")


def _none(context: EncodeContext) -> dict[str, Any]:
    if _asked(context.options) and not _off(context.options):
        context.option_dropped("this model does not think")
    return {}


def _always(context: EncodeContext, what: str) -> None:
    why = f"this model cannot stop thinking; sent {what}, the least allowed"
    context.note("adapted", "option", "thinking_changed", why)


def _budget(context: EncodeContext) -> dict[str, Any]:
    options, rules = context.options, context.dialect.reasoning
    if _off(options):
        if rules.can_disable:
            return {"thinkingBudget": 0}
        _always(context, f"a budget of {LEAST_BUDGET} tokens")
        return {"thinkingBudget": LEAST_BUDGET}
    if not _asked(options):
        return {}
    config: dict[str, Any] = {"includeThoughts": True}
    if options.thinking_budget is not None:
        config["thinkingBudget"] = options.thinking_budget
    elif options.effort is not None:
        config["thinkingBudget"] = _BUDGETS.get(options.effort, DYNAMIC)
    elif not rules.default_on:
        config["thinkingBudget"] = DYNAMIC
    return config


def _level(context: EncodeContext) -> dict[str, Any]:
    options, efforts = context.options, context.dialect.reasoning.efforts
    if _off(options):
        _always(context, efforts[0])
        return {"thinkingLevel": efforts[0]}
    if not _asked(options):
        return {}
    config: dict[str, Any] = {"includeThoughts": True}
    if options.effort is not None:
        level = nearest_effort(options.effort, efforts)
        if level != options.effort:
            why = f"effort {options.effort} is sent as {level}, the nearest here"
            context.note("adapted", "option", "thinking_changed", why)
        config["thinkingLevel"] = level
    elif options.thinking_budget is not None:
        config["thinkingBudget"] = options.thinking_budget
    return config


CONTROLS: dict[str, Control] = {"none": _none, "thinkingBudget": _budget, "thinkingLevel": _level}
