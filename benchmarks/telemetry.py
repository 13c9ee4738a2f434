"""What telemetry costs an answer: without an SDK, beside a client that never looks for one; and with one that takes spans.

`python -m benchmarks.telemetry` prints it. The answers come from the doubles over loopback, so the figures are of whole answers.
"""

from __future__ import annotations

import asyncio
import timeit
from collections.abc import Callable

from midstream import Client
from midstream.telemetry import current_telemetry
from midstream.testing import SimServer, sim_server

from .measure import Row, misses, table, take_turns

ANSWERS = 60
ROUNDS = 12
_MODEL = "moonshot/kimi-k2.5"


def main() -> int:
    with sim_server() as sim:
        unseen = timeit.timeit(current_telemetry, number=200_000) / 200_000
        without = _asking(sim, telemetry=False)
        # Measured before OpenTelemetry is imported: that is the case of a program that has none.
        alone = take_turns({"no telemetry": without, "telemetry, nobody takes it": _asking(sim)}, ROUNDS)
        taken = _with_sdk(sim)
        beside = take_turns({"no telemetry": without, "telemetry, an SDK takes it": taken}, ROUNDS)
    bare, idle = alone["no telemetry"].best, alone["telemetry, nobody takes it"].best
    busy = beside["telemetry, an SDK takes it"].best / beside["no telemetry"].best
    rows = [
        Row("an answer without telemetry", bare / ANSWERS * 1e6, "µs"),
        Row("the same, looking for an SDK that is not there", idle / bare, "×", goal=1.05),
        Row("the look itself", unseen * 1e9, "ns", goal=1000.0),
        Row("the same, with an SDK that keeps spans in memory", busy, "×", goal=1.6),
    ]
    print(table(rows))
    return 1 if misses(rows) else 0


def _asking(sim: SimServer, telemetry: object = None) -> Callable[[], object]:
    async def ask() -> None:
        async with Client(sim.catalog(), telemetry=telemetry) as client:  # type: ignore[arg-type]
            for _ in range(ANSWERS):
                await client.stream(_MODEL, "hello")

    return lambda: asyncio.run(ask())


def _with_sdk(sim: SimServer) -> Callable[[], object]:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from midstream.telemetry import Telemetry

    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    return _asking(sim, Telemetry(tracers))


if __name__ == "__main__":
    raise SystemExit(main())
