"""Regular expressions that are compiled when they are first used.

A start pays for every pattern of every module that it loads, and most programs use few of them.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

# Only these: an attribute that is not here fails at once instead of being looked up on a pattern that some caller
# expects to be a real one. `flags` and `groups` are left out because nothing in the package reads them.
_METHODS = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub")


class _Late:
    """Looks like a pattern; its methods are those of the compiled one from the first use on."""

    __slots__ = ("_flags", "pattern", *_METHODS)

    def __init__(self, pattern: object, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    # Reached only while the slots are empty. The first use fills them with the compiled pattern's bound methods, so
    # every later call is as cheap as one on a real pattern.
    def __getattr__(self, name: str) -> Any:
        if name not in _METHODS:
            raise AttributeError(name)
        compiled: re.Pattern[Any] = re.compile(cast(Any, self.pattern), self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def late_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`, later. What is wrong with the pattern is told at its first use, so write it out in the source."""
    return cast("re.Pattern[AnyStr]", _Late(pattern, flags))
