"""Values written as bare text, typed by the tool's schema.

Formats that write `<parameter=n>3</parameter>` do not say whether 3 is a number: the schema does. A string stays exactly as
written; anything else is JSON (or the Python spelling of it), and stays text when it is not what the schema allows, so that
validation can say so. Without a schema a value that reads as JSON is JSON.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.tools import ToolSpec
from .format import dump
from .json_text import parse

_PYTHON_WORDS = {"True": True, "False": False, "None": None}


def properties_of(name: str, tools: Sequence[ToolSpec]) -> Mapping[str, Any]:
    """The schemas of a tool's parameters, by name; empty for a tool we do not know."""
    for tool in tools:
        if tool.name == name:
            found = (tool.parameters or {}).get("properties")
            return found if isinstance(found, dict) else {}
    return {}


def typed(text: str, schema: Any) -> Any:
    """The value that `text` stands for under this schema."""
    types = _types(schema)
    if types == {"string"}:
        return text
    word = text.strip()
    try:
        value = _PYTHON_WORDS[word] if word in _PYTHON_WORDS else parse(word)
    except ValueError:
        return text
    if not types:
        return value if not isinstance(value, str) else text
    if isinstance(value, float) and value.is_integer() and "integer" in types and "number" not in types:
        value = int(value)
    return value if _kind(value) & types else text


def bare(value: Any) -> str:
    """How a value is written bare: a string as it is, anything else as JSON."""
    return value if isinstance(value, str) else dump(value)


def _types(schema: Any) -> set[str]:
    if not isinstance(schema, dict):
        return set()
    found = schema.get("type")
    types = (
        {found}
        if isinstance(found, str)
        else {t for t in found if isinstance(t, str)}
        if isinstance(found, list)
        else set()
    )
    if not types:
        for key in ("anyOf", "oneOf"):
            for option in schema.get(key) or ():
                types |= _types(option)
    if not types and isinstance(schema.get("enum"), list):
        for option in schema["enum"]:
            types |= _kind(option)
    return types


def _kind(value: Any) -> set[str]:
    """The schema types a value has."""
    match value:
        case None:
            return {"null"}
        case bool():
            return {"boolean"}
        case int():
            return {"integer", "number"}
        case float():
            return {"number"}
        case str():
            return {"string"}
        case list():
            return {"array"}
        case _:
            return {"object"}


class TagEscape:
    """Lets a value hold a format's own tags, for formats that have no escape of their own.

    Only the `<` of those tags is written `&lt;`, and an `&lt;` that would be misread gets one more `amp;`: every other text,
    entities included, stands as it is.
    """

    __slots__ = ("_escaped", "_tag")

    def __init__(self, *tags: str) -> None:
        rest = "|".join([re.escape(tag[1:]) for tag in tags])
        self._tag = re.compile(rf"<(?={rest})|&((?:amp;)*+)lt;(?={rest})")
        self._escaped = re.compile(rf"&(amp;)?((?:amp;)*+)lt;(?={rest})")

    def escape(self, text: str) -> str:
        return self._tag.sub(lambda m: "&lt;" if m[0] == "<" else f"&amp;{m[1]}lt;", text)

    def unescape(self, text: str) -> str:
        return self._escaped.sub(lambda m: f"&{m[2]}lt;" if m[1] else "<", text)
