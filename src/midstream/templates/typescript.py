"""Tools as TypeScript declarations, which K2.5 and later were trained on (field-guide/kimi-formats.md#typescript-tools).

Each tool is a `type name = (_: {…}) => any;` in `namespace functions`, preceded by an `interface` for each of its `$defs`.
Keys are sorted, members by required first and then by name; descriptions, constraints and defaults become comments. A schema
that has no TypeScript form (an unknown reference, no type) raises NotTypeScript, and all tools are declared as JSON instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..core.tools import ToolSpec
from .transcript import parameters, spaced_json

_STEP = "  "
_ROOT = "parameters"
_DEFS = "#/$defs/"
_UNION = {
    "string": "string",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "null": "null",
    "object": "{}",
    "array": "Array<any>",
}
# What the published renderer prints as comments, for which types.
_CONSTRAINTS = {
    "string": ("maxLength", "minLength", "pattern"),
    "number": ("maximum", "minimum"),
    "integer": ("maximum", "minimum"),
    "array": ("maxItems", "minItems"),
}
# Values of an enum that contradict its type have no honest declaration.
_PYTHON: dict[str, type | tuple[type, ...]] = {"string": str, "number": (int, float), "integer": int, "boolean": bool}


class NotTypeScript(ValueError):
    """The schema has no TypeScript form."""


def declare_typescript(tools: Sequence[ToolSpec]) -> str:
    """The declaration of all tools, or an empty text if there are none."""
    if not tools:
        return ""
    declared = "\n".join([_Tool(tool).declare() for tool in tools])
    return f"# Tools\n\n## functions\nnamespace functions {{\n{declared}\n}}\n"


class _Tool:
    """One tool: its definitions, and whether a reference in its parameters points to the parameters themselves."""

    def __init__(self, tool: ToolSpec) -> None:
        self.name = tool.name
        self.description = tool.description
        self.parameters = _mapping(_sorted(parameters(tool)))
        self.definitions: dict[str, Any] = {}
        # Definitions may stand in any object of the schema; references find them by name alone.
        for nested in _objects(self.parameters, root=True):
            self.definitions.update(_mapping(nested.get("$defs") or {}))
        self.recursive = False

    def declare(self) -> str:
        # First: writing the shape finds out whether something refers to the root.
        shape = self._object(self.parameters, "")
        lines = []
        if self.recursive:
            members = [
                self._member(name, schema, self.parameters, _STEP) for name, schema in _properties(self.parameters)
            ]
            lines.append(f"interface {_ROOT} {_braces(members, '')}")
            shape = _ROOT
        for name, schema in self.definitions.items():
            lines += _comment(_mapping(schema).get("description"), "")
            lines.append(f"interface {name} {self._type(schema, '')}")
        lines += _comment(self.description, "")
        lines.append(f"type {self.name} = (_: {shape}) => any;")
        return "\n".join(lines)

    def _type(self, schema: Any, indent: str) -> str:
        if isinstance(schema, bool):
            return "any" if schema else "null"
        schema = _mapping(schema)
        kind = _kind(schema)
        match kind:
            case "$ref":
                return self._reference(schema["$ref"])
            case "anyOf":
                return " | ".join([self._type(choice, indent) for choice in _sequence(schema["anyOf"])])
            case "enum":
                return _enum(schema)
            case "union":
                return " | ".join([_union(kind) for kind in schema["type"]])
            case "object":
                return self._object(schema, indent)
            case "array":
                # A missing or empty `items` is `any`.
                return self._array(schema.get("items") or {}, indent)
            case "integer":
                return "number"
            case _:
                return kind

    def _reference(self, reference: Any) -> str:
        # `#` is the whole schema: it needs a name before it can refer to itself.
        if reference == "#":
            self.recursive = True
            return _ROOT
        if not isinstance(reference, str) or not reference.startswith(_DEFS):
            raise NotTypeScript(f"the reference {reference!r} points outside $defs")
        name = reference.rpartition("/")[2]
        if name not in self.definitions:
            raise NotTypeScript(f"the reference {reference!r} has no definition")
        return name

    def _object(self, schema: dict[str, Any], indent: str) -> str:
        inner = indent + _STEP
        required = _required(schema)
        # Required first, each group by name, as the published renderer has it.
        properties = sorted(_properties(schema), key=lambda item: (item[0] not in required, item[0]))
        members = [self._member(name, member, schema, inner) for name, member in properties]
        rest = schema.get("additionalProperties")
        if rest is not None:
            value = "never" if rest is False else self._type(rest, inner)
            members.append(f"{inner}[k: string]: {value}")
        return _braces(members, indent)

    def _member(self, name: str, schema: Any, owner: dict[str, Any], indent: str) -> str:
        default = schema.get("default") if isinstance(schema, dict) else None
        lines = _documentation(schema, indent)
        if default is not None:
            # True and 1.0 are printed as Python prints them, because the published renderer does.
            said = repr(default) if isinstance(default, (int, float)) else spaced_json(default)
            lines.append(f"{indent}// Default: {said}")
        optional = "" if name in _required(owner) else "?"
        lines.append(f"{indent}{name}{optional}: {self._type(schema, indent)}")
        return "\n".join(lines)

    def _array(self, item: Any, indent: str) -> str:
        inner = indent + _STEP
        lines = _documentation(item, inner)
        if not lines:
            return f"Array<{self._type(item, indent)}>"
        return "\n".join(["Array<", *lines, inner + self._type(item, inner), indent + ">"])


def _kind(schema: dict[str, Any]) -> str:
    """The kind of a schema: the first of `$ref`, `anyOf` and `enum`, else its type; `union` for a list of types."""
    # A schema may have several; this is the order in which the published renderer asks.
    for key in ("$ref", "anyOf", "enum"):
        if key in schema:
            return key
    declared = schema.get("type")
    if isinstance(declared, str):
        return declared
    if isinstance(declared, list):
        return "union"
    if not schema:
        return "any"
    raise NotTypeScript(f"schema without a type: {schema!r}")


def _union(name: Any) -> str:
    if not isinstance(name, str) or name not in _UNION:
        raise NotTypeScript(f"unknown type {name!r}")
    return _UNION[name]


def _enum(schema: dict[str, Any]) -> str:
    values = _sequence(schema["enum"])
    declared = schema.get("type")
    if isinstance(declared, list):
        plain = [name for name in declared if name != "null"]
        if len(plain) > 1 or len(declared) > 2:
            raise NotTypeScript(f"enum of several types: {declared!r}")
        declared = plain[0] if plain else "null"
    wanted = _PYTHON.get(declared) if isinstance(declared, str) else None
    if wanted is not None and not all(value is None or isinstance(value, wanted) for value in values):
        raise NotTypeScript(f"the values of an enum are not of type {declared}")
    return " | ".join([f'"{value}"' if isinstance(value, str) else str(value) for value in values])


def _documentation(schema: Any, indent: str) -> list[str]:
    """The comment lines above a member or an item: its description and its constraints."""
    if not isinstance(schema, dict):
        return []
    lines = _comment(schema.get("description"), indent)
    limits = [f"{key}: {schema[key]}" for key in _CONSTRAINTS.get(_kind(schema), ()) if key in schema]
    if limits:
        lines.append(f"{indent}// {', '.join(limits)}")
    return lines


def _comment(text: Any, indent: str) -> list[str]:
    if not text:
        return []
    if not isinstance(text, str):
        raise NotTypeScript("the description is not a text")
    return [f"{indent}// {line}" if line else "" for line in text.split("\n")]


def _braces(members: list[str], indent: str) -> str:
    return "{\n" + ",\n".join(members) + f"\n{indent}}}" if members else "{}"


def _objects(schema: Any, *, root: bool = False) -> Iterator[dict[str, Any]]:
    """Every object schema that is written in place, outermost first: each may contain definitions."""
    if not isinstance(schema, dict):
        return
    kind = "object" if root else _kind(schema)
    if kind == "object":
        yield schema
        yield from _objects(schema.get("additionalProperties"))
        for _, member in _properties(schema):
            yield from _objects(member)
    elif kind == "array":
        yield from _objects(schema.get("items"))
    elif kind == "anyOf":
        for choice in _sequence(schema["anyOf"]):
            yield from _objects(choice)


def _properties(schema: dict[str, Any]) -> list[tuple[str, Any]]:
    return list(_mapping(schema.get("properties") or {}).items())


def _required(schema: dict[str, Any]) -> frozenset[str]:
    return frozenset([name for name in _sequence(schema.get("required") or []) if isinstance(name, str)])


def _sorted(value: Any) -> Any:
    """Every mapping in key order, so that equal tools give equal prompts."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_sorted(item) for item in value]
    return value


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise NotTypeScript(f"expected a mapping, got {value!r}")
    return value


def _sequence(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise NotTypeScript(f"expected a list, got {value!r}")
    return value
