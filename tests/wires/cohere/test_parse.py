"""What a Cohere request body means, field by field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midstream.core.blocks import Media, Opaque, Origin, Text, Thinking
from midstream.core.errors import InvalidHistory
from midstream.core.tools import ToolSpec
from midstream.dialects.registry import resolve
from midstream.wires.cohere.parse import parse_request
from tests.wires.drafts import encode_draft

HI = {"role": "user", "content": "hi"}
ORIGIN = Origin("cohere", "cohere", "m")
DOCUMENT = {"type": "document", "document": {"id": "1", "data": {"text": "x"}}}


def read(*messages: Any, **body: Any) -> Any:
    return parse_request(json.dumps({"model": "m", "messages": list(messages), **body}).encode())


def test_turns_blocks_and_results() -> None:
    calls = [
        {"id": "x", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"id": "y", "type": "function", "function": {"name": "g", "arguments": {"n": 1}}},
        {"id": "z", "type": "function", "function": {"name": "g"}},
    ]
    parsed = read(
        {"role": "system", "content": "sys"},
        {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": "https://a/b"}]},
        {"role": "assistant", "tool_plan": "p", "content": [{"type": "thinking", "thinking": "hm"}], "tool_calls": calls},
        {"role": "tool", "tool_call_id": "y", "content": "2"},
        {"role": "tool", "tool_call_id": "x", "content": [DOCUMENT, {"type": "text", "text": "1"}]},
        {"role": "tool", "tool_call_id": "z", "content": ""},
        {"role": "system", "content": "brief"},
        {"role": "assistant", "content": "a", "citations": [{"start": 0}]},
    )  # fmt: skip
    first, ai, tool, inside, last = parsed.conversation.turns
    assert parsed.conversation.system == "sys"
    assert first.blocks == (Text("look"), Media("image/*", url="https://a/b"))
    assert ai.blocks[:2] == (Thinking("p", "tool_plan", origin=ORIGIN), Thinking("hm", "thinking", origin=ORIGIN))
    assert [(c.raw_id, c.arguments) for c in ai.tool_calls] == [("x", '{"a": 1}'), ("y", '{"n":1}'), ("z", "{}")]
    by_id = {call.raw_id: call.id for call in ai.tool_calls}
    assert [r.call_id for r in tool.tool_responses] == [by_id["y"], by_id["x"], by_id["z"]]
    assert tool.tool_responses[1].content == (Opaque("part", DOCUMENT, ORIGIN), Text("1"))
    assert (inside.speaker, inside.role, inside.text) == ("system", "", "brief")
    assert last.blocks == (Text("a"), Opaque("citations", [{"start": 0}], ORIGIN))


def test_an_image_by_its_data() -> None:
    url = {"url": "data:image/png;base64,QUJD", "detail": "low"}
    parsed = read({"role": "user", "content": [{"type": "image_url", "image_url": url}]})
    assert parsed.conversation.turns[0].blocks == (Media("image/png", data="QUJD", extra={"detail": "low"}),)


def test_what_has_no_form_is_kept_or_left_out() -> None:
    odd = [{"type": "image_url", "image_url": 7}, {"type": "audio", "data": "x"}, {"type": "image_url"}]
    parsed = read(
        {"role": "user", "content": [*odd, {"text": "a"}, {"type": "text", "text": None}, 7]},
        {"role": "assistant", "content": "b", "tool_calls": [7, {"function": 7}], "tool_plan": 7},
        tools=[7, {"function": 7}, {"function": {"name": "f", "parameters": 7}}],
    )
    first, second = parsed.conversation.turns
    assert first.blocks == (*[Opaque("part", part, ORIGIN) for part in odd], Text("a"))
    assert second.blocks == (Text("b"),)
    assert parsed.tools == (ToolSpec("f"),)


def test_tools_and_options() -> None:
    schema = {"type": "object", "properties": {}}
    parsed = read(
        HI,
        tools=[{"type": "function", "function": {"name": "f", "description": "F.", "parameters": schema}}],
        max_tokens=5, temperature=0, p=0.5, seed=2, stop_sequences=["x"], presence_penalty=0.1, frequency_penalty=0.2,
        tool_choice="REQUIRED", k=9, documents=[{"data": {}}], citation_options={"mode": "FAST"}, safety_mode=None,
        stream=True,
    )  # fmt: skip
    got = parsed.options
    assert parsed.tools == (ToolSpec("f", "F.", schema),)
    assert (got.max_tokens, got.temperature, got.top_p, got.seed, got.stop) == (5, 0, 0.5, 2, ("x",))
    assert (got.presence_penalty, got.frequency_penalty, got.tool_choice, got.stream) == (0.1, 0.2, "required", True)
    assert got.extra_body == {"k": 9, "documents": [{"data": {}}], "citation_options": {"mode": "FAST"}}


@pytest.mark.parametrize(
    ("body", "field", "value"),
    [
        ({"thinking": {"type": "disabled"}}, "thinking", "off"),
        ({"thinking": {"type": "enabled", "token_budget": 7}}, "thinking_budget", 7),
        ({"thinking": {"type": "enabled", "token_budget": "x"}}, "thinking_budget", None),
        ({"thinking": "high"}, "extra_body", {"thinking": "high"}),
        ({"tool_choice": "NONE"}, "tool_choice", "none"),
        ({"tool_choice": {"x": 1}}, "extra_body", {"tool_choice": {"x": 1}}),
        ({"response_format": {"type": "text"}}, "response_format", None),
        ({"response_format": {"type": "json_object"}}, "response_format", {"type": "json_object"}),
        (
            {"response_format": {"type": "json_object", "schema": {"a": 1}}},
            "response_format",
            {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"a": 1}}},
        ),
        ({"stop_sequences": "x"}, "extra_body", {"stop_sequences": "x"}),
        ({}, "stream", False),
    ],
)
def test_options(body: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(read(HI, **body).options, field) == value


def test_a_request_of_everything_is_written_as_it_was_read() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    body = {
        "model": "command-a-reasoning-08-2025",
        "stream": False,
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
        "tool_choice": "REQUIRED",
        "thinking": {"type": "enabled", "token_budget": 50},
        "max_tokens": 5,
        "p": 0.5,
        "documents": ["x"],
        "messages": [
            {"role": "system", "content": "sys"},
            HI,
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}], "tool_calls": [call]},
            {"role": "tool", "content": [DOCUMENT], "tool_call_id": "call_1"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "so"}, {"type": "text", "text": "a"}]},
            HI,
            {"role": "assistant", "tool_plan": "plan", "tool_calls": [{**call, "id": "call_2"}]},
            {"role": "tool", "content": "ok", "tool_call_id": "call_2"},
        ],
    }
    parsed = parse_request(json.dumps(body).encode())
    dialect = resolve(f"cohere/{parsed.model}").dialect
    request = encode_draft(parsed.conversation, dialect, parsed.model, tools=parsed.tools, options=parsed.options)
    written = request.body.decode()
    for number, message in enumerate(json.loads(written)["messages"]):
        for found in message.get("tool_calls", ()):
            written = written.replace(found["id"], body["messages"][number]["tool_calls"][0]["id"])  # type: ignore[index]
    assert json.loads(written) == body
    assert request.notes == ()


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"messages": 3}', b'{"messages": [3]}'])
def test_what_is_no_request_is_said_so(body: bytes) -> None:
    with pytest.raises(InvalidHistory):
        parse_request(body)
