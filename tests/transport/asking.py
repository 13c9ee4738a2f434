"""Requests, patience and a clock for the transport's tests."""

from __future__ import annotations

import asyncio
from typing import Any

from midstream.transport import RetryPolicy, TransportOptions
from midstream.wires.request import Request
from tests.event_loops import run

__all__ = ["AUTH", "CANARY", "QUICK", "Clock", "asks", "run"]

CANARY = "sk-canary-4a9f0c77d1"
AUTH = {"authorization": f"Bearer {CANARY}"}
QUICK = TransportOptions(connect=5, first_byte=5, idle=5, total=30, retry=RetryPolicy(max_retries=2), linger=0.2)
"""Long enough never to matter on a busy machine, short enough to end a test that hangs."""


def asks(body: bytes = b'{"stream":true}', *, stream: bool = True, **changes: Any) -> Request:
    fields = {"method": "POST", "path": "/chat/completions", "headers": {"content-type": "application/json"}}
    return Request(**{**fields, "body": body, "stream": stream, **changes})


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)
