"""Numbers of things, in words: the one place that knows when a noun has an s."""

from __future__ import annotations


def pluralize(number: int, noun: str, plural: str = "") -> str:
    """`1 turn`, `2 turns`, `1,234 turns`; `plural` where it is not the noun and an s."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
