"""A tool as the model sees it: a name, a description, a JSON schema."""

from __future__ import annotations

from typing import Any

import msgspec

from .blocks import ToolCall, Value


class ToolSpec(Value, frozen=True):
    """`parameters` is a JSON schema. `builtin` names a tool the provider runs itself (`$web_search` …)."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None
    strict: bool | None = None
    builtin: str | None = None
    extra: dict[str, Any] | None = None


def parse_arguments(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call, parsed strictly, once, for execution.

    Text that is not a JSON object gives `{"_parse_error": why, "_raw": text}`: that goes to the model, and nothing runs.
    No text at all means no arguments, and so does `null`, which some hosts send for a tool without parameters.
    """
    raw = call.arguments
    if raw.strip() in ("", "null"):
        return {}
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        return {"_parse_error": str(error), "_raw": raw}
    if not isinstance(value, dict):
        return {"_parse_error": f"expected a JSON object, got {type(value).__name__}", "_raw": raw}
    return value
