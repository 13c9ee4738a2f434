"""What an adapter says when the library that it is for is missing, or too old for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needed(package: str, version: str) -> Iterator[None]:
    """For the imports of a library: where one fails, the error says what to install."""
    try:
        yield
    except ImportError as error:
        told = f"this adapter needs {package} {version} or newer: pip install -U {package} ({error})"
        raise type(error)(told, name=error.name, path=error.path) from error
