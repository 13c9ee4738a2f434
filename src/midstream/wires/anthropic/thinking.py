"""How Claude and its look-alikes are told to think, as a table: control name -> request fields and the room they need.

`budget` is the manual mode: a number of tokens that must be less than `max_tokens`. A limit that the caller set stands: the
budget shrinks to fit, and where not even the least would, thinking is off in this request. `adaptive` leaves it to the model and
takes an effort. `either` is the generation between, adaptive unless a budget is asked for. A dialect names its control.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..encode_context import EncodeContext

LEAST_BUDGET = 1024
"""Anthropic refuses a smaller one."""
_DEFAULT_MAX_TOKENS = 8192
# Ours to choose: the wire wants a number where our options have
# a word. The largest stays below what older models may write.
_BUDGETS = {"none": 1024, "minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576, "max": 31999}


class ThinkingPlan(msgspec.Struct):
    """The fields of the body that ask for thinking, and the `max_tokens` that leave room for it."""

    max_tokens: int
    fields: dict[str, Any]


Control = Callable[[EncodeContext, ThinkingPlan], None]


def plan_thinking(context: EncodeContext) -> ThinkingPlan:
    asked = context.options.max_tokens
    plan = ThinkingPlan(context.capped(asked or context.dialect.default_max_tokens or _DEFAULT_MAX_TOKENS), {})
    CONTROLS[context.dialect.reasoning.control](context, plan)
    return plan


def leaves_no_room(context: EncodeContext) -> bool:
    """Whether the caller's limit is too small for the least budget, which is counted into it."""
    options, control = context.options, context.dialect.reasoning.control
    by_budget = control == "budget" or (control == "either" and options.thinking_budget)
    return bool(by_budget and options.max_tokens and options.max_tokens <= LEAST_BUDGET and not _unasked(context))


def _unasked(context: EncodeContext) -> bool:
    """Whether the model thinks by itself, and nobody said how much."""
    options = context.options
    # Said in any way: on, off, how hard, or how much.
    asked = options.thinking is not None or options.effort or options.thinking_budget
    return context.dialect.reasoning.default_on and not asked


def _none(context: EncodeContext, plan: ThinkingPlan) -> None:
    rules = context.dialect.reasoning
    if (context.options.thinking == "on" or context.options.effort not in (None, "none")) and not rules.default_on:
        context.option_dropped("thinking", "this model does not think")


def _budget(context: EncodeContext, plan: ThinkingPlan) -> None:
    options = context.options
    # Newer models take an effort in the manual mode as well.
    _effort(context, plan)
    if not context.thinking:
        _off(context, plan)
        return
    # The model's own default needs no words.
    if _unasked(context):
        return
    if leaves_no_room(context):  # and thinking could not be turned off
        context.note(
            "adapted", "option", "thinking_changed", "max_tokens is too small for a budget; the model sets its own"
        )
        return
    budget = options.thinking_budget or _BUDGETS.get(options.effort or "medium", _BUDGETS["high"])
    if budget < LEAST_BUDGET:
        why = f"a thinking budget of {budget} tokens is too small; sent the least allowed, {LEAST_BUDGET}"
        context.note("adapted", "option", "thinking_changed", why)
        budget = LEAST_BUDGET
    # A limit that nobody set may grow by the budget, so that the answer has as much room as without thinking.
    if options.max_tokens is None:
        plan.max_tokens = context.capped(plan.max_tokens + budget)
    budget = context.budget_within(budget, plan.max_tokens, LEAST_BUDGET)
    plan.fields["thinking"] = {"type": "enabled", "budget_tokens": budget}


def _adaptive(context: EncodeContext, plan: ThinkingPlan) -> None:
    options = context.options
    if context.thinking and options.thinking_budget:
        context.option_dropped("thinking_budget", "thinking_budget: this model sets its own; ask for an effort instead")
    _effort(context, plan)
    if not context.thinking:
        _off(context, plan)
    # Where the model thinks by itself and nobody asked, nothing is said.
    elif options.thinking is not None or options.effort or not context.dialect.reasoning.default_on:
        plan.fields["thinking"] = {"type": "adaptive"}


def _either(context: EncodeContext, plan: ThinkingPlan) -> None:
    (_budget if context.thinking and context.options.thinking_budget else _adaptive)(context, plan)


def _effort(context: EncodeContext, plan: ThinkingPlan) -> None:
    asked = context.options.effort
    if asked and context.dialect.reasoning.efforts and not (asked == "none" and not context.thinking):
        plan.fields["output_config"] = {"effort": context.effort(asked)}


def _off(context: EncodeContext, plan: ThinkingPlan) -> None:
    """Said only where the model would think otherwise: some of the newest refuse the word."""
    if context.dialect.reasoning.default_on and context.dialect.reasoning.can_disable:
        plan.fields["thinking"] = {"type": "disabled"}


CONTROLS: dict[str, Control] = {"none": _none, "budget": _budget, "adaptive": _adaptive, "either": _either}
