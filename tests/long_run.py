"""What only the long run tries: `make test-long`, or MIDSTREAM_LONG=1 with pytest.

A case marked `long` repeats a rule at one more place of a product (one more terminal, one more host) that other cases have shown
in `make test`; it is deselected there. A property tries a quarter of its examples, always the same ones; so does a loop over
random cases that asks `examples` how many.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Set
from typing import Any, TypeVar

import pytest
from hypothesis import settings

LONG = bool(os.environ.get("MIDSTREAM_LONG") or os.environ.get("MIDSTREAM_EXAMPLES"))
V = TypeVar("V")
_SHARE, _FEWEST = 4, 10
_ON_THE_OTHER = 1
_OTHER = {"each_loop": "uvloop", "store": "memory", "new_state": "memory"}
SETTINGS = "_hypothesis_internal_use_settings"
"""Where hypothesis keeps the settings of a property."""


def cases(every: Iterable[str], quick: Set[str]) -> list[Any]:
    """Parameters of a test: all of them, those that are not quick marked as long."""
    found = list(every)
    assert quick <= set(found), f"no such case: {sorted(quick - set(found))}"
    return [case if case in quick else pytest.param(case, marks=pytest.mark.long) for case in found]


def examples(count: int) -> int:
    """How many random examples a loop tries that is not hypothesis's: all in the long run, otherwise the same share of them."""
    return count if LONG else min(count, max(_FEWEST, count // _SHARE))


def in_share(number: int) -> bool:
    """Whether the case of this number in a loop has its costly part tried: each in the long run, otherwise every fourth."""
    return LONG or number % _SHARE == 0


def covering(*axes: Iterable[Any]) -> list[Any]:
    """The product of some axes, every second cell marked as long: what is quick has each pair of two axes, if there are three."""
    numbered = itertools.product(*[list(enumerate(axis)) for axis in axes])
    cells = [([place for place, _ in cell], [value for _, value in cell]) for cell in numbered]
    return [pytest.param(*values, marks=pytest.mark.long if sum(places) % 2 else ()) for places, values in cells]


def each_once(*axes: tuple[str, Iterable[Any]], ids: Callable[[Any], str | None] | None = None) -> pytest.MarkDecorator:
    """Parametrizes a test by a product of axes that do not depend on each other, each as `pytest.mark.parametrize` takes it: quick are
    as many cells as the longest axis has values, and every value of each axis is in one of them; the others are marked as long."""
    names = [name.strip() for axis, _ in axes for name in axis.split(",")]
    rows = [[tuple(value) if "," in axis else (value,) for value in values] for axis, values in axes]
    # Each axis begins one further and moves on after each round, so that two of one length meet in other pairs.
    lengths = list(enumerate([len(axis) for axis in rows]))
    quick = {
        tuple([(number + place * (1 + number // length)) % length for place, length in lengths])
        for number in range(max([len(axis) for axis in rows]))
    }
    cells = []
    for places in itertools.product(*[range(len(axis)) for axis in rows]):
        values = [value for axis, at in zip(rows, places, strict=True) for value in axis[at]]
        cells.append(pytest.param(*values, marks=() if places in quick else pytest.mark.long))
    return pytest.mark.parametrize(names, cells, ids=ids)


def each_kind(
    axis: str, every: Iterable[Any], kind: Callable[..., Hashable], ids: Callable[[Any], str | None] | None = None
) -> pytest.MarkDecorator:
    """Parametrizes a test by rows, as `pytest.mark.parametrize` takes them: the first of each kind is quick, as far as the code can
    tell them apart; the others are marked as long."""
    met: set[Hashable] = set()
    found = []
    for case in every:
        values = tuple(case) if "," in axis else (case,)
        found.append(pytest.param(*values, marks=pytest.mark.long if kind(*values) in met else ()))
        met.add(kind(*values))
    return pytest.mark.parametrize(axis, found, ids=ids)


def _mark_the_second_time(items: list[pytest.Item]) -> None:
    """What runs a second time on another event loop or store has the first case of each test there."""
    met: Counter[object] = Counter()
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if any(params.get(name) == other for name, other in _OTHER.items()) and not item.get_closest_marker("long"):
            met[function := getattr(item, "function", None)] += 1
            if met[function] > _ON_THE_OTHER:
                item.add_marker(pytest.mark.long)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if LONG:
        return
    _mark_the_second_time(items)
    left_out = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("long")]
    for function in {getattr(item, "function", None) for item in items}:
        if (given := getattr(function, SETTINGS, None)) is not None:
            share = max(_FEWEST, given.max_examples // _SHARE)
            setattr(function, SETTINGS, settings(given, max_examples=min(given.max_examples, share)))
