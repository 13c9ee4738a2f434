"""Ten thousand interleaved turns of two tenants with the same raw ids, over HTTP, through one gateway process."""

from __future__ import annotations

from pathlib import Path

import aiohttp

from midstream.gateway.state import open_state
from midstream.sim.server import Sim
from tests.event_loops import run
from tests.gateway.gateway_process import gateway_process
from tests.gateway.test_tenants_apart import PER_ROUND, Clients, foreign_requests, interleave, think_aloud, two_keys

TURNS = 10_000


def test_ten_thousand_turns_bring_no_foreign_byte(tmp_path: Path) -> None:
    async def check() -> None:
        address = str(tmp_path / "gateway.db")
        state = open_state(address)
        await state.open()
        keys = await two_keys(state)
        await state.close()
        async with Sim(script=think_aloud, keep=TURNS) as doubles, aiohttp.ClientSession() as http:
            with gateway_process(doubles.url, state=address) as gateway:
                clients = Clients(http, gateway.url, keys)
                await interleave(clients, TURNS // PER_ROUND)
        assert clients.turns == TURNS and clients.foreign == []
        # Not asked upstream: the two turns of a round that go on from the other's response.
        assert len(doubles.seen) == TURNS - 2 * (TURNS // PER_ROUND) and doubles.refused == []
        assert foreign_requests([seen.body for seen in doubles.seen]) == []

    run(check(), limit=600)
