"""Through a real proxy, tinyproxy: tunnels and forwarded requests, with and without a password, on both event loops.

The origin is on this machine, where no proxy is used; `127.1` is an address that only the proxy resolves, so it is to us
a host like any other.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from midstream.core.errors import MidstreamError, RetriesExhausted
from midstream.transport import Transport
from tests.transport.asking import AUTH, CANARY, QUICK, Clock, asks, run
from tests.transport.certificates import Authority, authority
from tests.transport.loopback import JSON_OK, Seen, Server, Wire
from tests.transport.test_client import OK

__all__ = ["authority"]
pytestmark = pytest.mark.usefixtures("each_loop")

FAR = "127.1"
PASSWORD = "hunter2-e2e"


class Tinyproxy:
    def __init__(self, folder: Path, password: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.log = folder / "tinyproxy.log"
        lines = [
            f"Port {self.port}",
            "Listen 127.0.0.1",
            "Timeout 30",
            "MaxClients 20",
            f'LogFile "{self.log}"',
            "LogLevel Connect",
        ]
        if password:
            lines.append(f"BasicAuth user {password}")
        config = folder / "tinyproxy.conf"
        config.write_text("\n".join(lines) + "\n")
        self._process = subprocess.Popen(["tinyproxy", "-d", "-c", config], stdout=subprocess.DEVNULL)

    async def ready(self) -> None:
        for _ in range(200):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                assert self._process.poll() is None, "tinyproxy did not start"
                await asyncio.sleep(0.05)
            else:
                writer.close()
                await writer.wait_closed()
                return
        raise AssertionError("tinyproxy does not answer")

    def environ(self, authority: Authority, login: str = "") -> dict[str, str]:
        url = f"http://{login}127.0.0.1:{self.port}"
        return {"HTTPS_PROXY": url, "HTTP_PROXY": url, "SSL_CERT_FILE": str(authority.trust)}

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(10)


@pytest.fixture
def tinyproxy(tmp_path: Path) -> Iterator[Callable[[str], Tinyproxy]]:
    if shutil.which("tinyproxy") is None:
        pytest.skip("tinyproxy is not installed (make e2e-tools): the tests with a real proxy did NOT run")
    started: list[Tinyproxy] = []

    def start(password: str = "") -> Tinyproxy:
        started.append(Tinyproxy(tmp_path, password))
        return started[-1]

    yield start
    for each in started:
        each.end()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("password", ["", PASSWORD], ids=["open", "with a password"])
def test_an_answer(scheme: str, password: str, tinyproxy: Callable[[str], Tinyproxy], authority: Authority) -> None:
    async def main() -> None:
        proxy = tinyproxy(password)
        await proxy.ready()
        tls = authority.server(f"DNS:{FAR}") if scheme == "https" else None
        environ = proxy.environ(authority, f"user:{password}@" if password else "")
        async with Server(OK, tls=tls) as server, Transport(QUICK, environ=environ) as transport:
            for _ in range(3):
                base = f"{scheme}://{FAR}:{server.port}/v1"
                assert await (await transport.open(asks(stream=False), base, AUTH)).read() == JSON_OK
            assert all(seen.headers["authorization"] == AUTH["authorization"] for seen in server.seen)
            assert all("proxy-authorization" not in seen.headers for seen in server.seen)
            assert len(server.seen) == 3
            if scheme == "https":
                assert server.accepted == 1, "the tunnel is kept"
        log = proxy.log.read_text()
        assert (f"CONNECT {FAR}" if scheme == "https" else f"POST http://{FAR}") in log, "it went past the proxy"
        assert CANARY not in log

    run(main())


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("login", ["", "user:wrong@"], ids=["none", "wrong"])
def test_the_wrong_password(
    scheme: str, login: str, tinyproxy: Callable[[str], Tinyproxy], authority: Authority
) -> None:
    async def main() -> None:
        proxy = tinyproxy(PASSWORD)
        await proxy.ready()
        clock = Clock()
        async with Server(OK) as server:
            environ = proxy.environ(authority, login)
            async with Transport(QUICK, environ=environ, sleep=clock.sleep, clock=clock) as transport:
                with pytest.raises(MidstreamError) as caught:
                    await transport.open(asks(), f"{scheme}://{FAR}:{server.port}/v1", AUTH)
            assert server.accepted == 0
        error = caught.value.attempts[-1] if isinstance(caught.value, RetriesExhausted) else caught.value
        # tinyproxy answers 401 where a password is wrong, 407 where there is none
        assert any(status in f"{error} {getattr(error, 'status', '')}" for status in ("407", "401")), error
        assert "wrong" not in repr(error)

    run(main())


def test_a_long_stream_in_a_tunnel(tinyproxy: Callable[[str], Tinyproxy], authority: Authority) -> None:
    piece = b"data: " + b"x" * 1000 + b"\n\n"

    async def streams(wire: Wire, seen: Seen) -> None:
        await wire.begin("content-type: text/event-stream")
        for _ in range(3000):
            await wire.chunk(piece)
        await wire.end()

    async def main() -> None:
        proxy = tinyproxy("")
        await proxy.ready()
        async with Server(streams, tls=authority.server(f"DNS:{FAR}")) as server:
            async with Transport(QUICK, environ=proxy.environ(authority)) as transport:
                for _ in range(2):
                    answer = await transport.open(asks(), f"https://{FAR}:{server.port}/v1", AUTH)
                    assert b"".join([chunk async for chunk in answer.chunks()]) == piece * 3000
            assert server.accepted == 1

    run(main())
