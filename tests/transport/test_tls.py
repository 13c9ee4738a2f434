"""Who is trusted, and that a key goes to nobody else."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from midstream.core.errors import ConnectFailed, MidstreamError, TransportError
from midstream.transport import RetryPolicy, Transport, TransportOptions

from .asking import AUTH, QUICK, Clock, asks, run
from .certificates import Authority
from .loopback import JSON_OK, Seen, Server, Wire
from .test_client import OK

pytestmark = pytest.mark.usefixtures("each_loop")

HERE = "IP:127.0.0.1"
ONCE = TransportOptions(connect=5, first_byte=5, total=20, retry=RetryPolicy(max_retries=2))


async def _ask(server: Server, trust: Path | None) -> tuple[bytes | MidstreamError, list[float]]:
    clock = Clock()
    environ = {"SSL_CERT_FILE": str(trust)} if trust else {}
    async with Transport(ONCE, environ=environ, sleep=clock.sleep, clock=clock, rng=lambda: 0.0) as transport:
        try:
            return await (await transport.open(asks(stream=False), server.base, AUTH)).read(), clock.slept
        except MidstreamError as error:
            return error, clock.slept


@pytest.mark.parametrize("self_signed", [False, True])
def test_an_authority_of_ones_own(self_signed: bool, authority: Authority) -> None:
    async def main() -> None:
        async with Server(OK, tls=authority.server(HERE, self_signed=self_signed)) as server:
            environ = {"SSL_CERT_FILE": str(authority.served if self_signed else authority.trust)}
            async with Transport(QUICK, environ=environ) as transport:
                for _ in range(3):
                    assert await (await transport.open(asks(stream=False), server.base, AUTH)).read() == JSON_OK
            assert server.accepted == 1

    run(main())


UNTRUSTED: dict[str, tuple[Callable[[Authority], ssl.SSLContext], str]] = {
    "another host's": (lambda authority: authority.server("DNS:other.invalid", "IP:127.0.0.2"), "IP address mismatch"),
    "expired": (lambda authority: authority.server(HERE, expired=True), "certificate has expired"),
    "self-signed": (lambda authority: authority.server(HERE, self_signed=True), "self-signed certificate"),
}


@pytest.mark.parametrize("kind", UNTRUSTED)
def test_a_certificate_that_is_not_trusted(kind: str, authority: Authority) -> None:
    make, reason = UNTRUSTED[kind]

    async def main() -> None:
        async with Server(OK, tls=make(authority)) as server:
            found, slept = await _ask(server, authority.trust)
            await server.all_closed()
            assert type(found) is TransportError and f"is not trusted ({reason}" in str(found)
            assert slept == [], "another attempt would not make it trusted"
            assert server.seen == []
            assert found.__cause__ is found.__context__ is None

    run(main())


def test_our_authority_is_not_everybodys(authority: Authority) -> None:
    async def main() -> None:
        async with Server(OK, tls=authority.server(HERE)) as server:
            found, _ = await _ask(server, None)
            assert type(found) is TransportError and "SSL_CERT_FILE" in str(found)
            assert server.seen == []

    run(main())


def test_no_tls_where_it_was_expected(authority: Authority) -> None:
    async def main() -> None:
        async with Server(OK) as server:
            server_base = server.base.replace("http:", "https:")
            async with Transport(
                TransportOptions(connect=1, retry=RetryPolicy(max_retries=0)), environ={}
            ) as transport:
                with pytest.raises(ConnectFailed):
                    await transport.open(asks(), server_base, AUTH)
            assert server.seen == []

    run(main())


@pytest.mark.parametrize(("host", "told"), [("localhost", "localhost"), ("127.0.0.1", None)])
def test_the_name_is_told_and_an_address_is_not(host: str, told: str | None, authority: Authority) -> None:
    context = authority.server("DNS:localhost", HERE)
    names: list[str | None] = []

    def note(sock: object, name: str | None, context: ssl.SSLContext) -> None:
        names.append(name)

    context.sni_callback = note

    async def main() -> None:
        async with Server(OK, tls=context) as server:
            async with Transport(QUICK, environ={"SSL_CERT_FILE": str(authority.trust)}) as transport:
                base = server.base.replace("127.0.0.1", host)
                assert await (await transport.open(asks(stream=False), base, AUTH)).read() == JSON_OK
            assert server.seen[0].headers["host"] == f"{host}:{server.port}"

    run(main())
    assert names == [told]


@pytest.mark.parametrize("ending", ["chunked", "by the connection"])
def test_large_bodies_both_ways(ending: str, authority: Authority) -> None:
    body = bytes(range(256)) * 8_000

    async def echo(wire: Wire, seen: Seen) -> None:
        if ending == "chunked":
            await wire.begin()
            for start in range(0, len(seen.body), 100_000):
                await wire.chunk(seen.body[start : start + 100_000])
            await wire.end()
        else:
            await wire.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + seen.body)
            wire.writer.close()

    async def main() -> None:
        async with Server(echo, tls=authority.server(HERE)) as server:
            async with Transport(QUICK, environ={"SSL_CERT_FILE": str(authority.trust)}) as transport:
                for _ in range(2):
                    answer = await transport.open(asks(body, stream=False), server.base, AUTH)
                    assert await answer.read() == body
            assert server.accepted == (1 if ending == "chunked" else 2)

    run(main())
