"""The same bytes read by our client and by aiohttp, whose reading of HTTP is the oracle.

Both give the same status, headers and body, or both an error. A difference needs a reason, `STRICTER` or `LOOSER`, and the
reason is checked, not guessed: by reading the bytes again with the one rule relaxed, or without the bytes in question.

`python -m tests.transport.differential [COUNT] [FIRST]` compares that many seeds from FIRST on, on both event loops in turn.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable

import aiohttp
import httptools
import msgspec

from midstream.core.errors import MidstreamError
from midstream.transport import TransportOptions
from midstream.transport.connection_pool import ConnectionPool
from midstream.transport.target import SecretHeaders, prepare
from midstream.wires.request import Request

from .byte_streams import ByteStream, byte_stream

LIMIT = 60.0
STALL = (
    2.0  # the oracle does not always notice that the connection is gone after bad framing: then it would wait for ever
)
HUNG = "it hung"
AT_ONCE = 48


class Outcome(msgspec.Struct, frozen=True):
    """An answer; or, with an error, what was read of the body before it."""

    status: int = 0
    headers: dict[str, str] = {}
    body: bytes = b""
    error: str = ""


async def ours(pool: ConnectionPool, url: str) -> Outcome:
    target = prepare(Request("POST", "/answer", {}, b"{}"), url, SecretHeaders(), "identity")
    try:
        exchange = await pool.send(target)
    except MidstreamError as error:
        return Outcome(error=f"{type(error).__name__}: {error}")
    body, problem = b"", ""
    try:
        while (data := exchange.take()) != b"":
            if data is None:
                await exchange.ready()
            else:
                body += data
    except MidstreamError as error:
        problem = f"{type(error).__name__}: {error}"
    finally:
        exchange.close()
    return Outcome(exchange.status, dict(exchange.headers), body, problem)


async def theirs(session: aiohttp.ClientSession, url: str, stall: float = STALL) -> Outcome:
    try:
        async with asyncio.timeout(LIMIT), session.post(f"{url}/answer", data=b"{}", allow_redirects=False) as response:
            headers = {name.lower(): ", ".join(response.headers.getall(name)) for name in response.headers}
            body, problem = b"", ""
            try:
                async with asyncio.timeout(stall):
                    async for data in response.content.iter_any():
                        body += data
            except TimeoutError:
                problem = HUNG
            except (aiohttp.ClientError, OSError) as error:
                problem = f"{type(error).__name__}: {error}"
            return Outcome(response.status, headers, body, problem)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return Outcome(error=f"{type(error).__name__}: {error}")


def make_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, force_close=True), auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar(),
        max_line_size=16 * 1024, max_field_size=16 * 1024,
    )  # fmt: skip


class Speaker:
    """A server that reads a request for `/SEED/`, sends the bytes of that seed and hangs up; for `/SEED.END/`, so many of them."""

    async def __aenter__(self) -> Speaker:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.base = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(2)
            seed, _, end = head.split(b"/", 2)[1].partition(b".")
            stream = byte_stream(int(seed))
            for piece in (stream.data[: int(end)],) if end else stream.pieces:
                writer.write(piece)
                await writer.drain()
                for _ in range(4):
                    await asyncio.sleep(0)  # so that the reader gets it before the next
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has heard enough
        finally:
            writer.close()


class Difference(msgspec.Struct, frozen=True):
    stream: ByteStream
    ours: Outcome
    theirs: Outcome
    kind: str
    """Why it is allowed; empty if it is not."""


async def compare(seeds: Iterable[int]) -> list[Difference]:
    found: list[Difference] = []
    room = asyncio.Semaphore(AT_ONCE)
    async with Speaker() as speaker, make_session() as session:
        pool = ConnectionPool(TransportOptions(connect=LIMIT, max_unused=0), {})

        async def one(seed: int) -> None:
            url = f"{speaker.base}/{seed}"
            async with room:
                mine, other = await ours(pool, url), await theirs(session, url)
                if other.error == HUNG and not mine.error:
                    other = await theirs(session, url, 5 * STALL)  # it may have been the machine
            if not same(mine, other):
                why = ""
                if mine.error:
                    why = stricter(byte_stream(seed).data, other)
                elif other.error:
                    end = end_of_answer(byte_stream(seed).data)
                    if end is not None and same(mine, await theirs(session, f"{url}.{end}")):
                        why = LOOSER
                found.append(Difference(byte_stream(seed), mine, other, why))

        try:
            async with asyncio.TaskGroup() as group:
                for seed in seeds:
                    group.create_task(one(seed))
        finally:
            await pool.aclose()
    return sorted(found, key=lambda difference: difference.stream.seed)


def same(mine: Outcome, other: Outcome) -> bool:
    """Whole answers are equal, or both are in error."""
    if mine.error or other.error:
        return bool(mine.error) and bool(other.error)
    return mine == other


STRICTER: dict[str, Callable[[bytes, Outcome], bool]] = {
    "headers that are folded over lines, hold control characters or have no colon": (
        lambda data, other: bool(_Reading().of(data).error) and not _Reading(lenient_headers=True).of(data).error
    ),
    "101: nobody asked for another protocol": lambda data, other: other.status == 101,
    "a status below 100": lambda data, other: other.status < 100,
    "an empty Transfer-Encoding: nobody can tell where the body ends": (
        lambda data, other: other.headers.get("transfer-encoding") == ""
    ),
    "an interim answer (1xx) with a body": lambda data, other: _Reading().of(data).interim_body,
}
"""What we refuse and the oracle reads."""
LOOSER = "more bytes came with the end of the answer"
"""We give the answer, which is whole, and never use the connection again; the oracle refuses the answer as well, if the bytes
came in the same read, and not if they came in the next."""


def stricter(data: bytes, other: Outcome) -> str:
    return next((why for why, applies in STRICTER.items() if applies(data, other)), "")


def end_of_answer(data: bytes) -> int | None:
    """Where the answer ends, if it says so itself and something follows."""
    reading = _Reading()
    for at in range(len(data)):
        if reading.of(data[at : at + 1]).done:
            return at + 1 if at + 1 < len(data) else None
    return None


class _Reading:
    """llhttp alone, with the leniencies of our client and perhaps one more."""

    def __init__(self, **more: bool) -> None:
        self.done, self.interim_body, self.error, self._status = False, False, "", 0
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True, **more
        )

    def of(self, data: bytes) -> _Reading:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.done:
                self.error = str(error) or type(error).__name__
        return self

    def on_headers_complete(self) -> None:
        self._status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        self.interim_body = self.interim_body or self._status < 200

    def on_message_complete(self) -> None:
        self.done = self.done or self._status >= 200


def main(count: int = 20_000, first: int = 0) -> int:
    import uvloop

    began, kinds, bad = time.monotonic(), Counter[str](), 0
    step = 1000
    for number, start in enumerate(range(first, first + count, step)):
        factory = asyncio.new_event_loop if number % 2 == 0 else uvloop.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            differences = runner.run(compare(range(start, min(start + step, first + count))))
        for difference in differences:
            kinds[difference.kind] += 1
            if not difference.kind:
                bad += 1
                print(
                    f"seed {difference.stream.seed}: {difference.stream.data!r}\n  ours   {difference.ours}\n  theirs {difference.theirs}"
                )
    print(
        f"{count} exchanges from seed {first} in {time.monotonic() - began:.0f} s: {bad} differences without a reason"
    )
    for kind, times in kinds.most_common():
        print(f"  {times:6} {kind or 'WITHOUT A REASON'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
