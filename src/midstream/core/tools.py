"""Reading the calls of tools: arguments for execution, the text of a freeform call, the tools that a conversation declares.

`ToolSpec` and `Grammar` stand beside Turn, which holds the tools that a system turn declares; they are tools all the same, so
they can be imported from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from .blocks import Grammar, ToolCall, ToolKind, ToolSpec, Turn

__all__ = [
    "INPUT", "Grammar", "ToolKind", "ToolSpec", "declared_tools", "freeform_arguments", "freeform_input", "join_tools",
    "modern_call", "parse_arguments",
]  # fmt: skip

_TOOLS = attrgetter("tools")
INPUT = "input"
"""The one key in the arguments of a freeform call."""


def parse_arguments(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call, parsed strictly, once, for execution; of a freeform call `{"input": text}`.

    Text that is not a JSON object gives `{"_parse_error": why, "_raw": text}`: that goes to the model, and nothing runs.
    No text at all means no arguments, and so does `null`, which some hosts send for a tool without parameters.
    """
    if call.kind == "freeform":
        return {INPUT: freeform_input(call)}
    raw = call.arguments
    # Hosts differ in how they say that a call has no arguments. A tool without parameters must still run.
    if raw.strip() in ("", "null"):
        return {}
    try:
        value = msgspec.json.decode(raw)
    # The JSON parser recurses: text nested thousands deep is a mistake of the model's, not a crash of ours.
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        return {"_parse_error": str(error), "_raw": raw}
    # A list or a number is valid JSON and useless as arguments. Some models write the
    # object as a string inside a string (field-guide/text-calls.md#names-and-arguments);
    # it is not unwrapped here, because what runs must be what was said.
    if not isinstance(value, dict):
        return {"_parse_error": f"expected a JSON object, got {type(value).__name__}", "_raw": raw}
    return value


def freeform_arguments(text: str) -> str:
    """The `arguments` of a freeform call with this text."""
    return msgspec.json.encode({INPUT: text}).decode()


def freeform_input(call: ToolCall) -> str:
    """The text of a freeform call. A model that was offered a function may have missed the shape: then it is the one
    string among the arguments, or all that it wrote."""
    try:
        value = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return call.arguments
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        # A function stands in for a freeform tool on hosts that know
        # none, so the key may be any word the model found fitting.
        found = value[INPUT] if INPUT in value else next(iter(value.values())) if len(value) == 1 else None
        if isinstance(found, str):
            return found
    return call.arguments


def modern_call(call: ToolCall) -> ToolCall:
    """A call as it is kept today. Older versions kept a freeform one with its bare text and `extra["type"]`, and a namespace
    among the fields of its item."""
    extra = call.extra
    if not extra:
        return call
    # Stored turns are never rewritten: an old one is read into today's shape each time it is used.
    if extra.get("type") == "custom" and call.kind == "function":
        rest = {key: value for key, value in extra.items() if key != "type"}
        call = replace(call, kind="freeform", arguments=freeform_arguments(call.arguments), extra=rest or None)
    item = extra.get("item")
    namespace = item.get("namespace") if isinstance(item, dict) else None
    return replace(call, namespace=namespace) if isinstance(namespace, str) and not call.namespace else call


def declared_tools(turns: Sequence[Turn]) -> list[tuple[int, ToolSpec]]:
    """The tools that the turns of a conversation declare, each with its turn's number."""
    if not any(map(_TOOLS, turns)):  # the everyday case, over a whole history each time
        return []
    return [(number, tool) for number, turn in enumerate(turns) for tool in turn.tools]


def join_tools(tools: Sequence[ToolSpec], more: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    """All of them; a later declaration takes the place of an earlier one of the same name."""
    # Keyed by the qualified name: tools of two namespaces may share a plain one, and must not replace each other.
    joined = {tool.qualified_name: tool for tool in tools}
    joined.update({tool.qualified_name: tool for tool in more})
    return tuple(joined.values())
