"""A host on stage: the doubles, a client of the verifier, and what it found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from midstream.client.catalog import Catalog
from midstream.client.config import Config, ProviderConfig
from midstream.sim.server import Sim
from midstream.verify.checks import Result, results
from midstream.verify.interview import Interview, make_client
from midstream.verify.probes import Probe
from midstream.verify.run import HostRun, run_probes
from midstream.verify.suites import SUITES
from tests.event_loops import run

ALL = tuple([probe for suite in SUITES.values() for probe in suite])
PROBES = {probe.name: probe for probe in ALL}


async def no_sleep(seconds: float) -> None:
    return None


async def asked(
    sim: Sim, model: str, probes: Sequence[Probe], *, providers: dict[str, ProviderConfig] | None = None, **options: Any
) -> tuple[HostRun, dict[str, Result]]:
    catalog = Catalog(Config(providers=providers or {}), environ={}, providers=[] if providers else sim.providers())
    async with make_client(catalog) as client:
        host = Interview(client, model, sleep=no_sleep, **options)
        found = await run_probes(host, probes)
    return found, results(found.findings)


def verified(
    model: str, probes: Sequence[Probe] = ALL, *faults: str, **options: Any
) -> tuple[HostRun, dict[str, Result]]:
    """What is found of a double that always has these faults."""

    async def play() -> tuple[HostRun, dict[str, Result]]:
        async with Sim(always=faults) as sim:
            return await asked(sim, model, probes, **options)

    return run(play(), limit=120)
