"""The server as a process: signals, workers, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and shared sockets are POSIX's")

ROOT = Path(__file__).parents[2]
LOOPS = ["asyncio", "uvloop"]
LIMIT = 30.0


class Process:
    """A running server, its URL's port, and all it wrote."""

    def __init__(self, popen: subprocess.Popen[str], port: int) -> None:
        self.popen = popen
        self.port = port
        self.asked = 0

    def send(self, number: int) -> None:
        self.popen.send_signal(number)

    def end(self) -> tuple[int, str]:
        """The exit code and what was logged."""
        _, err = self.popen.communicate(timeout=LIMIT)
        return self.popen.returncode, err

    def open(self, path: str) -> socket.socket:
        """A connection on which an answer has begun."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT)
        client.sendall(f"GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return client

    def pid(self) -> tuple[int, int]:
        """The process that answers, and how often it was told to reload."""
        self.asked += 1
        body = self.read("pid").split()
        return int(body[0]), int(body[1])

    def read(self, path: str) -> bytes:
        with self.open(path) as client:
            return rest(client).partition(b"\r\n\r\n")[2]

    def pids(self) -> set[int]:
        return {self.pid()[0] for _ in range(40)}


def rest(client: socket.socket) -> bytes:
    found = b""
    while piece := client.recv(65536):
        found += piece
    return found


@contextmanager
def started(**options: Any) -> Iterator[Process]:
    given = msgspec.json.encode({"port": 0, "drain": 10.0} | options).decode()
    popen = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.gateway.server_program", given],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert popen.stdout is not None
        url = popen.stdout.readline().strip()
        yield Process(popen, int(url.rpartition(":")[2] or 0))
    finally:
        popen.kill()
        popen.communicate()


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return (
        "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if Path("/proc").exists()
        else True
    )


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
def test_a_signal_drains(loop: str, number: int) -> None:
    with started(loop=loop) as server, server.open("stream") as client:
        client.recv(10)
        server.send(number)
        assert rest(client).endswith(b"3\r\nend\r\n0\r\n\r\n")
        code, err = server.end()
    assert code == 0
    assert "Traceback" not in err and "Warning" not in err and "never" not in err, err


@pytest.mark.parametrize("loop", LOOPS)
def test_a_drain_ends_by_itself(loop: str) -> None:
    with started(loop=loop, drain=0.3) as server, server.open("endless") as client:
        client.recv(10)
        server.send(signal.SIGTERM)
        assert not rest(client).endswith(b"0\r\n\r\n")
        code, err = server.end()
    assert code == 0
    assert "Traceback" not in err and "never" not in err, err


def test_a_second_signal_ends_at_once() -> None:
    with started(drain=600.0) as server, server.open("endless") as client:
        client.recv(10)
        server.send(signal.SIGTERM)
        time.sleep(0.3)
        assert server.popen.poll() is None
        server.send(signal.SIGTERM)
        rest(client)
        assert server.end()[0] == 0


def test_what_cannot_be_cancelled_does_not_hold_the_process() -> None:
    with started(drain=0.1) as server, server.open("stubborn") as client:
        client.recv(10)
        server.send(signal.SIGTERM)
        code, err = server.end()
    assert code == 1
    assert "do not let themselves be cancelled" in err


def test_sighup_reloads_and_keeps_streams() -> None:
    with started() as server, server.open("stream") as client:
        client.recv(10)
        server.send(signal.SIGHUP)
        wait_until(lambda: server.pid()[1] == 1)
        assert rest_of_chunked(client).endswith(b"end\r\n0\r\n\r\n")
        server.send(signal.SIGTERM)
        assert server.end()[0] == 0


def rest_of_chunked(client: socket.socket) -> bytes:
    found = b""
    while not found.endswith(b"0\r\n\r\n"):
        found += client.recv(65536)
    return found


def test_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with started(port=taken.getsockname()[1]) as server:
            code, err = server.end()
    assert code == 2
    assert err.startswith("cannot listen on 127.0.0.1:") and "--port" in err


def test_an_application_that_does_not_start() -> None:
    with started(broken="lifespan") as server:
        assert server.end()[0] == 3


def test_workers() -> None:
    """They share one port; a dead one is replaced; signals reach all; nobody stays behind."""
    with started(workers=2) as server:
        assert server.popen.pid not in server.pids()
        server.send(signal.SIGHUP)
        victim = server.pid()[0]
        os.kill(victim, signal.SIGKILL)
        seen: set[int] = set()
        wait_until(lambda: seen.update(server.pids() - {victim}) or len(seen) >= 2)
        with server.open("stream") as client:
            client.recv(10)
            server.send(signal.SIGTERM)
            assert rest(client).endswith(b"end\r\n0\r\n\r\n")
        code, err = server.end()
        assert code == 0
        assert f"ended with code {-signal.SIGKILL}" in err
        assert "Traceback" not in err and "never" not in err, err
        wait_until(lambda: not any(is_alive(pid) for pid in seen))


def test_sighup_and_the_metrics_are_for_every_worker() -> None:
    with started(workers=2) as server:
        pids: dict[int, int] = {}
        wait_until(lambda: pids.update([server.pid()]) or len(pids) == 2)
        server.send(signal.SIGHUP)
        wait_until(lambda: pids.update([server.pid()]) or set(pids.values()) == {1})
        asked = server.asked
        expected = b'midstream_requests_total{model="other",status="200",wire="gemini"} %d.0\n' % asked
        wait_until(lambda: expected in server.read("counted"))  # of both, whoever answers
        server.send(signal.SIGTERM)
        assert server.end()[0] == 0


def test_workers_that_never_start() -> None:
    with started(workers=2, broken="factory") as server:
        code, err = server.end()
    assert code == 1
    assert "no worker stays alive" in err


def test_workers_without_their_parent_end() -> None:
    with started(workers=2) as server:
        pids = server.pids()
        server.popen.kill()
        wait_until(lambda: not any(is_alive(pid) for pid in pids))
