"""TensorZero's gateway as its wheel brings it: started in a process of its own, on a port that it chooses and that is printed.

Run with the interpreter that has `tensorzero`: `python tensorzero_server.py CONFIG`.
"""

from __future__ import annotations

import asyncio
import inspect
import sys

import tensorzero  # type: ignore[import-not-found, unused-ignore]


async def main() -> None:
    started = tensorzero._start_http_gateway(
        config_file=sys.argv[1], clickhouse_url=None, postgres_url=None, valkey_url=None, async_setup=True
    )
    gateway = await started if inspect.isawaitable(started) else started
    print(gateway.base_url, flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
