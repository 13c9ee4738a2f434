"""A history of thousands of turns: grown with a cache or written at once, the body is the same and holds every message."""

from __future__ import annotations

import json

from midstream import Conversation, Text, Turn, encode_request, human
from midstream.wires.history_cache import HistoryCache
from tests.long_run import each_once

MODELS = {
    "openai/gpt-4o": "messages",
    "anthropic/claude-sonnet-4-5": "messages",
    "openai-responses/gpt-5.2": "input",
    "gemini/gemini-2.5-pro": "contents",
    "ollama/qwen3:8b": "messages",
    "cohere/command-a-03-2025": "messages",
}


def talk(turns: int) -> tuple[Turn, ...]:
    return tuple([human(f"q{n}") if n % 2 == 0 else Turn("ai", (Text(f"a{n}"),), key=f"t{n}") for n in range(turns)])


@each_once(("model", MODELS), ("steps", [(2501,), (1, 2499, 2501), (1025, 1027, 2501), (1001, 2001, 2003, 2501)]))
def test_grown_or_at_once(model: str, steps: tuple[int, ...]) -> None:
    turns = talk(steps[-1])
    cache = HistoryCache()
    for length in steps:
        grown = encode_request(model, Conversation(turns[:length]), cache=cache)
    assert grown.body == encode_request(model, Conversation(turns), cache=None).body
    said = [json.dumps(message) for message in json.loads(grown.body)[MODELS[model]]]
    assert len(said) == len(turns)
    for number, message in enumerate(said):
        assert f'"{"aq"[number % 2 == 0]}{number}"' in message
