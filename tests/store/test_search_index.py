"""The index of an SQLite file in two parts: what it finds, in files of the schema before it too, and what it costs."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.core.blocks import Conversation, human
from midstream.store import Entry, MemoryStore, SqliteStore
from midstream.store.database import open_database
from midstream.store.schema import migrations
from midstream.store.search import folded_text
from midstream.store.sqlite import _SEARCHED_AT_ONCE

from .plain_store import PlainStore

texts = st.text("abc 今天气好がカｶﾅゟ，_\n", max_size=12)
queries = st.text("abc 今天気气好がカｶゟ_", min_size=1, max_size=5)


def write_before(path: Path, said: Sequence[str]) -> None:
    """A file of the first schema, with all words of a turn in one index."""
    with closing(open_database(path, patience=1, synchronous="NORMAL", steps=migrations()[:1])) as db:
        db.execute(
            "INSERT INTO conversations (seq, id, head, title, models, length, created, updated)"
            " VALUES (1, 'before', '{}', '', '[]', ?, 0, 0)",
            (len(said),),
        )
        with closing(SqliteStore(":memory:")) as encoder:
            made = encoder.add(Entry(Conversation(tuple([human(text, key="k") for text in said]))))
            turns = encoder._writer.execute("SELECT turn FROM turns ORDER BY position").fetchall()
            assert encoder.load(made).turns
        for position, (text, (turn,)) in enumerate(zip(said, turns, strict=True)):
            db.execute("INSERT INTO turns VALUES (?, 1, ?, ?)", (position + 1, position, turn))
            db.execute("INSERT INTO search (rowid, words) VALUES (?, ?)", (position + 1, folded_text(text)))


@given(st.lists(texts, min_size=1, max_size=4), st.lists(texts, max_size=4), queries, st.integers(1, 9))
@settings(deadline=None)
def test_old_and_new_turns_are_found_as_if_there_were_no_index(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], after: list[str], query: str, limit: int
) -> None:
    path = tmp_path_factory.mktemp("store") / "old.db"
    write_before(path, before)
    plain = PlainStore(lambda: 0.0)
    plain.add(Entry(Conversation(tuple([human(text, key="k") for text in before]), id="before")))
    with closing(SqliteStore(path, now=lambda: 0.0)) as store:
        for store_ in (plain, store):
            for number, text in enumerate(after):
                store_.append("before", human(text, key="k"), len(before) + number)
        wanted = [(hit.position, hit.snippet, hit.marks) for hit in plain.search(query, limit)]
        assert [(hit.position, hit.snippet, hit.marks) for hit in store.search(query, limit)] == wanted


def test_a_file_of_the_first_schema_can_be_emptied(tmp_path: Path) -> None:
    write_before(tmp_path / "old.db", ["今天 ok", "天気"])
    with closing(SqliteStore(tmp_path / "old.db")) as store:
        store.append("before", human("今日 ok"), 2)
        store.delete("before")
        for index in ("search", "characters"):
            assert store._writer.execute(f"SELECT count(*) FROM {index}").fetchone() == (0,)
            store._writer.execute(f"INSERT INTO {index} ({index}) VALUES ('integrity-check')")


def test_a_phrase_is_found_behind_many_turns_that_only_have_its_characters() -> None:
    with closing(MemoryStore()) as store:
        said = ["天气", *["气天"] * (3 * _SEARCHED_AT_ONCE), "好天气"]
        made = store.create(Conversation(tuple([human(text) for text in said])))
        assert [hit.position for hit in store.search("天气")] == [len(said) - 1, 0]
        assert [hit.position for hit in store.search("天气", 1)] == [len(said) - 1]
        assert len(store.search("气", 10**6)) == len(said)
        assert {hit.conversation for hit in store.search("天")} == {made}


LETTERS = "abcdefghijklmnopqrstuvwxyz"
CHARACTERS = [chr(0x4E00 + number) for number in range(3000)]


def _prose(script: str, length: int, seed: int) -> list[str]:
    """A hundred turns of so many characters; common words and characters are as common as in real text (about 1/rank)."""
    chance = random.Random(seed)
    common = list(accumulate([1 / (rank + 10) for rank in range(len(CHARACTERS))]))
    vocabulary = [
        "".join(
            chance.choices(LETTERS, k=chance.randint(2, 10))
            if script == "latin"
            else chance.choices(CHARACTERS, cum_weights=common, k=chance.randint(1, 3))
        )
        for _ in range(20_000)
    ]
    weights = list(accumulate([1 / rank for rank in range(1, len(vocabulary) + 1)]))
    between = " " if script == "latin" else ""
    return [between.join(chance.choices(vocabulary, cum_weights=weights, k=length))[:length] for _ in range(100)]


def _index_bytes(db: sqlite3.Connection) -> int:
    return sum(
        int(db.execute(f"SELECT sum(length(block)) FROM {index}_data").fetchone()[0])
        for index in ("search", "characters")
    )


@pytest.mark.parametrize("length", [60, 500, 4000])
def test_a_chinese_character_takes_no_more_of_the_index_than_a_letter(length: int) -> None:
    taken = {}
    for script in ("latin", "chinese"):
        with closing(MemoryStore()) as store:
            empty = _index_bytes(store._writer)
            store.create(Conversation(tuple([human(text) for text in _prose(script, length, 7)])))
            taken[script] = _index_bytes(store._writer) - empty
    assert taken["chinese"] <= taken["latin"]
