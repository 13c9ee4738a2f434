"""The vectors of the event-stream parser once more, each through a real connection: the same events as from memory."""

from __future__ import annotations

import base64

import msgspec
import pytest

from tests.shared_data import shared
from tests.wires.test_sse import cuts, parse

from .asking import AUTH, asks, run
from .loopback import Seen, Server, Wire
from .test_client import Clock, patient

pytestmark = pytest.mark.usefixtures("each_loop")


def test_the_vectors_over_http() -> None:
    cases = [
        [part["s"].encode() if "s" in part else base64.b64decode(part["b64"]) for part in case["chunks"]]
        for case in msgspec.json.decode(shared("vectors/reliability/sse.json").read_bytes())["vectors"]
    ]
    sent = [pieces for chunks in cases for pieces in cuts(chunks).values()]

    async def speaks(wire: Wire, seen: Seen) -> None:
        await wire.begin("content-type: text/event-stream")
        for piece in sent[int(seen.body)]:
            if piece:
                await wire.chunk(piece)
        await wire.end()

    async def main() -> None:
        async with Server(speaks) as server, patient(Clock()) as transport:
            for number, pieces in enumerate(sent):
                answer = await transport.open(asks(b"%d" % number), server.base, AUTH)
                got = [chunk async for chunk in answer.chunks()]
                assert b"".join(got) == b"".join(pieces)
                assert parse(got) == parse([b"".join(pieces)])
            assert server.accepted == 1
            assert len(server.seen) == len(sent) == 3 * 119

    run(main())
