"""A dozen schemas of tools that hosts have stumbled over: grammars that loop, references that are dropped, types that are lists.

All of them are valid JSON schemas, and within what Moonshot takes, so whoever declares tools may be sent any of them.
"""

from __future__ import annotations

from typing import Any

_TEXT = {"type": "string"}


def _object(required: str = "", /, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required.split() or list(properties)}


SCHEMAS: dict[str, dict[str, Any]] = {
    "one text": _object(title=_TEXT),
    "no properties": {"type": "object", "properties": {}},
    "optional": _object("title", title=_TEXT, note=_TEXT, count={"type": "integer"}),
    "enum": _object(unit={"type": "string", "enum": ["celsius", "fahrenheit", "kelvin"]}),
    "bounds": _object(count={"type": "integer", "minimum": 10, "maximum": 20}, share={"type": "number", "exclusiveMinimum": 0}),
    "boolean and null": _object(done={"type": "boolean"}, parent={"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    "array of objects": _object(
        items={"type": "array", "minItems": 2, "items": _object(sku=_TEXT, quantity={"type": "integer", "minimum": 1})}
    ),
    "nested": _object(person=_object(name=_TEXT, address=_object(street=_TEXT, city=_TEXT))),
    "choice of shapes": _object(shape={"anyOf": [_object(radius={"type": "number"}), _object(side={"type": "number"})]}),
    "reference": {
        **_object(home={"$ref": "#/$defs/place"}, work={"$ref": "#/$defs/place"}),
        "$defs": {"place": _object(city=_TEXT, zip=_TEXT)},
    },
    "closed": {**_object(path=_TEXT, text=_TEXT), "additionalProperties": False},
    "letters": _object(**{"größe": {"type": "integer"}, "naïve": _TEXT, "with space": _TEXT}),
}  # fmt: skip
"""By name, as they are shown in a report."""
