"""Retries, rests, budgets and secrets of an interview."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from midstream.client.catalog import Catalog
from midstream.client.config import Config
from midstream.client.prices import Price
from midstream.sim.answer import Answer
from midstream.sim.server import Sim
from midstream.verify.checks import results
from midstream.verify.interview import Budget, Interview, OverBudget, Unfinished, make_client
from midstream.verify.run import run_probes
from tests.event_loops import run
from tests.verify.stage import PROBES, no_sleep

CANARY = "sk-canary-0123456789abcdef"


def on_stage(play: Callable[[Sim, Interview], Awaitable[Any]], *, budget: Budget | None = None, **options: Any) -> Any:
    waits: list[float] = options.pop("waits", [])

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def main() -> Any:
        async with Sim(**options) as sim:
            catalog = Catalog(Config(), environ={}, providers=sim.providers())
            async with make_client(catalog, options.get("key")) as client:
                return await play(sim, Interview(client, "openai/gpt-4o", sleep=sleep, budget=budget))

    return run(main())


def test_a_first_try_is_told_from_a_later_one() -> None:
    async def play(sim: Sim, host: Interview) -> None:
        exchange = await host.ask("Say hello.")
        assert (exchange.tries, exchange.first_failure, exchange.status) == (2, "rate_limited", 200)
        assert (host.tally.requests, host.tally.first_try, host.tally.later_try) == (2, 0, 1)
        assert (await host.ask("Say hello.")).tries == 1
        assert (host.tally.first_try, host.tally.later_try) == (1, 1)

    on_stage(play, faults=("429",))


@pytest.mark.parametrize("fault", ["429", "500", "cut"])
def test_a_host_that_keeps_failing_is_unfinished_not_judged(fault: str) -> None:
    async def play(sim: Sim, host: Interview) -> None:
        found = await run_probes(host, [PROBES["hello"]])
        assert found.unfinished and host.tally.failed == 1
        assert {result.verdict for result in results(found.findings).values()} == {"not sure"}

    on_stage(play, always=(fault,))


def test_a_refusal_is_an_answer_and_never_tried_again() -> None:
    async def play(sim: Sim, host: Interview) -> None:
        exchange = await host.ask("Say hello.", edit=lambda body: body.replace(b'"messages"', b'"massages"'))
        assert exchange.refused and exchange.status == 400 and sim.requests == 1
        assert host.tally.refused == 1

    on_stage(play)


def test_a_retry_after_holds_for_all_requests() -> None:
    waits: list[float] = []

    async def play(sim: Sim, host: Interview) -> None:
        host._clock = lambda: 100.0
        await host._pause(7.0, 1)
        await host.ask("Say hello.")
        assert waits == [7.0, 7.0]

    on_stage(play, waits=waits)


def test_an_answer_without_an_end_that_is_complete_is_not_a_cut_connection() -> None:
    async def play(sim: Sim, host: Interview) -> None:
        exchange = await host.ask("Say hello.")
        assert sim.requests == 1 and exchange.turn is not None and exchange.seen.finish is None

    on_stage(play, always=("no-finish",))


def test_nothing_is_sent_that_may_cost_more_than_is_left() -> None:
    price = Price(1000.0, 1000.0, 0.0, 0.0)
    budget = Budget(price, 0.5)

    async def play(sim: Sim, host: Interview) -> None:
        await host.ask("Say hello.", max_tokens=300)
        spent = budget.spent
        assert 0 < spent < 0.5
        for _ in range(50):
            try:
                await host.ask("Say hello.", max_tokens=300)
            except OverBudget as error:
                assert "raise --max-cost" in str(error)
                break
        else:
            pytest.fail("the budget was never over")
        assert budget.spent <= 0.5

    on_stage(play, budget=budget)


def test_a_talkative_model_does_not_cost_more_than_was_allowed() -> None:
    """All at once, each with an answer as long as it may be."""
    budget = Budget(Price(0.0, 1000.0, 0.0, 0.0), 1.0)

    async def play(sim: Sim, host: Interview) -> None:
        asked = [host.ask("Say many words.", max_tokens=300) for _ in range(20)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        over = [each for each in found if isinstance(each, OverBudget)]
        assert (
            over
            and len(over) < 20
            and not [each for each in found if isinstance(each, BaseException) and each not in over]
        )
        assert 0.7 < budget.spent <= 1.0 and sim.requests < 5

    on_stage(play, budget=budget, script=lambda *_, **__: Answer("word " * 250))


def test_one_that_does_not_fit_beside_others_waits_for_them() -> None:
    """Room for one answer at a time, and enough for all of them one after the other."""
    budget = Budget(Price(0.0, 1000.0, 0.0, 0.0), 1.0)

    async def play(sim: Sim, host: Interview) -> None:
        found = await asyncio.gather(*[host.ask("Say hello.", max_tokens=800) for _ in range(5)])
        assert len(found) == sim.requests == 5 and budget.spent < 0.3

    on_stage(play, budget=budget)


def test_an_answer_that_broke_off_is_paid_for_and_a_refusal_is_not() -> None:
    budget = Budget(Price(0.0, 1000.0, 0.0, 0.0), 10.0)

    async def play(sim: Sim, host: Interview) -> None:
        await host.ask("x", edit=lambda body: b"{}")
        assert budget.spent == 0.0
        sim.inject("cut")
        await host.ask("Say hello to everybody in this room, please.", max_tokens=1000)
        assert 1.0 <= budget.spent < 1.2

    on_stage(play, budget=budget)


def test_an_answer_without_a_count_is_paid_by_its_words() -> None:
    budget = Budget(Price(0.0, 1000.0, 0.0, 0.0), 10.0)

    async def play(sim: Sim, host: Interview) -> None:
        await host.ask("Say hello.", max_tokens=4000)
        assert 0.0 < budget.spent < 0.1

    on_stage(play, budget=budget, always=("no-usage",))


def test_a_key_that_a_host_repeats_is_in_no_finding() -> None:
    """Said as text, as a tool's name and as a finish reason."""

    def echo(*_: Any, **__: Any) -> Answer:
        return Answer(f"<tool_call> your key is {CANARY}")

    async def main() -> None:
        async with Sim(script=echo, key=CANARY) as sim:
            catalog = Catalog(
                Config(), environ={"OPENAI_BASE_URL": f"{sim.url}/openai", "OPENAI_API_KEY": CANARY}, providers=()
            )
            async with make_client(catalog) as client:
                host = Interview(client, "openai/gpt-4o", sleep=no_sleep)
                found = await run_probes(host, list(PROBES.values()))
        told = str(found.findings) + str(found.facts)
        assert "leak.text" in told and CANARY not in told and CANARY[3:] not in told

    run(main(), limit=120)


def test_a_key_that_is_wrong_ends_as_unfinished_or_failed_never_as_passed() -> None:
    async def main() -> None:
        async with Sim(key="another") as sim:
            catalog = Catalog(
                Config(), environ={"OPENAI_BASE_URL": f"{sim.url}/openai", "OPENAI_API_KEY": CANARY}, providers=()
            )
            async with make_client(catalog) as client:
                host = Interview(client, "openai/gpt-4o", sleep=no_sleep)
                found = await run_probes(host, [PROBES["hello"]])
        assert results(found.findings)["answer.said"].verdict == "fail"

    run(main())


def test_a_wait_that_is_too_long_is_not_waited_for() -> None:
    async def play(sim: Sim, host: Interview) -> None:
        error = (await host.ask("x", edit=lambda body: b"{}")).error
        assert error is not None
        with pytest.raises(Unfinished, match="asks to wait"):
            await _asks_to_wait(host)

    on_stage(play)


async def _asks_to_wait(host: Interview) -> None:
    from midstream.core.errors import RateLimited

    async def limited(*_: Any, **__: Any) -> Any:
        raise RateLimited("slow down", status=429, retry_after=4000.0)

    host.client.send = limited  # type: ignore[method-assign]
    await host.ask("x")
