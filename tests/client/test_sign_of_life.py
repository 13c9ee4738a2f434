"""`start` comes when the host has accepted the request; until the first block an answer may be asked for again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from midstream.client.client import Client
from midstream.core.errors import BadRequest, MidstreamError
from midstream.core.events import Done, ErrorEvent, Event, Start
from midstream.core.lifecycle import check
from tests.client.scripted import catalog
from tests.long_run import each_once
from tests.transport.asking import Clock, run
from tests.transport.loopback import Script, Seen, Server, Wire, scripted
from tests.transport.test_client import patient


def data(**chunk: object) -> bytes:
    return b"data: " + json.dumps({"id": "r1", "model": "served-name", **chunk}).encode() + b"\n\n"


HELLO = (
    data(choices=[{"index": 0, "delta": {"content": "hello"}}])
    + data(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
    + b"data: [DONE]\n\n"
)


async def good(wire: Wire, seen: Seen) -> None:
    await wire.begin("content-type: text/event-stream")
    await wire.chunk(HELLO)
    await wire.end()


def says(body: bytes, *, cut: bool = False) -> Script:
    """Good headers, this body, and then the end, or a connection that is lost."""

    async def script(wire: Wire, seen: Seen) -> None:
        await wire.begin("content-type: text/event-stream")
        if body:
            await wire.chunk(body)
        if cut:
            wire.writer.close()
        else:
            await wire.end()

    return script


async def refuses(wire: Wire, seen: Seen) -> None:
    await wire.answer(b'{"error":{"message":"no"}}', 400)


OVERLOADED = b'data: {"error":{"message":"busy","code":503,"type":"overloaded_error"}}\n\n'
ROLE = data(choices=[{"index": 0, "delta": {"role": "assistant", "content": ""}}])
HALF = data(choices=[{"index": 0, "delta": {"content": "hel"}}])
REFUSED = b'data: {"error":{"message":"no such parameter","code":400,"type":"invalid_request_error"}}\n\n'

Act = Callable[[Client, Server, Clock], Awaitable[None]]


def play(act: Act, *scripts: Script) -> None:
    async def main() -> None:
        clock = Clock()
        async with (
            Server(scripted(*scripts)) as server,
            patient(clock) as transport,
            Client(catalog(a=server.base, b=server.base), transport=transport) as client,
        ):
            await act(client, server, clock)

    run(main())


async def events_of(client: Client, *models: str) -> list[Event]:
    events = [event async for event in client.stream(models, "hi", turn_key="k")]
    check(events)
    return events


def test_start_comes_with_the_headers() -> None:
    async def waits(wire: Wire, seen: Seen) -> None:
        await wire.begin("content-type: text/event-stream")
        await go_on.wait()
        await wire.chunk(HELLO)
        await wire.end()

    async def act(client: Client, server: Server, clock: Clock) -> None:
        batches = client.batches("a/m", "hi", turn_key="k")
        assert await anext(batches) == [Start("k", "m")]  # the host sends nothing more before it is told to
        go_on.set()
        rest = [event async for batch in batches for event in batch]
        check([Start("k", "m"), *rest])
        last = rest[-1]
        assert isinstance(last, Done) and last.turn.text == "hello"
        assert (last.turn.response_id, last.turn.response_model) == ("r1", "served-name")
        assert last.turn.origin is not None and last.turn.origin.model == "m"

    go_on = asyncio.Event()
    play(act, waits)


def test_a_reply_that_is_left_before_its_first_byte_closes_the_connection() -> None:
    async def silent(wire: Wire, seen: Seen) -> None:
        await wire.begin("content-type: text/event-stream")
        await wire.gone()

    async def act(client: Client, server: Server, clock: Clock) -> None:
        reply = client.stream("a/m", "hi")
        assert isinstance(await anext(aiter(reply)), Start)
        await reply.aclose()
        await server.all_closed()

    play(act, silent)


# what the host does first -> how many waits there are before the good answer
CURED = {
    "the connection is lost before the first byte": (says(b"", cut=True), 1),
    "the connection is lost before a block": (says(ROLE, cut=True), 1),
    "the body ends before a block": (says(ROLE), 1),
    "an error comes first": (says(OVERLOADED), 1),
    "an error comes before a block": (says(ROLE + OVERLOADED), 1),
}


@each_once(("what", CURED), ("chain", [("a/m",), ("a/m", "b/n")]))
def test_before_the_first_block_an_answer_is_asked_for_again(what: str, chain: tuple[str, ...]) -> None:
    first, waits = CURED[what]

    async def act(client: Client, server: Server, clock: Clock) -> None:
        events = await events_of(client, *chain)
        last = events[-1]
        assert isinstance(last, Done) and last.turn.text == "hello" and len(clock.slept) == waits
        assert last.turn.origin is not None and last.turn.origin.model == "m"

    play(act, first, good)


@pytest.mark.parametrize("what", CURED)
def test_then_the_next_model_is_asked(what: str) -> None:
    first, _ = CURED[what]

    async def act(client: Client, server: Server, clock: Clock) -> None:
        events = await events_of(client, "a/m", "b/n")
        last = events[-1]
        assert isinstance(last, Done) and last.turn.text == "hello"
        assert last.turn.origin is not None and last.turn.origin.model == "n"

    play(act, first, first, first, good)


def test_when_no_model_answers_the_error_names_all() -> None:
    async def act(client: Client, server: Server, clock: Clock) -> None:
        last = (await events_of(client, "a/m", "b/n"))[-1]
        assert isinstance(last, ErrorEvent) and last.turn.failure == last.error.kind == "retries_exhausted"
        assert "a/m" in last.error.message and "b/n" in last.error.message and last.turn.key == "k"
        assert len(server.seen) == 6

    play(act, says(OVERLOADED))


def test_an_http_failure_is_raised_before_start_and_told_after_it() -> None:
    async def before(client: Client, server: Server, clock: Clock) -> None:
        with pytest.raises(BadRequest):
            await events_of(client, "a/m")

    async def after(client: Client, server: Server, clock: Clock) -> None:
        last = (await events_of(client, "a/m"))[-1]
        assert isinstance(last, ErrorEvent) and last.error.kind == BadRequest.kind and not last.turn.blocks

    play(before, refuses)
    play(after, says(ROLE, cut=True), refuses)
    play(after, says(b"", cut=True), refuses)


@pytest.mark.parametrize("body", [HALF, REFUSED, HALF + OVERLOADED])
def test_what_another_attempt_cannot_cure_is_told(body: bytes) -> None:
    """A block has begun, or the host refuses the request: nothing is sent twice."""

    async def act(client: Client, server: Server, clock: Clock) -> None:
        last = (await events_of(client, "a/m", "b/n"))[-1]
        assert isinstance(last, ErrorEvent) and len(server.seen) == 1
        assert isinstance(last.to_exception(), MidstreamError)

    play(act, says(body))
