"""What a host answered whole and in good form is an answer for the client too, whatever we think of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from midstream.core.dialect import Endpoint
from midstream.dialects.provider import Provider
from midstream.dialects.registry import resolve
from midstream.sim.answer import Answer
from midstream.sim.http_server import HTTPRequest, HTTPServer, Responder
from tests.gateway.serving import Gate, asynchronous, gate
from tests.gateway.test_manners import events, request
from tests.long_run import each_once

WIRES = ("openai-chat", "openai-responses", "anthropic", "gemini")
VENDORS = (
    "gpt-4o", "gpt-5.2", "claude-sonnet-5", "gemini-3-pro-preview", "kimi-k2.5", "mistral-large-latest",
    "command-a-03-2025", "qwen3:4b",
)  # fmt: skip
ERROR = "an error"
PLAIN = {"openai-chat": "stop", "openai-responses": "completed", "anthropic": "end_turn", "gemini": "STOP"}
NOTHING = {"nothing": Answer(), "only white space": Answer(" \n"), "only thinking": Answer(thinking="Nothing to add.")}


def ended(wire: str, body: dict[str, Any]) -> str:
    """The word for how a whole answer ended."""
    match wire:
        case "openai-chat":
            return str(body["choices"][0]["finish_reason"])
        case "openai-responses":
            details = body["incomplete_details"]
            return f"{body['status']}:{details['reason']}" if details else str(body["status"])
        case "anthropic":
            return str(body["stop_reason"])
        case _:
            return str(body["candidates"][0]["finishReason"])


def stream_ended(wire: str, data: bytes) -> str:
    """The same of a stream; ERROR where that is its end."""
    came = events(wire, data)
    if any("error" in event and event["error"] for event in came) or any(
        event.get("type") == "response.failed" for event in came
    ):
        return ERROR
    match wire:
        case "openai-chat":
            assert data.endswith(b"data: [DONE]\n\n")
            (word,) = [
                choice["finish_reason"] for event in came for choice in event["choices"] if choice["finish_reason"]
            ]
            return str(word)
        case "openai-responses":
            return ended(wire, came[-1]["response"])
        case "anthropic":
            assert came[-1]["type"] == "message_stop"
            return str(came[-2]["delta"]["stop_reason"])
        case _:
            return ended(wire, came[-1])


def counts(wire: str, body: dict[str, Any]) -> int:
    """The tokens of the answer that the client is told of."""
    match wire:
        case "gemini":
            usage = body["usageMetadata"]
            return int(usage["candidatesTokenCount"] + usage.get("thoughtsTokenCount", 0))
        case "openai-chat":
            return int(body["usage"]["completion_tokens"])
        case _:
            return int(body["usage"]["output_tokens"])


@each_once(("said", NOTHING), ("wire", WIRES))
@asynchronous
async def test_an_answer_that_says_nothing(wire: str, said: str) -> None:
    config = "[aliases]\n" + "".join([f'"{name}" = ["sim/{name}", "sim/gpt-4o-mini"]\n' for name in VENDORS])
    async with gate(config, script=lambda *_, **__: NOTHING[said], retries=0) as gateway:
        for vendor in VENDORS:
            before = gateway.sim.requests
            path, body = request(wire, vendor, stream=False)
            status, headers, answer = await gateway.post(path, body)
            assert (status, ended(wire, answer)) == (200, PLAIN[wire]), (vendor, answer)
            assert headers["x-midstream-model"] == f"sim/{vendor}" and "x-midstream-attempts" not in headers
            assert "empty_answer" in headers["x-midstream-notes"].split(", ")
            assert counts(wire, answer) == NOTHING[said].output_tokens, vendor
            path, body = request(wire, vendor)
            assert stream_ended(wire, await gateway.stream(path, body)) == PLAIN[wire], vendor
            assert gateway.sim.requests - before == 2, vendor
        assert not gateway.sim.refused


@asynchronous
async def test_an_answer_that_misses_its_schema() -> None:
    """Whether it will do is the client's to say: it is neither refused nor asked for again."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    async with gate(script=lambda *_, **__: Answer("In words."), retries=0) as gateway:
        for vendor in VENDORS:
            path, body = request("openai-chat", f"sim/{vendor}", stream=False)
            status, _, answer = await gateway.post(path, {**body, "response_format": asked})
            assert (status, answer["choices"][0]["message"]["content"]) == (200, "In words."), vendor
        assert gateway.sim.requests == len(VENDORS) and not gateway.sim.refused


# What a history with such an answer in it looks like when the client sends it back.
AGAIN: dict[str, dict[str, Any]] = {
    "openai-chat": {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": ""}]},
    "openai-responses": {"input": [{"role": "user", "content": "hi"}]},
    "anthropic": {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": []}]},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": []}]},
}


@pytest.mark.parametrize("wire", WIRES)
@asynchronous
async def test_the_conversation_goes_on_after_it(wire: str) -> None:
    async with gate(retries=0) as gateway:
        for vendor in VENDORS:
            path, body = request(wire, f"sim/{vendor}", stream=False)
            body |= AGAIN[wire]
            (field,) = AGAIN[wire]
            body[field] = [*body[field], body[field][0]]
            status, _, answer = await gateway.post(path, body)
            assert status == 200, (vendor, answer)
        assert not gateway.sim.refused


HOSTS = {
    "openai-chat": ("openai-compatible/x", ""),
    "openai-responses": ("responses-compatible/x", ""),
    "anthropic": ("anthropic/claude-sonnet-5", ""),
    "gemini": ("gemini/gemini-3-pro-preview", ""),
}


@asynccontextmanager
async def host(wire: str, whole: bytes, stream: bytes) -> AsyncIterator[Gate]:
    """A gateway in front of one host that gives the same answer to everything."""

    async def answer(asked: HTTPRequest, way: Responder) -> None:
        streams = b'"stream":true' in asked.body or "streamGenerate" in asked.path
        kind = "text/event-stream" if streams else "application/json"
        await way.send(200, stream if streams else whole, {"content-type": kind})

    server = HTTPServer(answer)
    await server.start(port=0)
    dialect = replace(resolve(HOSTS[wire][0]).dialect, provider="plain", native=None)
    row = Provider("plain", Endpoint(f"http://127.0.0.1:{server.port}", auth="none"), (("", dialect),))
    try:
        async with gate(more=[row], retries=0) as gateway:
            yield gateway
    finally:
        await server.close()


def written(wire: str, word: str) -> tuple[bytes, bytes]:
    """An answer of a host that ends with this word: whole, and as a stream."""
    match wire:
        case "openai-chat":
            head = {"id": "1", "created": 1, "model": "m"}
            choice = {"index": 0, "message": {"role": "assistant", "content": "Half"}, "finish_reason": word}
            whole: dict[str, Any] = {**head, "object": "chat.completion", "choices": [choice]}
            said = [{"delta": {"content": "Half"}, "finish_reason": None}, {"delta": {}, "finish_reason": word}]
            chunks: list[dict[str, Any]] = [{**head, "choices": [{"index": 0, **each}]} for each in said]
        case "openai-responses":
            status, _, why = word.partition(":")
            part = {"type": "output_text", "text": "Half", "annotations": []}
            item = {"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": [part]}
            details = {"reason": why} if why else None
            whole = {"id": "r", "model": "m", "status": status, "incomplete_details": details, "output": [item]}
            chunks = [{"type": "response.incomplete" if why else "response.completed", "response": whole}]
        case "anthropic":
            usage = {"input_tokens": 1, "output_tokens": 2}
            start = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "usage": usage}
            text = {"type": "text", "text": "Half"}
            whole = {**start, "content": [text], "stop_reason": word, "stop_sequence": None}
            chunks = [
                {"type": "message_start", "message": {**start, "content": [], "stop_reason": None}},
                {"type": "content_block_start", "index": 0, "content_block": text},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": word, "stop_sequence": None}, "usage": usage},
                {"type": "message_stop"},
            ]
        case _:
            content = {"role": "model", "parts": [{"text": "Half"}]}
            whole = {"candidates": [{"content": content, "finishReason": word, "index": 0}], "modelVersion": "m"}
            chunks = [whole]
    return json.dumps(whole).encode(), b"".join([b"data: %b\n\n" % json.dumps(each).encode() for each in chunks])


ENDS: list[tuple[str, str, dict[str, str]]] = [
    # A word that clients of the same wire get as it is, and the others as the nearest that theirs has.
    ("openai-chat", "insufficient_system_resource", {}),
    ("openai-chat", "length", {"openai-responses": "incomplete:max_output_tokens", "anthropic": "max_tokens", "gemini": "MAX_TOKENS"}),
    ("anthropic", "model_context_window_exceeded", {"openai-chat": "length", "openai-responses": "incomplete:max_output_tokens", "gemini": "MAX_TOKENS"}),
    ("anthropic", "pause_turn", {}),
    ("gemini", "OTHER", {}),
    ("gemini", "RECITATION", {"openai-chat": "content_filter", "openai-responses": "incomplete:content_filter", "anthropic": "refusal"}),
    ("openai-responses", "incomplete:tired", {}),
    ("openai-responses", "cancelled", {}),
    # The host says that its own answer cannot be used. Its wire's clients know what that means; to others it is an error.
    ("gemini", "MALFORMED_FUNCTION_CALL", dict.fromkeys(("openai-chat", "openai-responses", "anthropic"), ERROR)),
    ("openai-chat", "error", dict.fromkeys(("openai-responses", "anthropic", "gemini"), ERROR)),
]  # fmt: skip
"""A host's wire, how its answer ends, and what a client of another wire is told instead; where it is silent, a plain end."""


@pytest.mark.parametrize(("wire", "word", "told"), ENDS, ids=[f"{wire} {word}" for wire, word, _ in ENDS])
@asynchronous
async def test_how_an_answer_ended(wire: str, word: str, told: dict[str, str]) -> None:
    whole, stream = written(wire, word)
    async with host(wire, whole, stream) as gateway:
        for client in WIRES:
            wanted = word if client == wire else told.get(client, PLAIN[client])
            path, body = request(client, "plain/m", stream=False)
            status, headers, answer = await gateway.post(path, body)
            if wanted == ERROR:
                assert status == 502 and answer["error"], (client, answer)
            else:
                assert (status, ended(client, answer)) == (200, wanted), (client, answer)
                assert "Half" in json.dumps(answer)
                assert ("stop_reason_changed" in headers.get("x-midstream-notes", "")) == (
                    client != wire and client not in told
                )
            path, body = request(client, "plain/m")
            said = await gateway.stream(path, body)
            assert stream_ended(client, said) == wanted and b"Half" in said, (client, said)
