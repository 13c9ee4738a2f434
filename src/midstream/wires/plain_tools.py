"""Tools and calls as every host has them: plain functions with one name.

Where a dialect has no freeform tools, such a tool is a function with one string parameter, the grammar in its description;
where it has no namespaces, the namespace goes into the name. Calls in the history follow, and `called` is the way back, made
from the same tools. A name is a pure function of namespace and name, so that a call is spelled alike in every request; the
digest keeps it apart from the same words cut elsewhere (`a`, `b__c` and `a__b`, `c`) and from a tool that is really named so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..core.blocks import ToolCall, ToolKind, ToolSpec
from ..core.dialect import Dialect, Limits
from ..core.modules import late_module
from ..core.reduce import Called
from ..core.tools import INPUT

if TYPE_CHECKING:
    import hashlib
else:
    hashlib = late_module("hashlib", globals())

# Eight hex digits: enough to keep apart the tools of one request, and short beside a limit of 64.
_DIGEST = 8


# Dialects share a handful of patterns.
@lru_cache(maxsize=64)
def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def rewritten(words: str, seed: str, limits: Limits) -> str:
    """A name that the host takes: as much of the words as fits, and a digest of the seed."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", words)
    # Some hosts want a letter first (field-guide/kimi.md#tools).
    if not plain[:1].isalpha():
        plain = "t_" + plain
    digest = hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    name = f"{plain[: limits.tool_name_max - _DIGEST - 1]}_{digest}"
    # A pattern without hyphens: Cohere takes letters, digits and underscores only (field-guide/cohere.md#pairing).
    return name if compiled(limits.tool_name_pattern).fullmatch(name) else name.replace("-", "_")


# By identity, with the dialect kept beside it: a dialect is too large to
# hash for each request, and an id may be used again once its owner is gone.
_plain_dialects: dict[int, tuple[Dialect, Dialect]] = {}


def plain_dialect(dialect: Dialect) -> Dialect:
    """The dialect without freeform tools, namespaces and tools declared in between, for tools that go over plain text.

    The same value each time: encoded histories are kept by dialect.
    """
    if not (dialect.freeform or dialect.namespaces or dialect.mid_tools):
        return dialect
    known = _plain_dialects.get(id(dialect))
    if known is None or known[0] is not dialect:
        # Programs make dialects on the way; forgetting them all now
        # and then is simpler than an order of use, and costs little.
        if len(_plain_dialects) >= 512:
            _plain_dialects.clear()
        known = _plain_dialects[id(dialect)] = (
            dialect,
            replace(dialect, freeform=False, namespaces=False, mid_tools=False),
        )
    return known[1]


def plain_name(namespace: str, name: str, dialect: Dialect) -> str:
    """The one name of a tool on this host."""
    if not namespace or dialect.namespaces:
        return name
    return rewritten(f"{namespace}__{name}", f"{namespace}\0{name}", dialect.limits)


def plain_tool(tool: ToolSpec, dialect: Dialect) -> ToolSpec:
    """The tool as this host can be told of it; the same object where nothing differs."""
    changed: dict[str, object] = {}
    if tool.namespace and not dialect.namespaces:
        changed = {"name": plain_name(tool.namespace, tool.name, dialect), "namespace": ""}
    if tool.kind == "freeform" and not dialect.freeform:
        changed |= {"kind": "function", "grammar": None, "strict": None, "parameters": _PARAMETERS}
        changed["description"] = _description(tool)
    return replace(tool, **changed) if changed else tool


# One string, named as `freeform_input` of the core expects it.
_PARAMETERS = {
    "type": "object",
    "properties": {INPUT: {"type": "string", "description": "The whole input of the tool, as plain text."}},
    "required": [INPUT],
    "additionalProperties": False,
}


def _description(tool: ToolSpec) -> str:
    parts = [tool.description] if tool.description else []
    if tool.grammar is not None:
        grammar = tool.grammar
        parts.append(f"`{INPUT}` must match this {grammar.syntax} grammar:\n{grammar.definition}".rstrip())
    return "\n\n".join(parts)


def plain_call(call: ToolCall, dialect: Dialect) -> ToolCall:
    """The call as this host can be told of it; the same object where nothing differs."""
    changed: dict[str, object] = {}
    if call.namespace and not dialect.namespaces:
        changed = {"name": plain_name(call.namespace, call.name, dialect), "namespace": ""}
    if call.kind == "freeform" and not dialect.freeform:
        # The arguments stay: a freeform call is kept with its text under that very key.
        changed["kind"] = "function"
    return replace(call, **changed) if changed else call


def called(tools: Iterable[ToolSpec], dialect: Dialect) -> dict[str, Called]:
    """What a call by a plain name is a call of, for the names that stand for something else."""
    found: dict[str, Called] = {}
    for tool in tools:
        plain = plain_tool(tool, dialect)
        if plain is not tool:
            kind: ToolKind = tool.kind
            found[plain.name] = Called(tool.name, kind, tool.namespace)
    return found


def spelled_choice(choice: str | None, tools: Iterable[ToolSpec], dialect: Dialect) -> str | None:
    """A tool choice by the name that the tool has on this host."""
    for tool in tools:
        if choice is not None and choice in (tool.name, tool.qualified_name):
            # A caller may say the plain name or the qualified one.
            return plain_tool(tool, dialect).name
    return choice
