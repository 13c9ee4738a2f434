"""Two tenants whose histories have the same raw ids: neither ever gets a byte of the other's, upstream or back.

A tenant's word is in every prompt of its own and in every thought that answers one. So a request upstream, or an answer, with
the words of both has foreign bytes in it. In every round each tenant also sends what belongs to the other: the ids of its calls,
its seal, its response's id.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import aiohttp

from midstream.core.blocks import Conversation
from midstream.core.tools import ToolSpec
from midstream.gateway.api_key import make_key
from midstream.gateway.state import GatewayState, KeyRecord
from midstream.sim.answer import Answer, Call
from tests.event_loops import run
from tests.gateway.serving import gate

TENANTS = ("ALPHA", "BRAVO")
AT_ONCE = 8
PER_ROUND = 16
"""Requests in a round of `interleave`."""
_MODEL = "sim/kimi-k2.5"
_SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def think_aloud(conversation: Conversation, tools: Sequence[ToolSpec], *, model: str, thinks: bool) -> Answer:
    """A model that thinks about the last question that it was asked, and calls the same tool twice until it has results."""
    asked = next(turn.text for turn in reversed(conversation.turns) if turn.speaker == "human")
    thought = f"They are {asked}, and that is secret."
    if conversation.turns[-1].speaker == "tool":
        return Answer("Done.", thought)
    return Answer("", thought, (Call("read_file", {"path": "a"}), Call("read_file", {"path": "b"})))


async def two_keys(state: GatewayState) -> dict[str, str]:
    keys = {name: make_key() for name in TENANTS}
    for name, made in keys.items():
        await state.add_key(KeyRecord(made.id, name, made.digest))
    return {name: made.key.reveal() for name, made in keys.items()}


class Clients:
    """Both tenants' clients. `foreign` counts the bytes that one of them got and should not have; `failed` what went wrong."""

    def __init__(self, http: aiohttp.ClientSession, url: str, keys: dict[str, str]) -> None:
        self._http = http
        self._url = url
        self._keys = keys
        self.turns = 0
        self.foreign: list[str] = []

    async def ask(self, tenant: str, path: str, body: dict[str, Any], status: int = 200) -> Any:
        headers = {"authorization": f"Bearer {self._keys[tenant]}"}
        async with self._http.post(self._url + path, json=body, headers=headers) as answer:
            data = await answer.text()
        assert answer.status == status, data
        self.turns += 1
        other = TENANTS[1 - TENANTS.index(tenant)]
        if other in data:
            self.foreign.append(data)
        return json.loads(data)

    async def interleave(self, number: int) -> None:
        """A round of both, on three wires; each step is taken by both before the next."""
        chat = {name: await self.chat(name, number) for name in TENANTS}
        messages = {name: await self.messages(name, number) for name in TENANTS}
        responses = {name: await self.respond(name, number) for name in TENANTS}
        for name, other in zip(TENANTS, reversed(TENANTS), strict=True):
            # What is its own works; then the same conversation with what is the other's.
            await self.chat(name, number, chat[name])
            await self.messages(name, number, messages[name])
            await self.chat(name, number, chat[other])
            await self.messages(name, number, messages[other])
            await self.continue_from(name, responses[other])

    async def chat(self, tenant: str, number: int, calls: list[Any] | None = None) -> list[Any]:
        messages: list[Any] = [{"role": "user", "content": f"{tenant} {number}"}]
        if calls is not None:
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls]
        tools = [{"type": "function", "function": {"name": "read_file", "parameters": _SCHEMA}}]
        body = {"model": _MODEL, "messages": messages, "tools": tools}
        answer = await self.ask(tenant, "/v1/chat/completions", body)
        return list(answer["choices"][0]["message"].get("tool_calls") or ())

    async def messages(self, tenant: str, number: int, content: list[Any] | None = None) -> list[Any]:
        messages: list[Any] = [{"role": "user", "content": f"{tenant} {number}"}]
        if content is not None:
            shown = [{**block, "thinking": "?"} if block["type"] == "thinking" else block for block in content]
            calls = [block["id"] for block in content if block["type"] == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": each, "content": "ok"} for each in calls]
            messages += [{"role": "assistant", "content": shown}, {"role": "user", "content": results}]
        tools = [{"name": "read_file", "input_schema": _SCHEMA}]
        body = {
            "model": _MODEL, "max_tokens": 3000, "messages": messages, "tools": tools, "thinking": {"type": "enabled", "budget_tokens": 2000},
        }  # fmt: skip
        return list((await self.ask(tenant, "/v1/messages", body))["content"])

    async def respond(self, tenant: str, number: int) -> str:
        answer = await self.ask(tenant, "/v1/responses", {"model": _MODEL, "input": f"{tenant} {number}"})
        return str(answer["id"])

    async def continue_from(self, tenant: str, response: str) -> None:
        body = {"model": _MODEL, "input": f"{tenant} goes on", "previous_response_id": response}
        refused = await self.ask(tenant, "/v1/responses", body, status=400)
        assert refused["error"]["code"] == "previous_response_not_found"


async def interleave(clients: Clients, rounds: int) -> None:
    for first in range(0, rounds, AT_ONCE):
        await asyncio.gather(*[clients.interleave(number) for number in range(first, min(rounds, first + AT_ONCE))])


def foreign_requests(bodies: Sequence[dict[str, Any]]) -> list[str]:
    """Requests upstream with words of both tenants."""
    sent = [json.dumps(body) for body in bodies]
    return [each for each in sent if all(name in each for name in TENANTS)]


def test_neither_gets_a_byte_of_the_other() -> None:
    async def check() -> None:
        async with gate(script=think_aloud, keep=100_000) as gateway:
            assert gateway.app.state is not None and gateway.app.gateway is not None
            keys = await two_keys(gateway.app.state)
            await gateway.app.gateway.authenticator.refresh()
            clients = Clients(gateway.http, gateway.url, keys)
            await interleave(clients, 12)
            assert clients.turns == 12 * PER_ROUND and clients.foreign == []
            assert foreign_requests([seen.body for seen in gateway.sim.seen]) == []
            assert gateway.sim.refused == []
            # The judge can tell: what is a tenant's own came back, from the vault and from the seal.
            thoughts = [
                message["reasoning_content"]
                for seen in gateway.sim.seen
                for message in seen.body["messages"]
                if message["role"] == "assistant"
            ]
            own = [each for each in thoughts if "that is secret" in each]
            assert len(own) == 12 * 4 and len(thoughts) == 12 * 8

    run(check())
