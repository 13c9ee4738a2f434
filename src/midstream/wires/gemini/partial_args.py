"""Arguments of a call that come value by value, each with the path of its place: `$.city`, `$.stops[0].name`.

A string may come in pieces while `willContinue` is set. Paths are a stranger's: they may only extend what is there, one
place at a time, and not deeper than MAX_DEPTH.
"""

from __future__ import annotations

import re
from typing import Any

from ...core.errors import MalformedStream
from ...core.patterns import late_pattern
from ..lenient_json import json_value
from .shapes import PartialArg

MAX_DEPTH = 64
# One step after the other, digits bounded: a path with a million indexes must not become a list of a million.
_PATH = late_pattern(r"\$((?:\.[^.\[\]]+|\[\d{1,6}\]|\['[^']*'\])+)\Z")
_STEP = late_pattern(r"\.([^.\[\]]+)|\[(\d{1,6})\]|\['([^']*)'\]")


class PartialArguments:
    """Gathers the values of one call; `text` is the JSON object they make."""

    __slots__ = ("_open", "_pieces", "_root")

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        self._open: str | None = None  # the path of a string that goes on
        self._pieces: list[str] = []

    def add(self, value: PartialArg) -> int:
        """Take in one value; the number of characters it brought."""
        path = value.jsonPath or ""
        # Another path begins: the string before it is complete, though nobody said so.
        if path != self._open:
            self._close()
        if value.stringValue is not None:
            self._open = path
            self._pieces.append(value.stringValue)
            if not value.willContinue:
                self._close()
            return len(value.stringValue) + len(path)
        self._close()
        _place(self._root, path, value.boolValue if value.boolValue is not None else value.numberValue)
        return len(path)

    def text(self) -> str:
        self._close()
        return json_value(self._root).decode()

    def _close(self) -> None:
        if self._open is not None:
            _place(self._root, self._open, "".join(self._pieces))
            self._open = None
            self._pieces = []


def _place(root: dict[str, Any], path: str, value: Any) -> None:
    match = _PATH.match(path)
    steps = [_step(found) for found in _STEP.finditer(match[1])] if match else []
    if not steps or len(steps) > MAX_DEPTH or not isinstance(steps[0], str):
        raise MalformedStream(f"expected the path of an argument, got {path[:80]!r}")
    place: Any = root
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        fresh = value if following is None else [] if isinstance(following, int) else {}
        if isinstance(step, str) and isinstance(place, dict):
            if following is None:
                place[step] = value
            place = place.setdefault(step, fresh)
        # `step <= len(place)`: a list grows by one place at a time, so an index cannot make it jump.
        elif isinstance(step, int) and isinstance(place, list) and step <= len(place):
            if step == len(place):
                place.append(fresh)
            elif following is None:
                place[step] = value
            place = place[step]
        else:
            raise MalformedStream(f"the argument {path[:80]!r} does not fit those before it")


def _step(found: re.Match[str]) -> str | int:
    return int(found[2]) if found[2] is not None else str(found[1] if found[1] is not None else found[3])
