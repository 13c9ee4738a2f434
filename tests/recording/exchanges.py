"""Exchanges to record and read back: made at random, and by the doubles."""

from __future__ import annotations

import random
from typing import Any

from midstream.core.errors import KINDS
from midstream.recording import Chunk, Payload, RecordedError, RecordedExchange, RecordedHead, RecordedRequest

_LETTERS = 'aé中😀 "\\{}[]:,\n\r\t\u2028\x00\x7fdata'


def text(dice: random.Random, most: int = 40) -> str:
    return "".join(dice.choices(_LETTERS, k=dice.randrange(most)))


def value(dice: random.Random, depth: int = 0) -> Any:
    leaves = [text(dice), dice.randrange(-(2**63), 2**63), dice.random(), True, None, [], {}]
    kind = dice.randrange(3) if depth < 3 else 0
    if kind == 1:
        return [value(dice, depth + 1) for _ in range(dice.randrange(4))]
    if kind == 2:
        return {text(dice, 8): value(dice, depth + 1) for _ in range(dice.randrange(4))}
    return dice.choice(leaves)


def exchange(seed: int) -> RecordedExchange:
    """Any exchange: text cut inside characters, bytes that are no text, empty bodies, answers that never came."""
    dice = random.Random(seed)
    bodies = [Payload(json={"a": value(dice)}), Payload.of(text(dice).encode()), Payload.of(dice.randbytes(30)), None]
    head = RecordedHead(dice.randrange(100, 600), {"content-type": text(dice)}, dice.randrange(10**6))
    began = dice.random() < 0.9
    whole = (text(dice, 400).encode(), dice.randbytes(dice.randrange(400)))[dice.random() < 0.3]
    chunks, at, now = list[Chunk](), 0, 0
    while began and at < len(whole):
        size = dice.choice((1, 2, 7, 64))
        now += dice.randrange(10**6)
        chunks.append(Chunk(now, whole[at : at + size]))
        at += size
    ending = dice.choice(("clean", "cut", "timeout", "error", "aborted"))
    error = None if ending == "clean" else RecordedError(dice.choice(sorted(KINDS)), text(dice))
    request = RecordedRequest("POST", "https://host.example/v1/" + str(seed), {"x": text(dice)}, dice.choice(bodies))
    return RecordedExchange(
        request,
        head if began else None,
        tuple(chunks),
        ending,  # type: ignore[arg-type]
        error,
        now,
        text(dice),
        text(dice),
        "2026-11-17T08:00:00Z",
        text(dice),
    )
