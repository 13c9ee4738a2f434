"""Which declared tool a call means, from the id or name the model wrote.

A name that is declared is taken as written. Otherwise the name is recovered only where one declared tool fits: by the last
segment of a dotted name, by case, by the remains of a sanitised id (`functionsread5`, `functions_read_1`), or, where the
model wrote no name at all (`3`, `call_59ad…`), by the argument names. Two that fit are as bad as none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from midstream.core.tools import ToolSpec

from .json_text import parse

_PREFIX = re.compile(r"(?:call_)?functions?[._]?")
_COUNTER = re.compile(r"[._:-]?\d+\Z")
_SEGMENTS = re.compile(r"[.:/]")
_SQUASHED = re.compile(r"[^a-z0-9_-]+")
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
    if written is not None:
        found = _only(declared, (written, _SEGMENTS.split(written)[-1]))
        return found or written
    return _only(declared, _spellings(raw_id))


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


def _spellings(raw_id: str) -> set[str]:
    """What may be left of a name after a host or client mangled its id."""
    found = {raw_id}
    for text in (raw_id, _SEGMENTS.split(raw_id)[-1]):
        bare = _PREFIX.sub("", text, count=1) if _PREFIX.match(text) else text
        found |= {bare, _COUNTER.sub("", text), _COUNTER.sub("", bare)}
    return found


def _only(declared: Sequence[str], spellings: Iterable[str]) -> str | None:
    """The one declared name that is spelled like this, ignoring case and what sanitising deletes."""
    wanted = {_squash(spelling) for spelling in spellings} - {""}
    found = {name for name in declared if _squash(name) in wanted}
    return found.pop() if len(found) == 1 else None


def _squash(name: str) -> str:
    return _SQUASHED.sub("", name.lower())
