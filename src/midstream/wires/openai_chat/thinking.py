"""How each kind of chat host is told to think, and to keep what was thought, as two tables: word -> fields of the request body.

A dialect names its words; nothing here knows a provider. The empty dict leaves the host's default alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..encode_context import EncodeContext
from ..reasoning import asked_off, effort_for, keeps_thinking
from ..request import merge_body

LEAST_BUDGET = 1024
"""Routers pass a budget on to hosts that refuse a smaller one."""

Control = Callable[[EncodeContext, int | None], dict[str, Any]]


def thinking_fields(context: EncodeContext, limit: int | None) -> dict[str, Any]:
    """What asks for thinking, within the limit of tokens, and for keeping it."""
    rules = context.dialect.reasoning
    if rules.control not in BUDGETS:
        context.no_budget()
    fields = CONTROLS[rules.control](context, limit)
    # Only while it thinks: on some hosts the switch sits in the object that turns thinking on.
    if context.thinking and rules.keep in KEEPS:
        keep, forget = KEEPS[rules.keep]
        if keeps_thinking(context.dialect, context.options):
            merge_body(fields, keep)
        elif context.options.keep_thinking is False:
            merge_body(fields, forget)
    return fields


def _cannot_stop(context: EncodeContext) -> None:
    if asked_off(context.options) and context.thinking:
        context.always_thinks()


def _none(context: EncodeContext, limit: int | None) -> dict[str, Any]:
    options = context.options
    _cannot_stop(context)
    # A model that thinks by itself needs no asking, so nothing is dropped there.
    if (options.thinking == "on" or options.effort not in (None, "none")) and not context.dialect.reasoning.default_on:
        context.option_dropped("thinking", "this model cannot be asked to think here")
    else:
        context.no_effort()
    return {}


def _reasoning_effort(context: EncodeContext, limit: int | None) -> dict[str, Any]:
    options, rules = context.options, context.dialect.reasoning
    if asked_off(options):
        if not rules.efforts:
            _cannot_stop(context)
            # A host whose levels are unknown is given what was asked for.
            return {"reasoning_effort": options.effort} if options.effort else {}
        least = effort_for("none", rules)
        if least != "none":
            context.always_thinks(least)
        return {"reasoning_effort": least}
    if options.effort:
        return {"reasoning_effort": context.effort(options.effort)}
    # A model that does not think by itself has to be given some level, and medium is what most of them call normal.
    if options.thinking == "on" and not rules.default_on and rules.efforts:
        return {"reasoning_effort": effort_for("medium", rules)}
    return {}


def _switch(context: EncodeContext) -> dict[str, Any]:
    """`thinking` is an object at Moonshot; a bool is refused (field-guide/kimi.md#switching-thinking). Said only where it differs from the default."""
    on, rules = context.thinking, context.dialect.reasoning
    _cannot_stop(context)
    # Nothing is said where it would only repeat the default: fewer fields, fewer refusals.
    if on == rules.default_on and context.options.thinking is None:
        return {}
    if not on and not rules.can_disable:
        return {}
    return {"thinking": {"type": "enabled" if on else "disabled"}}


def _thinking_type(context: EncodeContext, limit: int | None) -> dict[str, Any]:
    context.no_effort()
    return _switch(context)


def _thinking_type_effort(context: EncodeContext, limit: int | None) -> dict[str, Any]:
    fields = _switch(context)
    effort = context.options.effort
    # DeepSeek takes both; Kimi refuses them together
    # (field-guide/kimi.md#switching-thinking), so it has the control without.
    if effort not in (None, "none") and context.thinking:
        return {**fields, "reasoning_effort": context.effort(effort)}
    return fields


def _enable_thinking(context: EncodeContext, limit: int | None) -> dict[str, Any]:
    """The budget is apart from the limit of tokens here, which counts the answer alone."""
    options = context.options
    _cannot_stop(context)
    context.no_effort()
    if options.thinking is None and not options.thinking_budget and not asked_off(options):
        return {}
    fields: dict[str, Any] = {"enable_thinking": context.thinking}
    if context.thinking and options.thinking_budget:
        fields["thinking_budget"] = options.thinking_budget
    return fields


def _template_kwargs(context: EncodeContext, limit: int | None) -> dict[str, Any]:
    _cannot_stop(context)
    context.no_effort()
    if context.options.thinking is None and not asked_off(context.options):
        return {}
    return {"chat_template_kwargs": {"thinking": context.thinking}}


def _reasoning_object(context: EncodeContext, limit: int | None) -> dict[str, Any]:
    options = context.options
    if options.effort and options.thinking != "off":
        return {"reasoning": {"effort": context.effort(options.effort)}}
    if options.thinking_budget and context.thinking:
        budget = context.budget_within(options.thinking_budget, limit, LEAST_BUDGET)
        if budget:
            return {"reasoning": {"max_tokens": budget}}
        # A limit too small for any thinking: better an answer without it than none.
        context.disable_thinking(f"max_tokens {limit} leaves no room for it")
        return {"reasoning": {"enabled": context.thinking}}
    return {} if options.thinking is None else {"reasoning": {"enabled": context.thinking}}


CONTROLS: dict[str, Control] = {
    "none": _none,
    "reasoning_effort": _reasoning_effort,
    "thinking.type": _thinking_type,
    "thinking.type+effort": _thinking_type_effort,
    "enable_thinking": _enable_thinking,
    "chat_template_kwargs": _template_kwargs,
    "reasoning": _reasoning_object,
}
BUDGETS = ("enable_thinking", "reasoning")
"""The controls that take a number of tokens."""
# What a host is told to keep, and what to forget. An empty second half means
# that forgetting is its default (field-guide/reasoning.md#keeping-it-all).
KEEPS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "thinking.keep": ({"thinking": {"type": "enabled", "keep": "all"}}, {}),
    "thinking.clear_thinking": (
        {"thinking": {"type": "enabled", "clear_thinking": False}},
        {"thinking": {"type": "enabled", "clear_thinking": True}},
    ),
    "preserve_thinking": ({"preserve_thinking": True}, {"preserve_thinking": False}),
    "chat_template_kwargs": (
        {"chat_template_kwargs": {"preserve_thinking": True}},
        {"chat_template_kwargs": {"preserve_thinking": False}},
    ),
    "reasoning_history": ({"reasoning_history": "preserved"}, {}),
}
"""word -> what asks the host to keep the reasoning of all turns, and what asks it not to where the caller said so."""
