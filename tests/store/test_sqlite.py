"""What is particular to the SQLite store: durability, many processes, damage, and the file itself."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import pytest

from midstream.core.blocks import Conversation, Text, Turn, human
from midstream.core.errors import StoreError
from midstream.store import CorruptRecord, LengthConflict, MemoryStore, NewerSchema, SqliteStore
from midstream.store.schema import migrations

from .crashing_writer import KILLS, turn_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "conversations.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(path)) as made:
        yield made


def raw(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(path, isolation_level=None))


def integrity(path: Path) -> str:
    with raw(path) as db:
        db.execute("INSERT INTO search (search) VALUES ('integrity-check')")
        return str(db.execute("PRAGMA integrity_check").fetchone()[0])


class TestDurability:
    def test_kill_9_loses_nothing_acknowledged_and_leaves_nothing_half(self, path: Path) -> None:
        with closing(SqliteStore(path)) as store:
            made = store.create()
        chance = random.Random(3)
        acknowledged = waited = 0
        with _writers(path, made) as kill_one:
            for _ in range(KILLS):
                appends = chance.randint(0, 4)
                acknowledged = max(acknowledged, kill_one(appends, chance.uniform(0, 0.02)))
                waited += appends
                with raw(path) as db:
                    stored = db.execute("SELECT length FROM conversations").fetchone()[0]
                    assert stored == db.execute("SELECT count(*) FROM turns").fetchone()[0]
                    assert stored == db.execute("SELECT count(*) FROM search").fetchone()[0]
                    assert db.execute("PRAGMA quick_check").fetchone()[0] == "ok"
                # The one append that was cut off may be stored whole: its acknowledgement was on the way.
                assert acknowledged <= stored <= acknowledged + 1
                acknowledged = stored
        print(f"{KILLS} kills; {acknowledged} acknowledged turns, all there")
        assert acknowledged >= waited > KILLS
        assert integrity(path) == "ok"
        with closing(SqliteStore(path)) as store:
            assert store.load(made).turns == tuple([turn_of(number) for number in range(acknowledged)])
            assert store.append(made, human("alive"), acknowledged) == acknowledged + 1

    def test_every_commit_is_synced(self, store: SqliteStore) -> None:
        # FULL (2) in WAL mode syncs the log at each commit; NORMAL would only promise consistency, not durability.
        assert store._writer.execute("PRAGMA synchronous").fetchone() == (2,)
        assert store._writer.execute("PRAGMA journal_mode").fetchone() == ("wal",)

    def test_a_full_disk_refuses_and_loses_nothing(self, path: Path, store: SqliteStore) -> None:
        made = store.create()
        pages = store._writer.execute("PRAGMA page_count").fetchone()[0]
        store._writer.execute(f"PRAGMA max_page_count = {pages + 20}")
        length = 0
        with pytest.raises(StoreError, match="disk is full; free some space"):
            while True:
                length = store.append(made, turn_of(length), length)
        assert length > 0
        assert store.load(made).turns == tuple([turn_of(number) for number in range(length)])
        assert store.info(made).turns == length
        store._writer.execute("PRAGMA max_page_count = 1000000")
        assert store.append(made, turn_of(length), length) == length + 1
        assert integrity(path) == "ok"

    def test_an_interrupted_transaction_is_undone(self, path: Path, store: SqliteStore) -> None:
        made = store.create()
        with pytest.raises(KeyboardInterrupt), store._writing() as db:
            db.execute("UPDATE conversations SET length = 7")
            raise KeyboardInterrupt
        assert store.info(made).turns == 0
        assert store.append(made, human("x"), 0) == 1


@contextmanager
def _writers(path: Path, conversation: str) -> Iterator[Callable[[int, float], int]]:
    """Gives a function that lets a writer append, kills it a delay later, and says the last length it was acknowledged."""
    command = [sys.executable, "-m", "tests.store.crashing_writer", str(path), conversation]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root, text=True) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def kill_one(appends: int, delay: float) -> int:
            print(appends, delay, file=stdin, flush=True)
            return int(stdout.readline())

        yield kill_one
        stdin.close()


class TestManyAtOnce:
    def test_processes_take_turns(self, path: Path, store: SqliteStore) -> None:
        made = store.create()
        script = (
            "import sys\n"
            "from midstream.store import SqliteStore, LengthConflict\n"
            "from midstream.core.blocks import human\n"
            "store = SqliteStore(sys.argv[1]); done = 0\n"
            "while done < 20:\n"
            "    try: store.append(sys.argv[2], human(sys.argv[3]), store.info(sys.argv[2]).turns)\n"
            "    except LengthConflict: continue\n"
            "    done += 1\n"
        )
        writers = [subprocess.Popen([sys.executable, "-c", script, str(path), made, name]) for name in "abc"]
        assert [writer.wait() for writer in writers] == [0, 0, 0]
        assert sorted(turn.text for turn in store.load(made).turns) == sorted("abc" * 20)

    def test_first_openings_may_meet(self, tmp_path: Path) -> None:
        for number in range(5):
            path = tmp_path / f"{number}.db"
            gate = threading.Barrier(6)

            def open_it(path: Path = path, gate: threading.Barrier = gate) -> int:
                gate.wait()
                with closing(SqliteStore(path)) as store:
                    store.create()
                    return len(store.list())

            with ThreadPoolExecutor(6) as pool:
                assert max(future.result() for future in [pool.submit(open_it) for _ in range(6)]) == 6

    def test_an_opening_that_meets_another_waits_its_turn(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A change to WAL is told BUSY at once while another connection holds the write lock: no luck is needed to see it."""
        naps: list[float] = []
        with raw(path) as other:
            other.execute("BEGIN IMMEDIATE")

            def nap(seconds: float) -> None:
                naps.append(seconds)
                if len(naps) == 3:
                    other.execute("ROLLBACK")

            monkeypatch.setattr("time.sleep", nap)
            with closing(SqliteStore(path)) as store:
                store.create()
            assert len(naps) == 3

    def test_an_opening_does_not_wait_for_ever(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        naps: list[float] = []

        def nap(seconds: float) -> None:
            naps.append(seconds)
            assert len(naps) < 1000, "it waits on, though its patience was 0"

        with raw(path) as other:
            other.execute("BEGIN IMMEDIATE")
            monkeypatch.setattr("time.sleep", nap)
            with pytest.raises(StoreError, match="another process has been writing"):
                SqliteStore(path, patience=0)

    def test_an_opening_that_fails_otherwise_is_not_tried_again(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path.mkdir()

        def nap(seconds: float) -> None:
            raise AssertionError("waited for what no waiting helps")

        monkeypatch.setattr("time.sleep", nap)
        with pytest.raises(StoreError):
            SqliteStore(path)

    def test_readers_do_not_wait_for_a_writer(self, store: SqliteStore) -> None:
        made = store.create(Conversation((human("needle"),)))
        with store._writing() as db:
            db.execute("UPDATE conversations SET length = 99")
            with ThreadPoolExecutor(1) as pool:
                assert pool.submit(lambda: store.info(made).turns).result(5) == 1
                assert len(pool.submit(lambda: store.search("needle")).result(5)) == 1

    def test_a_writer_that_waits_too_long_says_who_is_in_the_way(self, path: Path, store: SqliteStore) -> None:
        made = store.create()
        with closing(SqliteStore(path, patience=0.05)) as hasty:
            busy = pytest.raises(StoreError, match="another process has been writing")
            with store._writing(), busy:
                hasty.append(made, human("x"), 0)
        assert store.append(made, human("x"), 0) == 1

    def test_two_stores_on_one_file_see_each_other(self, path: Path, store: SqliteStore) -> None:
        with closing(SqliteStore(path)) as other:
            made = store.create()
            assert other.append(made, human("x"), 0) == 1
            with pytest.raises(LengthConflict):
                store.append(made, human("y"), 0)
            assert store.load(made) == other.load(made)

    def test_reading_connections_do_not_pile_up(self, store: SqliteStore) -> None:
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda _: store.list(), range(200)))
        assert 1 <= len(store._idle) <= 4


class TestDamage:
    def test_one_bad_turn_is_named_and_the_rest_still_loads(self, path: Path, store: SqliteStore) -> None:
        bad = store.create(Conversation((human("needle 0"), human("needle 1"), human("needle 2"))))
        good = store.create(Conversation((human("needle"),)))
        with raw(path) as db:
            db.execute("UPDATE turns SET turn = '{\"speaker\": 7' WHERE conversation = 1 AND position = 1")
        with pytest.raises(CorruptRecord, match=rf"turn 1 of conversation '{bad}' .* fork the conversation at 1"):
            store.load(bad)
        assert store.load(good).turns[0].text == "needle"
        assert len(store.list()) == 2
        assert [(hit.conversation, hit.position) for hit in store.search("needle")] == [(good, 0), (bad, 2), (bad, 0)]
        assert store.load(store.fork(bad, 1)).turns == (human("needle 0"),)
        store.delete(bad)

    @pytest.mark.parametrize("column", ["head", "models"])
    def test_a_bad_head_hides_nothing_else(self, path: Path, store: SqliteStore, column: str) -> None:
        bad, good = store.create(Conversation(system="a")), store.create()
        with raw(path) as db:
            db.execute(f"UPDATE conversations SET {column} = x'ff00' WHERE id = ?", (bad,))
        assert {info.id for info in store.list()} == {bad, good}
        assert store.load(good).id == good
        if column == "head":
            with pytest.raises(CorruptRecord, match=f"'{bad}'"):
                store.load(bad)

    def test_a_lost_turn_is_named(self, path: Path, store: SqliteStore) -> None:
        made = store.create(Conversation((human("0"), human("1"), human("2"))))
        with raw(path) as db:
            db.execute("DELETE FROM turns WHERE position = 1")
        with pytest.raises(CorruptRecord, match=r"turn 1 .* is missing"):
            store.load(made)

    def test_a_damaged_file_is_told_from_a_missing_one(self, path: Path) -> None:
        with closing(SqliteStore(path)) as store:
            for _ in range(20):
                store.create(Conversation((human("x" * 5000),)))
        data = bytearray(path.read_bytes())
        data[4096 * 2 :] = os.urandom(len(data) - 4096 * 2)
        path.write_bytes(data)
        with pytest.raises(StoreError, match="damaged; move it away"), closing(SqliteStore(path)) as store:
            for info in store.list(100):
                store.load(info.id)

    def test_not_a_database(self, path: Path) -> None:
        path.write_bytes(b"these are notes, not a database\n" * 100)
        with pytest.raises(StoreError, match="not a database"):
            SqliteStore(path)
        assert path.read_bytes().startswith(b"these are notes")


class TestSchema:
    def test_migrations_are_numbered_without_gaps(self) -> None:
        assert [number for number, _ in migrations()] == list(range(1, len(migrations()) + 1))

    def test_a_newer_file_is_left_alone(self, path: Path) -> None:
        SqliteStore(path).close()
        with raw(path) as db:
            db.execute("PRAGMA user_version = 9999")
        before = path.read_bytes()
        with pytest.raises(NewerSchema, match=r"newer midstream .schema 9999.*upgrade"):
            SqliteStore(path)
        assert path.read_bytes() == before

    def test_another_programs_database_is_left_alone(self, path: Path) -> None:
        with raw(path) as db:
            db.execute("CREATE TABLE recipes (name)")
        with pytest.raises(StoreError, match="a database of another program"):
            SqliteStore(path)
        with raw(path) as db:
            assert db.execute("SELECT name FROM sqlite_schema").fetchall() == [("recipes",)]

    def test_a_failed_migration_leaves_no_half_schema(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        broken = [(1, migrations()[0][1] + "\nCREATE TABLE turns (again);\n")]
        monkeypatch.setattr("midstream.store.schema.migrations", lambda: broken)
        with pytest.raises(StoreError, match="already exists"):
            SqliteStore(path)
        monkeypatch.undo()
        with closing(SqliteStore(path)) as store:
            store.create()

    def test_an_old_file_is_brought_forward(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with closing(SqliteStore(path)) as store:
            made = store.create(Conversation((human("kept"),)))
        newest = migrations()[-1][0]
        later = [*migrations(), (newest + 1, "ALTER TABLE conversations ADD COLUMN colour TEXT;\n")]
        monkeypatch.setattr("midstream.store.schema.migrations", lambda: later)
        with closing(SqliteStore(path)) as store:
            assert store.load(made).turns == (human("kept"),)
            assert store._writer.execute("SELECT colour FROM conversations").fetchall() == [(None,)]
            assert store._writer.execute("PRAGMA user_version").fetchone() == (newest + 1,)

    def test_turns_of_an_older_midstream_load(self, path: Path, store: SqliteStore) -> None:
        """New fields have defaults and fields we no longer know are passed over."""
        made = store.create(Conversation((human("x"),)))
        with raw(path) as db:
            old = '{"speaker":"human","blocks":[{"type":"text","text":"old","gone":1}],"unheard_of":{}}'
            db.execute("UPDATE turns SET turn = ?", (old.encode(),))
        assert store.load(made).turns == (Turn("human", (Text("old"),)),)


class TestFile:
    def test_is_private(self, tmp_path: Path) -> None:
        path = tmp_path / "a" / "b" / "c.db"
        with closing(SqliteStore(path)) as store:
            store.create()
            for file in path.parent.iterdir():
                assert file.stat().st_mode & 0o777 == 0o600, file.name
        assert [folder.stat().st_mode & 0o777 for folder in (path.parent, path.parent.parent)] == [0o700, 0o700]

    def test_the_default_is_the_data_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MIDSTREAM_HOME", str(tmp_path / "home"))
        with closing(SqliteStore()) as store:
            assert store.path == tmp_path / "home" / "conversations.db"
            assert store.path.exists()

    def test_odd_names_are_only_names(self, tmp_path: Path) -> None:
        for name in ("a b?mode=memory#x.db", "file:x.db", "%41.db", ":memory:"):
            with closing(SqliteStore(tmp_path / name)) as store:
                store.create()
            assert (tmp_path / name).stat().st_size > 0

    def test_a_place_that_cannot_be_used_is_explained(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("in the way")
        for path in (tmp_path / "file" / "x.db", tmp_path, "/proc/nowhere/x.db", "nul\x00.db"):
            with pytest.raises(StoreError, match="MIDSTREAM_HOME"):
                SqliteStore(path)

    def test_deleted_text_is_gone_from_the_file(self, path: Path) -> None:
        with closing(SqliteStore(path)) as store:
            made = store.create(Conversation((human("xyzzyplugh " * 500),)))
            store.create(Conversation((human("stays"),)))
            store.delete(made)
        assert path.read_bytes().count(b"xyzzyplugh xyzzyplugh") == 0


@pytest.mark.parametrize("elsewhere", [False, True], ids=["in memory", "by another on the same file"])
def test_the_version_differs_after_every_change_and_only_then(path: Path, elsewhere: bool) -> None:
    with (
        closing(SqliteStore(path) if elsewhere else MemoryStore()) as store,
        closing(SqliteStore(path)) if elsewhere else nullcontext(store) as writer,
    ):
        made = writer.create()
        for change in (
            writer.create,
            lambda: writer.append(made, human("hello"), 0),
            lambda: writer.set_meta(made, "title", "A title"),
            lambda: writer.fork(made),
            lambda: writer.delete(made),
        ):
            before = store.version()
            assert store.list() and store.version() == before
            change()
            assert store.version() != before


def test_its_own_changes_are_counted_too(store: SqliteStore) -> None:
    before = store.version()
    made = store.create()
    between = store.version()
    store.append(made, human("hello"), 0)
    assert before != between != store.version()
