"""What a tap is told of every kind of exchange, and that it is told each end once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from midstream.core.errors import MidstreamError
from midstream.transport import RetryPolicy, Transport, TransportOptions
from midstream.transport.tap import Ending
from midstream.transport.target import Target

from .asking import AUTH, asks, run
from .loopback import Script, Seen, Server, Wire

ONCE = TransportOptions(connect=5, first_byte=5, idle=5, total=30, retry=RetryPolicy(max_retries=0), linger=0.2)


class Ear:
    """A tap that notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def sent(self, target: Target) -> Ear:
        self.heard.append(("sent", target.method, target.url.partition("/v1")[2], target.body))
        return self

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        self.heard.append(("head", status, headers.get("content-type")))

    def chunk(self, data: bytes) -> None:
        self.heard.append(("chunk", data))

    def end(self, ending: Ending, error: MidstreamError | None) -> None:
        self.heard.append(("end", ending, None if error is None else error.kind))


SENT = ("sent", "POST", "/chat/completions", b'{"stream":true}')
HEAD = ("head", 200, "text/event-stream")


async def _streamed(wire: Wire, seen: Seen) -> None:
    await wire.begin("content-type: text/event-stream")
    await wire.chunk(b"one")
    await asyncio.sleep(0.02)
    await wire.chunk(b"two")
    await wire.end()


async def _cut(wire: Wire, seen: Seen) -> None:
    await wire.begin("content-type: text/event-stream")
    await wire.chunk(b"one")
    wire.writer.transport.abort()


async def _silent(wire: Wire, seen: Seen) -> None:
    await wire.begin("content-type: text/event-stream")
    await wire.chunk(b"one")
    await wire.gone()


async def _nothing(wire: Wire, seen: Seen) -> None:
    await wire.gone()


async def _only_head(wire: Wire, seen: Seen) -> None:
    await wire.begin("content-type: text/event-stream")
    await wire.gone()


async def _refused(wire: Wire, seen: Seen) -> None:
    await wire.answer(b'{"error":"no"}', 400, "content-type: application/json")


async def _gone(wire: Wire, seen: Seen) -> None:
    wire.writer.transport.abort()


async def _noise(wire: Wire, seen: Seen) -> None:
    await wire.send(b"this is not HTTP\r\n\r\n")


async def _read(script: Script, options: TransportOptions) -> Ear:
    ear = Ear()
    async with Server(script) as server, Transport(options, tap=ear) as transport:
        try:
            async with await transport.open(asks(), server.base, AUTH) as answer:
                await answer.read()
        except MidstreamError:
            pass
    return ear


def _joined(heard: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Chunks together: where the operating system cuts them is its own affair."""
    body = b"".join([each[1] for each in heard if each[0] == "chunk"])  # type: ignore[misc]
    rest = [each for each in heard if each[0] != "chunk"]
    return [*rest[:-1], ("body", body), rest[-1]] if body else rest


SHORT = TransportOptions(connect=5, first_byte=0.2, idle=0.2, total=30, retry=RetryPolicy(max_retries=0))


@pytest.mark.parametrize(
    ("script", "options", "heard"),
    [
        (_streamed, ONCE, [SENT, HEAD, ("body", b"onetwo"), ("end", "clean", None)]),
        (_cut, ONCE, [SENT, HEAD, ("body", b"one"), ("end", "cut", "truncated")]),
        (_silent, SHORT, [SENT, HEAD, ("body", b"one"), ("end", "timeout", "idle_timeout")]),
        (_nothing, SHORT, [SENT, ("end", "timeout", "timed_out")]),
        (_only_head, SHORT, [SENT, HEAD, ("end", "timeout", "timed_out")]),
        (
            _refused,
            ONCE,
            [SENT, ("head", 400, "application/json"), ("body", b'{"error":"no"}'), ("end", "clean", None)],
        ),
        (_gone, ONCE, [SENT, ("end", "error", "connect_failed")]),
        (_noise, ONCE, [SENT, ("end", "error", "malformed")]),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_what_is_told(script: Script, options: TransportOptions, heard: list[tuple[object, ...]]) -> None:
    assert _joined(run(_read(script, options)).heard) == heard


def test_a_reader_that_leaves() -> None:
    async def leave() -> Ear:
        ear = Ear()
        async with Server(_silent) as server, Transport(ONCE, tap=ear) as transport:
            answer = await transport.open(asks(), server.base, AUTH)
            await answer.chunk()
            answer.close()
        return ear

    assert run(leave()).heard[-1] == ("end", "aborted", None)


def test_a_cancelled_request() -> None:
    async def cancel() -> Ear:
        ear = Ear()
        async with Server(_nothing) as server, Transport(ONCE, tap=ear) as transport:
            task = asyncio.ensure_future(transport.open(asks(), server.base, AUTH))
            await server.asked()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return ear

    assert run(cancel()).heard == [SENT, ("end", "aborted", None)]


def test_a_finished_answer_is_clean() -> None:
    async def finish() -> Ear:
        ear = Ear()
        async with Server(_silent) as server, Transport(ONCE, tap=ear) as transport:
            answer = await transport.open(asks(), server.base, AUTH)
            await answer.chunk()
            answer.finish()
        return ear

    assert run(finish()).heard[-2:] == [("chunk", b"one"), ("end", "clean", None)]


def test_each_attempt_is_told() -> None:
    async def twice() -> Ear:
        ear = Ear()

        async def script(wire: Wire, seen: Seen) -> None:
            await (_streamed(wire, seen) if len(ear.heard) > 2 else _gone(wire, seen))

        options = TransportOptions(connect=5, first_byte=5, idle=5, total=30, retry=RetryPolicy(initial=0.0))
        async with Server(script) as server, Transport(options, tap=ear) as transport:
            answer = await transport.open(asks(), server.base, AUTH)
            await answer.read()
        return ear

    heard = run(twice()).heard
    assert [each[0] for each in heard if each[0] != "chunk"] == ["sent", "end", "sent", "head", "end"]


def test_nobody_is_asked_to_compress_what_is_recorded() -> None:
    async def asked(tap: Ear | None) -> str:
        async with Server(_refused) as server, Transport(ONCE, tap=tap) as transport:
            with pytest.raises(MidstreamError):
                await transport.open(asks(stream=False), server.base, AUTH)
            return server.seen[0].headers["accept-encoding"]

    assert run(asked(None)) != "identity"
    assert run(asked(Ear())) == "identity"
