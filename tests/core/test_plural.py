"""When a noun has an s."""

from __future__ import annotations

import pytest

from midstream.core.plural import pluralize


@pytest.mark.parametrize(
    ("number", "nouns", "words"),
    [
        (0, ("turn",), "0 turns"),
        (1, ("turn",), "1 turn"),
        (2, ("turn",), "2 turns"),
        (1234, ("more line",), "1,234 more lines"),
        (2, ("entry", "entries"), "2 entries"),
    ],
)
def test_a_number_of_things(number: int, nouns: tuple[str, ...], words: str) -> None:
    assert pluralize(number, *nouns) == words
