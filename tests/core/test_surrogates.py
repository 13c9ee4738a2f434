"""Half characters: pairs come together as the one that was meant, at any cut; a half alone is U+FFFD."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.core.surrogates import REPLACEMENT, clean, has_half, join, mended


def halved(text: str) -> str:
    """The text with every character beyond U+FFFF as two halves, as JSON escapes write it."""
    raw = text.encode("utf-16-be")
    return "".join([chr(int.from_bytes(raw[at : at + 2])) for at in range(0, len(raw), 2)])


@pytest.mark.parametrize(
    "text", ["\U00010000", "\U0010ffff", "\U000103ff", "\U00010400", "\U0001f30a", "a\U0001f30ab", ""]
)
def test_a_pair_is_the_character_that_was_meant(text: str) -> None:
    assert mended(halved(text)) == text
    assert has_half(halved(text)) is (halved(text) != text)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])), st.lists(st.integers(0, 20), max_size=4))
def test_any_cut_between_halves_joins_again(text: str, cuts: list[int]) -> None:
    whole = halved(text)
    places = [0, *sorted([min(cut, len(whole)) for cut in cuts]), len(whole)]
    said, half = "", ""
    for start, end in pairwise(places):
        piece, half = join(half, whole[start:end])
        assert not has_half(piece) or piece == ""
        said += piece
    assert (said, half) == (text, "")


CLEANED: tuple[tuple[Any, Any], ...] = (
    ("a\ud83c", "a" + REPLACEMENT),
    ("\udf0aa", REPLACEMENT + "a"),
    ("\udf0a\ud83c", REPLACEMENT * 2),
    (["\ud83c\udf0a", 1, None], ["\U0001f30a", 1, None]),
    ({"k\ud83c": "x"}, {"k" + REPLACEMENT: "x"}),
    ({"text": "a\ud83c"}, {"text": "a\ud83c"}),
    ({"text": "\udf0aa"}, {"text": "\udf0aa"}),
    ({"text": "\ud83c"}, {"text": "\ud83c"}),
    ({"text": "\udf0a\ud83c\ud83c\udf0a\udf0a\ud83c"}, {"text": "\udf0a" + REPLACEMENT + "\U0001f30a" + REPLACEMENT + "\ud83c"}),
    ({"text": ""}, {"text": ""}),
    ({"text": ["\ud83c"]}, {"text": [REPLACEMENT]}),
    ({"other": "a\ud83c"}, {"other": "a" + REPLACEMENT}),
)  # fmt: skip


@pytest.mark.parametrize(("value", "wanted"), CLEANED)
def test_only_named_fields_keep_a_half_at_their_edges(value: Any, wanted: Any) -> None:
    assert clean(value, ("text",)) == wanted
