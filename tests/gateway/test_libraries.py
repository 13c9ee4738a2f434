"""Clients that read only what their own host sends: Mistral's libraries want each call whole, with its name, and the counts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.gateway.serving import Gate, asynchronous, gate
from tests.gateway.test_gateway import ASK, PATH
from tests.gateway.test_manners import events

MODELS = ("kimi-k2.5", "claude-sonnet-5", "gpt-5.2", "gemini-3-pro-preview", "mistral-large-latest")
TOOLS = [{"type": "function", "function": {"name": name, "parameters": PATH}} for name in ("read_file", "list_files")]
WHOLE = [("user-agent", "mistral-client-python/3.7.0"), ("x-mistral-user-agent", "mistral-client-typescript/2.7.0"), ("user-agent", "ai/6.0.326 ai-sdk/mistral/3.0.69")]  # fmt: skip


async def pieces(gateway: Gate, model: str, headers: dict[str, str]) -> tuple[list[dict[str, Any]], bool]:
    """The pieces of calls that a stream brought, and whether the chunk with its end has the counts."""
    said = [{"role": "user", "content": ASK}]
    body = {"model": f"sim/{model}", "messages": said, "tools": TOOLS, "stream": True}
    data = await gateway.stream("/v1/chat/completions", body, **headers)
    came = [(event, choice) for event in events("openai-chat", data) for choice in event["choices"]]
    counted = [event.get("usage") is not None for event, choice in came if choice["finish_reason"]]
    return [piece for _, choice in came for piece in choice["delta"].get("tool_calls", ())], counted == [True]


@pytest.mark.parametrize(("header", "agent"), WHOLE, ids=[agent.partition("/")[0] for _, agent in WHOLE])
@asynchronous
async def test_each_call_comes_whole(header: str, agent: str) -> None:
    async with gate() as gateway:
        for model in MODELS:
            made, counted = await pieces(gateway, model, {header: agent})
            read = [(each["function"]["name"], json.loads(each["function"]["arguments"])["path"]) for each in made]
            assert read == [("read_file", "a.txt"), ("read_file", "b.txt")], model
            assert [each["index"] for each in made] == [0, 1] and len({each["id"] for each in made}) == 2
            assert counted, model


@asynchronous
async def test_for_all_others_arguments_stream() -> None:
    async with gate() as gateway:
        for model in ("kimi-k2.5", "claude-sonnet-5", "gpt-5.2"):
            made, counted = await pieces(gateway, model, {"user-agent": "OpenAI/Python 3.49.0"})
            assert len(made) > 4 and not counted, model
