"""Programs in any language: recorded through one server, and answered by the other without noticing."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from midstream import Client, MidstreamError
from midstream.client.catalog import Catalog
from midstream.client.config import Config, ProviderConfig
from midstream.recording import Cassette, Scrub, record
from midstream.sim.http_server import HTTPRequest, HTTPServer, Responder
from midstream.testing import Answer, Call, record_server, replay_server, sim_server
from midstream.testing.recording_server import RecordServer, ReplayServer
from midstream.transport import RetryPolicy, TransportOptions
from tests.event_loops import run

KEY = "sk-canary-7f3a90b2c4d1e6f8"
BODY = {"model": "gpt-4o", "stream": True, "messages": [{"role": "user", "content": "hello"}]}


async def _asked(url: str, body: Any = BODY, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    """A client that nobody here wrote."""
    given = {"authorization": f"Bearer {KEY}", **headers}
    async with aiohttp.ClientSession() as session, session.post(url, json=body, headers=given) as answer:
        return answer.status, await answer.read(), {name.lower(): value for name, value in answer.headers.items()}


def test_recorded_and_replayed_to_the_byte(tmp_path: Path) -> None:
    with sim_server(Answer("Hé 😀", calls=(Call("look", {"at": "x"}),))) as sim:
        with record_server(sim.base_url("openai"), tmp_path) as server:
            assert urlsplit(server.url).path == "/openai"
            status, body, headers = run(_asked(f"{server.url}/chat/completions"))
        assert sim.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert status == 200 and b"[DONE]" in body and headers["content-type"] == "text/event-stream"
    ((path, exchange),) = Cassette(tmp_path).read()
    assert exchange.body == body and KEY not in path.read_text() and exchange.ending == "clean"
    for pace in ("chunks", "fast", "bytes", "random"):
        with replay_server(tmp_path, pace=pace, seed=5) as replayed:  # type: ignore[arg-type]
            for place in ("/openai/chat/completions", "/chat/completions"):
                again = run(_asked(replayed.url + place, dict(reversed(BODY.items()))))
                assert again[:2] == (status, body), (pace, place)


def test_what_was_not_recorded_is_refused_and_told(tmp_path: Path) -> None:
    with sim_server() as sim, record_server(sim.base_url("openai"), tmp_path) as server:
        run(_asked(f"{server.url}/chat/completions"))
    told: list[str] = []

    async def ask() -> tuple[int, bytes]:
        async with ReplayServer(tmp_path, on_refused=told.append) as server:
            return (await _asked(f"{server.url}/chat/completions", {**BODY, "model": "gpt-5"}))[:2]

    status, body = run(ask())
    error = json.loads(body)["error"]
    assert status == 404 and error["type"] == "no_recording"
    assert 'model: recorded "gpt-4o", now "gpt-5"' in error["message"] and told == [error["message"]]


def test_each_recording_once(tmp_path: Path) -> None:
    with sim_server("one", "two") as sim, record_server(sim.base_url("openai"), tmp_path) as server:
        first = [run(_asked(f"{server.url}/chat/completions"))[1] for _ in range(2)]
    with replay_server(tmp_path, repeat=False) as once:
        again = [run(_asked(f"{once.url}/chat/completions"))[:2] for _ in range(3)]
    assert [body for _, body in again[:2]] == first and again[2][0] == 404
    with replay_server(tmp_path) as often:
        assert [run(_asked(f"{often.url}/chat/completions"))[1] for _ in range(3)] == [*first, first[1]]


@pytest.mark.parametrize("fault", ["429", "500", "cut"])
def test_failures_fail_alike(tmp_path: Path, fault: str) -> None:
    options = TransportOptions(retry=RetryPolicy(max_retries=0))

    async def told(base: str) -> Any:
        catalog = Catalog(Config(providers={"host": ProviderConfig(like="openai", base_url=base)}), environ={})
        async with Client(catalog, transport=options, api_key=KEY) as client:
            try:
                events = [event async for event in client.stream("host/gpt-4o", "hello", turn_key="k")]
            except MidstreamError as error:
                return type(error), str(error).replace(base, "")
            return events[:-1], events[-1].error  # type: ignore[union-attr]

    with (
        sim_server("a long answer with many words in it", faults=[fault]) as sim,
        record_server(sim.base_url("openai"), tmp_path) as server,
    ):
        first = run(told(server.url))
    with replay_server(tmp_path) as replayed:
        assert run(told(f"{replayed.url}/openai")) == first
    (_, exchange), *_ = Cassette(tmp_path).read()
    assert exchange.status == (int(fault) if fault.isdigit() else 200)
    assert exchange.ending == ("cut" if fault == "cut" else "clean")


def test_a_host_that_is_not_there(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with record_server(f"http://127.0.0.1:{port}/v1", tmp_path) as server:
            status, body, _ = run(_asked(f"{server.url}/chat/completions"))
    assert status == 502 and json.loads(body)["error"]["type"] == "upstream_error"
    (_, exchange), *_ = Cassette(tmp_path).read()
    assert exchange.head is None and exchange.ending == "error"
    with replay_server(tmp_path) as replayed, pytest.raises(aiohttp.ClientError):
        run(_asked(f"{replayed.url}/v1/chat/completions"))


def test_silence_is_replayed_as_silence(tmp_path: Path) -> None:
    options = TransportOptions(idle=0.1, retry=RetryPolicy(max_retries=0))

    async def recorded() -> None:
        async with Client(sim.catalog(), transport=options) as client:
            await client.stream("openai/gpt-4o", "hello")

    with sim_server("a long answer with many words in it", faults=["stall"]) as sim, record(tmp_path):
        run(recorded())
    body = next(iter(Cassette(tmp_path).read()))[1].request.body
    assert body is not None

    async def ask() -> None:
        async with ReplayServer(tmp_path) as server:
            await asyncio.wait_for(_asked(f"{server.url}/chat/completions", body.json), 0.3)

    with pytest.raises(TimeoutError):
        run(ask())


async def _served(handler: Callable[[HTTPRequest, Responder], Any], ask: Callable[[str], Any], folder: Path) -> Any:
    host = HTTPServer(handler)
    await host.start()
    try:
        async with RecordServer(f"http://127.0.0.1:{host.port}/base", folder) as server:
            return await ask(server.url)
    finally:
        await host.close()


def test_headers_and_paths_pass_through(tmp_path: Path) -> None:
    seen: list[HTTPRequest] = []

    async def handler(request: HTTPRequest, responder: Responder) -> None:
        seen.append(request)
        await responder.send(200, b"{}", {"content-type": "application/json", "x-own": "é", "x-request-id": "r1"})

    async def ask(url: str) -> Any:
        return await _asked(
            f"{url}/models/a%20b:go?key={KEY}&alt=sse", {}, **{"x-mine": "1", "accept-encoding": "gzip"}
        )

    status, _, headers = run(_served(handler, ask, tmp_path))
    assert status == 200 and headers["x-request-id"] == "r1" and "x-own" in headers
    (request,) = seen
    assert (request.path, request.query) == ("/base/models/a b:go", f"key={KEY}&alt=sse")
    assert request.header("x-mine") == "1" and request.header("accept-encoding") == "identity"
    (path, exchange), *_ = Cassette(tmp_path).read()
    assert exchange.request.url.endswith("/base/models/a%20b:go?key=***&alt=***") and KEY not in path.read_text()


@pytest.mark.parametrize(("method", "status"), [("HEAD", 200), ("GET", 204), ("DELETE", 404), ("OPTIONS", 200)])
def test_other_methods(tmp_path: Path, method: str, status: int) -> None:
    async def handler(request: HTTPRequest, responder: Responder) -> None:
        await responder.send(status, b"" if status == 204 else b"gone", {})

    def plainly(url: str) -> tuple[int, bytes]:
        place = urlsplit(url)
        connection = http.client.HTTPConnection(place.netloc, timeout=5)
        connection.request(method, place.path + "/x")
        answer = connection.getresponse()
        found = answer.status, answer.read()
        connection.close()
        return found

    async def ask(url: str) -> Any:
        return await asyncio.to_thread(plainly, url)

    found = run(_served(handler, ask, tmp_path))
    assert found == (status, b"" if status == 204 or method == "HEAD" else b"gone")
    (_, exchange), *_ = Cassette(tmp_path).read()
    assert exchange.status == status and exchange.request.method == method


def test_a_bad_upstream_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MidstreamError, match="expected the base URL of a host"):
        RecordServer("moonshot", tmp_path)


def test_own_patterns(tmp_path: Path) -> None:
    body = {**BODY, "note": "acct_77"}
    scrub = Scrub(patterns=[r"acct_\d+"])
    with sim_server() as sim, record_server(sim.base_url("openai"), tmp_path, scrub=scrub) as server:
        run(_asked(f"{server.url}/chat/completions", body))
    assert "acct_" not in next(iter(Cassette(tmp_path).files())).read_text()
    with replay_server(tmp_path, scrub=scrub) as replayed:
        assert run(_asked(f"{replayed.url}/chat/completions", body))[0] == 200
