"""Tool names a wire accepts, and the way back.

A name that fits stays. Another is rewritten character by character, shortened with a digest where needed, and kept apart
from every other name, the same way in each request, so that a tool keeps its name from turn to turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256

from ..core.dialect import Limits


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


class ToolNames:
    """Names of one request: `wire(name)` on the way out, `own(wire_name)` on the way back."""

    __slots__ = ("_back", "_forth", "_limit", "_pattern", "_taken")

    def __init__(self, limits: Limits, names: Iterable[str] = ()) -> None:
        self._pattern = _compiled(limits.tool_name_pattern)
        self._limit = limits.tool_name_max
        self._taken = {name for name in names if self._pattern.fullmatch(name)}
        self._forth: dict[str, str] = {}
        self._back: dict[str, str] = {}

    def wire(self, name: str) -> str:
        known = self._forth.get(name)
        if known is None:
            known = name
            if not self._pattern.fullmatch(name):
                known = self._rewrite(name)
                self._back[known] = name
            self._forth[name] = known
        return known

    @property
    def changed(self) -> dict[str, str] | None:
        """Wire name -> own name, for the names that had to change."""
        return self._back or None

    def _rewrite(self, name: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
        if not plain[:1].isalpha():
            plain = "t_" + plain
        candidate = plain
        salt = 0
        while not self._pattern.fullmatch(candidate) or candidate in self._taken or candidate in self._back:
            digest = sha256(f"{name}|{salt}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
            candidate = f"{plain[: self._limit - 9]}_{digest}"
            salt += 1
        return candidate
