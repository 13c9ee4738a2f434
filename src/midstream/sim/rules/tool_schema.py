"""What hosts refuse about the schema of a tool: what is no valid JSON Schema, and what Moonshot's flavour does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .rule import objects

_SCHEMAS = (
    "items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties", "contentSchema",
)  # fmt: skip
_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_TEXTS = ("title", "description", "pattern", "format", "$ref")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_DEEP = 200
"""A bound of ours, not of the hosts: a double must not be brought down by what it judges."""


def malformed(schema: Any, depth: int = 0) -> Iterator[str]:
    """Values that JSON Schema of draft 2020-12 does not allow, in the words of OpenAI's validator."""
    if isinstance(schema, bool) or depth > _DEEP:
        return
    if not isinstance(schema, dict):
        yield f"{schema!r} is not of type 'object', 'boolean'"
        return
    named = schema.get("type", "object")
    for kind in named if isinstance(named, list) else [named]:
        if kind not in _TYPES:
            yield f"{kind!r} is not valid under any of the given schemas"
    for keyword, value in schema.items():
        if keyword in _TEXTS and not isinstance(value, str):
            yield f"{value!r} is not of type 'string'"
        elif (keyword in _NUMBERS and type(value) not in (int, float)) or (
            keyword in _COUNTS and type(value) is not int
        ):
            yield f"{value!r} is not of type 'number'"
        elif keyword in ("required", "enum", "examples", *_LISTS) and not isinstance(value, list):
            yield f"{value!r} is not of type 'array'"
        elif (keyword in ("enum", *_LISTS) or (keyword == "type" and isinstance(value, list))) and not value:
            yield "[] is too short"
        elif keyword == "required" and not all(isinstance(name, str) for name in value):
            yield f"{value!r} is not of type 'string'"
        elif keyword in _MAPS and not isinstance(value, dict):
            yield f"{value!r} is not of type 'object'"
    for child in _inside(schema):
        yield from malformed(child, depth + 1)


def arrays_without_items(schema: Any, depth: int = 0) -> Iterator[str]:
    if not isinstance(schema, dict) or depth > _DEEP:
        return
    named = schema.get("type")
    if "items" not in schema and (named == "array" or (isinstance(named, list) and "array" in named)):
        yield "array schema missing items"
    for child in _inside(schema):
        yield from arrays_without_items(child, depth + 1)


def _inside(schema: dict[str, Any]) -> Iterator[Any]:
    yield from [schema[keyword] for keyword in _SCHEMAS if keyword in schema]
    for keyword in _MAPS:
        if isinstance(schema.get(keyword), dict):
            yield from schema[keyword].values()
    for keyword in _LISTS:
        if isinstance(schema.get(keyword), list):
            yield from schema[keyword]


# The flavour in five sentences: a `type` on every property, none beside `anyOf`, nothing beside `$ref`, `prefixItems` for
# tuples, no two conditions in an `allOf` (field-guide/kimi.md#tools).
def not_moonshots(schema: Any, where: str, depth: int = 0) -> Iterator[str]:
    if not isinstance(schema, dict) or depth > _DEEP:
        return
    if "anyOf" in schema and "type" in schema:
        yield f"{where}: type must not stand beside anyOf"
    if "$ref" in schema and len(schema) > 1:
        yield f"{where}: no keyword may stand beside $ref"
    if isinstance(schema.get("items"), list):
        yield f"{where}.items: a list of schemas belongs in prefixItems"
    if sum("if" in part for part in objects(schema.get("allOf"))) > 1:
        yield f"{where}.allOf: conflict in schema definitions for key 'if'"
    for name, child in (schema.get("properties") or {}).items() if isinstance(schema.get("properties"), dict) else ():
        if isinstance(child, dict) and not {"type", "anyOf", "oneOf", "allOf", "$ref"} & child.keys():
            yield f"{where}.properties.{name}: type is not defined"
        yield from not_moonshots(child, f"{where}.properties.{name}", depth + 1)
    for key in _SCHEMAS:
        yield from not_moonshots(schema.get(key), f"{where}.{key}", depth + 1)
    for key in _LISTS:
        for number, child in enumerate(objects(schema.get(key))):
            yield from not_moonshots(child, f"{where}.{key}[{number}]", depth + 1)
    for key in _MAPS[1:]:
        for name, child in (schema.get(key) or {}).items() if isinstance(schema.get(key), dict) else ():
            yield from not_moonshots(child, f"{where}.{key}.{name}", depth + 1)
