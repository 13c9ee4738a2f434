"""Schemas of answers as hosts take them: they allow what the caller's allows, and hold to each host's rules."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator

from midstream.core.answer_schemas import PASSES, WRAPPED, adapt, is_object, object_root
from midstream.core.dialect import AnswerPass
from midstream.core.schema_check import faults, without_nulls

DATA = Path(__file__).parents[1] / "data" / "schemas"
CASES = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(DATA.glob("*.json"))}
# What a mode cannot say, and is asked for in another way.
UNSAYABLE = {
    "openai": {"anything", "free-object", "map", "tuple", "deep"},
    "closed": {"anything", "free-object", "map", "tuple", "tree", "self-reference"},
    "cohere": {
        "anything", "enum", "free-object", "map", "tuple", "tree", "self-reference", "union", "one-of", "top-level-union",
        "nullable-field", "empty-object",
    },
}  # fmt: skip


# Each schema at one of the hosts in turn, and wherever a host cannot say it.
ROWS = [
    pytest.param(
        name, host, marks=() if number % len(PASSES) == place or name in UNSAYABLE.get(host, ()) else pytest.mark.long
    )
    for number, name in enumerate(CASES)
    for place, host in enumerate(PASSES)
]


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema inside, the root among them."""
    if not isinstance(schema, dict):
        return
    yield schema
    for keyword, value in schema.items():
        if keyword in ("properties", "$defs", "definitions", "patternProperties"):
            for inner in value.values():
                yield from nodes(inner)
        elif keyword in ("items", "additionalProperties"):
            yield from nodes(value)
        elif keyword in ("anyOf", "prefixItems", "oneOf", "allOf"):
            for inner in value:
                yield from nodes(inner)


def sent(schema: dict[str, Any], value: Any, adapted: dict[str, Any]) -> Any:
    """The value as a host that has this schema would say it."""
    inside = list(adapted.get("properties", {})) == [WRAPPED] and not is_object(schema)
    return {WRAPPED: value} if inside else value


def test_every_pass_is_a_word_of_the_dialect() -> None:
    assert tuple(PASSES) == get_args(AnswerPass)


@pytest.mark.parametrize(("name", "host"), ROWS)
def test_what_the_caller_allows_the_host_allows(name: str, host: str) -> None:
    case = CASES[name]
    before = copy.deepcopy(case["schema"])
    adapted = adapt(host, case["schema"])
    assert case["schema"] == before
    assert (adapted is None) is (name in UNSAYABLE.get(host, ())), adapted
    if adapted is None:
        return
    Draft202012Validator.check_schema(adapted.schema)
    assert adapt(host, case["schema"]) == adapted
    for value in case["valid"]:
        said = sent(case["schema"], value, adapted.schema)
        if host == "openai":
            said = complete(said, adapted.schema, adapted.schema)
            assert without_nulls(said, object_root(case["schema"])) == sent(case["schema"], value, adapted.schema)
        assert Draft202012Validator(adapted.schema).is_valid(said), (said, adapted.schema)


def complete(value: Any, schema: dict[str, Any], root: dict[str, Any]) -> Any:
    """The value with null for every property that is not there, as a strict host says it."""
    if isinstance(value, dict) and isinstance(schema.get("properties"), dict):
        inner = {name: complete(item, schema["properties"].get(name, {}), root) for name, item in value.items()}
        return {**dict.fromkeys(schema["properties"]), **inner}
    return value


@pytest.mark.parametrize("name", CASES)
def test_the_rules_of_each_host(name: str) -> None:
    schema = CASES[name]["schema"]
    strict = adapt("openai", schema)
    for node in nodes(strict.schema) if strict is not None else ():
        assert not node.keys() & {
            "allOf",
            "oneOf",
            "not",
            "if",
            "patternProperties",
            "minLength",
            "uniqueItems",
            "default",
        }
        if "object" in str(node.get("type")):
            assert node["additionalProperties"] is False and set(node["required"]) == set(node["properties"])
        assert "$ref" not in node or list(node) == ["$ref"]
        assert node.keys() & {"type", "anyOf", "$ref"}
    closed = adapt("closed", schema)
    for node in nodes(closed.schema) if closed is not None else ():
        assert not node.keys() & {
            "$ref",
            "minimum",
            "maximum",
            "multipleOf",
            "minLength",
            "maxLength",
            "pattern",
            "maxItems",
        }
        assert node.get("additionalProperties", False) is False and node.get("minItems", 0) in (0, 1)
        assert "object" not in str(node.get("type")) or node["additionalProperties"] is False
    cohere = adapt("cohere", schema)
    if cohere is not None:
        assert cohere.schema["type"] == "object" and cohere.schema["required"]
        assert not any(
            node.keys() & {"anyOf", "oneOf", "allOf", "$ref", "minimum", "minItems"} for node in nodes(cohere.schema)
        )
    gemini = adapt("gemini", schema)
    assert gemini is not None
    for node in nodes(gemini.schema):
        assert "$ref" not in node or list(node) == ["$ref"]
        assert not node.keys() & {"const", "pattern", "minLength", "not", "if", "allOf", "exclusiveMinimum"}
    for host in ("object", "openai", "cohere"):
        found = adapt(host, schema)
        assert found is None or found.schema["type"] == "object"


def test_what_is_left_out_is_named() -> None:
    found = adapt("closed", CASES["limits"]["schema"])
    assert found is not None
    assert set(found.lost) >= {"minimum", "maximum", "minLength", "uniqueItems", "multipleOf"}
    assert adapt("openai", CASES["person"]["schema"]).lost == ()  # type: ignore[union-attr]
    grammar = adapt("grammar", CASES["patterns"]["schema"])
    assert grammar is not None and grammar.lost == ("pattern",)
    assert grammar.schema["properties"]["code"]["pattern"] and "pattern" not in grammar.schema["properties"]["part"]


def test_a_mode_has_its_limits() -> None:
    def fields(count: int, schema: dict[str, Any], required: int = 0) -> dict[str, Any]:
        names = [f"f{number}" for number in range(count)]
        return {"type": "object", "properties": dict.fromkeys(names, schema), "required": names[:required]}

    text, union = {"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    assert adapt("closed", fields(24, text)) is not None and adapt("closed", fields(25, text)) is None
    assert adapt("closed", fields(16, union, 16)) is not None and adapt("closed", fields(17, union, 17)) is None
    assert adapt("openai", fields(1000, text)) is not None and adapt("openai", fields(1001, text)) is None


def test_a_wrapped_answer_keeps_its_references() -> None:
    people = {
        "type": "array",
        "items": {"$ref": "#/$defs/p"},
        "$defs": {"p": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    }
    shell = object_root(people)
    assert faults({WRAPPED: [{"n": 1}]}, shell) == () and faults({WRAPPED: [{"n": "1"}]}, shell)
    loop = {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}}]}
    assert faults({WRAPPED: None}, object_root(loop)) == ()


@pytest.mark.parametrize(
    ("given", "strict"),
    [
        ({"type": "string"}, {"type": ["string", "null"]}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": "string", "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        (
            {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]},
        ),
    ],
)
def test_an_optional_property_of_a_strict_host_may_be_null(given: dict[str, Any], strict: dict[str, Any]) -> None:
    found = adapt("openai", {"type": "object", "properties": {"a": given}})
    assert found is not None
    assert (found.schema["properties"], found.schema["required"]) == ({"a": strict}, ["a"])


@pytest.mark.parametrize(("levels", "sayable"), [(9, True), (10, True), (11, False)])
@pytest.mark.parametrize(
    "innermost", [{}, {"a": {"type": "string"}}, {"a": {"enum": ["x"]}}], ids=["empty", "a text", "a word"]
)
def test_a_strict_host_takes_ten_levels_of_objects(levels: int, sayable: bool, innermost: dict[str, Any]) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": innermost, "additionalProperties": False}
    for _ in range(levels - 1):
        schema = {"type": "object", "properties": {"inner": schema}}
    assert (adapt("openai", schema) is not None) is sayable


@pytest.mark.parametrize(
    ("values", "kinds"),
    [
        (["a", "b"], "string"),
        ([1, 2], "integer"),
        (["a", 1], ["string", "integer"]),
        ([True, None], ["boolean", "null"]),
    ],
)
def test_values_without_a_type_are_sent_with_theirs(values: list[Any], kinds: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": values}}, "required": ["a"]}
    for host in ("openai", "closed"):
        adapted = adapt(host, schema)
        assert adapted is not None
        said = adapted.schema["properties"]["a"]["type"]
        assert (sorted(said) if isinstance(said, list) else said) == (
            sorted(kinds) if isinstance(kinds, list) else kinds
        )
