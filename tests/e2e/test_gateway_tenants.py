"""Ten thousand interleaved turns of two tenants with the same raw ids, over HTTP, through one gateway process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest

from midstream.client.sync import Background
from midstream.gateway.state import open_state
from midstream.sim.server import Sim
from tests.event_loops import run
from tests.gateway.gateway_process import gateway_process
from tests.gateway.test_tenants_apart import PER_ROUND, Clients, foreign_requests, interleave, think_aloud, two_keys

TURNS = 10_000
PARTS = 5
"""So that each ends in time on a slow machine."""
_TURNS = TURNS // PARTS


class Served(NamedTuple):
    url: str
    keys: dict[str, str]
    doubles: Sim


async def make_keys(address: str) -> dict[str, str]:
    state = open_state(address)
    await state.open()
    keys = await two_keys(state)
    await state.close()
    return keys


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    address = str(Path(tmp_path_factory.mktemp("gateway")) / "gateway.db")
    keys = asyncio.run(make_keys(address))
    doubles = Sim(script=think_aloud, keep=TURNS)
    with closing(Background()) as background:
        background.run(doubles.__aenter__())
        try:
            with gateway_process(doubles.url, state=address) as gateway:
                yield Served(gateway.url, keys, doubles)
        finally:
            background.run(doubles.__aexit__(None, None, None))


@pytest.mark.parametrize("part", range(PARTS))
def test_ten_thousand_turns_bring_no_foreign_byte(part: int, served: Served) -> None:
    async def check() -> None:
        before = served.doubles.requests
        async with aiohttp.ClientSession() as http:
            clients = Clients(http, served.url, served.keys)
            await interleave(clients, _TURNS // PER_ROUND)
        assert clients.turns == _TURNS and clients.foreign == []
        asked = served.doubles.requests - before
        # Not asked upstream: the two turns of a round that go on from the other's response.
        assert asked == _TURNS - 2 * (_TURNS // PER_ROUND) and served.doubles.refused == []
        assert foreign_requests([seen.body for seen in list(served.doubles.seen)[-asked:]]) == []

    run(check(), limit=600)
