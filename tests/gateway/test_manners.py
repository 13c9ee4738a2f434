"""How the gateway behaves towards clients when an upstream, or a client, behaves badly: over real sockets, on every wire."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from midstream.gateway.api_key import make_key
from midstream.gateway.state import KeyRecord
from midstream.testing import sim_server
from tests.event_loops import run
from tests.gateway.gateway_process import gateway_process
from tests.gateway.serving import Gate, gate
from tests.gateway.upstream import FLOOD_PIECE, Upstream, upstream
from tests.long_run import each_once

WIRES = ("openai-chat", "openai-responses", "anthropic", "gemini")
_SAID = [{"role": "user", "content": "hi"}]
_BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "openai-chat": ("/v1/chat/completions", {"messages": _SAID}),
    "openai-responses": ("/v1/responses", {"input": "hi"}),
    "anthropic": ("/v1/messages", {"messages": _SAID, "max_tokens": 1000}),
    "gemini": ("/v1beta/models/{model}:{action}", {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}),
}
_BOUND = 10.0


def request(wire: str, model: str, stream: bool = True) -> tuple[str, dict[str, Any]]:
    """The path and the body of a request."""
    path, body = _BODIES[wire]
    if wire == "gemini":
        return path.format(model=model, action="streamGenerateContent?alt=sse" if stream else "generateContent"), body
    return path, {"model": model, "stream": stream, **body}


def events(wire: str, data: bytes) -> list[dict[str, Any]]:
    """The JSON of a stream's events. A comment means nothing, and is no event."""
    found = [line[6:] for line in data.decode().splitlines() if line.startswith("data: ") and line != "data: [DONE]"]
    return [json.loads(each) for each in found]


def words(wire: str, data: bytes) -> str:
    """The text that a stream brought."""
    said = ""
    for event in events(wire, data):
        match wire:
            case "openai-chat":
                said += "".join([choice["delta"].get("content") or "" for choice in event.get("choices", ())])
            case "openai-responses":
                said += event["delta"] if event["type"] == "response.output_text.delta" else ""
            case "anthropic":
                said += event["delta"].get("text", "") if event["type"] == "content_block_delta" else ""
            case _:
                for candidate in event.get("candidates", ()):
                    parts = candidate.get("content", {}).get("parts", ())
                    said += "".join([part["text"] for part in parts if not part.get("thought")])
    return said


def whole_words(wire: str, body: dict[str, Any]) -> str:
    match wire:
        case "openai-chat":
            return str(body["choices"][0]["message"]["content"])
        case "openai-responses":
            return str(body["output"][-1]["content"][0]["text"])
        case "anthropic":
            return str(body["content"][-1]["text"])
        case _:
            return "".join([part["text"] for part in body["candidates"][0]["content"]["parts"]])


def failure(wire: str, data: bytes) -> tuple[str, str]:
    """The kind and the words of the error that a stream ended with, in the place where the wire's clients look for it."""
    last = events(wire, data)[-1]
    match wire:
        case "openai-chat":
            return last["error"]["type"], last["error"]["message"]
        case "openai-responses":
            if last["type"] == "response.failed":
                error = last["response"]["error"]
                assert last["response"]["status"] == "failed"
                return error["code"], error["message"]
            assert last["type"] == "error"
            return last["code"], last["message"]
        case "anthropic":
            assert last["type"] == "error" and b"event: error\n" in data
            return last["error"]["type"], last["error"]["message"]
        case _:
            assert isinstance(last["error"]["code"], int)
            return last["error"]["status"], last["error"]["message"]


@asynccontextmanager
async def rude_gate(config: str = "", *, silence: float = 10.0) -> AsyncIterator[tuple[Gate, Upstream]]:
    """A gateway in front of the doubles and of an upstream with bad manners."""
    async with upstream() as rude, gate(config, more=[rude.provider()]) as gateway:
        running = gateway.app.gateway
        assert running is not None
        running.settings = msgspec.structs.replace(running.settings, silence=silence)
        yield gateway, rude


CHAIN = '[aliases]\nx = ["rude/{first}", "sim/gpt-4o"]\n'


@each_once(("first", ["500", "503", "cut"]), ("wire", WIRES))
def test_the_next_model_answers_before_the_first_block(wire: str, first: str) -> None:
    async def check() -> None:
        async with rude_gate(CHAIN.format(first=first)) as (gateway, rude):
            path, body = request(wire, "x")
            said = await gateway.stream(path, body)
            assert "You said: hi" in words(wire, said) and "Good" not in words(wire, said)
            assert rude.asked
            path, body = request(wire, "x", stream=False)
            status, headers, answer = await gateway.post(path, body)
            assert status == 200 and "You said: hi" in whole_words(wire, answer)
            assert headers["x-midstream-model"] == "sim/gpt-4o"
            assert headers["x-midstream-attempts"] == ("2" if first == "cut" else "4")  # a refusal is met three times
            assert [seen.status for seen in gateway.sim.seen] == [200, 200]

    run(check())


@pytest.mark.parametrize("wire", WIRES)
def test_after_the_first_block_the_stream_ends_with_its_error(wire: str) -> None:
    async def check() -> None:
        async with rude_gate(CHAIN.format(first="half-cut")) as (gateway, _):
            path, body = request(wire, "x")
            said = await gateway.stream(path, body)
            assert words(wire, said) == "Good "
            kind, message = failure(wire, said)
            assert kind and len(message) > 20
            assert not gateway.sim.seen, "another model was asked to go on with what this one began"
            # Nothing of a whole answer was sent yet, so the next model may give all of it.
            path, body = request(wire, "x", stream=False)
            status, _, answer = await gateway.post(path, body)
            assert status == 200 and "You said: hi" in whole_words(wire, answer)

    run(check())


async def read_until(answer: aiohttp.ClientResponse, wanted: int) -> bytes:
    """Bytes of a stream, until there are that many."""
    data = b""
    async with asyncio.timeout(_BOUND):
        while len(data) < wanted and (piece := await answer.content.readany()):
            data += piece
    return data


@pytest.mark.parametrize("wire", WIRES)
def test_a_silent_upstream_is_bridged(wire: str) -> None:
    """The head comes though the upstream has not accepted yet, and something that means nothing with it, again and again."""

    async def check() -> None:
        async with rude_gate(silence=0.05) as (gateway, rude):
            path, body = request(wire, "rude/late")
            async with gateway.http.post(gateway.url + path, json=body) as answer:
                assert answer.status == 200 and answer.content_type == "text/event-stream"
                bridged = await read_until(answer, 40)
                assert words(wire, bridged) == "" and rude.waiting.is_set()
                rude.go_on.set()
                rest = await answer.read()
            assert words(wire, rest) == "Good morning."
            # Comments and the wire's own way to say nothing are all that came before.
            assert all(event.get("type", "ping") in ("ping", "message_start", "response.created", "response.in_progress")
                       for event in events(wire, bridged)), bridged  # fmt: skip

    run(check())


@pytest.mark.parametrize("wire", WIRES)
def test_what_fails_after_the_bridge_fails_inside_the_stream(wire: str) -> None:
    async def check() -> None:
        async with rude_gate(silence=0.05) as (gateway, rude):
            path, body = request(wire, "rude/late-500")
            async with gateway.http.post(gateway.url + path, json=body) as answer:
                assert answer.status == 200
                await read_until(answer, 1)
                rude.go_on.set()
                rest = await answer.read()
            kind, message = failure(wire, rest)
            assert kind and "told to say 500" in message

    run(check())


@pytest.mark.usefixtures("each_loop")
@pytest.mark.parametrize("model", ["rude/late", "rude/half-wait"])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_client_that_leaves_ends_the_request_upstream(model: str, stream: bool) -> None:
    if not stream and model == "rude/half-wait":
        model = "rude/late"

    async def check() -> None:
        async with rude_gate() as (gateway, rude):
            path, body = request("anthropic", model, stream)
            asking = asyncio.create_task(gateway.http.post(gateway.url + path, json=body))
            await rude.waiting.wait()
            if model == "rude/half-wait":
                answer = await asking
                await read_until(answer, 100)
                answer.close()
            else:
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
            async with asyncio.timeout(_BOUND):
                await rude.left.wait()
            running = gateway.app.gateway
            assert running is not None
            async with asyncio.timeout(_BOUND):
                while running.limiter.in_flight:  # noqa: ASYNC110 there is no event for it
                    await asyncio.sleep(0.01)
            assert not running.open_streams
            status, _, _ = await gateway.post(*request("anthropic", "sim/gpt-4o", stream=False))
            assert status == 200

    run(check())


@pytest.mark.usefixtures("each_loop")
def test_a_client_that_stops_reading_stops_the_upstream() -> None:
    """What nobody reads is not fetched: the gateway holds no more of it than buffers do."""

    async def check() -> None:
        async with rude_gate() as (gateway, rude):
            path, body = request("openai-chat", "rude/flood")
            host, _, port = gateway.url.removeprefix("http://").rpartition(":")
            loop = asyncio.get_running_loop()
            with socket.socket() as client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
                client.setblocking(False)
                await loop.sock_connect(client, (host, int(port)))
                payload = json.dumps(body).encode()
                head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {len(payload)}\r\n\r\n"
                await loop.sock_sendall(client, head.encode() + payload)
                async with asyncio.timeout(30):
                    await rude.stalled.wait()
                held = rude.sent
                assert held < 32 * 1024 * 1024
                # It reads again, and the upstream goes on.
                async with asyncio.timeout(30):
                    while rude.sent < held + 64 * FLOOD_PIECE:
                        assert await loop.sock_recv(client, 1024 * 1024)
            async with asyncio.timeout(_BOUND):
                await rude.left.wait()

    run(check())


def test_headers_tell_who_answered_and_what_was_changed() -> None:
    async def check() -> None:
        async with rude_gate('[aliases]\nclaude-sonnet-5 = "sim/kimi-k2.5"\n') as (gateway, _):
            path, body = request("anthropic", "claude-sonnet-5", stream=False)
            _, headers, answer = await gateway.post(path, {**body, "top_k": 5, "api_key": "sk-of-another"})
            assert headers["x-midstream-model"] == "sim/kimi-k2.5"
            assert "unsupported_option: top_k" in headers["x-midstream-notes"].split(", ")
            assert "unsupported_option: api_key" in headers["x-midstream-notes"].split(", ")
            assert answer["model"] == "claude-sonnet-5", "the client asked for this name"
            assert headers["request-id"] == headers["x-request-id"]
            assert "x-midstream-attempts" not in headers
            _, headers, _ = await gateway.post(*request("openai-chat", "rude/good", stream=False))
            assert not [name for name in headers if "ratelimit" in name]
            async with gateway.http.post(gateway.url + "/v1/chat/completions",
                                         json=request("openai-chat", "rude/good")[1]) as streamed:  # fmt: skip
                assert not [name for name in streamed.headers if "ratelimit" in name.lower()]
                assert streamed.headers["x-midstream-model"] == "rude/good"

    run(check())


@pytest.mark.parametrize("wire", WIRES)
def test_refusals_say_whether_to_come_back(wire: str) -> None:
    async def check() -> None:
        async with rude_gate() as (gateway, _):
            for stream in (True, False):
                status, headers, _ = await gateway.post(*request(wire, "nobody/knows", stream))
                assert status == 404 and headers["x-should-retry"] == "false"
                status, headers, _ = await gateway.post(*request(wire, "rude/503", stream))
                assert status in (503, 529) and int(headers["retry-after"]) >= 1 and "x-should-retry" not in headers
            one, two = make_key(), make_key()
            assert gateway.app.state is not None and gateway.app.gateway is not None
            await gateway.app.state.add_key(KeyRecord(one.id, "a", one.digest, rate=1))
            await gateway.app.state.add_key(KeyRecord(two.id, "a", two.digest, models=("sim/gpt-*",)))
            await gateway.app.gateway.authenticator.refresh()
            held = {"x-api-key": one.key.reveal()}
            path, body = request(wire, "sim/gpt-4o", stream=False)
            assert (await gateway.post(path, body, **held))[0] == 200
            status, headers, _ = await gateway.post(path, body, **held)
            assert status == 429 and int(headers["retry-after"]) >= 1
            for wrong in ({}, {"x-api-key": "sk-wrong"}, {"authorization": "Basic abc"}):
                status, headers, _ = await gateway.post(path, body, **wrong)
                assert status in (401, 400 if wire == "gemini" else 401) and headers["x-should-retry"] == "false"
            path, body = request(wire, "sim/kimi-k2.5", stream=False)
            status, headers, _ = await gateway.post(path, body, authorization=f"Bearer {two.key.reveal()}")
            assert status in (400, 403) and headers["x-should-retry"] == "false"

    run(check())


def test_an_error_of_an_upstream_does_not_tell_the_clients_key() -> None:
    async def check() -> None:
        async with rude_gate() as (gateway, _):
            made = make_key()
            assert gateway.app.state is not None and gateway.app.gateway is not None
            await gateway.app.state.add_key(KeyRecord(made.id, "a", made.digest))
            await gateway.app.gateway.authenticator.refresh()
            key = made.key.reveal()
            body = {"model": "rude/echo", "messages": [{"role": "user", "content": f"I am told my key is {key}."}]}
            for stream in (True, False):
                status, _, answer = await gateway.post(
                    "/v1/chat/completions", {**body, "stream": stream}, authorization=f"Bearer {key}"
                )
                assert status == 400 and "I am told my key is" in answer["error"]["message"]
                assert key[4:] not in json.dumps(answer)

    run(check())


def test_a_draining_gateway_finishes_its_streams() -> None:
    async def check() -> None:
        with sim_server(delay=0.05) as doubles, gateway_process(doubles.url, drain=20) as process:
            path, body = request("openai-chat", "sim/gpt-4o")
            async with aiohttp.ClientSession() as http, http.post(process.url + path, json=body) as answer:
                data = await read_until(answer, 10)
                process.signal(signal.SIGTERM)
                async with asyncio.timeout(_BOUND):
                    while True:
                        try:
                            async with aiohttp.ClientSession() as other, other.get(process.url + "/health"):
                                await asyncio.sleep(0.01)
                        except aiohttp.ClientError:
                            break
                data += await answer.read()
            assert "You said: hi" in words("openai-chat", data) and data.rstrip().endswith(b"[DONE]")
            assert await asyncio.to_thread(process.wait) == 0

    run(check())


def test_a_reload_repoints_an_alias_and_leaves_open_streams_alone(tmp_path: Path) -> None:
    async def check() -> None:
        config = tmp_path / "gateway.toml"
        config.write_text('[aliases]\nx = "sim/gpt-4o"\n')
        with sim_server(delay=0.05) as doubles, gateway_process(doubles.url, config=config) as process:
            path, body = request("openai-chat", "x")
            async with aiohttp.ClientSession() as http, http.post(process.url + path, json=body) as answer:
                data = await read_until(answer, 10)
                config.write_text('[aliases]\nx = "sim/mistral-large-latest"\n')
                process.signal(signal.SIGHUP)
                async with asyncio.timeout(_BOUND):
                    while True:
                        async with http.post(process.url + path, json={**body, "stream": False}) as other:
                            if other.headers["x-midstream-model"] == "sim/mistral-large-latest":
                                break
                config.write_text("[aliases]\nx = 3\n")  # a mistake changes nothing
                process.signal(signal.SIGHUP)
                data += await answer.read()
                assert "This is gpt-4o" in words("openai-chat", data)
                async with http.post(process.url + path, json={**body, "stream": False}) as other:
                    assert other.headers["x-midstream-model"] == "sim/mistral-large-latest"

    run(check())
