from __future__ import annotations

from typing import Any

import pytest

from midstream.core.tools import ToolSpec
from midstream.templates.typescript import NotTypeScript, declare_typescript
from tests.shared_data import vector_params
from tests.templates.openai_messages import tools_of


@pytest.mark.parametrize("vector", vector_params("kimi/kimi-k25-tool-declaration-ts.json"))
def test_the_recorded_declarations(vector: dict[str, Any]) -> None:
    assert declare_typescript(tools_of(vector["input"]["tools"])) == vector["expected"]["text"]


def shape(schema: dict[str, Any]) -> str:
    """What stands for one required parameter `x`."""
    parameters = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    text = declare_typescript([ToolSpec("f", "", parameters)])
    return text.partition("(_: {\n")[2].removesuffix("\n}) => any;\n}\n")


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({}, "  x: any"),
        (True, "  x: any"),
        (False, "  x: null"),
        ({"type": "integer"}, "  x: number"),
        ({"type": ["string", "null", "object", "array"]}, "  x: string | null | {} | Array<any>"),
        ({"enum": ["a", 1, None]}, '  x: "a" | 1 | None'),
        ({"type": "string", "pattern": "^a", "minLength": 1}, "  // minLength: 1, pattern: ^a\n  x: string"),
        ({"type": "string", "description": "a\n\nb"}, "  // a\n\n  // b\n  x: string"),
        ({"type": "boolean", "default": True}, "  // Default: True\n  x: boolean"),
        ({"type": "array", "default": [1, "é"]}, '  // Default: [1, "é"]\n  x: Array<any>'),
        ({"type": "array", "maxItems": 2, "items": {"type": "string"}}, "  // maxItems: 2\n  x: Array<string>"),
        (
            {"type": "array", "items": {"type": "string", "description": "one"}},
            "  x: Array<\n    // one\n    string\n  >",
        ),
        ({"type": "object", "additionalProperties": False}, "  x: {\n    [k: string]: never\n  }"),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}, "properties": {"b": {}, "a": {}}},
            "  x: {\n    a?: any,\n    b?: any,\n    [k: string]: number\n  }",
        ),
        ({"anyOf": [{"type": "array", "items": {"type": "string"}}, True]}, "  x: Array<string> | any"),
    ],
)
def test_forms(schema: dict[str, Any], text: str) -> None:
    assert shape(schema) == text


def test_required_members_come_first_each_group_by_name() -> None:
    properties: dict[str, Any] = {name: {"type": "string"} for name in "dbca"}
    text = declare_typescript([ToolSpec("f", "", {"type": "object", "properties": properties, "required": ["d", "c"]})])
    assert "  c: string,\n  d: string,\n  a?: string,\n  b?: string\n" in text


def test_definitions_are_interfaces_in_key_order() -> None:
    nested = {"type": "object", "$defs": {"In": {"type": "string"}}, "properties": {"i": {"$ref": "#/$defs/In"}}}
    parameters = {
        "type": "object",
        "$defs": {"Z": {"type": "object", "description": "last"}, "A": {"$ref": "#/$defs/Z"}},
        "properties": {"n": nested, "z": {"$ref": "#/$defs/Z"}},
    }
    assert declare_typescript([ToolSpec("f", "", parameters)]) == (
        "# Tools\n\n## functions\nnamespace functions {\ninterface A Z\n// last\ninterface Z {}\ninterface In string\n"
        "type f = (_: {\n  n?: {\n    i?: In\n  },\n  z?: Z\n}) => any;\n}\n"
    )


def test_parameters_that_hold_themselves() -> None:
    parameters = {"type": "object", "properties": {"next": {"$ref": "#"}, "v": {"type": "number"}}, "required": ["v"]}
    assert declare_typescript([ToolSpec("f", "", parameters)]) == (
        "# Tools\n\n## functions\nnamespace functions {\ninterface parameters {\n  next?: parameters,\n  v: number\n}\n"
        "type f = (_: parameters) => any;\n}\n"
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/Nowhere"},
        {"$ref": "https://example.com/schema"},
        {"description": "no type"},
        {"type": ["string", "file"]},
        {"enum": [1], "type": "string"},
        {"enum": [1, "a"], "type": ["string", "integer"]},
        {"anyOf": {}},
        {"type": "string", "description": 3},
        "string",
    ],
)
def test_what_has_no_form(schema: Any) -> None:
    with pytest.raises(NotTypeScript):
        shape(schema)


def test_keys_are_sorted_first() -> None:
    one = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"default": {"y": 1, "x": 2}, "type": "object"}},
    }
    two = {
        "properties": {"b": {"type": "object", "default": {"x": 2, "y": 1}}, "a": {"type": "string"}},
        "type": "object",
    }
    assert declare_typescript([ToolSpec("f", "", one)]) == declare_typescript([ToolSpec("f", "", two)])
