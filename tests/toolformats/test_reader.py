from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.toolformats.reader import Markers

WORDS = ("<think>", "<thinking>", "</think>", "{", "[x]")


@pytest.mark.parametrize("words", [("a", "ab"), ("ab", "a"), ("a", "a")])
def test_a_marker_that_begins_another_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="begin"):
        Markers(*words)


@settings(max_examples=300)
@given(
    text=st.lists(st.sampled_from((*WORDS, "<", "t", "hink", "/", ">", "[", "x", "]", "ing")), max_size=10).map("".join)
)
def test_search_and_held_mean_what_they_say(text: str) -> None:
    markers = Markers(*WORDS)
    match = markers.search(text, 0)
    places = [(at, word) for at in range(len(text)) for word in WORDS if text.startswith(word, at)]
    assert (match and (match.start(), match[0])) == (min(places) if places else None)
    held = max(
        [k for k in range(len(text) + 1) if any(w.startswith(text[len(text) - k :]) and k < len(w) for w in WORDS)]
    )
    assert markers.held(text, 0) == held


def test_no_markers() -> None:
    assert Markers().search("abc", 0) is None
    assert Markers().held("abc", 0) == 0
