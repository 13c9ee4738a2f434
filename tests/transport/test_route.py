"""The way to an origin: addresses raced, tunnels, proxies that read the request."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from midstream.core.errors import (
    ConfigError,
    ConnectFailed,
    LocalError,
    MidstreamError,
    RetriesExhausted,
    TransportError,
)
from midstream.transport import RetryPolicy, Transport, TransportOptions
from midstream.transport.connection_pool import ConnectionPool
from midstream.transport.encoding import accept_encoding
from midstream.transport.route import Address, addresses, interleaved, race
from midstream.transport.target import SecretHeaders, Target, prepare
from tests.long_run import each_once

from .asking import AUTH, CANARY, QUICK, Clock, asks, run
from .certificates import Authority
from .loopback import JSON_OK, Script, Seen, Server, Wire
from .test_client import OK

pytestmark = pytest.mark.usefixtures("each_loop")

V4, V6 = socket.AF_INET, socket.AF_INET6


def _has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=V6):
            return True
    except OSError:
        return False


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6: this did NOT run")


@pytest.fixture
def silent() -> Iterator[Address]:
    """An address that answers nothing: its queue of connections is full, so the system drops what comes."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        place = server.getsockname()
        fillers = []
        for _ in range(8):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(place)
            fillers.append(filler)
        yield V4, place
        for filler in fillers:
            filler.close()


@pytest.fixture
def refusing() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return V4, server.getsockname()


@pytest.fixture
def listening() -> Iterator[Address]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield V4, server.getsockname()


def _raced(*found: Address, delay: float = 0.02) -> tuple[str, int]:
    async def main() -> tuple[str, int]:
        connection = await race(found, delay)
        try:
            assert connection.transport is not None
            place: tuple[str, int] = connection.transport.get_extra_info("peername")[:2]
            return place
        finally:
            connection.abort()
            await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}), return_exceptions=True)

    return run(main())


def test_a_dead_first_address_is_passed_over(silent: Address, refusing: Address, listening: Address) -> None:
    assert _raced(refusing, listening) == listening[1]
    assert _raced(silent, listening) == listening[1]
    assert _raced(silent, refusing, silent, listening) == listening[1]


def test_a_refusal_is_not_waited_for(refusing: Address, listening: Address) -> None:
    """The next one begins at once, not after the delay, which here is longer than the test may take."""
    assert _raced(refusing, refusing, listening, delay=500) == listening[1]


def test_no_address_that_answers(refusing: Address) -> None:
    with pytest.raises(ConnectionRefusedError):
        _raced(refusing, refusing)
    with pytest.raises(OSError, match="no address"):
        _raced()


def test_families_take_turns() -> None:
    """Beginning with the one the system put first; within a family its order stays."""
    first, second, third = [(V6, (f"::{n}", 1, 0, 0)) for n in range(3)]
    one, two = [(V4, (f"127.0.0.{n}", 1)) for n in range(2)]
    assert interleaved([first, second, third, one, two]) == [first, one, second, two, third]
    assert interleaved([one, two, first]) == [one, first, two]
    assert interleaved([]) == []


def test_cancelling_a_race_leaves_no_socket(silent: Address) -> None:
    async def main() -> None:
        for turns in range(6):
            task = asyncio.create_task(race([silent, silent, silent], 0.0))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    run(main())


def test_the_losers_of_a_race_are_closed() -> None:
    """Many at once, and several of them there when the loop next looks: one is used, the others are closed."""

    async def main() -> None:
        async with Server(OK) as server:
            for turns in range(12):
                task = asyncio.create_task(race([(V4, ("127.0.0.1", server.port))] * 12, 0.0))
                for _ in range(turns):
                    await asyncio.sleep(0)
                time.sleep(0.005)  # noqa: ASYNC251  (the loop is to find several of them ready)
                (await task).abort()
            async with asyncio.timeout(20):
                await server.all_closed()
            assert server.accepted > 12

    run(main())


def test_an_address_is_not_looked_up() -> None:
    async def main() -> None:
        assert await addresses("127.0.0.1", 80) == [(V4, ("127.0.0.1", 80))]
        assert await addresses("::1", 80) == [(V6, ("::1", 80, 0, 0))]
        assert (V4, ("127.0.0.1", 80)) in await addresses("localhost", 80)

    run(main())


@needs_ipv6
def test_ipv6_only() -> None:
    async def main() -> None:
        async with Server(OK, host="::1") as server, Transport(QUICK, environ={}) as transport:
            base = f"http://[::1]:{server.port}/v1"
            assert await (await transport.open(asks(stream=False), base, AUTH)).read() == JSON_OK
            assert server.seen[0].headers["host"] == f"[::1]:{server.port}"

    run(main())


@needs_ipv6
def test_two_families_of_which_the_first_is_dead() -> None:
    """As for a name that leads to both: the server is on one, the system prefers the other."""

    async def main() -> None:
        async with Server(OK) as server:

            async def resolve(host: str, port: int) -> list[Address]:
                return [(V6, ("::1", port, 0, 0)), (V4, ("127.0.0.1", port))]

            pool = ConnectionPool(QUICK, {}, resolve=resolve)
            try:
                answer = await pool.send(_target(f"http://dual.invalid:{server.port}/v1"))
                assert answer.status == 200
                answer.close()
            finally:
                await pool.aclose()

    run(main())


def _target(base: str) -> Target:
    return prepare(asks(stream=False), base, SecretHeaders(AUTH), accept_encoding(False))


def test_a_name_without_an_address() -> None:
    async def main() -> None:
        async with Transport(TransportOptions(retry=RetryPolicy(max_retries=0)), environ={}) as transport:
            with pytest.raises(ConnectFailed, match=r"nowhere\.invalid:80: the name could not be resolved"):
                await transport.open(asks(), "http://nowhere.invalid/v1", AUTH)

    run(main())


@each_once(("host", ["a" * 70 + ".invalid", "a..invalid", ".invalid"]), ("scheme", ["http", "https"]))
def test_what_is_not_the_name_of_a_host(scheme: str, host: str) -> None:
    async def main() -> None:
        async with Transport(TransportOptions(retry=RetryPolicy(max_retries=0)), environ={}) as transport:
            with pytest.raises((LocalError, ConnectFailed)) as caught:
                await transport.open(asks(), f"{scheme}://{host}/v1", AUTH)
            assert caught.value.__cause__ is caught.value.__context__ is None

    run(main())


def test_a_trust_that_cannot_be_used_is_told_before_a_proxy_is_asked(tmp_path: Path) -> None:
    async def main() -> None:
        async with Server(forwards({})) as proxy:
            environ = {"HTTPS_PROXY": f"http://127.0.0.1:{proxy.port}", "SSL_CERT_FILE": str(tmp_path / "none.pem")}
            async with Transport(QUICK, environ=environ) as transport:
                with pytest.raises(ConfigError, match="SSL_CERT_FILE"):
                    await transport.open(asks(), "https://far.invalid/v1", AUTH)
            assert proxy.accepted == 0

    run(main())


def forwards(places: dict[str, int], password: str = "") -> Script:
    """A proxy: CONNECT to the ports of these names, and a plain word for requests that it reads itself."""

    async def play(wire: Wire, seen: Seen) -> None:
        method, place, _ = seen.line.split()
        if password and seen.headers.get("proxy-authorization") != password:
            await wire.answer(b"", 407, "proxy-authenticate: Basic")
        elif method == "CONNECT":
            await _relay(wire, places[place])
        else:
            await wire.answer(b'"through the proxy"')

    return play


async def _relay(wire: Wire, port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
        sink.close()

    try:
        await wire.send(b"HTTP/1.1 200 Connection established\r\nvia: test\r\n\r\n")
        async with asyncio.TaskGroup() as group:
            group.create_task(pump(wire.reader, writer))
            group.create_task(pump(reader, wire.writer))
    except* ConnectionError:
        pass
    finally:
        writer.close()
        wire.writer.close()


PASSWORD = "Basic dXNlcjpodW50ZXIyLXByb3h5"
LOGIN = "user:hunter2-proxy@"


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("login", ["", LOGIN])
def test_a_tunnel(scheme: str, login: str, authority: Authority) -> None:
    """TLS with the origin inside a tunnel, and inside TLS with the proxy."""

    async def main() -> None:
        async with Server(OK, tls=authority.server("DNS:far.invalid")) as server:
            script = forwards({"far.invalid:443": server.port}, PASSWORD if login else "")
            async with Server(script, tls=authority.server("IP:127.0.0.1") if scheme == "https" else None) as proxy:
                environ = {
                    "HTTPS_PROXY": f"{scheme}://{login}127.0.0.1:{proxy.port}",
                    "SSL_CERT_FILE": str(authority.trust),
                }
                async with Transport(QUICK, environ=environ) as transport:
                    for _ in range(3):
                        answer = await transport.open(asks(stream=False), "https://far.invalid/v1", AUTH)
                        assert await answer.read() == JSON_OK
                await proxy.all_closed()
            (asked,) = proxy.seen
            assert asked.line == "CONNECT far.invalid:443 HTTP/1.1"
            assert asked.headers["host"] == "far.invalid:443"
            assert "authorization" not in asked.headers
            assert [seen.line for seen in server.seen] == ["POST /v1/chat/completions HTTP/1.1"] * 3
            assert all("proxy-authorization" not in seen.headers for seen in server.seen)
            assert all(seen.headers["host"] == "far.invalid" for seen in server.seen)

    run(main())


def test_the_certificate_inside_a_tunnel_is_the_origins(authority: Authority) -> None:
    async def main() -> None:
        async with Server(OK, tls=authority.server("DNS:proxy.invalid", "IP:127.0.0.1")) as server:
            async with Server(forwards({"far.invalid:443": server.port})) as proxy:
                environ = {
                    "HTTPS_PROXY": f"http://127.0.0.1:{proxy.port}",
                    "SSL_CERT_FILE": str(authority.trust),
                }
                async with Transport(QUICK, environ=environ) as transport:
                    with pytest.raises(TransportError, match="not trusted"):
                        await transport.open(asks(), "https://far.invalid/v1", AUTH)
                await proxy.all_closed()
            assert server.seen == []

    run(main())


def _proxied(script: Script, base: str = "https://far.invalid/v1", login: str = LOGIN) -> tuple[MidstreamError, Server]:
    async def main() -> tuple[MidstreamError, Server]:
        async with Server(script) as proxy:
            environ = dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY"), f"http://{login}127.0.0.1:{proxy.port}")
            clock = Clock()
            async with Transport(QUICK, environ=environ, sleep=clock.sleep, clock=clock) as transport:
                with pytest.raises(MidstreamError) as caught:
                    await (await transport.open(asks(), base, AUTH)).read()
            await proxy.all_closed()
            return caught.value, proxy

    return run(main())


async def _hangs_up(wire: Wire, seen: Seen) -> None:
    wire.writer.close()


async def _talks_on(wire: Wire, seen: Seen) -> None:
    await wire.send(b"HTTP/1.1 200 OK\r\n\r\nand more, which TLS would take for the origin's word")


async def _no_http(wire: Wire, seen: Seen) -> None:
    await wire.send(b"SSH-2.0-proxy\r\n\r\n")
    await wire.gone()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (forwards({}, "another"), "refused a tunnel to far.invalid:443 with 407"),
        (_hangs_up, "closed the connection before it gave a tunnel"),
        (_talks_on, "closed the tunnel"),
        (_no_http, "not valid HTTP"),
    ],
)
def test_a_tunnel_that_is_not_given(script: Script, said: str) -> None:
    error, proxy = _proxied(script)
    assert said in str(error)
    assert isinstance(error, MidstreamError)
    shown = f"{error!r} {error} {getattr(error, 'attempts', ())}"
    assert "hunter2" not in shown and CANARY not in shown
    assert all(seen.line == "CONNECT far.invalid:443 HTTP/1.1" for seen in proxy.seen)
    assert all("authorization" not in seen.headers for seen in proxy.seen), "the proxy must not see the key"


def test_the_answers_of_a_forwarding_proxy_are_answers() -> None:
    error, proxy = _proxied(forwards({}, "another"), "http://far.invalid/v1")
    assert "407" in str(error) and not isinstance(error, RetriesExhausted)
    assert proxy.seen[0].line == "POST http://far.invalid/v1/chat/completions HTTP/1.1"
    assert proxy.seen[0].headers["host"] == "far.invalid"


def test_a_request_over_plain_http_is_forwarded() -> None:
    async def main() -> None:
        async with Server(forwards({}, PASSWORD)) as proxy:
            environ = {"HTTP_PROXY": f"http://{LOGIN}127.0.0.1:{proxy.port}"}
            async with Transport(QUICK, environ=environ) as transport:
                for _ in range(2):
                    answer = await transport.open(asks(stream=False), "http://far.invalid:8080/v1", AUTH)
                    assert await answer.read() == b'"through the proxy"'
            assert [seen.line for seen in proxy.seen] == [
                "POST http://far.invalid:8080/v1/chat/completions HTTP/1.1"
            ] * 2
            assert proxy.accepted == 1

    run(main())
