"""Ways of cutting a stream: whole, byte by byte, at given lengths, at random."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from midstream.core.events import Event
from midstream.core.lifecycle import check
from midstream.wires.stream_decoder import StreamDecoder, decode_chunks


def by_byte(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def by_lengths(data: bytes, lengths: Iterable[int]) -> Iterator[bytes]:
    at = 0
    for length in lengths:
        yield data[at : at + length]
        at += length
    yield data[at:]


def at_random(data: bytes, seed: int, pieces: int = 20) -> list[bytes]:
    cuts = sorted(random.Random(seed).choices(range(len(data) + 1), k=pieces)) if data else []
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def events_of(decoder: StreamDecoder, chunks: Iterable[bytes]) -> list[Event]:
    """All events, checked against the law of their order."""
    events = list(decode_chunks(decoder, chunks))
    check(events)
    return events
