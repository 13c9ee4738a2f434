"""Run by itself: ask a fault-playing server for one fault and print how far the memory rose over an ordinary answer's.

usage: bomb_peak.py asyncio|uvloop BASE FAULT read|stream
"""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from pathlib import Path

from midstream.codec import make_decoder
from midstream.core.errors import MidstreamError
from midstream.core.events import ErrorEvent
from midstream.transport import Transport, TransportOptions, stream_events
from midstream.wires.request import Request


def kib(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


async def ask(transport: Transport, base: str, way: str) -> str:
    request = Request("POST", "/chat/completions", {"content-type": "application/json"}, b'{"stream":true}')
    answer = await transport.open(request, base)
    if way == "read":
        try:
            await answer.read()
        except MidstreamError as error:
            return type(error).__name__
        return "read"
    kind = ""
    async for events in stream_events(answer, make_decoder()):
        last = events[-1]
        kind = last.error.kind if isinstance(last, ErrorEvent) else type(last).__name__
    return kind


async def main(base: str, fault: str, way: str) -> None:
    async with Transport(TransportOptions(first_byte=60, idle=60), environ={}) as transport:
        await ask(transport, f"{base}/f/ok/v1", way)
        before = kib("VmRSS")
        forget_peak()
        outcome = await ask(transport, f"{base}/f/{fault}/v1", way)
        print(outcome, kib("VmHWM") - before)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=importlib.import_module(sys.argv[1]).new_event_loop) as runner:
        runner.run(main(*sys.argv[2:]))
