"""Gateways made to be killed. For each line on stdin (a number of acknowledgements, and a delay in seconds) a fresh process writes
numbered records to the state until it is killed by signal 9 that long after so many were acknowledged; the numbers that were
acknowledged to it go to stdout, in one line.
"""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from pathlib import Path

from midstream.gateway.state import KeyRecord, SqliteState, UsageRow, VaultEntry
from tests.victim import killed

WRITERS = 4


async def write(state: SqliteState, number: int) -> None:
    """Everything that the state can be told of one request."""
    await state.put_vault("acme", [VaultEntry(f"{number}-{part}", b"%d" % number * 50) for part in range(3)], 1e12)
    await state.put_response("acme", str(number), b"%d" % number * 500, 1e12)
    await state.add_spend({("k", "w"): 1, (f"k{number}", "w"): number})
    await state.log_usage([UsageRow(float(number), model=str(number))])
    await state.add_key(KeyRecord(str(number), "acme", b"%d" % number))


def write_for_ever(path: str, first: int, acknowledge: int) -> None:
    async def writer(state: SqliteState, number: int) -> None:
        while True:
            await write(state, number)
            os.write(acknowledge, b"%d\n" % number)
            number += WRITERS

    async def main() -> None:
        state = SqliteState(Path(path))
        await state.open()
        await asyncio.gather(*[writer(state, first + number) for number in range(WRITERS)])

    asyncio.run(main())


def main(path: str) -> None:
    first = 0
    for line in sys.stdin:
        acknowledged, delay = line.split()
        lines = killed(partial(write_for_ever, path, first), int(acknowledged), float(delay))
        print(" ".join([line.decode() for line in lines]), flush=True)
        first += 1_000_000  # numbers of its own: those that were cut off are not written again


if __name__ == "__main__":
    main(*sys.argv[1:])
