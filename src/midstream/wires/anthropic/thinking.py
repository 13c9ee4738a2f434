"""How Claude and its look-alikes are told to think, as a table: control name -> request fields and the room they need.

`budget` is the manual mode: a number of tokens that must be less than `max_tokens`. `adaptive` leaves it to the model and
takes an effort. `either` is the generation between, adaptive unless a budget is asked for. A dialect names its control.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ...core.dialect import Dialect, Options
from ...core.handoff import Note
from ..reasoning import nearest_effort

LEAST_BUDGET = 1024
"""Anthropic refuses a smaller one."""
_DEFAULT_MAX_TOKENS = 8192
_BUDGETS = {"none": 1024, "minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 24576, "max": 31999}


class ThinkingPlan(msgspec.Struct):
    """The fields of the body that ask for thinking, `max_tokens` among them."""

    max_tokens: int
    fields: dict[str, Any]
    notes: list[Note]


Control = Callable[[bool, Options, Dialect, ThinkingPlan], None]


def plan_thinking(on: bool, options: Options, dialect: Dialect) -> ThinkingPlan:
    limit = options.max_tokens or dialect.default_max_tokens or _DEFAULT_MAX_TOKENS
    plan = ThinkingPlan(limit, {}, [])
    CONTROLS[dialect.reasoning.control](on, options, dialect, plan)
    most = dialect.limits.max_output
    if most is not None and plan.max_tokens > most:
        plan.notes.append(Note("adapted", "option", f"max_tokens {plan.max_tokens} is above this model's {most}"))
        plan.max_tokens = most
        thinking = plan.fields.get("thinking", {})
        if thinking.get("budget_tokens", 0) >= most:
            thinking["budget_tokens"] = most - 1
    return plan


def _none(on: bool, options: Options, dialect: Dialect, plan: ThinkingPlan) -> None:
    if on or options.effort:
        plan.notes.append(Note("dropped", "option", "this model does not think"))


def _budget(on: bool, options: Options, dialect: Dialect, plan: ThinkingPlan) -> None:
    _effort(options, dialect, plan)
    if not on:
        _off(options, dialect, plan)
        return
    unasked = options.thinking is None and not options.effort and not options.thinking_budget
    if unasked and dialect.reasoning.default_on:
        return
    budget = options.thinking_budget or _BUDGETS.get(options.effort or "medium", _BUDGETS["high"])
    if budget < LEAST_BUDGET:
        plan.notes.append(Note("adapted", "option", f"a thinking budget is at least {LEAST_BUDGET} tokens here"))
        budget = LEAST_BUDGET
    if options.max_tokens is None:
        plan.max_tokens += budget
    elif plan.max_tokens <= budget:
        plan.notes.append(Note("adapted", "option", "max_tokens counts thinking here; raised by the thinking budget"))
        plan.max_tokens += budget
    plan.fields["thinking"] = {"type": "enabled", "budget_tokens": budget}


def _adaptive(on: bool, options: Options, dialect: Dialect, plan: ThinkingPlan) -> None:
    if on and options.thinking_budget:
        plan.notes.append(Note("dropped", "option", "this model sets its own thinking budget; ask by effort"))
    _effort(options, dialect, plan)
    if on and not (options.thinking is None and not options.effort and dialect.reasoning.default_on):
        plan.fields["thinking"] = {"type": "adaptive"}
    elif not on:
        _off(options, dialect, plan)


def _either(on: bool, options: Options, dialect: Dialect, plan: ThinkingPlan) -> None:
    (_budget if on and options.thinking_budget else _adaptive)(on, options, dialect, plan)


def _effort(options: Options, dialect: Dialect, plan: ThinkingPlan) -> None:
    if options.effort and dialect.reasoning.efforts:
        effort = nearest_effort(options.effort, dialect.reasoning.efforts)
        if effort != options.effort:
            plan.notes.append(Note("adapted", "option", f"effort {options.effort} is called {effort} here"))
        plan.fields["output_config"] = {"effort": effort}


def _off(options: Options, dialect: Dialect, plan: ThinkingPlan) -> None:
    """Said only where the model would think otherwise: some of the newest refuse the word."""
    if dialect.reasoning.default_on and dialect.reasoning.can_disable:
        plan.fields["thinking"] = {"type": "disabled"}


CONTROLS: dict[str, Control] = {"none": _none, "budget": _budget, "adaptive": _adaptive, "either": _either}
