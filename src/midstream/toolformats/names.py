"""Which declared tool a call means, from the id or name the model wrote.

A name that is written is the name: declared, or a call of an unknown tool; it never runs another tool that looks like it,
in other case or in another namespace. What is undone is only what hosts add to a name to make an id: the prefix `functions.`,
a counter (`read:0`, `read_0`), and the deletions of a sanitised id (`functionsread5`, `functions_read_1`), where one declared tool
fits. Only an id that holds no name at all (`3`, `call_59ad…`) leaves the tool to be told by the argument names.
Two that fit are as bad as none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ..core.tools import ToolSpec
from .json_text import parse

_PREFIX = re.compile(r"(?:call_)?functions?[._]?")
_COUNTER = re.compile(r"[._:-]\d+\Z")
_GLUED_COUNTER = re.compile(r"[._:-]?\d+\Z")
_SANITISED = re.compile(r"[^A-Za-z0-9_-]+")
_NAMELESS = re.compile(
    r"(?:functions?[.:_]*)?:?\d*"  # nothing, or a counter
    r"|(?:call|tool|toolu|tooluse|fc|chatcmpl-tool)[_-]?(?:\d[0-9A-Za-z]*|(?=[A-Za-z]*\d)[A-Za-z0-9]{16,})"
    r"|(?:(?:call|tool|toolu|tooluse|fc|chatcmpl-tool)[_-]?)?(?=[a-f-]*\d)[0-9a-f-]{8,}"
)
MAX_ID = 1024


def written_name(raw_id: str) -> str | None:
    """The name in `functions.{name}:{n}` or `{prefix.}{name}:{n}`, declared or not; None when the id has no such form."""
    body, colon, index = raw_id.rpartition(":")
    if not colon or not index or not index.replace("_", "").replace("-", "").isalnum():
        return None
    head, dot, tail = body.partition(".")
    name = tail if dot and head == "functions" else body.rpartition(".")[2]
    return name or None


def recover_name(raw_id: str, tools: Sequence[ToolSpec]) -> str | None:
    """The tool an id names. An id in good form that names no declared tool gives the name as written."""
    declared = [tool.name for tool in tools]
    if len(raw_id) > MAX_ID:
        return None
    for exact in (raw_id, raw_id.removeprefix("functions."), raw_id.rpartition(":")[0].removeprefix("functions.")):
        if exact in declared:
            return exact
    written = written_name(raw_id)
    if written is None:
        return _sanitised(raw_id, declared)
    # Other engines cut any prefix off. Where tools are declared, `os.read` would then run `read`.
    return raw_id.rpartition(":")[0].removeprefix("functions.") if tools else written


def is_nameless(raw_id: str) -> bool:
    """Whether an id holds no name at all: nothing, a counter, or random letters under a known prefix."""
    return _NAMELESS.fullmatch(raw_id) is not None


def name_by_arguments(arguments: str, tools: Sequence[ToolSpec]) -> str | None:
    """The one tool these arguments fit: none missing that it requires, none that it does not know."""
    try:
        value = parse(arguments)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    fitting = [tool.name for tool in tools if _fits(tool, value.keys())]
    return fitting[0] if len(fitting) == 1 else None


def _fits(tool: ToolSpec, keys: Iterable[str]) -> bool:
    schema = tool.parameters or {}
    properties, required = schema.get("properties"), schema.get("required")
    known = set(properties) if isinstance(properties, dict) else set()
    return set(keys) <= known and set(required if isinstance(required, list) else ()) <= set(keys)


def _sanitised(raw_id: str, declared: Sequence[str]) -> str | None:
    """The one declared tool whose id is this one after a host or client took out of it what it does not allow."""
    prefix = _PREFIX.match(raw_id)
    bare = raw_id[prefix.end() :] if prefix else raw_id
    wanted = {bare, (_GLUED_COUNTER if prefix else _COUNTER).sub("", bare)} - {""}
    found = {name for name in declared if name in wanted or _SANITISED.sub("", name) in wanted}
    return found.pop() if len(found) == 1 else None
