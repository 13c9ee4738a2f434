"""Whether a value follows a schema: as the cases say, and as an implementation that is not ours says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from midstream.core.schema_check import faults, without_nulls
from tests.long_run import each_kind, each_once

DATA = Path(__file__).parents[1] / "data" / "schemas"
CASES = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(DATA.glob("*.json"))}


def values() -> Iterator[Any]:
    for name, case in CASES.items():
        for kind in ("valid", "invalid"):
            for value in case[kind]:
                yield name, value, kind == "valid"


def _reason(name: str, value: Any, valid: bool) -> Any:
    """Of each schema one value that follows it, and one for each set of keywords that refuse one."""
    if valid:
        return name
    return repr(
        sorted([str(error.validator) for error in Draft202012Validator(CASES[name]["schema"]).iter_errors(value)])
    )


def test_there_are_cases_enough() -> None:
    assert len(CASES) >= 30


@each_kind("name, value, valid", values(), _reason)
def test_a_value_is_judged_as_the_case_and_the_oracle_say(name: str, value: Any, valid: bool) -> None:
    schema = CASES[name]["schema"]
    assert Draft202012Validator(schema).is_valid(value) is valid
    assert (faults(value, schema) == ()) is valid, faults(value, schema)


KEYWORDS: tuple[tuple[dict[str, Any], tuple[Any, ...]], ...] = (
    ({"contains": {"type": "integer"}}, ([], ["a"], [1], [1, "a", 2])),
    ({"contains": {"type": "integer"}, "maxContains": 2}, ([], [1], [1, 2], [1, "a", 2, 3])),
    ({"contains": {"type": "integer"}, "minContains": 2}, ([1], [1, 2], [1, 2, 3])),
    ({"contains": {"type": "integer"}, "minContains": 0}, ([], ["a"])),
    ({"minItems": 1, "maxItems": 2}, ([], [1], [1, 2], [1, 2, 3], "abc")),
    ({"minLength": 1, "maxLength": 2}, ("", "a", "ab", "abc", "🌊🌊", [])),
    ({"minProperties": 1, "maxProperties": 2}, ({}, {"a": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 1, "c": 1})),
    ({"minimum": 1, "maximum": 3}, (0, 1, 3, 4, 0.5, "0")),
    ({"exclusiveMinimum": 1, "exclusiveMaximum": 3}, (1, 2, 3, 1.5)),
    ({"multipleOf": 3}, (0, 2, 3, 4, 9, "x")),
    ({"multipleOf": 0.5}, (1.5, 1.25, 2)),
    ({"uniqueItems": True}, ([1, 1], [1, 2], [{"a": 1, "b": 2}, {"b": 2, "a": 1}], [1, True], [])),
    ({"uniqueItems": False}, ([1, 1],)),
    ({"prefixItems": [{"type": "integer"}], "items": {"type": "string"}}, ([], [1], ["a"], [1, "a"], [1, 2])),
    ({"prefixItems": [{"type": "integer"}], "items": False}, ([1], [1, 2])),
    ({"dependentRequired": {"a": ["b"]}}, ({}, {"a": 1}, {"a": 1, "b": 1}, {"b": 1})),
    ({"dependentSchemas": {"a": {"required": ["b"]}}}, ({}, {"a": 1}, {"a": 1, "b": 1})),
    ({"patternProperties": {"^x": {"type": "integer"}}}, ({"x1": 1}, {"x1": "a"}, {"y": "a"})),
    ({"patternProperties": {"^x": {}}, "additionalProperties": False}, ({"x1": 1}, {"y": 1})),
    ({"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}, ({"a": "x"}, {"b": "x"}, {"b": 1})),
    ({"propertyNames": {"maxLength": 2}}, ({"ab": 1}, {"abc": 1}, {})),
    ({"if": {"type": "integer"}, "then": {"minimum": 5}, "else": {"type": "string"}}, (4, 5, "a", None)),
    ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, (1, 2, 2.5, 1.5)),
    ({"anyOf": [{"type": "string"}, {"minimum": 2}]}, ("a", 1, 2)),
    ({"allOf": [{"type": "integer"}, {"minimum": 2}]}, (1, 2, 2.5)),
    ({"not": {"type": "integer"}}, (1, "a")),
    ({"const": {"a": [1]}}, ({"a": [1]}, {"a": [2]}, {"a": [True]}, None)),
    ({"enum": [1, "a", None]}, (1, "a", None, 2, True, False)),
    ({"type": "integer"}, (1, 1.0, 1.5, True)),
    ({"type": ["number", "null"]}, (1, 1.5, None, True, "1")),
    ({"required": ["a", "b"]}, ({"a": 1}, {"a": 1, "b": 1}, [])),
)  # fmt: skip


@pytest.mark.parametrize(("schema", "tried"), [pytest.param(*row, id=json.dumps(row[0])) for row in KEYWORDS])
def test_every_keyword_at_its_bounds_as_the_oracle_judges_it(schema: dict[str, Any], tried: tuple[Any, ...]) -> None:
    oracle = Draft202012Validator(schema)
    judged = {json.dumps(value): faults(value, schema) == () for value in tried}
    assert judged == {json.dumps(value): oracle.is_valid(value) for value in tried}


WRONG = (
    ("$.people[1].age", {"people": [{"age": 1}, {"age": "x"}]}, {"properties": {"people": {"items": {"properties": {"age": {"type": "integer"}}}}}}),
    ('$["a b"]', {"a b": 1}, {"properties": {"a b": {"type": "string"}}}),
    ("$", {}, {"required": ["name"]}),
    ("$.extra", {"extra": 1}, {"additionalProperties": False}),
    ("$.shape.width", {"shape": {"kind": "box", "width": "x"}}, {"properties": {"shape": {"anyOf": [
        {"properties": {"kind": {"const": "circle"}}, "required": ["kind"]},
        {"properties": {"kind": {"const": "box"}, "width": {"type": "number"}}, "required": ["kind"]},
    ]}}}),
)  # fmt: skip


@pytest.mark.parametrize(("place", "value", "schema"), WRONG)
def test_a_fault_says_where(place: str, value: Any, schema: Any) -> None:
    assert [fault.split(": ")[0] for fault in faults(value, schema)] == [place]


def test_a_schema_that_goes_round_ends() -> None:
    assert "too deep" in faults(1, {"$ref": "#"})[0]
    twice: dict[str, Any] = {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}},
    }
    assert "too" in faults(1, twice)[0]
    assert faults("x" * 10, {"pattern": "(?<n>x)[", "type": "string"}) == ()  # not Python's, so nobody's


_AGAIN = {"$ref": "#"}


@pytest.mark.parametrize(
    ("schema", "lists"),
    [
        ({"properties": {"a": _AGAIN}}, False),
        ({"patternProperties": {"^a": _AGAIN}}, False),
        ({"additionalProperties": _AGAIN}, False),
        ({"items": _AGAIN}, True),
        ({"prefixItems": [_AGAIN]}, True),
        ({"contains": _AGAIN}, True),
        ({"items": {"allOf": [_AGAIN]}}, True),
        ({"items": {"anyOf": [_AGAIN]}}, True),
        ({"items": {"oneOf": [_AGAIN]}}, True),
        ({"items": {"not": _AGAIN}}, True),
        ({"items": {"if": _AGAIN}}, True),
        ({"items": {"if": {}, "then": _AGAIN}}, True),
        ({"items": {"if": False, "else": _AGAIN}}, True),
        ({"dependentSchemas": {"a": {"properties": {"a": _AGAIN}}}}, False),
    ],
)
def test_a_value_may_be_so_deep_and_no_deeper(schema: dict[str, Any], lists: bool) -> None:
    shallow: Any = 1
    for _ in range(8):
        shallow = [shallow] if lists else {"a": shallow}
    assert not any("too deep" in fault for fault in faults(shallow, schema))
    deep: Any = 1
    for _ in range(300):
        deep = [deep] if lists else {"a": deep}
    assert any("too deep" in fault for fault in faults(deep, schema))


def test_alternatives_of_alternatives_end_soon_enough() -> None:
    node: dict[str, Any] = {"anyOf": [{"$ref": "#/$defs/a"}, {"items": {"$ref": "#/$defs/a"}, "minItems": 9}]}
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [node, node, node]}}}
    value: Any = "x"
    for _ in range(40):
        value = [value]
    assert "too" in faults(value, schema)[0]
    assert without_nulls(value, schema) == value


def test_what_need_not_be_there_may_be_said_to_be_null() -> None:
    schema = {
        "properties": {"a": {"type": "string"}, "b": {"type": ["string", "null"]}, "c": {"type": "string"}},
        "required": ["c"],
    }
    assert without_nulls({"a": None, "b": None, "c": None, "d": None}, schema) == {"b": None, "c": None, "d": None}
    inner = {"items": {"anyOf": [{"type": "string"}, schema]}}
    assert without_nulls(["x", {"a": None, "c": "y"}], inner) == ["x", {"c": "y"}]


@each_once(("deep", [100, 127, 128, 129, 5000]), ("way", ["properties", "additionalProperties", "items"]))
def test_nulls_are_taken_out_as_deep_as_a_value_is_checked(deep: int, way: str) -> None:
    inside = {"properties": {"gone": {"type": "string"}, "a": {"$ref": "#"}}}
    schema = {
        "properties": inside,
        "additionalProperties": {"additionalProperties": {"$ref": "#"}, "properties": {"gone": {"type": "string"}}},
        "items": {"properties": {"gone": {"type": "string"}}, "items": {"$ref": "#"}},
    }[way]
    value: Any = {"gone": None}
    for _ in range(deep):
        value = [value] if way == "items" else {"a": value}
    found = without_nulls(value, schema if way != "properties" else inside)
    for _ in range(deep):
        found = found[0] if way == "items" else found["a"]
    assert found in ({}, {"gone": None})
    if deep > 128:
        assert found == {"gone": None}, "too deep: left as it was"


@each_once(
    ("deep, left", [(126, {"x": "y"}), (127, {"x": "y"}), (128, {"gone": None, "x": "y"})]),
    ("way", ["properties", "additionalProperties", "items"]),
)
def test_every_level_of_a_value_counts_once(deep: int, left: dict[str, Any], way: str) -> None:
    schema: dict[str, Any] = {"properties": {"gone": {"type": "string"}}}
    value: Any = {"gone": None, "x": "y"}
    for _ in range(deep):
        schema = {way: {"a": schema} if way == "properties" else schema}
        value = [value] if way == "items" else {"a": value}
    found = without_nulls(value, schema)
    for _ in range(deep):
        found = found[0] if way == "items" else found["a"]
    assert found == left


@each_once(
    ("deep, left", [(126, {"x": "y"}), (127, {"x": "y"}), (128, {"gone": None, "x": "y"})]),
    ("way", ["allOf", "anyOf", "oneOf"]),
)
def test_every_schema_in_a_schema_counts_once(deep: int, left: dict[str, Any], way: str) -> None:
    schema: dict[str, Any] = {"properties": {"gone": {"type": "string"}}}
    for _ in range(deep):
        schema = {way: [schema]}
    assert without_nulls({"gone": None, "x": "y"}, schema) == left


@pytest.mark.parametrize(("deep", "left"), [(127, {"x": "y"}), (128, {"gone": None, "x": "y"})])
def test_every_reference_counts_once(deep: int, left: dict[str, Any]) -> None:
    named: dict[str, Any] = {f"a{number}": {"$ref": f"#/$defs/a{number + 1}"} for number in range(1, deep)}
    named[f"a{deep}"] = {"properties": {"gone": {"type": "string"}}}
    assert without_nulls({"gone": None, "x": "y"}, {"$ref": "#/$defs/a1", "$defs": named}) == left


@pytest.mark.parametrize(
    ("reference", "left"), [("#/$defs/a", {"x": "y"}), ("#/$defs/nowhere", {"gone": None, "x": "y"})]
)
def test_nulls_are_taken_out_behind_a_reference(reference: str, left: dict[str, Any]) -> None:
    schema = {"$ref": reference, "$defs": {"a": {"properties": {"gone": {"type": "string"}}}}}
    assert without_nulls({"gone": None, "x": "y"}, schema) == left


_KINDS = st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"])
_NAMES = st.sampled_from(["a", "b", "c"])
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, -2.5])
    | st.sampled_from(["", "a", "ab"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)
_LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": _KINDS | st.lists(_KINDS, min_size=1, max_size=2, unique=True),
        "enum": st.lists(_VALUES, min_size=1, max_size=3),
        "const": _VALUES,
        "minimum": st.integers(-2, 2),
        "exclusiveMaximum": st.integers(-2, 2),
        "multipleOf": st.sampled_from([2, 0.5]),
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "pattern": st.sampled_from(["^a", "b$", "[ab]"]),
        "minItems": st.integers(0, 2),
        "uniqueItems": st.booleans(),
        "required": st.lists(_NAMES, max_size=2, unique=True),
        "maxProperties": st.integers(0, 2),
        "dependentRequired": st.dictionaries(_NAMES, st.lists(_NAMES, max_size=2, unique=True), max_size=1),
    },
)
_SCHEMAS = st.recursive(
    st.booleans() | _LEAVES,
    lambda inner: st.builds(
        lambda leaf, more: {**leaf, **more},
        _LEAVES,
        st.fixed_dictionaries(
            {},
            optional={
                "properties": st.dictionaries(_NAMES, inner, max_size=2),
                "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=1),
                "additionalProperties": inner,
                "propertyNames": inner,
                "items": inner,
                "prefixItems": st.lists(inner, min_size=1, max_size=2),
                "contains": inner,
                "anyOf": st.lists(inner, min_size=1, max_size=3),
                "oneOf": st.lists(inner, min_size=1, max_size=3),
                "allOf": st.lists(inner, min_size=1, max_size=2),
                "not": inner,
                "if": inner,
                "then": inner,
                "else": inner,
            },
        ),
    ),
    max_leaves=6,
)


@given(schema=_SCHEMAS, value=_VALUES)
def test_any_value_and_any_schema_as_the_oracle_judges_them(schema: Any, value: Any) -> None:
    assert (faults(value, schema) == ()) is Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    ("value", "schema", "fits"),
    [
        (10**400, {"multipleOf": 0.1}, True),
        (10**400 + 1, {"multipleOf": 2.5}, False),
        (1e308, {"multipleOf": 1e-10}, True),
        (10**400, {"maximum": 5}, False),
        (-(10**400), {"minimum": 5}, False),
        (10**400, {"exclusiveMinimum": 5}, True),
    ],
    ids=str,
)
def test_a_number_beyond_floats_is_judged_too(value: float, schema: dict[str, Any], fits: bool) -> None:
    assert (faults(value, schema) == ()) is fits


@pytest.mark.parametrize(
    ("value", "unique"),
    [
        ([[1], [2]], True),
        ([[1], [1.0]], False),
        ([[[1, "a"]], [[1, "b"]]], True),
        ([[[1, "a"]], [[1.0, "a"]]], False),
        ([{"a": [1]}, {"a": [2]}], True),
        ([{"a": [1], "b": 0}, {"b": 0.0, "a": [1]}], False),
        ([True, 1, "1", None], True),
    ],
)
def test_lists_in_a_list_are_told_apart_by_what_they_hold(value: Any, unique: bool) -> None:
    assert (not faults(value, {"uniqueItems": True})) is unique


def test_a_check_may_take_as_many_steps_as_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each value and schema that meet: the list, its items, and the null that is tried."""
    schema = {"items": {"properties": {"a": {"type": "string"}}}}
    for steps, expected in ((2, [{"a": None}]), (3, [{}]), (4, [{}])):
        monkeypatch.setattr("midstream.core.schema_check._STEPS", steps)
        assert without_nulls([{"a": None}], schema) == expected
    for steps, expected in ((3, [{"a": None}, 1]), (4, [{}, 1])):
        monkeypatch.setattr("midstream.core.schema_check._STEPS", steps)
        assert without_nulls([{"a": None}, 1], schema) == expected
    for steps, fine in ((2, False), (3, True), (4, True)):
        monkeypatch.setattr("midstream.core.schema_check._STEPS", steps)
        assert (not faults([{"a": "x"}], schema)) is fine
