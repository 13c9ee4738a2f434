"""Rate, concurrency and spend: exact in one process, bounded with two on one state. Every clock is set by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from midstream.core.errors import MidstreamError, Overloaded, QuotaExceeded, RateLimited, StoreError
from midstream.gateway.limits import Admission, Limiter, lease_of
from midstream.gateway.state import GatewayState, open_state
from midstream.gateway.tenants import LOCAL, Tenant

from .clock import Clock

DOLLAR = 1_000_000


def tenant(**limits: Any) -> Tenant:
    return Tenant("acme", "key_1", **limits)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def admitted(limiter: Limiter, who: Tenant, tries: int) -> int:
    """How many of so many requests are let in; they end at once."""
    count = 0
    for _ in range(tries):
        try:
            limiter.admit(who).release()
            count += 1
        except RateLimited:
            pass
    return count


def test_without_limits_everything_is_admitted() -> None:
    limiter = Limiter()
    for who in (LOCAL, tenant()):
        for _ in range(1000):
            limiter.admit(who)
    assert limiter.in_flight == 2000


def test_the_rate_is_exact() -> None:
    clock = Clock()
    limiter, who = Limiter(clock=clock, now=clock), tenant(rate=60)
    assert admitted(limiter, who, 100) == 60
    clock.pass_(0.5)
    assert admitted(limiter, who, 100) == 0
    clock.pass_(0.5)
    assert admitted(limiter, who, 100) == 1
    clock.pass_(10)
    assert admitted(limiter, who, 100) == 10
    clock.pass_(3600)
    assert admitted(limiter, who, 100) == 60  # a long pause saves up one minute's, not more


@given(st.integers(1, 500), st.lists(st.tuples(st.floats(0, 30), st.integers(0, 50)), max_size=20))
def test_no_pattern_of_requests_gets_more_than_the_bucket_gives(rate: int, steps: list[tuple[float, int]]) -> None:
    clock = Clock(0.0)
    limiter, who, count = Limiter(clock=clock, now=clock), tenant(rate=rate), 0
    for wait, tries in steps:
        clock.pass_(wait)
        count += admitted(limiter, who, tries)
        assert count <= rate + clock() * rate / 60 + 1e-6


def test_who_waits_as_told_is_admitted() -> None:
    for rate in (1, 7, 60, 1000):
        clock = Clock()
        limiter, who = Limiter(clock=clock, now=clock), tenant(rate=rate)
        assert admitted(limiter, who, rate) == rate
        with pytest.raises(RateLimited) as caught:
            limiter.admit(who)
        error = caught.value
        assert error.status == 429 and error.retry_after is not None and error.retryable
        assert f"{rate:,} request" in error.message and f"try again in {error.retry_after:g}s" in error.message
        clock.pass_(error.retry_after)
        assert admitted(limiter, who, 1) == 1


def test_one_key_does_not_use_up_anothers_rate() -> None:
    clock = Clock()
    limiter = Limiter(clock=clock, now=clock)
    assert admitted(limiter, tenant(rate=3), 9) == 3
    assert admitted(limiter, Tenant("acme", "key_2", rate=3), 9) == 3


def test_a_changed_rate_counts_at_once() -> None:
    clock = Clock()
    limiter = Limiter(clock=clock, now=clock)
    assert admitted(limiter, tenant(rate=3), 9) == 3
    assert admitted(limiter, tenant(rate=5), 9) == 5
    assert admitted(limiter, tenant(), 9) == 9


def test_concurrency_is_exact() -> None:
    limiter, who = Limiter(), tenant(concurrency=2)
    first, second = limiter.admit(who), limiter.admit(who)
    with pytest.raises(RateLimited) as caught:
        limiter.admit(who)
    assert caught.value.status == 429 and caught.value.retry_after and "2 requests in progress" in caught.value.message
    limiter.admit(Tenant("acme", "key_2", concurrency=2))
    first.release()
    first.release()  # twice is once
    third = limiter.admit(who)
    with pytest.raises(RateLimited):
        limiter.admit(who)
    second.release()
    third.release()
    with limiter.admit(who), limiter.admit(who):
        pass
    assert limiter.in_flight == 1


def test_what_is_cheap_takes_no_slot() -> None:
    limiter, who = Limiter(max_in_flight=1), tenant(concurrency=1, rate=5)
    held = limiter.admit(who)
    for _ in range(4):
        limiter.admit(who, slot=False).release()
    with pytest.raises(RateLimited, match="a minute"):
        limiter.admit(who, slot=False)
    held.release()
    assert limiter.in_flight == 0


def test_a_refused_request_uses_nothing_up() -> None:
    clock = Clock()
    limiter, who = Limiter(clock=clock, now=clock), tenant(concurrency=1, rate=2)
    held = limiter.admit(who)
    for _ in range(10):
        with pytest.raises(RateLimited, match="in progress"):
            limiter.admit(who)
    held.release()
    limiter.admit(who)


def test_the_gateway_itself_has_a_limit() -> None:
    limiter = Limiter(max_in_flight=2)
    held = [limiter.admit(LOCAL), limiter.admit(tenant())]
    for who in (LOCAL, tenant()):
        with pytest.raises(Overloaded) as caught:
            limiter.admit(who)
        assert caught.value.status == 503 and caught.value.retry_after
    held[0].release()
    limiter.admit(LOCAL)


def spend(limiter: Limiter, who: Tenant, micros: int) -> None:
    admission = limiter.admit(who)
    admission.charge(micros)
    admission.release()


@pytest.mark.parametrize(
    ("window", "until", "says"),
    [
        ("day", "2026-11-17T00:00:00", "a day; it works again from 2026-11-17 00:00 UTC"),
        ("month", "2026-12-01T00:00:00", "a month; it works again from 2026-12-01 00:00 UTC"),
        ("total", None, "which is not reset; ask the gateway's operator"),
    ],
)
@pytest.mark.parametrize("stored", [False, True])
def test_spend_is_exact_and_says_when_it_is_reset(window: str, until: str | None, says: str, stored: bool) -> None:
    async def work() -> None:
        clock = Clock()
        state = open_state(None)
        await state.open()
        limiter = Limiter(state if stored else None, clock=clock, now=clock)
        who = tenant(spend=0.30, spend_window=window)
        for _ in range(3):
            (await limiter.enter(who)).release()
            spend(limiter, who, DOLLAR // 10)
        with pytest.raises(QuotaExceeded) as caught:
            await limiter.enter(who)
        error = caught.value
        assert error.status == 429 and "$0.30 of its $0.30" in error.message and says in error.message
        assert not error.retryable
        if until is None:
            assert error.retry_after is None
        else:
            assert error.retry_after == datetime.fromisoformat(until).replace(tzinfo=UTC).timestamp() - clock()
            clock.pass_(error.retry_after)
            (await limiter.enter(who)).release()
        await state.close()

    run(work())


def test_a_window_of_another_kind_counts_from_the_next_request_on() -> None:
    clock = Clock()
    limiter, who = Limiter(clock=clock, now=clock), tenant(spend=0.30, spend_window="day")
    spend(limiter, who, DOLLAR)
    with pytest.raises(QuotaExceeded, match="a day"):
        limiter.admit(who)
    limiter.admit(replace(who, spend_window="month")).release()


def test_requests_in_progress_end_though_the_money_is_gone() -> None:
    limiter, who = Limiter(), tenant(spend=1.0, spend_window="total")
    held = [limiter.admit(who) for _ in range(5)]
    for each in held:
        each.charge(DOLLAR)
        each.charge(None)  # nobody knows what it cost
        each.release()
    with pytest.raises(QuotaExceeded, match=r"\$5.00 of its \$1.00"):
        limiter.admit(who)


def test_a_budget_of_nothing_admits_nothing() -> None:
    with pytest.raises(QuotaExceeded):
        Limiter().admit(tenant(spend=0.0))


def test_what_was_spent_before_the_start_counts() -> None:
    async def work() -> None:
        clock = Clock()
        state = open_state(None)
        await state.open()
        await state.add_spend({("key_1", "2026-11"): DOLLAR, ("key_1", "2026-10"): 99 * DOLLAR})
        limiter, who = Limiter(state, clock=clock, now=clock), tenant(spend=1.5)
        assert not limiter.prepared(who)
        (await limiter.enter(who)).release()
        assert limiter.prepared(who) and limiter.prepared(tenant()) and limiter.prepared(LOCAL)
        spend(limiter, who, DOLLAR // 2)
        with pytest.raises(QuotaExceeded):
            limiter.admit(who)
        await limiter.sync()
        assert await state.spend("key_1", "2026-11") == 3 * DOLLAR // 2
        await limiter.sync()  # written once
        assert await state.spend("key_1", "2026-11") == 3 * DOLLAR // 2
        await state.close()

    run(work())


def test_what_a_key_without_a_limit_spends_is_written_too() -> None:
    async def work() -> None:
        clock = Clock()
        state = open_state(None)
        await state.open()
        limiter = Limiter(state, clock=clock, now=clock)
        spend(limiter, tenant(), 5)
        spend(limiter, tenant(), 6)
        spend(limiter, LOCAL, 7)  # nobody's
        await limiter.sync()
        assert await state.spend("key_1", "2026-11") == 11 and await state.spend("", "2026-11") == 0
        await state.close()

    run(work())


class Away:
    """A state that does not answer while it is told so."""

    def __init__(self, state: GatewayState) -> None:
        self.state = state
        self.away = False
        self.calls = 0

    async def _check(self) -> None:
        self.calls += 1
        await asyncio.sleep(0)  # as over a network: others run before the answer is there
        if self.away:
            raise StoreError("the database is away")

    async def add_spend(self, amounts: Mapping[tuple[str, str], int]) -> None:
        await self._check()
        await self.state.add_spend(amounts)

    async def spend(self, key_id: str, window: str) -> int:
        await self._check()
        return await self.state.spend(key_id, window)

    async def take_rate(self, key_id: str, minute: int, count: int) -> int:
        await self._check()
        return await self.state.take_rate(key_id, minute, count)


def test_what_could_not_be_written_is_written_later() -> None:
    async def work() -> None:
        clock = Clock()
        state = open_state(None)
        await state.open()
        away = Away(state)
        limiter, who = Limiter(away, clock=clock, now=clock), tenant(spend=1.0)
        (await limiter.enter(who)).release()
        spend(limiter, who, 5)
        away.away = True
        with pytest.raises(StoreError):
            await limiter.sync()
        spend(limiter, who, 6)
        away.away = False
        await limiter.sync()
        assert await state.spend("key_1", "2026-11") == 11
        await state.close()

    run(work())


class Fleet:
    """Several processes' limiters on one state."""

    def __init__(self, size: int) -> None:
        self.clock = Clock()
        self.state = open_state(None)
        self.store = Away(self.state)
        self.limiters = [Limiter(self.store, shared=True, clock=self.clock, now=self.clock) for _ in range(size)]

    async def __aenter__(self) -> Fleet:
        await self.state.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.settle()
        await self.state.close()

    async def settle(self) -> None:
        for limiter in self.limiters:
            await limiter.settled()


def test_the_rate_of_two_processes_is_bounded() -> None:
    async def work(rate: int, burst: int) -> None:
        async with Fleet(2) as fleet:
            who, count = tenant(rate=rate), 0
            for _ in range(rate + 1):
                count += sum([admitted(limiter, who, burst) for limiter in fleet.limiters])
                await fleet.settle()
            assert rate <= count <= rate + 2 * lease_of(rate), (rate, burst, count)
            with pytest.raises(RateLimited) as caught:
                fleet.limiters[0].admit(who)
            assert caught.value.retry_after == 60.0  # all of the minute is used up
            fleet.clock.pass_(60)
            assert admitted(fleet.limiters[0], who, 1) == 1

    for rate in (1, 2, 10, 60, 100):
        for burst in (1, 7, 50):
            run(work(rate, burst))


@given(
    st.integers(1, 200), st.integers(1, 5), st.lists(st.tuples(st.integers(0, 4), st.integers(1, 40), st.booleans()))
)
def test_no_pattern_of_requests_breaks_the_bound(rate: int, size: int, steps: list[tuple[int, int, bool]]) -> None:
    async def work() -> None:
        async with Fleet(size) as fleet:
            who, count = tenant(rate=rate), 0
            for which, tries, settle in steps:
                count += admitted(fleet.limiters[which % size], who, tries)
                if settle:
                    await fleet.settle()
            assert count <= rate + size * lease_of(rate)

    run(work())


def test_while_the_state_is_away_a_process_lends_one_part() -> None:
    async def work() -> None:
        async with Fleet(1) as fleet:
            limiter, who = fleet.limiters[0], tenant(rate=100)
            fleet.store.away = True
            for _ in range(3):
                admitted(limiter, who, 50)
                await fleet.settle()
            with pytest.raises(RateLimited) as caught:
                limiter.admit(who)
            assert caught.value.retry_after == 1.0  # it may be back then
            await fleet.settle()
            fleet.store.away = False
            admitted(limiter, who, 1)
            await fleet.settle()
            assert admitted(limiter, who, 1) == 1  # and it goes on

    run(work())


def test_one_process_alone_on_a_shared_state_gets_its_whole_rate() -> None:
    async def work() -> None:
        async with Fleet(1) as fleet:
            count = 0
            for _ in range(200):
                count += admitted(fleet.limiters[0], tenant(rate=100), 1)
                await fleet.settle()
            assert count == 100

    run(work())


def test_two_processes_know_each_others_spend_after_a_sync() -> None:
    async def work() -> None:
        async with Fleet(2) as fleet:
            one, two = fleet.limiters
            who = tenant(spend=1.0)
            for limiter in fleet.limiters:
                (await limiter.enter(who)).release()
            spend(one, who, DOLLAR // 2)
            spend(two, who, DOLLAR // 2)
            held = [limiter.admit(who) for limiter in fleet.limiters]  # neither knows of the other's yet
            for limiter in (one, two, one):
                await limiter.sync()
            for limiter in fleet.limiters:
                with pytest.raises(QuotaExceeded, match=r"\$1.00 of its \$1.00"):
                    limiter.admit(who)
            for each in held:
                each.release()

    run(work())


def test_what_others_spent_in_a_pause_is_read_with_the_next_request() -> None:
    async def work() -> None:
        async with Fleet(2) as fleet:
            one, two = fleet.limiters
            who = tenant(spend=1.0)
            for limiter in fleet.limiters:
                (await limiter.enter(who)).release()
                await limiter.sync()
            assert two.prepared(who)
            fleet.clock.pass_(10)
            await two.sync()
            (await one.enter(who)).charge(DOLLAR)
            await one.sync()
            await two.sync()  # it asks only for keys that were used lately
            assert not two.prepared(who)
            with pytest.raises(QuotaExceeded):
                await two.enter(who)

    run(work())


def test_a_sync_reads_only_what_was_used_lately() -> None:
    async def work() -> None:
        async with Fleet(1) as fleet:
            (limiter,) = fleet.limiters
            who = [Tenant("t", f"key_{number}", spend=1.0) for number in range(20)]
            for each in who:
                (await limiter.enter(each)).release()
            fleet.clock.pass_(10)
            before = fleet.store.calls
            limiter.admit(who[3]).release()
            await limiter.sync()
            assert fleet.store.calls == before + 1

    run(work())


def test_what_is_charged_while_a_sync_is_under_way_counts_once() -> None:
    async def work() -> None:
        async with Fleet(1) as fleet:
            limiter, who = fleet.limiters[0], tenant(spend=1.0)
            (await limiter.enter(who)).release()
            spend(limiter, who, DOLLAR // 4)
            syncing = asyncio.create_task(limiter.sync())
            for _ in range(3):
                await asyncio.sleep(0)
                spend(limiter, who, DOLLAR // 4)
            await syncing
            with pytest.raises(QuotaExceeded, match=r"\$1.00 of its \$1.00"):
                limiter.admit(who)
            await limiter.sync()
            assert await fleet.state.spend("key_1", "2026-11") == DOLLAR
            with pytest.raises(QuotaExceeded, match=r"\$1.00 of its \$1.00"):
                limiter.admit(who)

    run(work())


def test_an_admission_can_be_held_by_a_with_statement() -> None:
    limiter = Limiter()
    with pytest.raises(MidstreamError), limiter.admit(LOCAL) as admission:
        assert isinstance(admission, Admission) and limiter.in_flight == 1
        raise MidstreamError("the answer failed")
    assert limiter.in_flight == 0
