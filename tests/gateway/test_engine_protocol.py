"""What clients may do to a connection, and what they get."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.event_loops import run

from .engine_serving import GOOD, Answers, running, talk

pytestmark = pytest.mark.usefixtures("each_loop")

CASES = msgspec.json.decode((Path(__file__).parents[1] / "data/gateway/http_raw.json").read_bytes())["vectors"]
LIMITS: dict[str, Any] = {"url": 200, "head": 1000, "headers": 12, "body": 1000, "pipelined": 4}


def raw(case: dict[str, Any]) -> bytes:
    parts = case["raw"] if isinstance(case["raw"], list) else [case["raw"]]
    return "".join([part if isinstance(part, str) else part[0] * part[1] for part in parts]).encode("latin-1")


async def judge(port: int, case: dict[str, Any], pieces: list[bytes]) -> str:
    """What differs from what was expected; empty if nothing."""
    async with asyncio.timeout(10):
        found = Answers(await talk(port, *pieces), case.get("bodiless", False))
    if found.statuses != case["answers"]:
        return f"{case['id']}: expected {case['answers']}, got {found.statuses}: {found.bodies[-1:]}"
    if found.whole != len(found.statuses):
        return f"{case['id']}: an answer was cut: {found.raw[-200:]!r}"
    return ""


def test_raw_requests() -> None:
    async def main() -> None:
        async with running(**LIMITS) as here:
            wrong = [await judge(here.port, case, [raw(case), GOOD]) for case in CASES]
            assert [each for each in wrong if each] == []
            expected = [status for case in CASES for status in case["answers"] if status not in (200, 401)]
            assert sorted(here.refused) == sorted(expected)

    run(main())


def test_raw_requests_in_one_piece_with_the_next() -> None:
    async def main() -> None:
        async with running(**LIMITS) as here:
            wrong = [await judge(here.port, case, [raw(case) + GOOD]) for case in CASES if case.get("split", True)]
            assert [each for each in wrong if each] == []

    run(main())


def test_raw_requests_byte_by_byte() -> None:
    async def main() -> None:
        async with running(**LIMITS) as here:
            cases = [case for case in CASES if case.get("split", True)]
            pieces = [[bytes([byte]) for byte in raw(case) + GOOD] for case in cases]
            wrong = await asyncio.gather(
                *[judge(here.port, case, each) for case, each in zip(cases, pieces, strict=True)]
            )
            assert [each for each in wrong if each] == []

    run(main())
