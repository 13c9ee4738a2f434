"""Our reading of HTTP beside the oracle's: a bounded part of what `python -m tests.transport.differential` compares."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from .asking import run
from .byte_streams import byte_stream
from .differential import LOOSER, STRICTER, Difference, compare

pytestmark = pytest.mark.usefixtures("each_loop")

KEPT = msgspec.json.decode((Path(__file__).parents[1] / "data/transport/seeds.json").read_bytes())
FRESH = 200
KNOWN = {seed: kind for kind, seeds in KEPT["known"].items() for seed in seeds}


def _differences(seeds: Iterable[int]) -> dict[int, Difference]:
    return {found.stream.seed: found for found in run(compare(seeds), limit=150)}


def test_every_difference_has_a_reason(each_loop: str) -> None:
    first = 0 if each_loop == "asyncio" else FRESH
    without = [found for found in _differences(range(first, first + FRESH)).values() if not found.kind]
    assert not without


def test_the_seeds_that_were_kept() -> None:
    found = _differences([*KEPT["clean"], *KNOWN])
    assert {seed: difference.kind for seed, difference in found.items()} == KNOWN


def test_every_reason_has_a_seed_and_every_seed_a_reason() -> None:
    assert set(KEPT["known"]) == {*STRICTER, LOOSER}
    assert all(KEPT["known"].values())


def test_a_seed_is_all_there_is_to_a_case() -> None:
    for seed in range(300):
        stream = byte_stream(seed)
        assert stream == byte_stream(seed)
        assert b"".join(stream.pieces) == stream.data
