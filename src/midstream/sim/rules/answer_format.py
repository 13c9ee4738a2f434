"""What hosts refuse about the schema of an answer: OpenAI's strict subset, and Anthropic's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# Keywords outside the subset that OpenAI's strict mode takes, and those outside Anthropic's: the two lists overlap
# but neither holds the other (field-guide/openai-chat.md#structured-output,
# field-guide/anthropic-messages.md#structured-output).
_NOT_STRICT = (
    "allOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties", "default",
    "uniqueItems", "contains", "propertyNames", "unevaluatedProperties", "prefixItems", "minLength", "maxLength",
)  # fmt: skip
_NOT_CLOSED = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "maxItems",
    "uniqueItems", "patternProperties", "if", "not", "oneOf", "prefixItems",
)  # fmt: skip
_DEEP = 64


def openai_format(shape: Any, *, named: bool = True) -> Iterator[str]:
    """The problems of a `json_schema` with its name and schema."""
    if not isinstance(shape, dict):
        yield "Missing required parameter: 'response_format.json_schema'."
        return
    name, schema = shape.get("name"), shape.get("schema")
    if named and not (isinstance(name, str) and _NAME.fullmatch(name)):
        yield "Invalid 'response_format.json_schema.name': string does not match pattern."
    if not isinstance(schema, dict):
        return
    if schema.get("type") != "object" or "anyOf" in schema:
        said = f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{schema.get('type')}\"'."
        yield f"Invalid schema for response_format '{name}': {said}"
    if shape.get("strict") is True:
        for problem in _strict(schema, 0):
            yield f"Invalid schema for response_format '{name}': {problem}"


def _strict(schema: Any, depth: int) -> Iterator[str]:
    # A bound of ours, not of the host: a double must not be brought down by what it judges.
    if not isinstance(schema, dict) or depth > _DEEP:
        return
    properties = schema.get("properties")
    if _is(schema, "object"):
        names = set(properties) if isinstance(properties, dict) else set()
        required = schema.get("required")
        if schema.get("additionalProperties") is not False:
            yield "In context=(), 'additionalProperties' is required to be supplied and to be false."
        if not isinstance(required, list) or {str(each) for each in required} != names:
            yield "'required' is required to be supplied and to be an array including every key in properties."
    if "$ref" in schema and len(schema) > 1:
        yield "$ref cannot have keywords beside it."
    if not any(keyword in schema for keyword in ("type", "anyOf", "$ref")) and depth:
        yield "schema must have a 'type' key."
    yield from [f"'{keyword}' is not permitted." for keyword in _NOT_STRICT if keyword in schema]
    for child in _children(schema):
        yield from _strict(child, depth + 1)


def anthropic_format(schema: Any, depth: int = 0) -> Iterator[str]:
    """The problems of a schema for structured outputs."""
    where = "output_config.format.schema"
    if not isinstance(schema, dict) or depth > _DEEP:
        return
    if _is(schema, "object") and schema.get("additionalProperties") is not False:
        yield f"{where}: For 'object' type, 'additionalProperties' must be explicitly set to false"
    for keyword in _NOT_CLOSED:
        if keyword in schema:
            yield f"{where}: For '{schema.get('type')}' type, property '{keyword}' is not supported"
    if schema.get("minItems", 0) not in (0, 1):
        yield f"{where}: For 'array' type, 'minItems' values other than 0 or 1 are not supported"
    for child in _children(schema):
        yield from anthropic_format(child, depth + 1)


def _is(schema: dict[str, Any], kind: str) -> bool:
    said = schema.get("type")
    return said == kind or (isinstance(said, list) and kind in said)


def _children(schema: dict[str, Any]) -> list[Any]:
    found: list[Any] = [schema.get("items")]
    for keyword in ("properties", "$defs", "definitions"):
        held = schema.get(keyword)
        found += list(held.values()) if isinstance(held, dict) else []
    held = schema.get("anyOf")
    return found + (held if isinstance(held, list) else [])
