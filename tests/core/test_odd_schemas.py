"""No host refuses a request because of one odd tool: every rule that we know of a host, over schemas as they really come."""

from __future__ import annotations

import random
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from midstream import Conversation, ToolSpec, encode_request, human
from midstream.core.lawful_schemas import lawful
from midstream.core.schemas import PASSES
from midstream.sim.rules import judge
from tests.core.odd_schemas import FRAGMENTS, PLACES, Schema, each_in_its_place, mixed
from tests.core.test_schemas import moonshot, prop, ungemini, untyped
from tests.golden import distinct_players
from tests.long_run import examples

ASKED = Conversation((human("Hi"),))
ODD = list(each_in_its_place())
ORACLE = Draft202012Validator(Draft202012Validator.META_SCHEMA)


def schemas() -> list[tuple[str, Schema]]:
    dice = random.Random("mixed")
    return ODD + [(f"mixed {number}", mixed(dice)) for number in range(examples(1000))]


def invalid(schema: Schema) -> list[str]:
    """What JSON Schema itself says about a schema."""
    return [error.message for error in ORACLE.iter_errors(schema)]


def without_items(schema: Any) -> list[Any]:
    if isinstance(schema, list):
        return [each for part in schema for each in without_items(part)]
    if not isinstance(schema, dict):
        return []
    named = schema.get("type")
    bad = [schema] if "array" in (named if isinstance(named, list) else [named]) and "items" not in schema else []
    places = [value for keyword, value in schema.items() if keyword not in ("enum", "const", "default", "examples")]
    return bad + [each for value in places for each in without_items(value)]


RULES = {
    "openai": lambda schema: [*invalid(schema), *without_items(schema)],
    "anthropic": invalid,
    "moonshot": lambda schema: [*invalid(schema), *untyped(schema)],
    "gemini": ungemini,
}


@pytest.mark.parametrize("name", RULES)
def test_every_pass_keeps_the_rules_of_its_host(name: str) -> None:
    change = PASSES[name]
    for what, schema in schemas():
        out = change(schema)
        assert RULES[name](out) == [], (what, schema, out)
        assert change(out) == out, what


# One of each kind of double, wire and pass: what else a dialect says does not meet the schemas.
PLAYERS = {
    (player.host.name, player.target.dialect.wire, player.target.dialect.schema): player
    for player in distinct_players().values()
}


def test_no_double_refuses_an_odd_tool() -> None:
    as_property = PLACES["a property"]
    odd = [ToolSpec(f"odd_{number}", "d", as_property(each)) for number, each in enumerate(FRAGMENTS.values())]
    dice = random.Random("tools")
    odd += [ToolSpec(f"mixed_{number}", "d", mixed(dice)) for number in range(40)]
    for (host, *_), player in PLAYERS.items():
        body = encode_request(player.target, ASKED, tools=odd, cache=None).body
        assert judge(body, player.host, "paranoid") == [], host


# Valid, and yet not as hosts take it: an enum without values, the draft of another year, references that lead nowhere.
CHANGED = ("an enum of nothing", "a document's head", "a reference to nothing", "a reference elsewhere")


def test_what_is_valid_stays_as_it_is() -> None:
    valid = [(what, schema) for what, schema in ODD if not what.startswith(CHANGED) and not invalid(schema)]
    assert len(valid) > len(ODD) // 2
    assert [what for what, schema in valid if lawful(schema) != schema] == []


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        pytest.param({"not": {}}, {"not": {"type": "string"}, "type": "string"}, id="never"),
        pytest.param(
            {"not": {}, "description": "d"}, {"not": {"type": "string"}, "description": "d", "type": "string"}, id="described"
        ),
        pytest.param({"not": {"type": "string"}}, {"not": {"type": "string"}, "type": "object"}, id="anything but a string"),
        pytest.param(
            {"if": {"properties": {"a": {"const": 1}}}},
            {"if": {"properties": {"a": {"const": 1, "type": "integer"}}, "type": "object"}, "type": "object"},
            id="a bare condition",
        ),
        pytest.param(
            {"allOf": [{"if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"if": {"required": ["c"]}}]},
            {
                "allOf": [
                    {
                        "if": {"required": ["a"], "type": "object"},
                        "then": {"required": ["b"], "type": "object"},
                        "type": "object",
                    },
                    {"type": "string"},
                ]
            },
            id="two conditions",
        ),
    ],
)  # fmt: skip
def test_moonshot_gives_a_type_to_what_says_none(schema: Schema, wanted: Schema) -> None:
    assert moonshot(prop(schema))["properties"]["x"] == wanted


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        pytest.param({"type": "any", "required": True}, {}, id="words no draft knows"),
        pytest.param({"type": "STRING"}, {"type": "string"}, id="types in capitals"),
        pytest.param({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}, id="draft 4, exclusive"),
        pytest.param({"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}, id="draft 4, inclusive"),
        pytest.param(
            {"items": [{"type": "string"}], "additionalItems": False},
            {"prefixItems": [{"type": "string"}], "items": False},
            id="a tuple",
        ),
        pytest.param({"properties": None, "required": ["a", 1, "a"]}, {"required": ["a"]}, id="lists with wrong parts"),
        pytest.param(
            {"$ref": "#/nowhere", "title": "T"}, {"type": "object", "title": "T"}, id="a reference to nothing"
        ),
    ],
)
def test_an_older_draft_is_said_in_the_new_one(schema: Schema, wanted: Schema) -> None:
    assert lawful(schema) == wanted and invalid(wanted) == []
