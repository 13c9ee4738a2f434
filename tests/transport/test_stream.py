from __future__ import annotations

import asyncio
import gc
from contextlib import aclosing

import pytest

from midstream.codec import make_decoder
from midstream.core.blocks import Text
from midstream.core.errors import ProviderError
from midstream.core.events import Done, ErrorEvent, ErrorInfo, Event, Start, TextDelta
from midstream.core.lifecycle import check
from midstream.transport import Transport, stream_events

from .asking import AUTH, asks, run
from .asking import Clock as _Clock
from .loopback import Script, Seen, Server, Wire
from .test_client import patient

pytestmark = pytest.mark.usefixtures("each_loop")


def delta(content: str, finish: str | None = None) -> bytes:
    end = f'"{finish}"' if finish else "null"
    return f'data: {{"choices":[{{"index":0,"delta":{{"content":"{content}"}},"finish_reason":{end}}}]}}\n\n'.encode()


HELLO = (delta("Hel"), delta("lo"))
END = (delta("", "stop"), b"data: [DONE]\n\n")


async def ask(transport: Transport, server: Server) -> list[Event]:
    answer = await transport.open(asks(), server.base, AUTH)
    return [event async for batch in stream_events(answer, make_decoder()) for event in batch]


def told(script: Script, **changes: object) -> tuple[list[Event], Server]:
    """All events of one stream; its connection is closed when this returns, unless it may be reused."""

    async def main() -> tuple[list[Event], Server]:
        async with Server(script) as server, patient(_Clock(), **changes) as transport:
            events = await ask(transport, server)
            if isinstance(events[-1], ErrorEvent):
                await server.all_closed()
            check(events)
            return events, server

    return run(main())


def text_of(event: Event) -> str:
    assert isinstance(event, Done | ErrorEvent)
    return "".join(block.text for block in event.turn.blocks if isinstance(block, Text))


async def says_hello(wire: Wire, seen: Seen) -> None:
    await wire.begin("content-type: text/event-stream")
    for part in (*HELLO, *END):
        await wire.chunk(part)
    await wire.end()


def test_a_stream() -> None:
    events, _ = told(says_hello)
    assert isinstance(events[0], Start)
    assert [event.delta for event in events if isinstance(event, TextDelta)] == ["Hel", "lo"]
    assert isinstance(events[-1], Done)


def test_the_terminal_event_is_the_end_and_not_the_connections() -> None:
    async def never_ends(wire: Wire, seen: Seen) -> None:
        await wire.begin()
        for part in (*HELLO, *END):
            await wire.chunk(part)
        await wire.gone()

    async def main() -> None:
        async with Server(never_ends) as server, patient(_Clock(), linger=0.05) as transport:
            for _ in range(2):
                events = await ask(transport, server)
                assert text_of(events[-1]) == "Hello"
                await server.all_closed()
            assert server.accepted == 2

    run(main())


def test_a_late_end_of_the_body_still_gives_the_connection_back() -> None:
    async def ends_late(wire: Wire, seen: Seen) -> None:
        await wire.begin()
        for part in (*HELLO, *END):
            await wire.chunk(part)
        await asyncio.sleep(0.02)
        await wire.chunk(delta("EVIL"))
        await wire.end()
        ended.set()

    async def main() -> None:
        async with Server(ends_late) as server, patient(_Clock(), linger=20) as transport:
            for _ in range(4):
                ended.clear()
                events = await ask(transport, server)
                assert text_of(events[-1]) == "Hello"
                await ended.wait()
                await asyncio.sleep(0.02)
            assert server.accepted == 1

    ended = asyncio.Event()
    run(main())


def test_connections_are_reused_across_streamed_turns() -> None:
    async def main() -> None:
        async with Server(says_hello) as server, patient(_Clock()) as transport:
            for _ in range(8):
                assert text_of((await ask(transport, server))[-1]) == "Hello"
                await asyncio.sleep(0.01)
            assert server.accepted == 1

    run(main())


async def keeps_alive(wire: Wire, seen: Seen) -> None:
    await wire.begin()
    for part in HELLO:
        await wire.chunk(part)
    while True:
        await wire.chunk(b": keep-alive\n\n")
        await asyncio.sleep(0.01)


async def goes_silent(wire: Wire, seen: Seen) -> None:
    await wire.begin()
    for part in HELLO:
        await wire.chunk(part)
    await wire.gone()


@pytest.mark.parametrize("script", [keeps_alive, goes_silent])
def test_comments_hide_no_stall(script: Script) -> None:
    events, _ = told(script, idle=0.15)
    last = events[-1]
    assert isinstance(last, ErrorEvent)
    assert (last.error.kind, last.error.code, last.error.retryable) == ("idle_timeout", None, True)
    assert text_of(last) == "Hello"


@pytest.mark.parametrize(
    "beats, silence, kind", [(1, 0.3, ""), (20, 0.02, ""), (4, 9, "idle_timeout"), (1, 9, "timed_out")]
)
def test_comments_before_the_first_data_do_not_shorten_the_wait_for_it(beats: int, silence: float, kind: str) -> None:
    async def thinks(wire: Wire, seen: Seen) -> None:
        await wire.begin("content-type: text/event-stream")
        for _ in range(beats):
            await wire.chunk(b": keep-alive\n\n")
            await asyncio.sleep(0.02)
        await asyncio.sleep(silence)
        for part in (*HELLO, *END):
            await wire.chunk(part)
        await wire.end()

    last = told(thinks, first_byte=1.5, idle=0.15)[0][-1]
    assert (last.error.kind if isinstance(last, ErrorEvent) else "") == kind


def test_data_that_makes_no_event_is_still_progress() -> None:
    """Usage, or a chunk without choices: data came, so the peer is not stalled."""

    async def slowly(wire: Wire, seen: Seen) -> None:
        await wire.begin()
        for part in HELLO:
            await wire.chunk(part)
        for _ in range(12):
            await wire.chunk(b'data: {"choices":[]}\n\n')
            await asyncio.sleep(0.1)
        for part in END:
            await wire.chunk(part)
        await wire.end()

    events, _ = told(slowly, idle=0.6)
    assert isinstance(events[-1], Done)


def test_a_slow_reader_is_not_a_stall() -> None:
    async def main() -> None:
        async with Server(says_hello) as server, patient(_Clock(), idle=0.2) as transport:
            answer = await transport.open(asks(), server.base, AUTH)
            last: Event | None = None
            async for batch in stream_events(answer, make_decoder()):
                last = batch[-1]
                await asyncio.sleep(0.5)
            assert isinstance(last, Done)

    run(main())


def test_the_total_deadline() -> None:
    async def forever(wire: Wire, seen: Seen) -> None:
        await wire.begin()
        while True:
            await wire.chunk(delta("x"))
            await asyncio.sleep(0.01)

    events, _ = told(forever, total=0.3)
    last = events[-1]
    assert isinstance(last, ErrorEvent)
    assert last.error.kind == "timed_out"
    assert text_of(last).startswith("x")


def test_a_cut_connection_is_an_error_event_with_the_turn_so_far() -> None:
    async def cut(wire: Wire, seen: Seen) -> None:
        await wire.begin()
        for part in HELLO:
            await wire.chunk(part)
        wire.writer.close()

    events, server = told(cut)
    last = events[-1]
    assert isinstance(last, ErrorEvent)
    assert last.error.kind == "truncated"
    assert text_of(last) == "Hello"
    assert len(server.seen) == 1


def test_an_error_in_the_stream_closes_the_connection() -> None:
    async def fails(wire: Wire, seen: Seen) -> None:
        await wire.begin()
        await wire.chunk(HELLO[0] + b'data: {"error":{"message":"overloaded","type":"overloaded_error"}}\n\n')
        await wire.gone()

    events, _ = told(fails, linger=1000)
    assert isinstance(events[-1], ErrorEvent)
    assert isinstance(events[-1].to_exception(), ProviderError)


def test_a_limit_of_the_decoder_is_an_error_event() -> None:
    async def floods(wire: Wire, seen: Seen) -> None:
        await wire.begin()
        while True:
            await wire.chunk(b"x" * 65536)

    async def main() -> Event:
        from midstream.wires.decode_context import DecodeContext
        from midstream.wires.registry import get_wire

        async with Server(floods) as server, patient(_Clock()) as transport:
            answer = await transport.open(asks(), server.base, AUTH)
            decoder = DecodeContext(get_wire("openai-chat").default, "k", limit=100_000).decoder()
            events = [event async for batch in stream_events(answer, decoder) for event in batch]
            await server.all_closed()
            return events[-1]

    last = run(main())
    assert isinstance(last, ErrorEvent)
    assert last.error.kind == "limit"


class _Deaf:
    """A decoder that never ends, and one that breaks: both against their contract."""

    progress = 0
    ended = False

    def __init__(self, breaks: bool) -> None:
        self._breaks = breaks

    def feed(self, data: bytes) -> list[Event]:
        if self._breaks:
            raise ZeroDivisionError
        return []

    def close(self) -> list[Event]:
        return []

    def read_body(self, body: bytes) -> list[Event]:
        return []

    def fail(self, error: ErrorInfo) -> list[Event]:
        self.ended = True
        decoder = make_decoder(turn_key="k")
        return decoder.fail(error)


def test_a_stream_never_ends_without_a_terminal_event() -> None:
    async def main() -> None:
        async with Server(says_hello) as server, patient(_Clock()) as transport:
            answer = await transport.open(asks(), server.base, AUTH)
            events = [event async for batch in stream_events(answer, _Deaf(breaks=False)) for event in batch]
            assert isinstance(events[-1], ErrorEvent)
            assert events[-1].error.kind == "truncated"

    run(main())


def test_a_broken_decoder_leaves_no_connection_behind() -> None:
    async def main() -> None:
        async with Server(goes_silent) as server, patient(_Clock()) as transport:
            answer = await transport.open(asks(), server.base, AUTH)
            with pytest.raises(ZeroDivisionError):
                await anext(stream_events(answer, _Deaf(breaks=True)))
            await server.all_closed()

    run(main())


def test_cancelling_the_reader_closes_the_connection() -> None:
    async def main() -> None:
        async with Server(goes_silent) as server, patient(_Clock()) as transport:
            answer = await transport.open(asks(), server.base, AUTH)
            batches = stream_events(answer, make_decoder())
            assert await anext(batches)
            task = asyncio.ensure_future(anext(batches))
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.all_closed()

    run(main())


def test_leaving_early_closes_the_connection() -> None:
    async def main() -> None:
        async with Server(goes_silent) as server, patient(_Clock()) as transport:
            answer = await transport.open(asks(), server.base, AUTH)
            async with aclosing(stream_events(answer, make_decoder())) as batches:
                async for _ in batches:
                    break
            await server.all_closed()

    run(main())


def test_an_answer_that_was_dropped_closes_its_connection() -> None:
    async def main() -> None:
        async with Server(goes_silent) as server, patient(_Clock()) as transport:
            answer = await transport.open(asks(), server.base, AUTH)
            assert answer.status == 200
            del answer
            gc.collect()
            await server.all_closed()

    run(main())
