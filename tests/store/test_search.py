from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.core.blocks import ToolCall, Turn, human
from midstream.store.records import title_of
from midstream.store.search import (
    GAP,
    MAX_QUERY_WORDS,
    Query,
    folded,
    folded_text,
    indexed,
    is_unspaced,
    searchable,
    words,
)

from . import samples


def test_words_are_folded() -> None:
    assert folded("The get_weather(Zürich) of 2024!") == ["the", "get", "weather", "zurich", "of", "2024"]
    assert folded("今天 OKです") == ["今", "天", "ok", "て", "す"]
    assert folded("ﬁne Ⅳ Straße") == ["fine", "iv", "strasse"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ('{"city": "Oslo", "days": 3}', '{"city": "Oslo", "days": 3}'),
        (
            r'{"stadt": "M\u00fcnchen", "text": "one\ntwo\t\"three\"", "n": [1, null, {"\u4eca": true}]}',
            'stadt\nMünchen\ntext\none\ntwo\t"three"\nn\n1\nnull\n今\ntrue',
        ),
        (r'{"cut": "M\u00fc', r'{"cut": "M\u00fc'),
        (r'{"half": "\ud800"}', r'{"half": "\ud800"}'),
        ("[" * 100_000 + "\\", "[" * 100_000 + "\\"),
    ],
    ids=["plain", "escaped", "cut", "half a character", "deep"],
)
def test_arguments_are_found_by_the_words_that_people_read(arguments: str, said: str) -> None:
    call = ToolCall("hist_tool_a", "look", arguments)
    assert searchable(Turn("ai", (call,))) == f"look\n{said}"


@given(samples.texts)
def test_words_stand_where_they_say(text: str) -> None:
    end = 0
    for word in words(text):
        assert end <= word.start < word.end <= len(text)
        assert word.folded
        assert " " not in word.folded
        end = word.end


@given(samples.texts, samples.texts)
def test_marks_lie_within_the_snippet(text: str, query: str) -> None:
    snippet, marks = Query(query).snippet(text)
    assert snippet in text
    assert all(0 <= start < end <= len(snippet) for start, end in marks)


@given(samples.texts)
def test_a_query_is_bounded_and_matches_itself(text: str) -> None:
    query = Query(text)
    assert sum(map(len, query.phrases)) <= MAX_QUERY_WORDS
    if query:
        assert query.matches(folded_text(text))


mixed = st.text(
    st.sampled_from("abAB 12_-é\u0301ßがヿゟ今天，.\n①豈") | st.characters(exclude_categories=["Cs"]), max_size=40
)


@given(mixed, st.integers(1, 60), st.text("abAB é今天がヿ", max_size=6))
@settings(deadline=None)
def test_folding_by_the_run_gives_what_folding_by_the_word_gives(text: str, times: int, asked: str) -> None:
    """`words` is the definition; long texts are folded in pieces, and by table."""
    long = text * times
    one_by_one = list(words(long))
    assert folded(long) == " ".join([word.folded for word in one_by_one]).split()
    query = Query(asked)
    if query and not any(" " in word.folded for word in one_by_one):
        held = [word.folded for word in one_by_one]
        places = [list(query._places(index, held)) for index in range(len(query.phrases))]
        assert query.matches(folded_text(long)) == all(places)
        snippet, _ = query.snippet(long)
        begin = max(0, one_by_one[places[0][0]].start - 40) if places[0] else 0
        assert snippet == long[begin : begin + 160]


kana = st.text(st.sampled_from("ab é今天がヿゟｶﾅ豈⼀，、.\u0301\u309b\n"), max_size=30)


@given(mixed | kana)
def test_an_index_of_two_parts_has_every_word_in_one_of_them(text: str) -> None:
    held = folded(text)
    spaced, characters = [part.split() for part in indexed(text)]
    assert [word for word in spaced if word != GAP] == [word for word in held if not is_unspaced(word)]
    assert sorted(characters) == sorted({word for word in held if is_unspaced(word)})
    side_by_side = set(pairwise(held))
    assert all(pair in side_by_side for pair in pairwise(spaced) if GAP not in pair)


def calls_made(work: Callable[[], object]) -> int:
    count = 0

    def counted(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


LATIN = "the river runs to the sea and back again " * 2000
TEXTS = {
    "latin": LATIN,
    "chinese": "今天天气很好，我们去河边散步吧。" * 5000,
    "japanese": "がっこうへいきました。カタカナも。" * 5000,
    "latin with an accent": LATIN + "é",
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_character_costs_no_step_of_its_own_in_any_script(name: str) -> None:
    """Indexed, found and shown in far fewer steps than it has words: a large turn does not take long, whatever it says."""
    text = TEXTS[name] + " needle"
    folded_text(text)
    assert calls_made(lambda: folded_text(text)) < 500
    indexed(text)
    assert calls_made(lambda: indexed(text)) < 500
    assert calls_made(lambda: Query("needle").snippet(text)) < 2000


def test_a_title_is_taken_from_the_beginning_of_a_large_turn() -> None:
    assert title_of([human(" \n\n  Of rivers \n" + "and lakes\n" * 9)]) == "Of rivers"
    assert title_of([human(" \n"), human("x" * 500)]) == "x" * 79 + "…"


# text, query, where its marks are; the snippet is 160 characters long and begins a quarter of that before the first match
MARKS = [
    ("sun and moon", "sun", [(0, 3)]),
    ("sun and moon", "moon", [(8, 12)]),
    ("moon sun moon", "moon", [(0, 4), (9, 13)]),
    ("x" * 300 + " sun", "sun", [(40, 43)]),
    ("x" * 300 + " sun " + "y" * 112 + " sun", "sun", [(40, 43), (157, 160)]),
    ("x" * 300 + " sun " + "y" * 113 + " sun", "sun", [(40, 43)]),
    ("sun " + "y" * 152 + " sun", "sun", [(0, 3), (157, 160)]),
    ("sun " + "y" * 153 + " sun", "sun", [(0, 3)]),
]


@pytest.mark.parametrize(("text", "query", "marks"), MARKS)
def test_every_match_within_the_snippet_is_marked(text: str, query: str, marks: list[tuple[int, int]]) -> None:
    snippet, found = Query(query).snippet(text)
    assert list(found) == marks
    assert {snippet[start:end] for start, end in found} == {query}
