"""The smallest value that a JSON schema allows: what a model that obeys a schema might say. Bounded, whatever the schema."""

from __future__ import annotations

from typing import Any, TypeGuard

# Bounds for schemas that refer to themselves, ask for huge arrays, or are attacks on whoever reads them.
_DEPTH = 32
_ITEMS = 16
_PARTS = 10_000
_LENGTH = 4096
_FORMATS = {
    "date-time": "2025-01-01T00:00:00Z", "date": "2025-01-01", "time": "00:00:00Z", "email": "sim@example.com",
    "uri": "https://example.com", "uuid": "00000000-0000-4000-8000-000000000000", "ipv4": "127.0.0.1",
}  # fmt: skip


def instance(schema: Any, words: str = "sim") -> Any:
    """A value for this schema; its texts are `words`, where nothing else is asked of them."""
    return _Maker(schema, words).value(schema, _DEPTH)


class _Maker:
    """Makes one value. What is deeper or has more parts than the bounds is null."""

    def __init__(self, root: Any, words: str) -> None:
        self._root = root
        self._words = words
        self._left = _PARTS

    def value(self, schema: Any, depth: int) -> Any:
        self._left -= 1
        if depth <= 0 or self._left <= 0 or schema is False:
            return None
        if not isinstance(schema, dict):
            return self._words
        # From the most definite to the least: a fixed value, a list
        # of values, a reference, a choice, and only then the type.
        if "const" in schema:
            return schema["const"]
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return schema["enum"][0]
        if isinstance(schema.get("$ref"), str):
            return self.value(_target(schema["$ref"], self._root), depth - 1)
        for word in ("anyOf", "oneOf"):
            if isinstance(schema.get(word), list) and schema[word]:
                return self.value(_simplest(schema[word]), depth - 1)
        if isinstance(schema.get("allOf"), list) and schema["allOf"]:
            return self.value(self._merged(schema), depth - 1)
        return self._typed(schema, depth)

    def _merged(self, schema: dict[str, Any]) -> dict[str, Any]:
        merged: dict[str, Any] = {key: value for key, value in schema.items() if key != "allOf"}
        for part in schema["allOf"]:
            if isinstance(part, dict) and isinstance(part.get("$ref"), str):
                part = _target(part["$ref"], self._root)
            if isinstance(part, dict):
                merged = _joined(merged, part)
        return merged

    def _typed(self, schema: dict[str, Any], depth: int) -> Any:
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next((word for word in kind if word != "null"), "null")
        if not isinstance(kind, str):
            kind = "object" if "properties" in schema else "array" if "items" in schema else "string"
        match kind.lower():  # Gemini's own schemas shout
            case "object":
                properties = schema.get("properties")
                wanted = properties if isinstance(properties, dict) else {}
                required = schema.get("required")
                # Without `required` everything is given: an empty object would show nothing to who looks at it.
                names = [name for name in wanted if name in required] if isinstance(required, list) else list(wanted)
                return {name: self.value(wanted[name], depth - 1) for name in names}
            case "array":
                # One item by default, although none is allowed: tests want to see the shape of it.
                count = min(_ITEMS, _number(schema.get("minItems"), 1))
                return [self.value(schema.get("items", {}), depth - 1) for _ in range(count)]
            case "integer" | "number":
                return _within(schema)
            case "boolean":
                return True
            case "null":
                return None
            case _:
                said = _FORMATS.get(str(schema.get("format")), self._words)
                said = said.ljust(min(_LENGTH, _number(schema.get("minLength"), 0)), ".")
                return said[: _number(schema.get("maxLength"), _LENGTH)]


def _within(schema: dict[str, Any]) -> int | float:
    least, most = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if _is_number(least):
        return least
    if _is_number(above):
        return above + 1 if not _is_number(below) or above + 1 < below else (above + below) / 2
    top = most if _is_number(most) else below - 1 if _is_number(below) else 1
    return min(1, top)


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(value: Any, usual: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else usual


def _simplest(options: list[Any]) -> Any:
    """One that is not null, if there is one."""
    return next((each for each in options if not (isinstance(each, dict) and each.get("type") == "null")), options[0])


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    joined = {**one, **other}
    if isinstance(one.get("properties"), dict) and isinstance(other.get("properties"), dict):
        joined["properties"] = {**one["properties"], **other["properties"]}
    if isinstance(one.get("required"), list) and isinstance(other.get("required"), list):
        joined["required"] = [*one["required"], *other["required"]]
    return joined


def _target(ref: str, root: Any) -> Any:
    found = root
    for part in ref.removeprefix("#").strip("/").split("/") if ref != "#" else ():
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found if found is not None else {}
