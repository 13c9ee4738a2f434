from __future__ import annotations

import asyncio
import gzip
import json
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from midstream.core.errors import (
    BadRequest,
    ConfigError,
    ConnectFailed,
    IdleTimeout,
    LimitExceeded,
    LocalError,
    MalformedStream,
    MidstreamError,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    RetriesExhausted,
    TimedOut,
    TruncatedStream,
)
from midstream.transport import RetryPolicy, Transport, TransportOptions
from midstream.transport.encoding import accept_encoding
from tests.long_run import each_once

from .asking import AUTH, CANARY, QUICK, Clock, asks, run
from .loopback import JSON_OK, Script, Seen, Server, Wire, scripted

pytestmark = pytest.mark.usefixtures("each_loop")


def answers(status: int, body: bytes = b"{}", *headers: str) -> Script:
    async def play(wire: Wire, seen: Seen) -> None:
        await wire.answer(body, status, *headers)

    return play


async def hangs_up(wire: Wire, seen: Seen) -> None:
    wire.writer.close()


async def hangs(wire: Wire, seen: Seen) -> None:
    await wire.gone()


OK = answers(200, JSON_OK)


def patient(clock: Clock, **changes: object) -> Transport:
    options = TransportOptions(**{**{f: getattr(QUICK, f) for f in QUICK.__struct_fields__}, **changes})  # type: ignore[arg-type]
    return Transport(options, sleep=clock.sleep, clock=clock, now=clock, rng=lambda: 0.0, environ={})


async def outcome(script: Script, clock: Clock, **changes: object) -> tuple[bytes | MidstreamError, Server]:
    async with Server(script) as server, patient(clock, **changes) as transport:
        try:
            answer = await transport.open(asks(stream=False), server.base, AUTH)
            return await answer.read(), server
        except MidstreamError as error:
            return error, server


def test_a_request_imports_no_http_library_but_the_parser() -> None:
    code = """
import asyncio, sys
from midstream import Client
from midstream.core.errors import MidstreamError
from midstream.transport import Transport, TransportOptions, RetryPolicy
from midstream.wires.request import Request

async def main():
    async with Transport(TransportOptions(retry=RetryPolicy(max_retries=0)), environ={}) as transport:
        try:
            await transport.open(Request("GET", "/x", {}, b""), "http://127.0.0.1:1/v1")
        except MidstreamError as error:
            print(type(error).__name__, [name for name in ("aiohttp", "yarl", "uvloop") if name in sys.modules])

asyncio.run(main())
"""
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout == "ConnectFailed []\n"


def test_a_request_as_it_goes_out() -> None:
    async def main() -> None:
        async with Server(OK) as server, Transport(QUICK, environ={}) as transport:
            request = asks(b"{}", path="/x?alt=sse", headers={"Content-Type": "application/json"}, stream=False)
            async with await transport.open(request, server.base, AUTH) as answer:
                assert answer.status == 200
                assert await answer.read() == JSON_OK
                assert await answer.chunk() == b""
            (seen,) = server.seen
        assert seen.line == "POST /v1/x?alt=sse HTTP/1.1"
        assert seen.body == b"{}"
        assert seen.headers == {
            "host": f"127.0.0.1:{server.port}",
            "user-agent": "midstream",
            "content-type": "application/json",
            "authorization": f"Bearer {CANARY}",
            "accept-encoding": accept_encoding(stream=False),  # more than gzip where it can be read: Python 3.14
            "content-length": "2",
        }

    run(main())


def test_a_large_body_and_a_stream_of_chunks() -> None:
    async def echo(wire: Wire, seen: Seen) -> None:
        await wire.begin()
        for start in range(0, len(seen.body), 50_000):
            await wire.chunk(seen.body[start : start + 50_000])
        await wire.end()

    async def main() -> None:
        body = bytes(range(256)) * 12_000
        async with Server(echo) as server, Transport(QUICK, environ={}) as transport:
            answer = await transport.open(asks(body, stream=False), server.base)
            assert b"".join([chunk async for chunk in answer.chunks()]) == body

    run(main())


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_retried_until_it_is_answered(status: int) -> None:
    clock = Clock()
    found, server = run(outcome(scripted(answers(status), answers(status), OK), clock))
    assert found == JSON_OK
    assert len(server.seen) == 3
    assert clock.slept == [0.5, 1.0]
    assert len({seen.body for seen in server.seen}) == 1


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422, 451])
def test_not_retried(status: int) -> None:
    clock = Clock()
    found, server = run(outcome(answers(status, b'{"error":{"message":"no"}}'), clock))
    assert isinstance(found, ProviderError)
    assert found.status == status
    assert len(server.seen) == 1
    assert clock.slept == []


def test_the_answer_remembers_the_attempts_before_it() -> None:
    async def main() -> tuple[MidstreamError, ...]:
        async with Server(scripted(hangs_up, answers(503), OK)) as server, patient(Clock()) as transport:
            answer = await transport.open(asks(), server.base, AUTH)
            await answer.read()
            return answer.attempts

    first, second = run(main())
    assert isinstance(first, ConnectFailed)
    assert isinstance(second, Overloaded)


def test_exhaustion_carries_every_attempt() -> None:
    found, server = run(outcome(scripted(answers(500), hangs_up, answers(429)), Clock()))
    assert isinstance(found, RetriesExhausted)
    assert [type(error) for error in found.attempts] == [Overloaded, ConnectFailed, RateLimited]
    assert found.__cause__ is found.attempts[-1]
    assert len(server.seen) == 3


def test_an_error_that_no_retry_mends_is_raised_as_it_is() -> None:
    found, server = run(outcome(scripted(answers(503), answers(400)), Clock()))
    assert isinstance(found, BadRequest)
    assert isinstance(found.__cause__, Overloaded)
    assert len(server.seen) == 2


def test_no_retries_wanted() -> None:
    clock = Clock()
    found, server = run(outcome(answers(503), clock, retry=RetryPolicy(max_retries=0)))
    assert isinstance(found, Overloaded)
    assert (len(server.seen), clock.slept) == (1, [])


def test_no_credit_is_not_retried() -> None:
    body = b'{"error":{"message":"You exceeded your current quota","type":"insufficient_quota"}}'
    found, server = run(outcome(answers(429, body), Clock()))
    assert isinstance(found, QuotaExceeded)
    assert len(server.seen) == 1


LIMITS = json.loads((Path(__file__).parents[1] / "data/rate_limits.json").read_text())


def test_a_limit_is_waited_for_as_long_as_the_host_says() -> None:
    """Wherever it says so, and an empty account is not; a wait that is too long, or cannot help, is told at once."""
    for case in LIMITS:
        if case["requests"] is None:
            continue  # inside a stream
        clock = Clock()
        script = answers(case["status"], json.dumps(case["body"]).encode(), *case["headers"])
        found, server = run(outcome(script, clock, total=3600))
        assert isinstance(found, MidstreamError), case
        last = found.attempts[-1] if isinstance(found, RetriesExhausted) else found
        assert (last.kind, len(server.seen)) == (case["kind"], case["requests"]), case
        waits = [0.5, 1.0] if case["wait"] is None else [case["wait"]] * 2
        assert clock.slept == waits[: case["requests"] - 1], case


def test_the_reader_of_errors_is_given() -> None:
    seen: list[tuple[int, str | None, bytes]] = []

    def read(status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        seen.append((status, headers.get("x-id"), body))
        return QuotaExceeded("no credit", status=status)

    async def main() -> None:
        transport = Transport(QUICK, error_from_response=read, environ={})
        async with Server(answers(500, b"why", "X-Id: 7")) as server, transport:
            with pytest.raises(QuotaExceeded):
                await transport.open(asks(), server.base, AUTH)

    run(main())
    assert seen == [(500, "7", b"why")]


@pytest.mark.parametrize(
    ("header", "slept"),
    [
        ("retry-after: 7", [7.0]),
        ("retry-after-ms: 250", [0.25]),
        ("retry-after: Thu, 01 Jan 1970 00:16:50 GMT", [10.0]),
        ("retry-after: 0", [0.5]),
        ("retry-after: soon", [0.5]),
        ("retry-after: 121", None),
        ("x-should-retry: false", None),
    ],
)
def test_the_wait_is_what_the_peer_asks(header: str, slept: list[float] | None) -> None:
    clock = Clock(1000.0)
    found, _ = run(outcome(scripted(answers(429, b"{}", header), OK), clock))
    if slept is None:
        assert isinstance(found, RateLimited)
        assert clock.slept == []
    else:
        assert (found, clock.slept) == (JSON_OK, slept)


def test_the_error_says_when_to_come_back() -> None:
    header = "retry-after: Thu, 01 Jan 1970 00:20:00 GMT"
    found, _ = run(outcome(answers(429, b"{}", header), Clock(1000.0)))
    assert isinstance(found, RateLimited)
    assert found.retry_after == 200.0


def test_waits_end_with_the_budget() -> None:
    clock = Clock()
    script = answers(429, b"{}", "retry-after: 40")
    policy = RetryPolicy(max_retries=50, budget=100)
    found, server = run(outcome(script, clock, retry=policy, total=1000.0))
    assert isinstance(found, RetriesExhausted)
    assert clock.slept == [40.0, 40.0]
    assert len(server.seen) == 3


def test_waits_end_with_the_total() -> None:
    clock = Clock()
    found, _ = run(outcome(answers(429, b"{}", "retry-after: 40"), clock, total=60.0))
    assert isinstance(found, RetriesExhausted)
    assert clock.slept == [40.0]


def test_nothing_listens() -> None:
    async def main() -> None:
        async with Server(OK) as server:
            base = server.base
        clock = Clock()
        async with patient(clock) as transport:
            with pytest.raises(RetriesExhausted) as caught:
                await transport.open(asks(), base, AUTH)
        assert [type(error) for error in caught.value.attempts] == [ConnectFailed] * 3
        assert len(clock.slept) == 2

    run(main())


def test_the_connect_deadline() -> None:
    """A peer that takes the connection and never says a word of TLS."""

    async def main() -> None:
        silent = socket.create_server(("127.0.0.1", 0))
        with silent:
            base = f"https://127.0.0.1:{silent.getsockname()[1]}"
            async with patient(Clock(), connect=0.1, retry=RetryPolicy(max_retries=0)) as transport:
                with pytest.raises(ConnectFailed, match="took too long"):
                    await transport.open(asks(), base, AUTH)

    run(main())


async def head_only(wire: Wire, seen: Seen) -> None:
    await wire.begin()
    await wire.gone()


@pytest.mark.parametrize("script", [hangs, head_only])
def test_the_first_byte_deadline_is_not_retried(script: Script) -> None:
    async def main() -> None:
        clock = Clock()
        async with Server(script) as server, patient(clock, first_byte=0.1) as transport:
            with pytest.raises(TimedOut):
                await transport.open(asks(), server.base, AUTH)
            await server.all_closed()
        assert (len(server.seen), clock.slept) == (1, [])

    run(main())


def test_the_total_deadline_holds_before_the_first_byte() -> None:
    async def main() -> None:
        async with Server(hangs) as server, patient(Clock(), total=0.1) as transport:
            with pytest.raises(TimedOut):
                await transport.open(asks(), server.base, AUTH)
            await server.all_closed()

    run(main())


def test_a_connection_lost_between_head_and_body_is_retried() -> None:
    async def cut(wire: Wire, seen: Seen) -> None:
        await wire.begin()
        wire.writer.close()

    found, server = run(outcome(scripted(cut, OK), Clock()))
    assert found == JSON_OK
    assert len(server.seen) == 2


def test_nothing_is_sent_twice_after_the_first_byte() -> None:
    async def cut(wire: Wire, seen: Seen) -> None:
        await wire.begin()
        await wire.chunk(b"{")
        wire.writer.close()

    found, server = run(outcome(cut, Clock()))
    assert isinstance(found, TruncatedStream)
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "answer", [b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n"]
)
def test_what_is_not_http(answer: bytes) -> None:
    async def speak(wire: Wire, seen: Seen) -> None:
        await wire.send(answer)

    found, server = run(outcome(speak, Clock()))
    assert isinstance(found, MalformedStream)
    assert len(server.seen) == 1


def test_bad_framing_in_the_middle_ends_the_body() -> None:
    async def speak(wire: Wire, seen: Seen) -> None:
        await wire.begin()
        await wire.chunk(b"{")
        await asyncio.sleep(0.02)
        await wire.send(b"ZZ\r\nxx\r\n")
        await wire.gone()

    found, _ = run(outcome(speak, Clock()))
    assert isinstance(found, TruncatedStream)


def test_a_long_header_is_a_limit() -> None:
    found, _ = run(outcome(answers(200, JSON_OK, "x-long: " + "a" * 70_000), Clock()))
    assert isinstance(found, LimitExceeded)


async def stalls(wire: Wire, seen: Seen) -> None:
    await wire.begin()
    await wire.chunk(b'{"answer":')
    await wire.gone()


async def keeps_alive(wire: Wire, seen: Seen) -> None:
    await wire.begin()
    await wire.chunk(b'{"answer":')
    while True:
        await wire.chunk(b"\n")
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("script", [stalls, keeps_alive])
def test_a_stalled_body_ends_with_the_idle_deadline(script: Script) -> None:
    found, _ = run(outcome(script, Clock(), idle=0.1))
    assert isinstance(found, IdleTimeout)


async def only_keeps_alive(wire: Wire, seen: Seen) -> None:
    await wire.begin()
    while True:
        await wire.chunk(b"\n")
        await asyncio.sleep(0.01)


async def keeps_alive_and_stops(wire: Wire, seen: Seen) -> None:
    await wire.begin()
    for _ in range(3):
        await wire.chunk(b"\n")
        await asyncio.sleep(0.02)
    await wire.gone()


async def thinks(wire: Wire, seen: Seen) -> None:
    await wire.begin()
    await wire.chunk(b"\n")
    await asyncio.sleep(0.3)
    await wire.chunk(JSON_OK)
    await wire.end()


def test_heartbeats_before_the_first_data_do_not_shorten_the_wait_for_it() -> None:
    found, _ = run(outcome(only_keeps_alive, Clock(), first_byte=0.2, idle=0.05))
    assert isinstance(found, TimedOut) and "first" in str(found)
    found, _ = run(outcome(keeps_alive_and_stops, Clock(), first_byte=5, idle=0.1))
    assert isinstance(found, IdleTimeout)
    found, _ = run(outcome(thinks, Clock(), first_byte=5, idle=0.1))
    assert found == b"\n" + JSON_OK


async def trickles(wire: Wire, seen: Seen) -> None:
    await wire.begin()
    while True:
        await wire.chunk(b"x")
        await asyncio.sleep(0.01)


def test_a_trickling_body_ends_with_the_total_deadline() -> None:
    found, _ = run(outcome(trickles, Clock(), total=0.2))
    assert isinstance(found, TimedOut)


def test_a_slow_reader_is_not_a_stall() -> None:
    async def two_parts(wire: Wire, seen: Seen) -> None:
        await wire.begin()
        await wire.chunk(b"one")
        await released.wait()
        await wire.chunk(b"two")
        await wire.end()

    async def main() -> list[bytes]:
        async with Server(two_parts) as server, patient(Clock(), idle=0.3) as transport:
            answer = await transport.open(asks(), server.base, AUTH)
            got = []
            async for chunk in answer.chunks():
                got.append(chunk)
                await asyncio.sleep(0.7)
                released.set()
            return got

    released = asyncio.Event()
    assert run(main()) == [b"one", b"two"]


def test_a_body_has_a_limit() -> None:
    found, _ = run(outcome(answers(200, b"x" * 1001), Clock(), max_body=1000))
    assert isinstance(found, LimitExceeded)
    found, _ = run(outcome(answers(200, b"x" * 1000), Clock(), max_body=1000))
    assert found == b"x" * 1000


def test_a_stream_has_a_limit() -> None:
    found, _ = run(outcome(trickles, Clock(), max_stream=20))
    assert isinstance(found, LimitExceeded)


@each_once(("headers", [(), ("content-encoding: gzip",)]), ("size", [0, 1, 20, 21, 500]))
def test_a_stream_may_be_as_long_as_its_limit(size: int, headers: tuple[str, ...]) -> None:
    """The whole answer is there: whichever way the limit is misjudged, nothing has to be waited for."""
    body = b"x" * size
    sent = gzip.compress(body, mtime=0) if headers else body
    found, server = run(outcome(answers(200, sent, *headers), Clock(), max_stream=20))
    if size <= 20:
        assert found == body
    else:
        assert isinstance(found, LimitExceeded) and "longer than 20 bytes" in str(found)
    assert server.accepted == 1


def test_an_open_transport_sends_and_a_closed_one_does_not() -> None:
    async def main() -> None:
        async with Server(OK) as server:
            transport = Transport(QUICK, environ={})
            try:
                assert await (await transport.open(asks(stream=False), server.base)).read() == JSON_OK
                await transport.aclose()
                with pytest.raises(LocalError, match="the transport is closed"):
                    await transport.open(asks(stream=False), server.base)
            finally:
                await transport.aclose()
            assert len(server.seen) == 1

    run(main())


def test_gzip_is_undone() -> None:
    found, _ = run(outcome(answers(200, gzip.compress(JSON_OK, mtime=0), "content-encoding: gzip"), Clock()))
    assert found == JSON_OK


@pytest.mark.parametrize(
    ("body", "encoding", "kind"),
    [
        (gzip.compress(bytes(32 << 20), mtime=0), "gzip", LimitExceeded),
        (gzip.compress(JSON_OK, mtime=0)[:-3], "gzip", TruncatedStream),
        (b"not gzip", "gzip", MalformedStream),
        (b"what", "compress", MalformedStream),
    ],
)
def test_bad_encodings_are_typed(body: bytes, encoding: str, kind: type[MidstreamError]) -> None:
    found, server = run(outcome(answers(200, body, f"content-encoding: {encoding}"), Clock()))
    assert isinstance(found, kind)
    assert len(server.seen) == 1


@pytest.mark.parametrize("headers", [(), ("content-encoding: gzip",), ("content-encoding: compress",)])
def test_the_body_of_an_error_is_cut_and_never_in_the_way(headers: tuple[str, ...]) -> None:
    body = gzip.compress(bytes(32 << 20), mtime=0) if headers else b"x" * 100_000
    found, _ = run(outcome(answers(400, body, *headers), Clock(), max_error_body=1000))
    assert isinstance(found, BadRequest)
    assert found.status == 400


@pytest.mark.parametrize("told", [b"", b'{"error":{"mess'])
def test_an_error_whose_body_stalls_is_still_that_error(told: bytes) -> None:
    async def stall(wire: Wire, seen: Seen) -> None:
        await wire.send(b"HTTP/1.1 404 X\r\ncontent-length: 500\r\n\r\n" + told)
        await wire.gone()

    found, _ = run(outcome(stall, Clock(), error_body=0.1))
    assert isinstance(found, ProviderError)
    assert found.status == 404


REDIRECT = ("location: /v1/elsewhere",)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status: int) -> None:
    found, server = run(outcome(answers(status, b"", *REDIRECT), Clock()))
    assert isinstance(found, ProviderError)
    assert found.status == status
    assert len(server.seen) == 1


def test_redirects_within_the_origin_may_be_allowed() -> None:
    found, server = run(outcome(scripted(answers(307, b"", *REDIRECT), OK), Clock(), max_redirects=2))
    assert found == JSON_OK
    assert [seen.line for seen in server.seen] == [
        "POST /v1/chat/completions HTTP/1.1",
        "POST /v1/elsewhere HTTP/1.1",
    ]
    found, server = run(outcome(answers(307, b"", *REDIRECT), Clock(), max_redirects=3))
    assert isinstance(found, ProviderError)
    assert len(server.seen) == 4


def test_the_key_never_follows_a_redirect_to_another_origin() -> None:
    async def main() -> None:
        async with Server(OK) as thief:
            for host in (f"127.0.0.1:{thief.port}", f"localhost:{thief.port}"):
                clock = Clock()
                found, _ = await outcome(answers(307, b"", f"location: http://{host}/v1"), clock, max_redirects=5)
                assert isinstance(found, ProviderError)
                assert found.status == 307
            assert thief.accepted == 0

    run(main())


def test_connections_are_reused_across_turns() -> None:
    async def main() -> None:
        async with Server(scripted(OK, answers(400, b"{}"), OK)) as server, patient(Clock()) as transport:
            for turn in range(6):
                try:
                    answer = await transport.open(asks(stream=False), server.base, AUTH)
                except BadRequest:
                    assert turn == 1
                else:
                    assert await answer.read() == JSON_OK
            assert server.accepted == 1

    run(main())


def test_bytes_behind_the_answer_are_never_the_next_answer() -> None:
    async def two_responses(wire: Wire, seen: Seen) -> None:
        await wire.send(b"HTTP/1.1 200 X\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 200 X\r\ncontent-length: 4\r\n\r\nEVIL")

    async def main() -> None:
        async with Server(two_responses) as server, patient(Clock()) as transport:
            for _ in range(3):
                answer = await transport.open(asks(stream=False), server.base, AUTH)
                assert await answer.read() == b"{}"
            assert server.accepted == 3

    run(main())


def test_a_key_the_peer_echoes_is_in_no_error() -> None:
    async def echo(wire: Wire, seen: Seen) -> None:
        key = seen.headers["authorization"]
        body = f'{{"error":{{"message":"bad header {key}","type":"{CANARY}","code":"{CANARY}"}}}}'.encode()
        await wire.answer(body, 401, f"x-request-id: {key}")

    found, _ = run(outcome(echo, Clock()))
    assert isinstance(found, ProviderError)
    assert "bad header ***" in str(found)
    assert CANARY not in f"{found!r} {vars(found)}"


def test_cookies_are_not_kept() -> None:
    async def main() -> None:
        async with Server(answers(200, JSON_OK, "set-cookie: a=b")) as server, patient(Clock()) as transport:
            base = server.base.replace("127.0.0.1", "localhost")
            for _ in range(2):
                await (await transport.open(asks(stream=False), base, AUTH)).read()
            assert all("cookie" not in seen.headers for seen in server.seen)

    run(main())


def test_no_key_is_taken_from_a_netrc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login someone password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    async def main() -> None:
        async with Server(OK) as server, patient(Clock()) as transport:
            await (await transport.open(asks(stream=False), server.base)).read()
            assert "authorization" not in server.seen[0].headers

    run(main())


def test_nothing_is_sent_when_the_request_is_refused() -> None:
    async def main() -> None:
        async with Server(OK) as server, patient(Clock()) as transport:
            for request, base, auth in (
                (asks(headers={"x": "a\r\nb: c"}), server.base, AUTH),
                (asks(), server.base, {"authorization": f"Bearer {CANARY}\n"}),
                (asks(path="/../x"), server.base, AUTH),
                (asks(), server.base.replace("http", "ftp"), AUTH),
            ):
                with pytest.raises(LocalError) as caught:
                    await transport.open(request, base, auth)
                assert CANARY not in str(caught.value)
            assert server.accepted == 0

    run(main())


def test_cancelling_a_caller_who_waits_closes_the_connection() -> None:
    async def main() -> None:
        arrived = asyncio.Event()

        async def hold(wire: Wire, seen: Seen) -> None:
            arrived.set()
            await wire.gone()

        async with Server(hold) as server, patient(Clock()) as transport:
            task = asyncio.create_task(transport.open(asks(), server.base, AUTH))
            await arrived.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.all_closed()

    run(main())


def test_an_answer_closed_early_is_not_read_further() -> None:
    async def main() -> None:
        async with Server(stalls) as server, patient(Clock()) as transport:
            async with await transport.open(asks(), server.base, AUTH) as answer:
                assert repr(answer) == "<HTTPResponse 200 without a type>"
            await server.all_closed()
            await answer.aclose()
            assert await answer.chunk() == b'{"answer":'
            with pytest.raises(LocalError):
                await answer.chunk()

    run(main())


def test_a_transport_is_of_one_loop_and_ends_once() -> None:
    async def use(transport: Transport) -> None:
        async with Server(OK) as server:
            await (await transport.open(asks(stream=False), server.base)).read()

    async def end(transport: Transport) -> None:
        await use(transport)
        await transport.aclose()
        await transport.aclose()
        with pytest.raises(LocalError, match="closed"):
            await use(transport)

    transport = Transport(QUICK, environ={})
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(use(transport))
        with pytest.raises(LocalError, match="event loop"):
            run(use(transport))
        loop.run_until_complete(end(transport))
    finally:
        loop.close()


PROXY_PASSWORD = "hunter2-proxy"


def test_plain_http_through_a_proxy_and_loopback_around_it() -> None:
    async def main() -> None:
        async with Server(OK) as proxy, Server(OK) as server:
            environ = {"HTTP_PROXY": f"http://user:{PROXY_PASSWORD}@127.0.0.1:{proxy.port}", "NO_PROXY": "near.invalid"}
            async with Transport(QUICK, environ=environ) as transport:
                answer = await transport.open(asks(stream=False), "http://far.invalid/v1", AUTH)
                assert await answer.read() == JSON_OK
                await (await transport.open(asks(stream=False), server.base, AUTH)).read()
            (seen,) = proxy.seen
            assert seen.line == "POST http://far.invalid/v1/chat/completions HTTP/1.1"
            assert seen.headers["proxy-authorization"].startswith("Basic ")
            (direct,) = server.seen
            assert "proxy-authorization" not in direct.headers

    run(main())


def test_a_proxy_that_refuses_the_tunnel() -> None:
    async def main() -> None:
        async with Server(answers(407)) as proxy:
            environ = {"HTTPS_PROXY": f"http://user:{PROXY_PASSWORD}@127.0.0.1:{proxy.port}"}
            clock = Clock()
            async with Transport(QUICK, environ=environ, sleep=clock.sleep) as transport:
                with pytest.raises(RetriesExhausted, match="407") as caught:
                    await transport.open(asks(), "https://far.invalid/v1", AUTH)
            assert PROXY_PASSWORD not in repr(caught.value.attempts) + str(caught.value)
            assert proxy.seen[0].line == "CONNECT far.invalid:443 HTTP/1.1"
            assert "authorization" not in proxy.seen[0].headers
            assert proxy.seen[0].headers["proxy-authorization"].startswith("Basic ")

    run(main())


def test_a_proxy_that_cannot_be_used_is_said_before_sending() -> None:
    async def main() -> None:
        async with Transport(QUICK, environ={"ALL_PROXY": "socks5://127.0.0.1:1"}) as transport:
            with pytest.raises(ConfigError, match="ALL_PROXY"):
                await transport.open(asks(), "https://far.invalid/v1", AUTH)

    run(main())
