"""What is sent and read is as `tests/data/golden.json` says; a change that is meant comes with `make golden` and its reason."""

from __future__ import annotations

from .golden import differences, events, is_own, requests, stored
from .long_run import LONG, in_share

HINT = "if it is meant, run make golden and say why in the commit"


def test_the_requests_are_as_they_were() -> None:
    was = stored()["requests"]
    names = [name for number, name in enumerate(was) if in_share(number)]
    wrong = differences("requests of", {name: was[name] for name in names}, requests(None if LONG else names))
    assert not wrong, HINT


def test_the_events_are_as_they_were() -> None:
    found = events((lambda case: True) if LONG else is_own)
    was = {name: value for name, value in stored()["recordings"].items() if name in found}
    assert len(was) >= 31
    assert not differences("events of", was, {name: found[name] for name in was}), HINT


def test_a_difference_is_named() -> None:
    was = {"a": {"plain": "1", "json": "2"}, "b": {"plain": "3", "json": "4"}, "c": {}}
    now = {"a": {"plain": "1", "json": "2"}, "b": {"plain": "3", "json": "5"}, "d": {}}
    assert differences("requests of", was, now) == ["requests of b: json", "requests of c: gone", "requests of d: new"]
    assert differences("events of", {"x": "1", "y": "2"}, {"x": "1", "y": "3"}) == ["events of y: differs"]
