"""What a host is asked by the in-process clients is what it is asked by the gateway, for the same request."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from midstream.adapters.backend import Backend
from midstream.adapters.openai_wires import CHAT, RESPONSES, OpenAIWires
from midstream.client.catalog import Catalog
from midstream.client.config import Config
from midstream.core.handoff import NOTE_CODES
from midstream.sim.providers import sim_providers
from tests.event_loops import run
from tests.gateway.serving import gate

MODELS = ("sim/kimi-k2.5", "sim/mistral-large-latest", "sim/gpt-4o", "sim/gpt-5.2", "sim/claude-sonnet-5", "sim/gemini-3-pro-preview")  # fmt: skip
PATHS = {CHAT: "/v1/chat/completions", RESPONSES: "/v1/responses"}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FOUND = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {
        "type": "search",
        "query": "x",
        "sources": [{"type": "url", "url": "https://example.org/a", "title": "A"}],
    },
}
ASKED = {"role": "user", "content": "hi"}
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "an answer that was begun": (CHAT, {"messages": [ASKED, {"role": "assistant", "content": "Sure: "}]}),
    "an answer that was begun, on Responses": (
        RESPONSES,
        {"input": [ASKED, {"role": "assistant", "content": "Sure: "}]},
    ),
    "sources": (RESPONSES, {"input": [ASKED, FOUND, {"role": "assistant", "content": "Found."}, ASKED]}),
    "fields of the client's own": (
        CHAT,
        {"messages": [ASKED], "logprobs": True, "service_tier": "auto", "enable_thinking": False, "made_up": 1},
    ),
    "a schema": (
        CHAT,
        {
            "messages": [ASKED],
            "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}},
        },
    ),
    "a server tool beside another": (
        RESPONSES,
        {"input": [ASKED], "tools": [{"type": "web_search"}, {"type": "function", "name": "f", "parameters": SCHEMA}]},
    ),
    "cache marks": (
        CHAT,
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]}
            ]
        },
    ),
}


@pytest.mark.parametrize("case", BODIES)
def test_the_host_gets_the_same_request(case: str) -> None:
    wire, asked = BODIES[case]

    async def main() -> None:
        async with gate(strict=False) as gateway:
            backend = Backend(Catalog(Config(), providers=sim_providers(gateway.sim.url), environ={}))
            wires = OpenAIWires(backend)
            for model in MODELS:
                body = {"model": model, **asked}
                status, headers, answer = await gateway.post(PATHS[wire], body)
                assert status == 200, (model, answer)
                reading = wires.read(wire, json.dumps(body).encode())
                await wires.whole(reading)
                by_gateway, in_process = gateway.sim.seen[-2], gateway.sim.seen[-1]
                assert in_process.body == by_gateway.body, model
                told = set(re.findall(r"\w+", headers.get("x-midstream-notes", ""))) & set(NOTE_CODES)
                # The gateway keeps no reasoning of an answer without calls, so it has none to miss.
                found = {note.code for note in reading.notes if note.action != "kept"} - {"reasoning_not_found"}
                assert found == told, model
            await backend.aclose()

    run(main())
