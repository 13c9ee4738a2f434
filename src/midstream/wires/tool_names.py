"""Tools under names the wire takes, and back again."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

from ..core.dialect import Limits

_DIGEST = 8


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


class ToolNames:
    """Names of one request: `wire(name)` on the way out, `changed` for the way back."""

    __slots__ = ("_back", "_forth", "_limit", "_pattern")

    def __init__(self, limits: Limits) -> None:
        self._pattern = _compiled(limits.tool_name_pattern)
        self._limit = limits.tool_name_max
        self._forth: dict[str, str] = {}
        self._back: dict[str, str] = {}

    def wire(self, name: str) -> str:
        known = self._forth.get(name)
        if known is None:
            known = self._forth[name] = name if self._pattern.fullmatch(name) else self._rewrite(name)
            if known != name:
                self._back[known] = name
        return known

    @property
    def changed(self) -> dict[str, str] | None:
        """Wire name -> own name, for the names that had to change."""
        return dict(self._back) or None

    def clone(self) -> ToolNames:
        twin = ToolNames.__new__(ToolNames)
        twin._pattern, twin._limit = self._pattern, self._limit
        twin._forth, twin._back = self._forth.copy(), self._back.copy()
        return twin

    def _rewrite(self, name: str) -> str:
        plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
        if not plain[:1].isalpha():
            plain = "t_" + plain
        digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
        return f"{plain[: self._limit - _DIGEST - 1]}_{digest}"
