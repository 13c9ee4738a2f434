"""What `make test` leaves to the long run says nothing that it does not say itself: every value of every axis is in a quick case."""

from __future__ import annotations

from typing import Any

import pytest

from .long_run import cases, each_kind, each_once
from .representatives import PLAYERS, dialect_cases, representatives


def quick(params: list[Any]) -> list[Any]:
    return [each.values if len(each.values) > 1 else each.values[0] for each in map(as_param, params) if not each.marks]


def as_param(case: Any) -> Any:
    return case if hasattr(case, "marks") else pytest.param(case)


@pytest.mark.parametrize(
    "axes", [("abcdef", "xy"), ("abc", "xyz"), ("ab", "xy", "abcde"), ("abcdefg", "wxyz", "ab")], ids=str
)
def test_each_value_of_each_axis_is_in_a_quick_case(axes: tuple[str, ...]) -> None:
    made = each_once(*[(f"axis{number}", axis) for number, axis in enumerate(axes)]).args[1]
    found = quick(made)
    assert len(found) == max([len(axis) for axis in axes])
    for place, axis in enumerate(axes):
        assert {cell[place] for cell in found} == set(axis)
    whole = {each.values for each in made}
    assert len(whole) == len(made) and all(
        len({cell[place] for cell in whole}) == len(axis) for place, axis in enumerate(axes)
    )


def test_two_axes_of_one_length_do_not_run_side_by_side() -> None:
    found = quick(each_once(("one", "abc"), ("other", "abc")).args[1])
    assert all(one != other for one, other in found)
    pairs = {cell[:2] for cell in quick(each_once(("one", "ab"), ("other", "xy"), ("third", range(4))).args[1])}
    assert len(pairs) == 4


def test_an_axis_of_rows_gives_an_argument_for_each_of_their_values() -> None:
    mark = each_once(("name, value", [("a", 1), ("b", 2)]), ("size", [7]))
    assert mark.args[0] == ["name", "value", "size"]
    assert sorted(quick(mark.args[1])) == [("a", 1, 7), ("b", 2, 7)]


def test_the_first_of_each_kind_is_quick() -> None:
    assert quick(each_kind("word", ["one", "two", "three", "four"], len).args[1]) == ["one", "three", "four"]
    rows = each_kind("a, b", [(1, 2), (2, 1), (2, 2)], lambda a, b: a + b)
    assert quick(rows.args[1]) == [(1, 2), (2, 2)] and rows.args[0] == "a, b"


def test_a_quick_case_that_is_none_of_the_cases_is_refused() -> None:
    with pytest.raises(AssertionError, match="no such case"):
        cases(["a"], {"b"})


@pytest.mark.parametrize("fields", [(), ("wire",), ("reasoning.echo", "mid_system"), ("limits.max_tools",)], ids=str)
def test_every_value_of_a_field_is_in_a_representative(fields: tuple[str, ...]) -> None:
    chosen = representatives(*fields)
    assert quick(dialect_cases(*fields)) == [name for name in PLAYERS if name in chosen]
    for field in fields or PLAYERS["openai"].target.dialect.__struct_fields__:
        if field in ("name", "provider", "native"):
            continue
        assert {value(name, field) for name in chosen} == {value(name, field) for name in PLAYERS}
    assert 7 <= len(chosen) < len(PLAYERS) / 4


def value(name: str, field: str) -> tuple[str, str]:
    found: Any = PLAYERS[name].target.dialect
    for part in field.split("."):
        found = getattr(found, part)
    return PLAYERS[name].target.dialect.wire, repr(found) if field not in ("reasoning", "limits") else ""


def test_a_field_that_no_dialect_has_is_refused() -> None:
    with pytest.raises(LookupError, match=r"reasoning\.echos"):
        representatives("reasoning.echos")
