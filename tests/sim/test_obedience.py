"""The doubles do what a request demands: tool choice, lengths, stops, formats, one call at a time, no thinking."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from midstream.sim.schema_instance import instance
from midstream.testing import SimServer, sim_server
from tests.sim.test_routes import ask

_PATH = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
NAMES = ("read_file", "list_files")
ERRANDS = "Read a.txt and list files"
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 3}, "on": {"$ref": "#/$defs/day"}},
    "required": ["name", "age", "on"],
    "additionalProperties": False,
    "$defs": {"day": {"anyOf": [{"type": "null"}, {"enum": ["Monday", "Tuesday"]}]}},
}
# Structured outputs of Anthropic know no limits of numbers.
CLOSED = {**SCHEMA, "properties": {**SCHEMA["properties"], "age": {"type": "integer", "enum": [3, 4]}}}


@pytest.fixture(scope="module")
def sim() -> Iterator[SimServer]:
    with sim_server(strict=False) as running:  # what a host refuses is for its rules to say
        yield running


def chat(sim: SimServer, prompt: str = ERRANDS, **fields: Any) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name, "parameters": _PATH}} for name in NAMES]
    model = fields.pop("model", "openai/gpt-4o")
    provider, _, model = model.partition("/")
    body = {"model": model, "messages": [{"role": "user", "content": prompt}], "tools": tools, **fields}
    status, raw, _ = ask(sim, "POST", f"/{provider}/v1/chat/completions", body)
    assert status == 200, raw
    return dict(json.loads(raw))


def called(answer: dict[str, Any]) -> list[str]:
    return [call["function"]["name"] for call in answer["choices"][0]["message"].get("tool_calls") or ()]


def allowed(mode: str, *names: str) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


@pytest.mark.parametrize(
    ("prompt", "choice", "expected"),
    [
        (ERRANDS, "auto", ["read_file", "list_files"]),
        (ERRANDS, "none", []),
        (ERRANDS, "required", ["read_file", "list_files"]),
        ("Good morning.", "auto", []),
        ("Good morning.", "required", ["read_file"]),
        ("Good morning.", {"type": "function", "function": {"name": "list_files"}}, ["list_files"]),
        (ERRANDS, {"type": "function", "function": {"name": "list_files"}}, ["list_files"]),
        (ERRANDS, allowed("auto", "list_files"), ["list_files"]),
        ("Good morning.", allowed("auto", "list_files"), []),
        ("Good morning.", allowed("required", "list_files"), ["list_files"]),
    ],
)
def test_tool_choice(prompt: str, choice: Any, expected: list[str], sim: SimServer) -> None:
    assert called(chat(sim, prompt, tool_choice=choice)) == expected


def test_one_call_at_a_time(sim: SimServer) -> None:
    answer = chat(sim, parallel_tool_calls=False)
    assert called(answer) == ["read_file"]
    message = answer["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "milk"}
    messages = [{"role": "user", "content": ERRANDS}, message, result]
    assert called(chat(sim, messages=messages, parallel_tool_calls=False)) == ["list_files"]


@pytest.mark.parametrize("most", [1, 3])
def test_an_answer_ends_at_max_tokens(most: int, sim: SimServer) -> None:
    answer = chat(sim, "Good morning to all of you.", max_tokens=most)
    assert answer["choices"][0]["finish_reason"] == "length" and answer["usage"]["completion_tokens"] == most
    assert chat(sim, max_tokens=1)["choices"][0]["message"].get("tool_calls") is None


def test_an_answer_ends_before_a_stop(sim: SimServer) -> None:
    answer = chat(sim, "Good morning.", stop=["morning", "You"])
    assert answer["choices"][0]["message"]["content"] == "This is gpt-4o. "
    assert answer["choices"][0]["finish_reason"] == "stop"
    body = {
        "model": "claude-sonnet-5", "max_tokens": 100, "messages": [{"role": "user", "content": "Good morning."}],
        "stop_sequences": ["You"],
    }  # fmt: skip
    told = json.loads(ask(sim, "POST", "/anthropic/v1/messages", body)[1])
    assert (told["stop_reason"], told["stop_sequence"]) == ("stop_sequence", "You")


FORMATS: dict[str, dict[str, Any]] = {
    "/openai/v1/chat/completions": {
        "model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
    },
    "/openai/v1/responses": {
        "model": "gpt-5.2", "input": "hi", "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}},
    },
    "/anthropic/v1/messages": {
        "model": "claude-sonnet-5", "max_tokens": 999, "messages": [{"role": "user", "content": "hi"}],
        "output_config": {"format": {"type": "json_schema", "schema": CLOSED}},
    },
    "/gemini/v1beta/models/gemini-3-pro-preview:generateContent": {
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
        "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA},
    },
    "/ollama/api/chat": {
        "model": "qwen3:4b", "stream": False, "messages": [{"role": "user", "content": "hi"}], "format": SCHEMA,
    },
    "/cohere/v2/chat": {
        "model": "command-a-03-2025", "messages": [{"role": "user", "content": "hi"}],
        "response_format": {"type": "json_object", "json_schema": SCHEMA},
    },
}  # fmt: skip


@pytest.mark.parametrize("path", FORMATS)
def test_an_answer_follows_the_schema(path: str, sim: SimServer) -> None:
    status, raw, _ = ask(sim, "POST", path, FORMATS[path])
    assert status == 200, raw
    texts: list[str] = []
    _strings(json.loads(raw), texts)
    found = [json.loads(text) for text in texts if text.startswith('{"name":')]
    assert len(found) == 1, raw
    assert isinstance(found[0].pop("name"), str) and found[0] == {"age": 3, "on": "Monday"}


def _strings(value: Any, found: list[str]) -> None:
    if isinstance(value, str):
        found.append(value)
    elif isinstance(value, (list, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            _strings(inner, found)


def test_several_choices_are_counted(sim: SimServer) -> None:
    one, three = chat(sim, "Good morning."), chat(sim, "Good morning.", n=3)
    assert [choice["index"] for choice in three["choices"]] == [0, 1, 2]
    assert len({choice["message"]["content"] for choice in three["choices"]}) == 1
    assert three["usage"]["completion_tokens"] == 3 * one["usage"]["completion_tokens"]


def test_several_choices_are_streamed_side_by_side(sim: SimServer) -> None:
    body = {
        "model": "gpt-4o", "messages": [{"role": "user", "content": "Good morning."}], "stream": True, "n": 2,
        "stream_options": {"include_usage": True},
    }  # fmt: skip
    raw = ask(sim, "POST", "/openai/v1/chat/completions", body)[1].decode()
    chunks = [json.loads(line[6:]) for line in raw.split("\n\n") if line.startswith("data: {")]
    texts = ["", ""]
    for chunk in chunks:
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["delta"].get("content") or ""
    assert texts[0] == texts[1] and "Good morning." in texts[0]
    assert [bool(chunk["usage"]) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


def test_a_stream_of_gemini_is_an_array_unless_events_are_asked_for(sim: SimServer) -> None:
    path = "/gemini/v1beta/models/gemini-3-pro-preview:streamGenerateContent"
    body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    status, raw, headers = ask(sim, "POST", path, body)
    assert status == 200 and headers["content-type"] == "application/json" and len(json.loads(raw)) > 1
    assert ask(sim, "POST", f"{path}?alt=sse", body)[1].startswith(b"data: {")


def test_usage_is_streamed_only_to_those_who_ask(sim: SimServer) -> None:
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    assert b'"usage":' not in ask(sim, "POST", "/openai/v1/chat/completions", body)[1]
    always = {**body, "model": "mistral-large-latest"}
    last = ask(sim, "POST", "/mistral/v1/chat/completions", always)[1].split(b"\n\n")[-3]
    assert b'"finish_reason":"stop"' in last and b'"usage":{"prompt_tokens"' in last


def test_pictures_and_documents_are_taken() -> None:
    pixel, page = "iVBORw0KGgo=", "JVBERi0xLjQK"
    said = {"type": "text", "text": "Good morning."}
    asked: dict[str, dict[str, Any]] = {
        "/openai/v1/chat/completions": {
            "model": "gpt-4o",
            "messages": [{"role": "user", "content": [
                said, {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{pixel}"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{page}"}},
            ]}],
        },
        "/openai/v1/responses": {
            "model": "gpt-5.2",
            "input": [{"role": "user", "content": [
                {"type": "input_text", "text": "Good morning."},
                {"type": "input_image", "image_url": f"data:image/png;base64,{pixel}", "detail": "auto"},
                {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{page}"},
            ]}],
        },
        "/anthropic/v1/messages": {
            "model": "claude-sonnet-5", "max_tokens": 500,
            "messages": [{"role": "user", "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": pixel}},
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": page}}, said,
            ]}],
        },
        "/gemini/v1beta/models/gemini-3-pro-preview:generateContent": {
            "contents": [{"role": "user", "parts": [
                {"inlineData": {"mimeType": "image/png", "data": pixel}},
                {"inlineData": {"mimeType": "application/pdf", "data": page}}, {"text": "Good morning."},
            ]}],
        },
    }  # fmt: skip
    with sim_server() as strict:
        for path, body in asked.items():
            status, raw, _ = ask(strict, "POST", path, body)
            assert status == 200 and b"Good morning." in raw, (path, raw)


def test_thinking_is_left_out_when_it_is_turned_off(sim: SimServer) -> None:
    asked = {"model": "moonshot/kimi-k2.5", "prompt": "Good morning."}
    assert chat(sim, **asked)["choices"][0]["message"]["reasoning_content"]
    quiet = chat(sim, **asked, thinking={"type": "disabled"})
    assert "reasoning_content" not in quiet["choices"][0]["message"]


SCHEMAS: tuple[tuple[Any, Any], ...] = (
    (SCHEMA, {"name": "sim", "age": 3, "on": "Monday"}),
    (
        {"type": "array", "items": {"type": "number", "exclusiveMinimum": 2, "exclusiveMaximum": 3}, "minItems": 2},
        [2.5, 2.5],
    ),
    (
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"const": 5}}, "required": ["a"]},
                {"properties": {"b": {}}, "required": ["b"]},
            ]
        },
        {"a": 5, "b": "sim"},
    ),
    ({"type": ["null", "string"], "minLength": 5, "maxLength": 12}, "sim.."),
    ({"type": "string", "maxLength": 2}, "si"),
    ({"oneOf": [{"type": "null"}, {"type": "integer", "maximum": -4}]}, -4),
    ({"type": "STRING", "format": "date"}, "2025-01-01"),
    ({"type": "boolean"}, True),
    ({"type": "object", "properties": {"a": True}}, {"a": "sim"}),
)


@pytest.mark.parametrize(("schema", "expected"), SCHEMAS)
def test_an_instance_has_what_its_schema_asks_for(schema: Any, expected: Any) -> None:
    assert instance(schema) == expected


def test_a_schema_without_end_makes_a_bounded_value() -> None:
    wide: Any = {"type": "string"}
    for _ in range(40):
        wide = {"type": "array", "minItems": 1_000_000, "items": wide}
    assert len(json.dumps(instance(wide))) < 1_000_000
    assert instance({"$ref": "#"}) is None
