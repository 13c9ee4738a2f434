"""What every store of conversations promises, asked of PostgreSQL; and what is particular to this one."""

from __future__ import annotations

import asyncio
import random
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from midstream import Session
from midstream.cli.main import main
from midstream.core.blocks import Conversation, human
from midstream.core.errors import StoreError
from midstream.store import (
    CorruptRecord,
    MemoryStore,
    Store,
    StoreUnavailable,
    import_file,
    open_store,
    to_jsonl,
)
from midstream.store.postgres import PostgresStore
from midstream.store.schema import migrations
from midstream.testing import sim_server
from tests.store import samples
from tests.store.test_conformance import *  # noqa: F403  (the suite; only the fixtures differ)
from tests.store.test_export import FULL


def test_search_has_no_limit_of_size(store: Store) -> None:
    """A tsvector has: of words, of their number, and of places."""
    chance = random.Random(1)
    many = " ".join([f"{chance.getrandbits(64):x}" for _ in range(50_000)])  # more than a tsvector can hold
    long = "x" * 3000
    far = "word " * 20_000 + "the needle"  # beyond the places that a tsvector remembers
    made = store.create(Conversation((human(many + " needle"), human(long + "y needle"), human(far))))
    with closing(MemoryStore()) as plain:
        plain.create(Conversation(store.load(made).turns, id=made))
        for query in (
            "needle",
            many[:200],
            "the needle",
            "needle the",
            long + "y",
            long + "z",
            long,
            "x" * 150,
            "word",
        ):
            assert store.search(query) == plain.search(query), query[:40]
        assert [hit.position for hit in store.search("needle")] == [2, 1, 0]


def test_conversations_move_between_stores(store: Store, tmp_path: Path) -> None:
    store.add(FULL)
    for text in samples.HOSTILE.values():
        store.create(Conversation((human(text),), text))
    ids = [info.id for info in store.list(100)]
    exported = b"".join(to_jsonl([store.entry(each) for each in ids]))
    (tmp_path / "all.jsonl").write_bytes(exported)
    with closing(MemoryStore()) as other:
        assert import_file(other, tmp_path / "all.jsonl") == ids
        assert b"".join(to_jsonl([other.entry(each) for each in ids])) == exported
    for each in ids:
        store.delete(each)
    assert import_file(store, tmp_path / "all.jsonl") == ids
    assert b"".join(to_jsonl([store.entry(each) for each in ids])) == exported


def test_one_bad_turn_is_named_and_hides_nothing_else(store: Store, database: str) -> None:
    bad = store.create(Conversation((human("needle 0"), human("needle 1"))))
    good = store.create(Conversation((human("needle"),)))
    with psycopg.connect(database) as db:
        db.execute("UPDATE midstream.turns SET turn = '{' WHERE position = 1")
    with pytest.raises(CorruptRecord, match="fork the conversation at 1"):
        store.load(bad)
    assert [(hit.conversation, hit.position) for hit in store.search("needle")] == [(good, 0), (bad, 0)]
    assert store.load(store.fork(bad, 1)).turns == (human("needle 0"),)


def test_an_older_schema_is_brought_forward(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(PostgresStore(database)) as store:
        made = store.create(Conversation((human("kept"),)))
    steps = migrations(name="migrations_postgres")
    later = [*steps, (steps[-1][0] + 1, "ALTER TABLE midstream.conversations ADD COLUMN colour TEXT;")]
    monkeypatch.setattr("midstream.store.postgres.migrations", lambda name: later)
    for _ in range(2):
        with closing(PostgresStore(database)) as store:
            assert store.load(made).turns == (human("kept"),)
    with psycopg.connect(database) as db:
        assert db.execute("SELECT colour FROM midstream.conversations").fetchall() == [(None,)]


def test_a_session_is_stored(database: str) -> None:
    async def talk(store: Store, conversation: Conversation | None = None) -> Conversation:
        async with sim.client() as client:
            session = Session("sim/kimi-k2.5", store=store, client=client, conversation=conversation)
            await session.send("Hello")
            return session.conversation

    with sim_server() as sim, closing(open_store(database)) as store:
        first = asyncio.run(talk(store))
        assert store.load(first.id) == first
        second = asyncio.run(talk(store, store.load(first.id)))
        assert store.load(first.id) == second and len(second.turns) == 4


def test_the_command_line_takes_its_address(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIDSTREAM_HOME", str(tmp_path / "home"))

    def run(*words: str) -> str:
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.output
        return result.stdout

    run("ask", "-m", "sim/kimi-k2.5", "--store", database, "Hello needle")
    run("ask", "-c", "--store", database, "Once more")
    assert "4 turns" in run("sessions", "--store", database)
    monkeypatch.setenv("MIDSTREAM_STORE", database)
    assert "needle" in run("sessions", "search", "needle")
    assert "Once more" in run("sessions", "export")
    assert not (tmp_path / "home" / "conversations.db").exists()


def test_a_server_that_can_only_be_read_is_read(database: str) -> None:
    """As a replica, or one with `default_transaction_read_only`: everything is found, and a write says why it is refused."""
    with closing(PostgresStore(database)) as store:
        assert not store.read_only
        made = store.add(FULL)
    with closing(PostgresStore(f"{database}&options=-cdefault_transaction_read_only%3Don")) as store:
        assert store.read_only
        assert store.entry(made).conversation.turns == FULL.conversation.turns
        assert [info.id for info in store.list()] == [made]
        assert store.info(made).id == made
        assert store.get_meta(made, "none") is None
        assert isinstance(store.search("a"), list)
        writes = {
            "create": store.create,
            "append": lambda: store.append(made, human("more"), len(FULL.conversation.turns)),
            "fork": lambda: store.fork(made),
            "set_meta": lambda: store.set_meta(made, "title", "x"),
            "delete": lambda: store.delete(made),
        }
        for name, write in writes.items():
            with pytest.raises(StoreError, match="is read-only, so nothing can be stored in it") as refused:
                write()
            assert not isinstance(refused.value, StoreUnavailable), name
    with closing(PostgresStore(database)) as store:
        assert [info.id for info in store.list()] == [made]


def test_a_read_only_server_without_our_newest_tables_says_so(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    replica = f"{database}&options=-cdefault_transaction_read_only%3Don"
    with pytest.raises(StoreError, match="is read-only and its tables are missing"):
        PostgresStore(replica)
    PostgresStore(database).close()
    ours = migrations(name="migrations_postgres")
    monkeypatch.setattr("midstream.store.postgres.migrations", lambda name: [*ours, (len(ours) + 1, "SELECT 1")])
    with pytest.raises(StoreError, match="is read-only and its tables are of an older midstream"):
        PostgresStore(replica)
