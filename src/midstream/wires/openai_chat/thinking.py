"""How each kind of chat host is told to think, as a table: control name -> fields of the request body.

A dialect names its control; nothing here knows a provider. The empty dict leaves the host's default alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.dialect import Dialect, Options
from ..reasoning import nearest_effort

Control = Callable[[bool, Options, Dialect], dict[str, Any]]


def _effort(options: Options, dialect: Dialect) -> str | None:
    return nearest_effort(options.effort, dialect.reasoning.efforts) if options.effort else None


def _none(on: bool, options: Options, dialect: Dialect) -> dict[str, Any]:
    return {}


def _reasoning_effort(on: bool, options: Options, dialect: Dialect) -> dict[str, Any]:
    effort = _effort(options, dialect)
    if not on and options.thinking == "off" and dialect.reasoning.efforts:
        return {"reasoning_effort": nearest_effort("none", dialect.reasoning.efforts)}
    return {"reasoning_effort": effort} if effort else {}


def _thinking_type(on: bool, options: Options, dialect: Dialect) -> dict[str, Any]:
    """`thinking` is an object at Moonshot; a bool is refused (facts/kimi.md §4). Said only where it differs from the default."""
    if on == dialect.reasoning.default_on and options.thinking is None:
        return {}
    if not on and not dialect.reasoning.can_disable:
        return {}
    return {"thinking": {"type": "enabled" if on else "disabled"}}


def _thinking_keep(on: bool, options: Options, dialect: Dialect) -> dict[str, Any]:
    """As above, and the host keeps the reasoning of earlier turns, which we send: without it they stall for long."""
    if on:
        return {"thinking": {"type": "enabled", "keep": "all"}}
    return _thinking_type(on, options, dialect)


def _thinking_clear(on: bool, options: Options, dialect: Dialect) -> dict[str, Any]:
    if options.thinking is None and not options.effort:
        return {}
    return {"thinking": {"type": "enabled", "clear_thinking": False} if on else {"type": "disabled"}}


def _thinking_type_effort(on: bool, options: Options, dialect: Dialect) -> dict[str, Any]:
    fields = _thinking_type(on, options, dialect)
    effort = _effort(options, dialect)
    return {**fields, "reasoning_effort": effort} if effort and on else fields


def _enable_thinking(on: bool, options: Options, dialect: Dialect) -> dict[str, Any]:
    if options.thinking is None and not options.thinking_budget:
        return {}
    fields: dict[str, Any] = {"enable_thinking": on}
    if on and options.thinking_budget:
        fields["thinking_budget"] = options.thinking_budget
    return fields


def _template_kwargs(on: bool, options: Options, dialect: Dialect) -> dict[str, Any]:
    return {} if options.thinking is None else {"chat_template_kwargs": {"thinking": on}}


def _reasoning_object(on: bool, options: Options, dialect: Dialect) -> dict[str, Any]:
    effort = _effort(options, dialect)
    if effort:
        return {"reasoning": {"effort": effort}}
    if options.thinking_budget and on:
        return {"reasoning": {"max_tokens": options.thinking_budget}}
    return {} if options.thinking is None else {"reasoning": {"enabled": on}}


CONTROLS: dict[str, Control] = {
    "none": _none,
    "reasoning_effort": _reasoning_effort,
    "thinking.type": _thinking_type,
    "thinking.keep": _thinking_keep,
    "thinking.clear": _thinking_clear,
    "thinking.type+effort": _thinking_type_effort,
    "enable_thinking": _enable_thinking,
    "chat_template_kwargs": _template_kwargs,
    "reasoning": _reasoning_object,
}
