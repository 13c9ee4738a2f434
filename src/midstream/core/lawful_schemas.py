"""Schemas made valid JSON Schema of draft 2020-12, for hosts that check it: one wrong keyword of one tool refuses every request.

What is written in an older draft is said in the new one (tuples, `exclusiveMinimum: true`); what no draft knows (`type: "any"`,
`required: true` inside a property, `properties: null`) is left out. A valid schema stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .refs import DEFINITIONS, LISTS, MAPS, Schema, resolves

TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
SINGLE = frozenset({
    "items", "additionalItems", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames",
    "unevaluatedItems", "unevaluatedProperties", "contentSchema",
})  # fmt: skip
"""Keywords whose value is one schema."""


def _is_schema(value: object) -> bool:
    return isinstance(value, (dict, bool))


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(type(each) is str for each in value) and len(set(value)) == len(value)


_CHECKS: dict[Callable[[Any], bool], str] = {
    lambda value: type(value) is str: (
        "$schema $ref $dynamicRef $anchor $dynamicAnchor $comment title description pattern format contentEncoding contentMediaType"
    ),
    lambda value: type(value) is bool: "uniqueItems deprecated readOnly writeOnly",
    lambda value: isinstance(value, list): "examples",
    lambda value: isinstance(value, list) and bool(value): "enum",
    lambda value: _is_number(value) and value > 0: "multipleOf",
    lambda value: isinstance(value, dict) and all(map(_is_texts, value.values())): "dependentRequired",
    _is_texts: "required",
    _is_number: "minimum maximum exclusiveMinimum exclusiveMaximum",
    _is_count: "minLength maxLength minItems maxItems minContains maxContains minProperties maxProperties",
    _is_schema: " ".join(SINGLE),
    lambda value: isinstance(value, dict) and all(map(_is_schema, value.values())): (
        "properties patternProperties dependentSchemas $defs definitions"
    ),
    lambda value: isinstance(value, list) and bool(value) and all(map(_is_schema, value)): " ".join(LISTS),
}
_VALID = {keyword: check for check, keywords in _CHECKS.items() for keyword in keywords.split()}


def types_of(schema: Schema) -> list[str]:
    """The types a schema names: lower case, known ones, each once."""
    named = schema.get("type")
    names = named if isinstance(named, list) else [named]
    # Some generators write `STRING`, as Google's own types are spelled.
    lowered = [name.lower() for name in names if isinstance(name, str)]
    return [name for name in dict.fromkeys(lowered) if name in TYPES]


def tuple_items(schema: Schema) -> Schema:
    """A list of `items` is the old way to write `prefixItems`."""
    if not isinstance(schema.get("items"), list):
        return schema
    out = {keyword: value for keyword, value in schema.items() if keyword not in ("items", "additionalItems")}
    if schema["items"]:
        out["prefixItems"] = schema["items"]
    # The old word for the rest was `additionalItems`, the new one is `items`.
    if "additionalItems" in schema and not isinstance(schema["additionalItems"], list):
        out["items"] = schema["additionalItems"]
    return out


def lawful(schema: Schema, change: Callable[[Schema], Schema] = lambda schema: schema) -> Schema:
    """The schema in valid draft 2020-12, and each schema inside of it; `change` is made to each of them last."""
    return _node(schema, schema, change)


def _node(schema: Schema, root: Schema, change: Callable[[Schema], Schema]) -> Schema:
    schema = _bounds(tuple_items(schema))
    out: Schema = {}
    for keyword, value in schema.items():
        if keyword in MAPS or keyword in DEFINITIONS:
            # Of a map or a list that holds something wrong the rest stays.
            if isinstance(value, dict):
                out[keyword] = {
                    k: _child(v, root, change)
                    for k, v in value.items()
                    if _is_schema(v) or (keyword == "dependencies" and _is_texts(v))
                }
        elif keyword in LISTS:
            kept = [_child(v, root, change) for v in value if _is_schema(v)] if isinstance(value, list) else ()
            if kept:
                out[keyword] = kept
        elif keyword in SINGLE:
            if _is_schema(value):
                out[keyword] = _child(value, root, change)
        elif keyword == "required" and isinstance(value, list):
            out[keyword] = list(dict.fromkeys([name for name in value if type(name) is str]))
        elif keyword == "type":
            if named := types_of(schema):
                # As it was written where that is lawful: a list of one stays one.
                out["type"] = value if value in (named, named[0]) else named[0] if len(named) == 1 else named
        elif keyword == "$ref":
            # A reference that points nowhere is a defect of the generator; an object is what it most likely stood for.
            if resolves(root, value):
                out[keyword] = value
            else:
                out.setdefault("type", "object")
        elif keyword not in _VALID or _VALID[keyword](value):
            out[keyword] = value
    return change(out)


def _child(schema: Any, root: Schema, change: Callable[[Schema], Schema]) -> Any:
    return _node(schema, root, change) if isinstance(schema, dict) else schema


def _bounds(schema: Schema) -> Schema:
    """Draft 4 wrote `exclusiveMinimum: true` beside `minimum`."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if type(schema.get(exclusive)) is not bool:
            continue
        out = {keyword: value for keyword, value in schema.items() if keyword != exclusive}
        if schema[exclusive] and _is_number(out.get(bound)):
            out[exclusive] = out.pop(bound)
        schema = out
    return schema
