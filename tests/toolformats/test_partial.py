"""Unfinished and broken JSON: what a display shows of it, and that nothing runs that had to be guessed."""

from __future__ import annotations

import base64
import json
import re
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.core.blocks import ToolCall
from midstream.core.tools import parse_arguments
from midstream.toolformats.json_text import parse
from midstream.toolformats.partial import partial_arguments, partial_value
from tests.shared_data import ROOT, own_vectors, shared, vectors

Vector = dict[str, Any]
VECTORS = "reliability/partial_json.json"

UNGUESSED = re.compile(r"(?:^|[\[,:\s])(?:-?\d+\.|-?\d+(?:\.\d*)?[eE][+-]?|n|nu|nul|t|tr|tru|f|fa|fal|fals)$")
"""vercel/ai completes a number or a literal that is cut short; we leave it out: it may yet become another."""

RUNS_AS_IT_IS = {
    "own-empty-args", "own-space-args", "own-null-args", "own-proto-key", "own-neg-zero", "own-ctrl-chars-ansi",
}  # fmt: skip
"""Of the arguments seen in provider streams that other projects repair, those that need no repair. The others (fences,
quotes, commas, escapes, text around, text in text) go to the model as `_parse_error`: it said them, it can say
them right, and a guess might run something else."""


@cache
def cases() -> dict[str, Vector]:
    """Ours, and the shared ones where they are."""
    path = ROOT / "vectors" / VECTORS
    found = msgspec.json.decode(path.read_bytes())["vectors"] if path.exists() else []
    return {**own_vectors(VECTORS, "name"), **{vector["name"]: vector for vector in found}}


def of_kind(kind: str, key: str) -> list[Vector]:
    return [vector for vector in cases().values() if vector["kind"] == kind and key in vector]


def text_of(vector: Vector) -> str:
    """The text; bytes that are no UTF-8 as the border hands them on."""
    if "s" in vector:
        return str(vector["s"])
    if "b64" in vector:
        return base64.b64decode(vector["b64"]).decode("utf-8", "replace")
    unit, size = vector["repeat"]["unit"], vector["repeat"]["bytes"]
    return str(unit * (size // len(unit) + 1))[:size]


def run(text: str) -> dict[str, Any]:
    return parse_arguments(ToolCall("c", "f", text))


def test_every_case_is_of_a_kind_that_is_tested() -> None:
    tested = [("prefix", "expected_keep"), ("prefix", "expected_none"), ("prefix", "property"), ("suite", "accept"),
              ("repair", "expected_keep"), ("repair", "json_repair_gives"), ("hostile", "must")]  # fmt: skip
    assert sum(len(of_kind(kind, key)) for kind, key in tested) == len(cases())


def test_the_shared_cases_are_all_there() -> None:
    shared(f"vectors/{VECTORS}")
    assert len(cases().keys() - own_vectors(VECTORS, "name").keys() | RUNS_AS_IT_IS) == 666


def as_recorded_or_unguessed(text: str, recorded: Any) -> bool:
    """Whether we show what is recorded, but for what is not guessed: there, and only there, we differ."""
    unguessed = bool(UNGUESSED.search(text)) and recorded is not None
    return bool(partial_value(text) == recorded) != unguessed


def test_prefixes_show_what_came() -> None:
    wrong = []
    for vector in of_kind("prefix", "expected_keep"):
        text = text_of(vector)
        if vector["name"] == "jiter-utf8-cut":  # cut bytes never come here: the wires decode whole characters
            text = text.rstrip("\ufffd")
        if not as_recorded_or_unguessed(text, vector["expected_keep"]):
            wrong.append((vector["name"], text, partial_value(text)))
    assert not wrong
    assert all(partial_value(text_of(vector)) is None for vector in of_kind("prefix", "expected_none"))


def test_the_recorded_repairs_of_cut_texts() -> None:
    found = vectors("streaming/vercel-partial-json.json")
    assert len(found) == 60
    for vector in found.values():
        text, fixed = vector["input"], vector["expected"]
        wanted = json.loads(fixed) if fixed else None
        assert as_recorded_or_unguessed(text, wanted), text


@pytest.mark.parametrize("written", [True, False])
def test_every_prefix_of_an_object_grows_towards_it(written: bool) -> None:
    found = of_kind("prefix", "property")
    prefixes = [text_of(vector) for vector in found if vector["name"].startswith("written-") is written]
    if not written:
        shared(f"vectors/{VECTORS}")
    full = partial_arguments(max(prefixes, key=len))
    for prefix in prefixes:
        shown = partial_arguments(prefix)
        assert list(shown) == list(full)[: len(shown)]
        for key, value in shown.items():
            assert not isinstance(value, str) or (full[key].startswith(value) and value.encode())


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.text(max_size=4), st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=6), st.lists, max_leaves=4)),
    st.booleans(),
    st.data(),
)  # fmt: skip
def test_a_cut_object_shows_its_first_keys(value: dict[str, Any], ascii_only: bool, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    shown = partial_arguments(text[: data.draw(st.integers(0, len(text)))])
    assert list(shown) == list(value)[: len(shown)]
    assert {key: shown[key] for key in list(shown)[:-1]} == {key: value[key] for key in list(shown)[:-1]}
    assert partial_arguments(text) == value


@pytest.mark.parametrize("text", ["[1", '"a', "3", "null", "", " ", "{“a”: 1}", "\ud800", '{"a": NaN}', "[" * 100_000])
def test_what_shows_no_arguments_shows_none(text: str) -> None:
    assert partial_arguments(text) == {}


def test_the_strict_parser_is_strict() -> None:
    for vector in of_kind("suite", "accept"):
        text = text_of(vector)
        partial_value(text)
        if "b64" in vector:
            continue  # no UTF-8: it does not reach the parser as it is
        try:
            parse(text)
        except ValueError:
            assert vector["accept"] is not True, vector["name"]
        else:
            assert vector["accept"] is not False, vector["name"]


def test_nothing_runs_that_had_to_be_repaired() -> None:
    for vector in [*of_kind("repair", "json_repair_gives"), *of_kind("hostile", "must"), *of_kind("suite", "accept")]:
        text = text_of(vector)
        partial_value(text)
        outcome = run(text)
        assert "_parse_error" in outcome or text.strip() in ("", "null") or outcome == json.loads(text), vector["name"]


def test_of_the_arguments_others_repair_only_lawful_ones_run() -> None:
    found = of_kind("repair", "expected_keep")
    assert {vector["name"] for vector in found if run(text_of(vector)) == vector["expected_keep"]} == (
        RUNS_AS_IT_IS & set(cases())
    )
    assert all("_parse_error" in run(text_of(vector)) for vector in found if vector["name"] not in RUNS_AS_IT_IS)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"a', {}),
        ('{"a"', {}),
        ('{"a":', {}),
        ('{"a": "x', {"a": "x"}),
        ('{"a": "x\\', {"a": "x"}),
        ('{"a": "x\\u00', {"a": "x"}),
        ('{"a": "x\\ud83d', {"a": "x"}),
        ('{"a": tru', {}),
        ('{"a": 1, "b": nul', {"a": 1}),
        ('{"a": -', {}),
        ('{"a": [1, 2', {"a": [1, 2]}),
        ('{"a": {"b": [', {"a": {"b": []}}),
        ('{"a": 1}', {"a": 1}),
    ],
)
def test_what_is_shown_of_a_cut_object(text: str, shown: dict[str, Any]) -> None:
    assert partial_arguments(text) == shown


@pytest.mark.parametrize(
    "text",
    ["{'a': 1}", '{"a": 1,}', '{"a": 1', '{a: 1}', '```json\n{"a": 1}\n```', 'ok {"a": 1}', '{"a": 1} ok', "[1]", '"{}"',
     '{"a": NaN}', '{"a": 01}', '{"a": "\n"}x', '{"a": "x\\q"}', "[" * 100_000],
)  # fmt: skip
def test_nothing_that_had_to_be_guessed_runs(text: str) -> None:
    assert "_parse_error" in run(text)


@pytest.mark.parametrize(
    ("text", "arguments"), [("", {}), ("  ", {}), (" null", {}), (' {"a": -0}\n', {"a": 0}), ('{"a": "é"}', {"a": "é"})]
)
def test_what_is_lawful_runs(text: str, arguments: dict[str, Any]) -> None:
    assert run(text) == arguments
