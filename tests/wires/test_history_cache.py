"""Which checkpoint a conversation goes on from: the longest that it really continues."""

from __future__ import annotations

from midstream import Turn, human
from midstream.core.dialect import Options
from midstream.dialects.registry import resolve
from midstream.wires.encode_context import EncodeContext
from midstream.wires.history_cache import HistoryCache, _Checkpoint
from midstream.wires.openai_chat.encode import ChatWriter

DIALECT = resolve("openai/gpt-4o").dialect


def kept(cache: HistoryCache, key: str, turns: tuple[Turn, ...]) -> _Checkpoint:
    checkpoint = _Checkpoint(turns, ChatWriter(EncodeContext(DIALECT, Options(), "gpt-4o")), set())
    cache.put(key, checkpoint)
    return checkpoint


def said(*texts: str) -> tuple[Turn, ...]:
    return tuple([human(text) for text in texts])


def test_the_longest_that_is_continued_is_taken_once() -> None:
    cache, turns = HistoryCache(), said("a", "b", "c", "d")
    long, short = kept(cache, "k", turns[:3]), kept(cache, "k", turns[:1])
    kept(cache, "k", (*turns[:2], *said("another")))
    assert cache.take("k", turns) is long
    assert cache.take("k", turns) is short
    assert cache.take("k", turns) is None


def test_another_key_or_another_past_is_not_continued() -> None:
    cache, turns = HistoryCache(), said("a", "b", "c")
    kept(cache, "k", turns[:2])
    assert cache.take("other", turns) is None
    # The last turn is the same object, what stands before it is not the same.
    assert cache.take("k", (*said("x"), *turns[1:])) is None
    assert cache.take("k", turns[:1]) is None
    assert cache.take("k", turns) is not None


def test_what_was_compared_once_is_not_taken_for_another() -> None:
    cache, turns = HistoryCache(), said("a", "b")
    first = cache.sent_turns(turns)
    assert cache.sent_turns((*turns, human("c"))).turns[:2] == first.turns
    other = (human("x"), turns[1], human("c"))
    assert cache.sent_turns(other).turns == other
    assert cache.declared_tools(other) == []
