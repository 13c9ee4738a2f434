from __future__ import annotations

from hypothesis import given

from midstream.store.search import MAX_QUERY_WORDS, Query, folded, words

from . import samples


def test_words_are_folded() -> None:
    assert folded("The get_weather(Zürich) of 2024!") == ["the", "get", "weather", "zurich", "of", "2024"]
    assert folded("今天 OKです") == ["今", "天", "ok", "て", "す"]
    assert folded("ﬁne Ⅳ Straße") == ["fine", "iv", "strasse"]


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
        assert query.matches(folded(text))
