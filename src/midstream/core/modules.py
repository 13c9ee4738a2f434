"""Modules that are imported when they are first used.

Importing midstream pays for every module that its modules import, and some of them (asyncio, OpenSSL) cost more than all of
ours together while nothing needs them before the first request.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Late:
    """A placeholder for a module: its first use replaces it with the module."""

    __slots__ = ("_name", "_namespace", "_path")

    def __init__(self, path: str, namespace: dict[str, Any], name: str) -> None:
        self._path = path
        self._namespace = namespace
        self._name = name

    def __getattr__(self, name: str) -> Any:
        module = import_module(self._path, self._namespace["__package__"])
        # From here on the namespace has the real module: later uses cost nothing, and whoever replaces
        # something in that module is not bypassed.
        self._namespace[self._name] = module
        return getattr(module, name)


def late_module(path: str, namespace: dict[str, Any], name: str = "") -> Any:
    """Like `import path` in the module with these `globals()`, on first use; the name is the last part of the path unless given.

    A type checker and import-linter do not see it, so it stands in the `else` of an `if TYPE_CHECKING` with the same imports.
    """
    return _Late(path, namespace, name or path.rpartition(".")[2])
