"""One conversation through six models, as every adapter is tried: what its doubles refuse, and what they were given back."""

from __future__ import annotations

from typing import Any

from midstream.testing import SimServer

MODELS = (
    "moonshot/kimi-k2.5",
    "anthropic/claude-sonnet-4-5",
    "openai-responses/gpt-5.2",
    "gemini/gemini-3-pro-preview",
    "mistral/mistral-large-latest",
    "moonshot/kimi-k2.5",
    "anthropic/claude-sonnet-4-5",
    "openai-responses/gpt-5.2",
)
"""There and back: the last three must find their own reasoning again."""
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def weather(city: str) -> str:
    return f"It rains in {city}."


def errand(number: int) -> str:
    return f"Call get_weather with city 'Town {number}'."


def judge(sim: SimServer, *, requests: int | None = None) -> None:
    """No request was refused, and each maker got its reasoning back: Kimi's text, Claude's signatures, OpenAI's items."""
    assert sim.refused == []
    assert requests is None or sim.requests == requests
    bodies: dict[str, dict[str, Any]] = {}
    for seen in sim.seen:
        provider, *_, last = seen.path.strip("/").split("/")
        bodies[last if last in ("messages", "responses") else provider] = seen.body
    thoughts = [
        message.get("reasoning_content", "")
        for message in bodies["moonshot"]["messages"]
        if message["role"] == "assistant" and message.get("tool_calls")
    ]
    # Blank where another model made the call: the host demands the field, and nothing may be invented.
    assert sum(bool(thought.strip()) for thought in thoughts) == 2, thoughts
    parts = [
        part
        for message in bodies["messages"]["messages"]
        for part in (message["content"] if isinstance(message["content"], list) else ())
    ]
    assert [part for part in parts if part["type"] == "thinking" and part.get("signature")], parts
    items = bodies["responses"]["input"]
    assert [item for item in items if item.get("type") == "reasoning" and item.get("encrypted_content")], items
