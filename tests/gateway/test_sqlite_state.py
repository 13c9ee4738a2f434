"""What is particular to the state in SQLite: what a kill leaves, several processes, writes that share a transaction, the file."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from midstream.core.errors import StoreError, StoreUnavailable
from midstream.gateway.state import KeyRecord, SealKey, SqliteState, UsageRow, VaultEntry, open_state, state_path
from midstream.store import NewerSchema, SqliteStore
from midstream.store.schema import migrations
from midstream.wires.answer import refusal_of
from tests.event_loops import run

KILLS = 25
ROOT = Path(__file__).parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gateway.db"


def raw(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(path, isolation_level=None))


def on(path: Path | None, work: Callable[[SqliteState], Coroutine[Any, Any, None]], **options: float) -> None:
    async def main() -> None:
        state = SqliteState(path, **options)
        await state.open()
        try:
            await work(state)
        finally:
            await state.close()

    run(main())


class TestDurability:
    def test_kill_9_loses_nothing_acknowledged(self, path: Path) -> None:
        on(path, lambda state: state.ping())
        chance = random.Random(5)
        acknowledged: list[int] = []
        command = [sys.executable, "-m", "tests.gateway.crashing_state", str(path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True) as killer:
            assert killer.stdin is not None and killer.stdout is not None
            for _ in range(KILLS):
                print(chance.randint(0, 6), chance.uniform(0, 0.02), file=killer.stdin, flush=True)
                acknowledged += [int(number) for number in killer.stdout.readline().split()]
                with raw(path) as db:
                    assert db.execute("PRAGMA quick_check").fetchone() == ("ok",)
            killer.stdin.close()
        assert len(acknowledged) > KILLS
        print(f"{KILLS} kills; {len(acknowledged)} acknowledged requests, all there")

        async def check(state: SqliteState) -> None:
            ids = [f"{number}-{part}" for number in acknowledged for part in range(3)]
            found = await state.get_vault("acme", ids, 0.0)
            assert found == {call: call.split("-")[0].encode() * 50 for call in ids}
            logged = {row.model for row in await state.usage(limit=10**6)}
            stored = {key.id for key in await state.keys()}
            for number in acknowledged:
                assert await state.get_response("acme", str(number), 0.0) == b"%d" % number * 500
                assert await state.spend(f"k{number}", "w") == number
                assert str(number) in logged and str(number) in stored
            assert await state.spend("k", "w") >= len(acknowledged)

        on(path, check)
        with raw(path) as db:
            assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)

    def test_keys_are_synced_to_the_disk_and_the_rest_is_not(self, path: Path) -> None:
        async def work(state: SqliteState) -> None:
            assert state._db is not None
            assert state._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            said: list[str] = []
            state._db.set_trace_callback(said.append)
            for durable, call in (
                (True, state.add_key(KeyRecord("k", "t", b"d"))),
                (True, state.revoke_key("k", 1.0)),
                (True, state.add_seal_key(SealKey("s", b"s", 1.0))),
                (True, state.delete_seal_keys(5.0)),
                (False, state.put_vault("t", [VaultEntry("c", b"x")], 1.0)),
                (False, state.log_usage([UsageRow(1.0)])),
            ):
                said.clear()
                await call
                assert ("PRAGMA synchronous = FULL" in said) is durable
                assert state._db.execute("PRAGMA synchronous").fetchone() == (1,)

        on(path, work)

    def test_a_full_disk_refuses_and_loses_nothing(self, path: Path) -> None:
        async def work(state: SqliteState) -> None:
            assert state._db is not None
            pages = state._db.execute("PRAGMA page_count").fetchone()[0]
            state._db.execute(f"PRAGMA max_page_count = {pages + 20}")
            stored = 0
            with pytest.raises(StoreError, match="disk is full"):
                while True:
                    await state.put_response("t", str(stored), b"x" * 3000, 9.0)
                    stored += 1
            assert stored > 0
            state._db.execute("PRAGMA max_page_count = 1000000")
            await state.put_response("t", str(stored), b"x" * 3000, 9.0)
            for number in range(stored + 1):
                assert await state.get_response("t", str(number), 0.0) == b"x" * 3000

        on(path, work)


class TestSharedTransactions:
    def test_one_write_that_fails_does_not_take_others_with_it(self, path: Path) -> None:
        async def work(state: SqliteState) -> None:
            key = KeyRecord("k", "t", b"d")
            await state.add_key(key)
            results = await asyncio.gather(
                state.put_response("t", "a", b"1", 9.0),
                state.put_response("t", "b", b"2", 9.0),
                state.add_key(key),
                state.put_vault("t", [VaultEntry("\ud800", b"3")], 9.0),
                state.add_spend({("ok", "w"): 1, ("bad", "w"): 2**70}),
                state.put_response("t", "c", b"4", 9.0),
                return_exceptions=True,
            )
            assert [type(result) for result in results] == [type(None)] * 2 + [StoreError] + [type(None)] + [
                StoreError
            ] + [type(None)]
            assert [await state.get_response("t", name, 0.0) for name in "abc"] == [b"1", b"2", b"4"]
            assert await state.spend("ok", "w") == 0, "half of a batch was written"

        on(path, work)

    def test_writes_that_come_together_are_committed_together(self, path: Path) -> None:
        async def work(state: SqliteState) -> None:
            assert state._db is not None
            said: list[str] = []
            state._db.set_trace_callback(said.append)
            await asyncio.gather(*[state.take_rate("k", 0, 1) for _ in range(100)])
            assert said.count("COMMIT") == 2  # the first alone, then all that came meanwhile

        on(path, work)

    def test_the_thread_and_the_loop_share_no_statement(self, path: Path) -> None:
        """Cursors that end on the loop's thread would disturb the statements of the other, now and then."""

        async def work(state: SqliteState) -> None:
            async def one(number: int) -> None:
                for part in range(100):
                    await state.put_vault("t", [VaultEntry(f"{number}-{part}", b"x" * 500)], 9.0)
                    await state.add_spend({("k", "w"): 1})
                    with pytest.raises(StoreError):
                        await state.add_spend({("k", "w"): 1, ("bad", "w"): 2**70})

            await asyncio.gather(*[one(number) for number in range(16)])
            assert await state.spend("k", "w") == 1600

        on(path, work)

    def test_the_vault_is_asked_once_for_many_ids(self, path: Path) -> None:
        async def work(state: SqliteState) -> None:
            assert state._db is not None
            said: list[str] = []
            state._db.set_trace_callback(said.append)
            await state.get_vault("t", [str(number) for number in range(500)], 0.0)
            assert len(said) == 1

        on(path, work)


class TestManyProcesses:
    def test_count_together(self, path: Path) -> None:
        script = (
            "import asyncio, sys\n"
            "from midstream.gateway.state import open_state\n"
            "async def main():\n"
            "    state = open_state(sys.argv[1])\n"
            "    await state.open()\n"
            "    for _ in range(40):\n"
            "        await state.add_spend({('k', 'w'): 1})\n"
            "        print(await state.take_rate('k', 0, 1))\n"
            "    await state.close()\n"
            "asyncio.run(main())\n"
        )
        command = [sys.executable, "-c", script, str(path)]
        writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        told = [int(line) for writer in writers for line in writer.communicate()[0].split()]
        assert [writer.returncode for writer in writers] == [0, 0, 0]
        assert sorted(told) == list(range(1, 121))

        async def check(state: SqliteState) -> None:
            assert await state.spend("k", "w") == 120

        on(path, check)

    def test_one_that_is_in_the_way_for_too_long_is_a_503(self, path: Path) -> None:
        async def work(state: SqliteState) -> None:
            await state.put_response("t", "a", b"1", 9.0)
            with raw(path) as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(StoreUnavailable) as caught:
                    await state.put_response("t", "b", b"2", 9.0)
                assert await state.get_response("t", "a", 0.0) == b"1"  # readers do not wait
            assert caught.value.retryable and refusal_of(caught.value).status == 503
            await state.put_response("t", "b", b"2", 9.0)

        on(path, work, patience=0.05)


class TestFile:
    def test_is_private_and_in_the_data_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MIDSTREAM_HOME", str(tmp_path / "home"))
        assert state_path() == tmp_path / "home" / "gateway.db"

        async def main() -> None:
            state = open_state(str(state_path()))
            await state.open()
            await state.add_key(KeyRecord("k", "t", b"d"))
            assert {file.stat().st_mode & 0o777 for file in state_path().parent.iterdir()} == {0o600}
            await state.close()

        run(main())

    def test_a_store_of_conversations_is_not_taken_for_a_state(self, path: Path) -> None:
        SqliteStore(path).close()
        with pytest.raises(StoreError, match="another program"):
            on(path, lambda state: state.ping())

    def test_a_state_is_not_taken_for_a_store_of_conversations(self, path: Path) -> None:
        on(path, lambda state: state.ping())
        with pytest.raises(StoreError, match="another program"):
            SqliteStore(path)

    def test_a_newer_one_is_left_alone(self, path: Path) -> None:
        on(path, lambda state: state.ping())
        with raw(path) as db:
            db.execute("PRAGMA user_version = 9999")
        with pytest.raises(NewerSchema, match="upgrade"):
            on(path, lambda state: state.ping())

    def test_an_older_one_is_brought_forward(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        on(path, lambda state: state.put_response("t", "a", b"1", 9.0))
        steps = migrations("midstream.gateway.state")
        later = [*steps, (steps[-1][0] + 1, "ALTER TABLE responses ADD COLUMN colour TEXT;\n")]
        monkeypatch.setattr("midstream.gateway.state.sqlite.migrations", lambda package: later)

        async def work(state: SqliteState) -> None:
            assert await state.get_response("t", "a", 0.0) == b"1"

        on(path, work)
        with raw(path) as db:
            assert db.execute("SELECT colour FROM responses").fetchall() == [(None,)]

    @pytest.mark.parametrize("name", ["migrations", "migrations_postgres"])
    def test_migrations_are_numbered_without_gaps(self, name: str) -> None:
        for package in ("midstream.gateway.state", "midstream.store"):
            numbers = [number for number, _ in migrations(package, name)]
            assert numbers == list(range(1, len(numbers) + 1))

    def test_a_key_with_fields_of_another_version_loads(self, path: Path) -> None:
        async def work(state: SqliteState) -> None:
            await state.add_key(KeyRecord("k", "t", b"d"))
            with raw(path) as db:
                db.execute("""UPDATE keys SET record = '{"id":"k","tenant":"t","digest":"ZA==","unheard_of":1}'""")
            assert await state.keys() == [KeyRecord("k", "t", b"d")]

        on(path, work)


def test_the_log_in_memory_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("midstream.gateway.state.sqlite._LOGGED_IN_MEMORY", 10)

    async def work(state: SqliteState) -> None:
        for number in range(0, 30, 3):
            await state.log_usage([UsageRow(float(number + part)) for part in range(3)])
        assert [row.time for row in await state.usage()] == [float(number) for number in range(20, 30)]

    on(None, work)


def test_an_opening_that_was_given_up_is_closed(path: Path) -> None:
    async def main() -> None:
        state = SqliteState(path)
        opening = asyncio.ensure_future(state.open())
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])
        await state.close()
        await state.close()

    before = set(threading.enumerate())
    run(main())
    assert set(threading.enumerate()) == before
