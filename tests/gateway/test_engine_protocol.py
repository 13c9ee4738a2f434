"""What clients may do to a connection, and what they get."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st

from midstream.gateway.protocol import EngineState, GatewayProtocol, Limits, ServedRequest
from tests.event_loops import run

from .engine_serving import GOOD, Answers, Echo, running, talk

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


def test_a_request_that_is_over_leaves_nothing_to_the_collector() -> None:
    """Its head holds the client's key, which should be gone with it."""

    async def main() -> None:
        async with running(**LIMITS) as here:
            gc.collect()
            gc.disable()
            try:
                for path in (b"/good", b"/refuse", b"/slow"):
                    await talk(here.port, GOOD.replace(b"/good", path))
                await asyncio.sleep(0)
                assert [each for each in gc.get_objects() if type(each) is ServedRequest and each.scope] == []
            finally:
                gc.enable()

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


class Wire(asyncio.Transport):
    """A transport that only remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        assert not self.closed
        self.written += data

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        assert not self.closed
        self.closed = True

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def heard(pieces: list[bytes], app: Any = None) -> tuple[bytes, bool]:
    """What a connection says to these pieces, and whether it closed."""
    state = EngineState(Limits(pipelined=1000))
    config = uvicorn.Config(
        app or Echo(), http=GatewayProtocol, ws="none", log_config=None, lifespan="off", interface="asgi3"
    )
    config.load()
    connection = GatewayProtocol(config, state, {})
    wire = Wire()
    connection.connection_made(wire)
    for piece in pieces:
        if not wire.closed:
            connection.data_received(piece)
            await asyncio.sleep(0)
    while state.tasks and connection._receiving is None:
        await asyncio.wait(state.tasks)
    connection.connection_lost(None)
    await asyncio.gather(*state.tasks)
    return wire.written, wire.closed


@pytest.mark.parametrize("spelled", [bytes.lower, bytes.title, bytes.upper])
def test_what_frames_an_answer_is_seen_however_it_is_spelled(spelled: Callable[[bytes], bytes]) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [
            (b"content-length", b"2"),
            (b"connection", b"Close"),
            (b"transfer-encoding", b"gzip"),
            (b"x-a", b"A"),
        ]
        headers = [(spelled(name), value) for name, value in headers]
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})

    written, _ = run(heard([b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"], app))
    head, _, body = written.partition(b"\r\n\r\n")
    assert sorted(head.split(b"\r\n")[1:]) == [b"connection: close", b"content-length: 2", b"x-a: A"]
    assert body == b"ok"


FRAGMENTS = [
    b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /a HTTP/1.1\r\n",
    b"GET /a HTTP/1.0\r\n",
    b"Host: x\r\n",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: Upgrade\r\nUpgrade: websocket\r\n",
    b"Connection: Upgrade\r\nUpgrade: h2c\r\n",
    b"Expect: 100-continue\r\n",
    b"X-A: a\r\n",
    b"\r\n",
    b"abc",
    b"3\r\nabc\r\n",
    b"0\r\n\r\n",
    b"\n",
    b"\0",
    b" ",
]


@given(st.lists(st.sampled_from(FRAGMENTS) | st.binary(max_size=4), max_size=14), st.data())
def test_any_bytes_in_any_pieces(fragments: list[bytes], data: st.DataObject) -> None:
    """Whatever comes is answered or refused, never with an error of ours, and the same however it is cut."""
    whole = b"".join(fragments)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=6)) | {0, len(whole)})
    pieces = [whole[start:end] for start, end in pairwise(cuts) if end > start]

    async def main() -> tuple[tuple[bytes, bool], tuple[bytes, bool]]:
        return await heard([whole]), await heard(pieces)

    (at_once, closed), (in_pieces, closed_too) = run(main())
    found = Answers(at_once)
    assert all(200 <= status < 500 for status in found.statuses)
    assert found.whole == len(found.statuses)
    assert (Answers(in_pieces).statuses, closed_too) == (found.statuses, closed)
