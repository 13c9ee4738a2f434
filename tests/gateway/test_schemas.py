"""A client's JSON schema for the answer, in its own wire's words, reaches every model in a form that its host takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.long_run import each_once

from .serving import asynchronous, gate

# No `additionalProperties`, a bound and an optional field: what most clients send, and what strict hosts refuse as it stands.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
}
MODELS = (
    "moonshot/kimi-k2.5",
    "anthropic/claude-sonnet-4-5",
    "openai-responses/gpt-5.2",
    "openai/gpt-5.2",
    "gemini/gemini-3-pro-preview",
    "mistral/mistral-large-latest",
    "deepseek/deepseek-chat",
    "ollama/qwen3",
    "cohere/command-a-03-2025",
)
QUESTION = "Who wrote Faust?"


@each_once(("stream", [False, True]), ("model", MODELS))
@asynchronous
async def test_a_chat_client(model: str, stream: bool) -> None:
    body = {
        "model": model,
        "stream": stream,
        "messages": [{"role": "user", "content": QUESTION}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}},
    }
    async with gate() as running:
        if stream:
            data = await running.stream("/v1/chat/completions", body)
            chunks = [json.loads(line[6:]) for line in data.decode().split("\n") if line.startswith("data: {")]
            said = "".join([each["delta"].get("content") or "" for chunk in chunks for each in chunk["choices"]])
        else:
            status, _, answer = await running.post("/v1/chat/completions", body)
            assert status == 200, answer
            said = answer["choices"][0]["message"]["content"]
            assert not answer["choices"][0]["message"].get("tool_calls")
        assert not running.sim.refused
        assert isinstance(json.loads(said)["name"], str), said


@pytest.mark.parametrize("model", MODELS)
@asynchronous
async def test_a_responses_client(model: str) -> None:
    body = {
        "model": model,
        "input": QUESTION,
        "text": {"format": {"type": "json_schema", "name": "person", "schema": SCHEMA}},
    }
    async with gate() as running:
        status, _, answer = await running.post("/v1/responses", body)
        assert status == 200, answer
        text = "".join(
            [part["text"] for item in answer["output"] for part in item.get("content", []) if "text" in part]
        )
        assert not running.sim.refused
        assert isinstance(json.loads(text)["name"], str), text


LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize("tools", [[], [LOOK]], ids=["alone", "beside tools"])
@asynchronous
async def test_json_without_a_schema(tools: list[Any]) -> None:
    """A chat client asks for JSON of any shape: every model answers so, by its host's mode or because it is told."""
    async with gate() as running:
        for model in MODELS:
            body = {
                "model": model,
                "messages": [{"role": "user", "content": QUESTION}],
                "response_format": {"type": "json_object"},
                **({"tools": tools} if tools else {}),
            }
            status, headers, answer = await running.post("/v1/chat/completions", body)
            assert status == 200, (model, answer)
            assert QUESTION in json.loads(answer["choices"][0]["message"]["content"])["answer"], model
            assert "unsupported_option" not in headers.get("x-midstream-notes", ""), model
        assert not running.sim.refused
