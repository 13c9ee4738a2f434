"""A store on a read-only medium: everything can be read, whatever lies beside the file; every write is refused in plain words."""

from __future__ import annotations

import gc
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from midstream.core.blocks import Conversation, human
from midstream.core.errors import StoreError
from midstream.store import Entry, SqliteStore
from midstream.store.schema import migrations

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody can enter; those of pytest belong to one user alone."""
    made = Path(tempfile.mkdtemp(prefix="midstream-test-"))
    made.chmod(0o755)
    yield made
    made.chmod(0o755)
    shutil.rmtree(made)


@contextmanager
def read_only(*paths: Path) -> Iterator[None]:
    """These files and folders cannot be written to meanwhile, by root neither."""
    with ExitStack() as stack:
        for path in paths:
            stack.callback(path.chmod, path.stat().st_mode & 0o777)
            path.chmod(0o555 if path.is_dir() else 0o444)
        if os.geteuid() == 0:
            os.seteuid(NOBODY)
            stack.callback(os.seteuid, 0)
        yield


def written(path: Path) -> str:
    with closing(SqliteStore(path)) as store:
        return store.add(Entry(Conversation((human("Of rivers and 河"), human("and lakes"))), {"model": "a/b"}))


def check_readable(path: Path, name: str) -> None:
    with closing(SqliteStore(path)) as store:
        assert store.read_only
        assert [info.id for info in store.list()] == [name]
        assert [turn.text for turn in store.load(name).turns] == ["Of rivers and 河", "and lakes"]
        assert store.entry(name).meta == {"model": "a/b"} and store.get_meta(name, "model") == "a/b"
        assert [hit.position for hit in store.search("rivers 河")] == [0]
        for write in (
            lambda: store.append(name, human("x"), 2),
            store.create,
            lambda: store.fork(name),
            lambda: store.delete(name),
            lambda: store.set_meta(name, "title", "x"),
        ):
            with pytest.raises(StoreError, match="is read-only, so nothing can be stored in it; copy it"):
                write()


@pytest.mark.parametrize("what", ["file", "folder", "both"])
def test_a_file_without_its_companions_is_read(folder: Path, what: str) -> None:
    path = folder / "conversations.db"
    name = written(path)
    assert [each.name for each in folder.iterdir()] == ["conversations.db"]
    path.chmod(0o666)
    paths = {"file": [path], "folder": [folder], "both": [path, folder]}[what]
    with read_only(*paths):
        check_readable(path, name)
    assert [each.name for each in folder.iterdir()] == ["conversations.db"]


@pytest.mark.parametrize("companions", [("-wal", "-shm"), ("-wal",)])
def test_a_file_with_a_log_is_read_with_what_is_in_the_log(folder: Path, companions: tuple[str, ...]) -> None:
    """As after a crash, or copied while it was in use."""
    source = folder / "source.db"
    medium = folder / "medium"
    medium.mkdir()
    with closing(SqliteStore(source)) as store:
        name = store.add(Entry(Conversation((human("Of rivers and 河"), human("and lakes"))), {"model": "a/b"}))
        for suffix in ("", *companions):
            shutil.copyfile(f"{source}{suffix}", medium / f"conversations.db{suffix}")
    before = {each.name: each.read_bytes() for each in medium.iterdir()}
    for each in medium.iterdir():
        each.chmod(0o644)
    with read_only(*medium.iterdir(), medium):
        check_readable(medium / "conversations.db", name)
    assert {each.name: each.read_bytes() for each in medium.iterdir()} == before


def test_an_older_schema_is_read_in_a_migrated_copy_that_is_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "conversations.db"
    name = written(path)
    newer = [*migrations(), (3, "CREATE TABLE later (number INTEGER);")]
    monkeypatch.setattr("midstream.store.schema.migrations", lambda *_: newer)
    monkeypatch.setattr("midstream.store.database.migrations", lambda *_: newer)
    scratch = folder / "scratch"
    scratch.mkdir()
    scratch.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    before = path.read_bytes()
    path.chmod(0o644)
    with read_only(path):
        check_readable(path, name)
        gc.collect()
    assert list(scratch.iterdir()) == []
    assert path.read_bytes() == before


def test_what_is_no_store_or_cannot_be_read_says_so(folder: Path) -> None:
    other = folder / "other.db"
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE recipes (name TEXT)")
        db.commit()
    text = folder / "text.db"
    text.write_text("not a database, and longer than the header of one " * 9)
    with read_only(other, text):
        with pytest.raises(StoreError, match="database of another program"):
            SqliteStore(other)
        with pytest.raises(StoreError, match="not an SQLite database"):
            SqliteStore(text)
    text.chmod(0)
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
    try:
        with pytest.raises(StoreError, match=r"cannot read '.*text\.db': Permission denied"):
            SqliteStore(text)
    finally:
        if os.getuid() == 0:
            os.seteuid(0)


def test_a_file_that_can_be_written_to_is_not_read_only(folder: Path) -> None:
    with closing(SqliteStore(folder / "conversations.db")) as store:
        assert not store.read_only
