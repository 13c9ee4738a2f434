"""Odd schemas: what generators of schemas really write, each in every place where a schema can stand, and any mix of them.

A tool of an MCP server brings its schema along, and a host that refuses one refuses every request it is in.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

FRAGMENTS: dict[str, Any] = {
    # zod: `undefined`, `never`, `any`, `unknown`, a preprocessor, a literal, a record, a tuple, a discriminated union
    "never": {"not": {}},
    "never, described": {"not": {}, "description": "leave it out"},
    "anything": {},
    "anything, described": {"description": "anything"},
    "a literal null": {"const": None},
    "a literal": {"const": "a"},
    "a record": {"type": "object", "additionalProperties": {}},
    "a record of never": {"type": "object", "additionalProperties": {"not": {}}},
    "a record by name": {"type": "object", "propertyNames": {"pattern": "^x"}, "additionalProperties": {"type": "string"}},
    "a tuple": {"type": "array", "items": [{"type": "string"}, {}]},
    "a tuple of nothing": {"type": "array", "items": []},
    "a closed tuple": {"type": "array", "prefixItems": [{"not": {}}, {"enum": [1]}], "items": False},
    "a union by name": {
        "oneOf": [
            {"type": "object", "properties": {"kind": {"const": "a"}}, "required": ["kind"]},
            {"properties": {"kind": {"enum": ["b"]}, "x": {"not": {}}}},
        ]
    },
    "a nullable": {"type": ["string", "null"]},
    "a nullable of OpenAPI": {"type": "string", "nullable": True},
    "nullable alone": {"nullable": True},
    # pydantic, JSON Schema for Java and .NET, hand-written ones
    "a union with null": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "title": "N"},
    "a union of one": {"anyOf": [{"type": "string"}]},
    "a union of nothing": {"anyOf": []},
    "a union beside a type": {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    "a union of never": {"anyOf": [{"not": {}}, {"type": "string"}]},
    "an intersection": {"allOf": [{"type": "string"}, {"minLength": 2}], "description": "d"},
    "an intersection of nothing": {"allOf": []},
    "an intersection of conditions": {"allOf": [{"if": {"required": ["a"]}, "then": {"required": ["b"]}}]},
    "a bare condition": {"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}, "else": {}},
    "a condition alone": {"if": {}},
    "a conclusion alone": {"then": {"type": "integer"}},
    "anything but a string": {"not": {"type": "string"}},
    "anything but some types": {"not": {"type": ["string", "null"]}},
    "anything but a value": {"not": {"enum": ["x"]}},
    "anything but a shape": {"not": {"required": ["a"]}},
    "an enum without a type": {"enum": ["a", "b"]},
    "an enum of kinds": {"enum": ["auto", 1, 2.5, None, True]},
    "an enum of nothing": {"enum": []},
    "an enum against its type": {"type": "integer", "enum": ["1", "2"]},
    "an enum with an empty word": {"type": "string", "enum": ["", "a"]},
    "an enum of objects": {"enum": [{"a": 1}, [1]]},
    "a type in capitals": {"type": "STRING"},
    "a type of no kind": {"type": "any"},
    "a type that is null": {"type": None},
    "types of nothing": {"type": []},
    "types of one": {"type": ["array"], "items": {"type": "string"}},
    "an array of nothing said": {"type": "array"},
    "an array by its items": {"items": {"not": {}}},
    "an array of true": {"type": "array", "items": True},
    "an array that contains": {"type": "array", "contains": {"not": {}}, "items": {}},
    "an object by its properties": {"properties": {"a": {"not": {}}, "b": True, "c": False}},
    "an object without properties": {"type": "object", "properties": None, "required": "a"},
    "an object of patterns": {"patternProperties": {"^x": {"not": {}}, "^y": {}}},
    "an object that depends": {"type": "object", "dependentSchemas": {"a": {"not": {}}}, "dependentRequired": {"a": ["b"]}},
    "required inside a property": {"type": "string", "required": True},
    "bounds of draft 4": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
    "a format nobody has": {"format": "uri-reference"},
    "numbers alone": {"minimum": 1},
    "a reference": {"$ref": "#/$defs/Plain"},
    "a reference, described": {"$ref": "#/$defs/Plain", "description": "d", "default": {}},
    "a reference to never": {"$ref": "#/$defs/Never"},
    "a reference to itself": {"$ref": "#/$defs/Tree", "description": "d"},
    "a reference to nothing": {"$ref": "#/$defs/Nowhere"},
    "a reference elsewhere": {"$ref": "https://example.com/schema.json"},
    "a reference of draft 2020": {"$dynamicRef": "#node"},
    "an old definition": {"$ref": "#/definitions/Old"},
    "definitions inside": {"$defs": {"In": {"not": {}}}, "type": "string"},
    "words of a vendor": {"x-order": 1, "x-schema": {"not": {}}},
    "a document's head": {"$schema": "http://json-schema.org/draft-07/schema#", "$id": "x", "$comment": "c", "not": {}},
    "true": True,
    "false": False,
}  # fmt: skip
PLACES: dict[str, Any] = {
    "a property": lambda odd: {"type": "object", "properties": {"x": odd}, "required": ["x"]},
    "a property, untyped": lambda odd: {"properties": {"x": odd}},
    "items": lambda odd: {"type": "object", "properties": {"x": {"type": "array", "items": odd}}},
    "a tuple": lambda odd: {"type": "object", "properties": {"x": {"prefixItems": [odd, {"type": "string"}]}}},
    "an alternative": lambda odd: {"type": "object", "properties": {"x": {"anyOf": [odd, {"type": "integer"}], "type": "integer"}}},
    "one of": lambda odd: {"type": "object", "properties": {"x": {"oneOf": [odd, {"type": "object", "properties": {"y": odd}}]}}},
    "all of": lambda odd: {"type": "object", "properties": {"x": {"allOf": [odd, {"description": "d"}]}}},
    "the rest": lambda odd: {"type": "object", "properties": {"x": {"type": "object", "additionalProperties": odd}}},
    "a negation": lambda odd: {"type": "object", "properties": {"x": {"not": odd}}},
    "a condition": lambda odd: {"type": "object", "properties": {"x": {"if": odd, "then": odd}}},
    "a pattern": lambda odd: {"type": "object", "properties": {"x": {"patternProperties": {"^a": odd}}}},
    "a definition": lambda odd: {"type": "object", "properties": {"x": {"$ref": "#/$defs/Odd"}}, "$defs": {"Odd": odd}},
    "the root": lambda odd: odd if isinstance(odd, dict) else {},
    "an alternative of the root": lambda odd: {"anyOf": [odd, {"properties": {"x": odd}}]},
    "a part of the root": lambda odd: {"type": "object", "allOf": [odd, {"properties": {"x": odd}}]},
}  # fmt: skip
_DEFINITIONS = {
    "Plain": {"type": "object", "properties": {"a": {"type": "string"}}},
    "Never": {"not": {}},
    "Tree": {"properties": {"next": {"$ref": "#/$defs/Tree"}, "x": {"not": {}}}},
}


def _whole(schema: Schema) -> Schema:
    """With the definitions that it speaks of."""
    said, inner = repr(schema), schema.get("$defs")
    wanted = {name: each for name, each in _DEFINITIONS.items() if f"#/$defs/{name}'" in said}
    old = {"definitions": {"Old": {}}} if "#/definitions/Old" in said else {}
    defs = {**wanted, **(inner if isinstance(inner, dict) else {})}
    return {**schema, **({"$defs": defs} if defs else {}), **old}


def each_in_its_place() -> Iterator[tuple[str, Schema]]:
    for what, odd in FRAGMENTS.items():
        for where, place in PLACES.items():
            yield f"{what} as {where}", _whole(place(odd))


def mixed(dice: random.Random) -> Schema:
    """Fragments that hold, or are laid over, other fragments."""

    def some(depth: int) -> Any:
        odd = dice.choice(list(FRAGMENTS.values()))
        if not isinstance(odd, dict) or depth > 3:
            return odd
        made = dict(odd)
        if dice.random() < 0.3 and isinstance(more := dice.choice(list(FRAGMENTS.values())), dict):
            made |= more
        if dice.random() < 0.5:
            where = dice.choice(["items", "additionalProperties", "not", "if", "then", "contains", "propertyNames"])
            made[where] = some(depth + 1)
        if dice.random() < 0.5:
            where = dice.choice(["anyOf", "oneOf", "allOf", "prefixItems"])
            made[where] = [some(depth + 1) for _ in range(dice.randrange(3))]
        if dice.random() < 0.5:
            where = dice.choice(["properties", "patternProperties", "dependentSchemas", "$defs"])
            made[where] = {
                name: some(depth + 1) for name in dice.sample(["a", "b", "$ref", "type", "not"], dice.randrange(3))
            }
        return made

    return _whole(dice.choice(list(PLACES.values()))(some(0)))
