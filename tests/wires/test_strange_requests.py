"""Requests of strangers, on every wire: a conversation, or InvalidHistory; and what was read can be written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream import MidstreamError, encode_request
from midstream.wires.registry import WIRES
from midstream.wires.request import parse_request
from tests.long_run import each_once

READABLE = [name for name in WIRES if name != "completion"]
TARGETS = (
    "openai/gpt-4o",
    "anthropic/claude-sonnet-4-5",
    "openai-responses/gpt-5.2",
    "gemini/gemini-3-pro-preview",
    "ollama/llama3.1",
    "cohere/command-a-reasoning-08-2025",
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)
BASES: dict[str, dict[str, Any]] = {
    "openai-chat": {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}, {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "a", "content": "y"}], "tools": [{"type": "function", "function": {"name": "f"}}], "temperature": 1, "stop": ["x"], "max_tokens": 9, "response_format": {"type": "text"}, "tool_choice": "auto"},
    "anthropic": {"model": "m", "max_tokens": 9, "system": "s", "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "y"}]}], "tools": [{"name": "f", "input_schema": {"type": "object"}}], "thinking": {"type": "enabled", "budget_tokens": 2000}},
    "openai-responses": {"model": "m", "input": [{"role": "user", "content": "x"}, {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}, {"type": "function_call_output", "call_id": "a", "output": "y"}], "tools": [{"type": "function", "name": "f"}], "reasoning": {"effort": "low"}},
    "gemini": {"contents": [{"role": "user", "parts": [{"text": "x"}]}, {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}, {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]}], "tools": [{"functionDeclarations": [{"name": "f"}]}], "generationConfig": {"temperature": 1}},
    "ollama": {"model": "m", "messages": [{"role": "user", "content": "x", "images": ["aa"]}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}, {"role": "tool", "content": "y"}], "tools": [{"type": "function", "function": {"name": "f"}}], "options": {"temperature": 1}},
    "cohere": {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "https://a/b"}}]}, {"role": "assistant", "tool_plan": "p", "content": [{"type": "thinking", "thinking": "t"}], "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}, {"role": "tool", "tool_call_id": "a", "content": [{"type": "document", "document": {"data": {}}}]}], "tools": [{"type": "function", "function": {"name": "f"}}], "thinking": {"type": "enabled", "token_budget": 9}, "p": 0.5},
}  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        found += places(inner, (*path, key))
    return found


def changed(body: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    twin = json.loads(json.dumps(body))
    inner = twin
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return twin


@pytest.mark.parametrize("wire", READABLE)
@settings(max_examples=200)
@given(data=st.data())
def test_any_value_anywhere_is_read_or_refused(wire: str, data: st.DataObject) -> None:
    body = changed(BASES[wire], data.draw(st.sampled_from(places(BASES[wire]))), data.draw(JSON))
    try:
        parsed = parse_request(wire, json.dumps(body).encode())
        for model in TARGETS:
            encode_request(model, parsed.conversation, tools=parsed.tools, options=parsed.options, cache=None)
    except MidstreamError:
        pass


@pytest.mark.parametrize("wire", READABLE)
def test_an_honest_request_is_read(wire: str) -> None:
    assert len(parse_request(wire, json.dumps(BASES[wire]).encode()).conversation.turns) == 3


@each_once(("wire", READABLE), ("given", ['{"n":1}', {"n": 2**70}, {"n": "\ud83d"}, {"b": "\ud83d", "n": 2**70}]))
def test_arguments_are_read_as_text_or_as_a_value(wire: str, given: Any) -> None:
    """Integers beyond 64 bits survive, and half a character is written as U+FFFD."""
    place = next(path for path in places(BASES[wire]) if path[-1] in ("arguments", "input", "args") and len(path) > 1)
    if wire == "gemini" and isinstance(given, str):
        given = json.loads(given)  # a Struct on that wire, never text
    body = changed(BASES[wire], place, given)
    parsed = parse_request(wire, json.dumps(body).encode())
    read = json.loads(parsed.conversation.turns[1].tool_calls[0].arguments)
    wanted = json.loads(given) if isinstance(given, str) else given
    assert read == {key: "\ufffd" if value == "\ud83d" else value for key, value in wanted.items()}
    for model in TARGETS:
        encode_request(model, parsed.conversation, cache=None)


@each_once(("text", [None, 5, True, [], {"a": 1}, "gone"]), ("role", ["user", "system", "assistant", "tool"]))
def test_a_part_whose_text_is_no_text(role: str, text: Any) -> None:
    part = {"type": "text"} if text == "gone" else {"type": "text", "text": text}
    call = {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]}
    said = {"role": role, "content": [part], **({"tool_call_id": "a"} if role == "tool" else {})}
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}, call, said, {"role": "user", "content": "y"}]}
    parsed = parse_request("openai-chat", json.dumps(body).encode())
    for target in ("openai/gpt-4o", "moonshot/kimi-k2.5", "mistral/mistral-large-latest"):
        encode_request(target, parsed.conversation, tools=parsed.tools, options=parsed.options)
