"""What every state of the gateway promises (gateway/state/protocol.py), asked of each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from midstream.core.errors import StoreError
from midstream.gateway.state import GatewayState, KeyRecord, SealKey, UsageRow, VaultEntry
from midstream.gateway.state.protocol import RATES_KEPT, USAGE_KEPT
from tests.event_loops import run
from tests.store.samples import HOSTILE

from .conftest import OpenState

KEY = KeyRecord(
    "k1",
    "acme",
    sha256(b"secret").digest(),
    "Acme's key",
    1.5,
    expires=99.5,
    models=("claude-*", "sim/kimi"),
    rate=60,
    concurrency=4,
    spend=12.5,
    spend_window="day",
    text_calls="show",
)
ROW = UsageRow(10.5, "acme", "k1", "kimi", "moonshot", "openai-chat", 200, 10, 20, 3, None, 1234, 17.25, 3.5)


@asynccontextmanager
async def opened(new_state: OpenState) -> AsyncIterator[GatewayState]:
    state = new_state()
    await state.open()
    try:
        yield state
    finally:
        await state.close()


def on(new_state: OpenState, work: Callable[[GatewayState], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with opened(new_state) as state:
            await work(state)

    run(main())


class TestKeys:
    def test_come_back_as_they_were(self, new_state: OpenState) -> None:
        async def work(state: GatewayState) -> None:
            plain = KeyRecord("k2", "", b"\0" * 32)
            await state.add_key(KEY)
            await state.add_key(plain)
            assert await state.keys() == [KEY, plain]
            assert await state.key_by_digest(KEY.digest) == KEY
            assert await state.key_by_digest(b"\1" * 32) is None

        on(new_state, work)

    @pytest.mark.parametrize(
        "other", [replace(KEY, digest=b"x"), replace(KEY, id="k2"), KEY], ids=["id", "digest", "both"]
    )
    def test_one_that_is_taken_is_refused(self, new_state: OpenState, other: KeyRecord) -> None:
        async def work(state: GatewayState) -> None:
            await state.add_key(KEY)
            with pytest.raises(StoreError):
                await state.add_key(other)
            assert await state.keys() == [KEY]

        on(new_state, work)

    def test_are_revoked_once(self, new_state: OpenState) -> None:
        async def work(state: GatewayState) -> None:
            await state.add_key(KEY)
            await state.add_key(KeyRecord("k2", "acme", b"x"))
            assert await state.revoke_key("k1", 50.0)
            assert not await state.revoke_key("k1", 50.0)
            assert not await state.revoke_key("k1", 60.0)
            assert not await state.revoke_key("nobody", 60.0)
            assert await state.key_by_digest(KEY.digest) == replace(KEY, revoked=50.0)
            assert [key.revoked for key in await state.keys()] == [50.0, None]

        on(new_state, work)


class TestSealKeys:
    def test_a_new_one_retires_those_before(self, new_state: OpenState) -> None:
        async def work(state: GatewayState) -> None:
            assert await state.seal_keys() == []
            for number in (1, 2, 3):
                await state.add_seal_key(SealKey(f"s{number}", bytes([number]), number * 100.0))
            with pytest.raises(StoreError):
                await state.add_seal_key(SealKey("s1", b"another", 400.0))
            first, second = SealKey("s1", b"\1", 100.0, 200.0), SealKey("s2", b"\2", 200.0, 300.0)
            assert await state.seal_keys() == [SealKey("s3", b"\3", 300.0), second, first]
            await state.add_seal_key(SealKey("old", b"o", 1.0, 2.0))
            assert (await state.seal_keys())[1] == SealKey("s3", b"\3", 300.0)
            assert await state.delete_seal_keys(300.0) == 2
            assert [key.id for key in await state.seal_keys()] == ["s3", "s2"]

        on(new_state, work)


class TestVault:
    def test_gives_what_there_is(self, new_state: OpenState) -> None:
        async def work(state: GatewayState) -> None:
            await state.put_vault("a", [VaultEntry("c1", b"one"), VaultEntry("c2", b"\0two\xff")], 100.0)
            assert await state.get_vault("a", ["c2", "c3", "c1", "c1"], 99.0) == {"c1": b"one", "c2": b"\0two\xff"}
            assert await state.get_vault("a", [], 99.0) == {}
            await state.put_vault("a", [], 100.0)

        on(new_state, work)

    def test_the_last_one_put_counts(self, new_state: OpenState) -> None:
        async def work(state: GatewayState) -> None:
            await state.put_vault("a", [VaultEntry("c", b"1"), VaultEntry("c", b"2")], 100.0)
            assert await state.get_vault("a", ["c"], 0.0) == {"c": b"2"}
            await state.put_vault("a", [VaultEntry("c", b"3")], 200.0)
            assert await state.get_vault("a", ["c"], 150.0) == {"c": b"3"}

        on(new_state, work)

    def test_expires_before_it_is_swept(self, new_state: OpenState) -> None:
        async def work(state: GatewayState) -> None:
            await state.put_vault("a", [VaultEntry("c", b"1")], 100.0)
            assert await state.get_vault("a", ["c"], 100.0) == {}

        on(new_state, work)

    def test_another_tenant_has_nothing(self, new_state: OpenState) -> None:
        async def work(state: GatewayState) -> None:
            # The last two would be the same place if the names were merely joined.
            for number, tenant in enumerate(("a", "b", "", "ab")):
                await state.put_vault(tenant, [VaultEntry("bc", b"%d" % number)], 100.0)
            await state.put_vault("a", [VaultEntry("", b"own"), VaultEntry("c", b"own")], 100.0)
            for number, tenant in enumerate(("a", "b", "", "ab")):
                assert await state.get_vault(tenant, ["bc"], 0.0) == {"bc": b"%d" % number}
            assert await state.get_vault("ab", ["c"], 0.0) == {}
            assert await state.get_vault("c", ["bc", "c", ""], 0.0) == {}

        on(new_state, work)

    def test_many_at_once(self, new_state: OpenState) -> None:
        async def work(state: GatewayState) -> None:
            entries = [VaultEntry(f"c{number}", b"%d" % number) for number in range(40_000)]
            await state.put_vault("a", entries, 100.0)
            found = await state.get_vault("a", [entry.call_id for entry in entries], 0.0)
            assert found == {entry.call_id: entry.thinking for entry in entries}

        on(new_state, work)


class TestResponses:
    def test_are_a_tenants_own_and_expire(self, new_state: OpenState) -> None:
        async def work(state: GatewayState) -> None:
            await state.put_response("a", "resp_1", b"first", 100.0)
            await state.put_response("a", "resp_1", b"{\0}", 100.0)
            assert await state.get_response("a", "resp_1", 99.0) == b"{\0}"
            assert await state.get_response("a", "resp_1", 100.0) is None
            assert await state.get_response("b", "resp_1", 0.0) is None
            assert not await state.delete_response("b", "resp_1")
            assert await state.delete_response("a", "resp_1")
            assert not await state.delete_response("a", "resp_1")
            assert await state.get_response("a", "resp_1", 0.0) is None

        on(new_state, work)


class TestSpendAndRates:
    def test_amounts_add_up_by_key_and_window(self, new_state: OpenState) -> None:
        async def work(state: GatewayState) -> None:
            assert await state.spend("k", "2026-11") == 0
            await state.add_spend({("k", "2026-11"): 5, ("k", "2026-11-16"): 5, ("other", "2026-11"): 2**40})
            await state.add_spend({("k", "2026-11"): 7})
            await state.add_spend({})
            assert await state.spend("k", "2026-11") == 12
            assert await state.spend("k", "2026-11-16") == 5
            assert await state.spend("other", "2026-11") == 2**40

        on(new_state, work)

    def test_a_counter_gives_its_new_value(self, new_state: OpenState) -> None:
        async def work(state: GatewayState) -> None:
            assert [await state.take_rate("k", 5, 2), await state.take_rate("k", 5, 3)] == [2, 5]
            assert await state.take_rate("k", 6, 1) == await state.take_rate("other", 5, 1) == 1

        on(new_state, work)

    def test_tasks_that_race_lose_nothing(self, new_state: OpenState) -> None:
        async def work(state: GatewayState) -> None:
            async def one(number: int) -> int:
                await state.add_spend({("k", "w"): 1, (f"k{number % 3}", "w"): 1})
                await state.put_vault("a", [VaultEntry(f"{number}-{n}", b"x") for n in range(3)], 100.0)
                return await state.take_rate("k", 0, 1)

            totals = await asyncio.gather(*[one(number) for number in range(200)])
            assert sorted(totals) == list(range(1, 201))
            assert await state.spend("k", "w") == 200
            assert sum([await state.spend(f"k{number}", "w") for number in range(3)]) == 200
            ids = [f"{number}-{n}" for number in range(200) for n in range(3)]
            assert len(await state.get_vault("a", ids, 0.0)) == 600

        on(new_state, work)


class TestUsage:
    def test_rows_come_back_in_order(self, new_state: OpenState) -> None:
        async def work(state: GatewayState) -> None:
            rows = [ROW, UsageRow(11.0), replace(ROW, time=11.0, cost=2**40, latency_ms=5), UsageRow(9.0)]
            await state.log_usage(rows)
            await state.log_usage([])
            assert await state.usage() == [rows[3], *rows[:3]]
            assert await state.usage(11.0) == rows[1:3]
            assert await state.usage(limit=1) == rows[3:]

        on(new_state, work)

    def test_text_that_a_database_cannot_hold_does_not_stop_the_log(self, new_state: OpenState) -> None:
        async def work(state: GatewayState) -> None:
            await state.log_usage([replace(ROW, model="a\0b\ud800c", tenant="'); DROP TABLE usage; --")])
            (row,) = await state.usage()
            assert (row.model, row.tenant) == ("a\ufffdb?c", "'); DROP TABLE usage; --")

        on(new_state, work)


def test_sweeping_takes_what_has_expired_and_nothing_else(new_state: OpenState) -> None:
    async def work(state: GatewayState) -> None:
        now = 100 * USAGE_KEPT
        minute = int(now // 60)
        await state.put_vault("a", [VaultEntry(f"c{number}", b"x") for number in range(4500)], now)
        await state.put_vault("a", [VaultEntry("stays", b"x")], now + 1)
        await state.put_response("a", "old", b"x", now)
        await state.put_response("a", "stays", b"x", now + 1)
        await state.log_usage([UsageRow(now - USAGE_KEPT), UsageRow(now - USAGE_KEPT + 1)])
        await state.take_rate("k", minute - RATES_KEPT, 5)
        await state.take_rate("k", minute - RATES_KEPT + 1, 5)
        await state.add_spend({("k", "total"): 5})
        await state.sweep(now)
        # Asked at a time when nothing had expired: what is not there is gone for good.
        assert await state.get_vault("a", ["c0", "c4499", "stays"], 0.0) == {"stays": b"x"}
        assert await state.get_response("a", "old", 0.0) is None
        assert await state.get_response("a", "stays", 0.0) == b"x"
        assert await state.usage() == [UsageRow(now - USAGE_KEPT + 1)]
        assert await state.take_rate("k", minute - RATES_KEPT, 1) == 1
        assert await state.take_rate("k", minute - RATES_KEPT + 1, 1) == 6
        assert await state.spend("k", "total") == 5

    on(new_state, work)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_clients_text_is_only_text(new_state: OpenState, name: str) -> None:
    text = HOSTILE[name]

    async def work(state: GatewayState) -> None:
        await state.put_vault(text, [VaultEntry(text, text.encode()), VaultEntry("bystander", b"")], 100.0)
        await state.put_response(text, text, text.encode(), 100.0)
        assert await state.get_vault(text, [text, "bystander"], 0.0) == {text: text.encode(), "bystander": b""}
        assert await state.get_response(text, text, 0.0) == text.encode()
        await state.log_usage([UsageRow(1.0, text, text, text, text, text)])
        assert (await state.usage())[0].model == text.replace("\0", "\ufffd")
        assert await state.delete_response(text, text)

    on(new_state, work)


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.text(max_size=5), st.binary(max_size=5)), max_size=8))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_vault_is_a_dict_by_tenant_and_call(new_state: OpenState, puts: list[tuple[str, str, bytes]]) -> None:
    async def work(state: GatewayState) -> None:
        held: dict[tuple[str, str], bytes] = {}
        # The same database serves all examples: each has ids of its own.
        mark = f"{id(puts)}-{len(puts)}-{hash(tuple(puts))}"
        for tenant, call, thinking in puts:
            held[tenant, call] = thinking
            await state.put_vault(tenant, [VaultEntry(mark + call, thinking)], 100.0)
        for tenant in ("a", "b"):
            found = await state.get_vault(tenant, [mark + call for _, call, _ in puts], 0.0)
            assert found == {mark + call: value for (owner, call), value in held.items() if owner == tenant}

    on(new_state, work)


def test_a_cancelled_caller_harms_nobody(new_state: OpenState) -> None:
    async def work(state: GatewayState) -> None:
        tasks = [asyncio.ensure_future(state.take_rate("k", 0, 1)) for _ in range(50)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert len([result for result in results if isinstance(result, int)]) >= 25
        await state.ping()

    on(new_state, work)


def test_closing_waits_for_what_was_begun(new_state: OpenState) -> None:
    async def main() -> None:
        state = new_state()
        await state.open()
        puts = [asyncio.ensure_future(state.put_vault("a", [VaultEntry(str(n), b"x")], 100.0)) for n in range(20)]
        adds = [asyncio.ensure_future(state.add_spend({("k", "w"): 1})) for _ in range(20)]
        await asyncio.sleep(0)
        await state.close()
        await asyncio.gather(*puts, *adds)

    run(main())


def test_a_closed_state_says_so(new_state: OpenState) -> None:
    async def main() -> None:
        state = new_state()
        with pytest.raises(StoreError, match="open"):
            await state.ping()
        await state.open()
        await state.ping()
        await state.close()
        await state.close()
        with pytest.raises(StoreError, match="closed"):
            await state.keys()

    run(main())
