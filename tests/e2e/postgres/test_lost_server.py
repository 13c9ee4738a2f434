"""PostgreSQL goes away: calls wait or fail typed, nothing that was acknowledged is lost, and nothing is done twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from typing import Any

import psycopg
import pytest

from midstream.core.blocks import Conversation, human
from midstream.core.errors import LengthConflict, StoreError, StoreUnavailable
from midstream.gateway.state import KeyRecord, SealKey, UsageRow, VaultEntry
from midstream.gateway.state.postgres import PostgresState
from midstream.store import ConversationExists, UnknownConversation
from midstream.store.postgres import PostgresStore
from midstream.wires.answer import refusal_of
from tests.event_loops import run
from tests.postgres_cluster import MISSING, Cluster, running_cluster

from .cutting_proxy import CuttingProxy, cutting_proxy


@pytest.fixture(scope="module")
def mortal() -> Iterator[Cluster]:
    """A server to be stopped and killed, which syncs what it commits."""
    with running_cluster(fsync=True) as running:
        if running is None:
            pytest.skip(MISSING)
        yield running


@pytest.fixture
def proxy(cluster: Cluster, database: str) -> Iterator[CuttingProxy]:
    with cutting_proxy(cluster.folder) as between:
        yield between


@asynccontextmanager
async def opened(address: str, **options: Any) -> AsyncIterator[PostgresState]:
    state = PostgresState(address, **options)
    await state.open()
    try:
        yield state
    finally:
        await state.close()


RESTARTS: dict[str, Callable[[Cluster], None]] = {"stop": Cluster.stop, "crash": Cluster.kill}


@pytest.mark.usefixtures("each_loop")
class TestRestart:
    @pytest.mark.parametrize("how", RESTARTS)
    def test_under_load_the_gateways_lose_nothing(self, mortal: Cluster, how: str, each_loop: str) -> None:
        name = f"{how}-{each_loop}"
        acknowledged: list[str] = []
        failed: list[str] = []

        async def writer(state: PostgresState, number: int, ended: asyncio.Event) -> None:
            count = 0
            while not ended.is_set():
                call = f"{number}-{count}"
                count += 1
                try:
                    await state.put_vault(name, [VaultEntry(call, call.encode())], 1e12)
                    await state.put_response(name, call, call.encode(), 1e12)
                    await state.log_usage([UsageRow(1.0, name, model=call)])
                    await state.add_spend({(name, "w"): 1, (f"{name}-{call}", "w"): 1})
                except StoreUnavailable as error:
                    assert refusal_of(error).status == 503
                    failed.append(call)
                else:
                    acknowledged.append(call)

        async def more() -> None:
            """Let the writers get on with it."""
            wanted = len(acknowledged) + 50
            while len(acknowledged) < wanted:  # noqa: ASYNC110  (eight writers, one list: nothing to wait for but time)
                await asyncio.sleep(0.01)

        async def main() -> None:
            async with opened(mortal.address) as one, opened(mortal.address) as two:
                ended = asyncio.Event()
                tasks = [asyncio.ensure_future(writer((one, two)[n % 2], n, ended)) for n in range(8)]
                for _ in range(2):
                    await more()
                    await asyncio.to_thread(RESTARTS[how], mortal)
                    await asyncio.to_thread(mortal.start)
                await more()
                ended.set()
                await asyncio.gather(*tasks)
                found = await one.get_vault(name, acknowledged, 0.0)
                assert found == {call: call.encode() for call in acknowledged}
                logged = [row.model for row in await two.usage(limit=10**6) if row.tenant == name]
                assert len(logged) == len(set(logged)) and set(acknowledged) <= set(logged), "lost, or logged twice"
                for call in acknowledged:
                    assert await two.get_response(name, call, 0.0) == call.encode()
                    assert await one.spend(f"{name}-{call}", "w") == 1, "lost, or counted twice"
                total = await two.spend(name, "w")
                assert len(acknowledged) <= total <= len(acknowledged) + len(failed)

        run(main(), 120)
        print(f"{name}: {len(acknowledged)} acknowledged, all there; {len(failed)} failed as StoreUnavailable")

    def test_a_server_that_is_away_is_a_503_and_found_again(self, mortal: Cluster) -> None:
        async def main() -> None:
            async with opened(mortal.address, patience=0.5) as state:
                await state.put_response("t", "a", b"1", 9.0)
                await asyncio.to_thread(mortal.stop)
                try:
                    for call in (state.ping(), state.get_response("t", "a", 0.0), state.take_rate("k", 0, 1)):
                        with pytest.raises(StoreUnavailable) as caught:
                            await call
                        assert caught.value.retryable and refusal_of(caught.value).status == 503
                        assert "postgres@" not in str(caught.value)
                finally:
                    await asyncio.to_thread(mortal.start)
                async with asyncio.timeout(10):
                    while True:
                        try:
                            assert await state.get_response("t", "a", 0.0) == b"1"
                            break
                        except StoreUnavailable:
                            continue

        run(main())

    def test_a_server_that_is_frozen_is_not_waited_for(self, mortal: Cluster) -> None:
        async def main() -> None:
            async with opened(mortal.address, patience=0.5) as state:
                await state.ping()
                mortal.freeze()
                try:
                    async with asyncio.timeout(5):
                        with pytest.raises(StoreUnavailable):
                            await state.ping()
                finally:
                    mortal.thaw()
                async with asyncio.timeout(20):
                    while True:
                        try:
                            await state.ping()
                            break
                        except StoreUnavailable:
                            continue

        run(main())

    def test_a_server_that_is_not_there_at_the_start(self, mortal: Cluster) -> None:
        mortal.stop()
        try:
            with pytest.raises(StoreUnavailable, match="check that it is running"):
                run(PostgresState(mortal.address, patience=0.3).open())
        finally:
            mortal.start()


def test_conversations_survive_a_restart_under_load(mortal: Cluster) -> None:
    with closing(PostgresStore(mortal.address)) as store:
        ended = threading.Event()
        lengths = {store.create(): 0 for _ in range(4)}

        def write(made: str) -> int:
            failed = 0
            while not ended.is_set():
                length = lengths[made]
                try:
                    lengths[made] = store.append(made, human(f"turn {length}"), length)
                except StoreUnavailable:
                    failed += 1
                    lengths[made] = store.info(made).turns  # whether it was stored is not known
            return failed

        with ThreadPoolExecutor(len(lengths)) as pool:
            writers = [pool.submit(write, made) for made in lengths]
            try:
                for restart in RESTARTS.values():
                    before = sum(lengths.values())
                    while sum(lengths.values()) < before + 40 and not any(writer.done() for writer in writers):
                        ended.wait(0.01)
                    restart(mortal)
                    mortal.start()
                before = sum(lengths.values())
                while sum(lengths.values()) < before + 40 and not any(writer.done() for writer in writers):
                    ended.wait(0.01)
            finally:
                ended.set()
            failed = sum([writer.result() for writer in writers])
        for made, length in lengths.items():
            assert [turn.text for turn in store.load(made).turns] == [f"turn {number}" for number in range(length)]
        print(f"{sum(lengths.values())} turns, each stored once; {failed} calls failed as StoreUnavailable")


COMMIT = b"COMMIT\0"  # the whole statement: every transaction begins with READ COMMITTED


class TestLostAnswers:
    """The connection breaks after the work was committed: the second attempt must find that out."""

    @pytest.mark.parametrize(
        ("marker", "call"),
        [
            (b"midstream_gateway.spend", lambda state: state.add_spend({("k", "w"): 5})),
            (b"midstream_gateway.usage", lambda state: state.log_usage([UsageRow(1.0), UsageRow(2.0)])),
            (b"midstream_gateway.keys", lambda state: state.add_key(KeyRecord("new", "t", b"new"))),
            (b"SET revoked", lambda state: state.revoke_key("old", 5.0)),
            (b"midstream_gateway.seal_keys", lambda state: state.add_seal_key(SealKey("s2", b"2", 2.0))),
            (b"midstream_gateway.vault", lambda state: state.put_vault("t", [VaultEntry("c", b"x")], 9.0)),
            (b"DELETE FROM midstream_gateway.responses", lambda state: state.delete_response("t", "r")),
        ],
        ids=["spend", "usage", "key", "revoke", "seal-key", "vault", "delete"],
    )
    def test_a_states_write_is_done_once(
        self,
        proxy: CuttingProxy,
        marker: bytes,
        call: Callable[[PostgresState], Coroutine[Any, Any, Any]],
    ) -> None:
        async def told(state: PostgresState) -> list[Any]:
            return [
                await state.spend("k", "w"),
                await state.usage(),
                await state.keys(),
                await state.seal_keys(),
                await state.get_vault("t", ["c"], 0.0),
                await state.get_response("t", "r", 0.0),
            ]

        async def main() -> None:
            outcomes = []
            for cut in (None, marker):
                async with opened(proxy.address) as state:
                    with psycopg.connect(proxy.address) as db:
                        db.execute(
                            "TRUNCATE midstream_gateway.spend, midstream_gateway.usage, midstream_gateway.keys,"
                            " midstream_gateway.seal_keys, midstream_gateway.vault, midstream_gateway.responses"
                        )
                    await state.add_key(KeyRecord("old", "t", b"old"))
                    await state.add_seal_key(SealKey("s1", b"1", 1.0))
                    await state.put_response("t", "r", b"r", 9.0)
                    proxy.cut_after = cut
                    result = await call(state)
                    outcomes.append([result, await told(state)])
            assert proxy.cuts == 1
            assert outcomes[0] == outcomes[1]

        run(main())

    def test_a_turn_is_appended_once(self, proxy: CuttingProxy) -> None:
        with closing(PostgresStore(proxy.address)) as store:
            made = store.create()
            proxy.cut_after = COMMIT
            assert store.append(made, human("once"), 0) == 1
            assert proxy.cuts == 1
            assert [turn.text for turn in store.load(made).turns] == ["once"]
            with pytest.raises(LengthConflict):
                store.append(made, human("once"), 0)

    def test_the_turn_of_another_is_not_taken_for_ones_own(self, proxy: CuttingProxy, database: str) -> None:
        with closing(PostgresStore(proxy.address)) as store, closing(PostgresStore(database)) as other:
            made = store.create()
            stolen = threading.Event()
            length = store._run

            def interfered(begin: Any, work: Any) -> Any:
                def after(db: Any, again: bool) -> Any:
                    if again and not stolen.is_set():
                        stolen.set()
                        other.append(made, human("same text"), 0)
                    return work(db, again)

                return length(begin, after)

            proxy.cut_after = b"FOR UPDATE"  # before anything was written: another is faster now
            store._run = interfered  # type: ignore[method-assign]
            with pytest.raises(LengthConflict):
                store.append(made, human("same text"), 0)
            assert stolen.is_set()
            assert len(other.load(made).turns) == 1

    def test_a_conversation_is_created_and_deleted_once(self, proxy: CuttingProxy) -> None:
        with closing(PostgresStore(proxy.address)) as store:
            proxy.cut_after = COMMIT
            assert store.create(Conversation((human("x"),), id="mine")) == "mine"
            with pytest.raises(ConversationExists):
                store.create(Conversation(id="mine"))
            assert [info.turns for info in store.list()] == [1]
            proxy.cut_after = COMMIT
            store.delete("mine")
            assert proxy.cuts == 2
            with pytest.raises(UnknownConversation):
                store.delete("mine")


class TestRefusals:
    @pytest.mark.parametrize(
        "address",
        [
            "postgresql://u:hunter2@[bad/db",
            "postgresql://u:hunter2@h/db?nonsense=1",
            "postgresql://u:hunter2@h:port/db",
        ],
    )
    def test_an_address_that_cannot_be_read_is_not_repeated(self, address: str) -> None:
        for make in (PostgresStore, PostgresState):
            with pytest.raises(StoreError) as caught:
                opening = make(address, patience=0.1)
                if isinstance(opening, PostgresState):
                    run(opening.open())
            chain: BaseException | None = caught.value
            while chain is not None:
                assert "hunter2" not in str(chain)
                chain = chain.__cause__

    def test_a_database_that_does_not_exist_is_told_at_once(self, cluster: Cluster) -> None:
        with pytest.raises(StoreError, match="does not exist"):
            PostgresStore(cluster.address.replace("/postgres?", "/nowhere?"), patience=60)

    def test_a_database_of_another_encoding(self, cluster: Cluster) -> None:
        with psycopg.connect(cluster.address, autocommit=True) as db:
            db.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
        with pytest.raises(StoreError, match="UTF8"):
            PostgresStore(cluster.address.replace("/postgres?", "/latin?"))

    @pytest.mark.parametrize("schema", ["midstream", "midstream_gateway"])
    def test_a_newer_schema_is_left_alone(self, database: str, schema: str) -> None:
        def open_it() -> None:
            if schema == "midstream":
                PostgresStore(database).close()
            else:

                async def main() -> None:
                    async with opened(database):
                        pass

                run(main())

        open_it()
        open_it()
        with psycopg.connect(database) as db:
            db.execute(f"UPDATE {schema}.version SET version = 9999".encode())
        with pytest.raises(StoreError, match=r"newer midstream .schema 9999"):
            open_it()

    def test_first_openings_may_meet(self, database: str) -> None:
        gate = threading.Barrier(5)

        def open_it() -> str:
            gate.wait()
            with closing(PostgresStore(database)) as store:
                return store.create()

        with ThreadPoolExecutor(5) as pool:
            made = {future.result() for future in [pool.submit(open_it) for _ in range(5)]}
        assert len(made) == 5

    def test_a_lock_that_is_held_for_too_long(self, database: str) -> None:
        with closing(PostgresStore(database, patience=0.3)) as store:
            made = store.create()
            with psycopg.connect(database) as other:
                other.execute("SELECT 1 FROM midstream.conversations FOR UPDATE")
                with pytest.raises(StoreUnavailable):
                    store.append(made, human("x"), 0)
                assert store.load(made).turns == ()  # readers do not wait
            assert store.append(made, human("x"), 0) == 1
