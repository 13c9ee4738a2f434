"""What an Ollama request body means, field by field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midstream.core.blocks import Media, Origin, Text, Thinking
from midstream.core.errors import InvalidHistory
from midstream.core.tools import ToolSpec
from midstream.dialects.registry import resolve
from midstream.wires.ollama.parse import parse_request
from tests.wires.drafts import encode_draft

HI = {"role": "user", "content": "hi"}


def read(*messages: Any, **body: Any) -> Any:
    return parse_request(json.dumps({"model": "m", "messages": list(messages), **body}).encode())


def test_turns_blocks_and_results_by_position() -> None:
    calls = [
        {"function": {"name": "f", "arguments": {"n": 9007199254740993}}},
        {"function": {"name": "g", "arguments": '{"a": 1}'}},
        {"function": {"name": "f"}},
    ]
    parsed = read(
        {"role": "system", "content": "sys"},
        {"role": "user", "content": "look", "images": ["QUJD"]},
        {"role": "assistant", "content": "a", "thinking": "hm", "tool_calls": calls},
        {"role": "tool", "content": "1"},
        {"role": "tool", "content": "2", "tool_name": "g"},
        {"role": "tool", "content": "3", "tool_name": "f"},
        {"role": "system", "content": "brief"},
    )
    first, ai, tool, last = parsed.conversation.turns
    origin = Origin("ollama", "ollama", "m")
    assert parsed.conversation.system == "sys"
    assert first.blocks == (Text("look"), Media("image/*", data="QUJD"))
    assert ai.blocks[:2] == (Thinking("hm", "thinking", origin=origin), Text("a"))
    assert [call.arguments for call in ai.tool_calls] == ['{"n":9007199254740993}', '{"a": 1}', "{}"]
    assert [(r.call_id, r.text) for r in tool.tool_responses] == [
        (call.id, text) for call, text in zip(ai.tool_calls, "123", strict=True)
    ]
    assert len({call.id for call in ai.tool_calls}) == 3
    assert (last.speaker, last.role, last.text) == ("system", "", "brief")


def test_results_by_id_where_there_is_one() -> None:
    calls = [{"id": name, "function": {"name": "f", "arguments": {}}} for name in ("x", "y")]
    parsed = read(
        HI,
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "2", "tool_call_id": "y"},
        {"role": "tool", "content": "1", "tool_call_id": "x"},
    )
    x, y = parsed.conversation.turns[1].tool_calls
    assert (x.raw_id, y.raw_id) == ("x", "y")
    assert [r.call_id for r in parsed.conversation.turns[2].tool_responses] == [y.id, x.id]


def test_tools_and_options() -> None:
    schema = {"type": "object", "properties": {}}
    parsed = read(
        HI,
        tools=[{"type": "function", "function": {"name": "f", "description": "F.", "parameters": schema}}],
        options={"num_predict": 5, "temperature": 0, "top_p": 0.5, "seed": 2, "stop": "x", "num_ctx": 9},
        keep_alive="5m",
        format="json",
    )
    got = parsed.options
    assert parsed.tools == (ToolSpec("f", "F.", schema),)
    assert (got.max_tokens, got.temperature, got.top_p, got.seed, got.stop) == (5, 0, 0.5, 2, ("x",))
    assert got.extra_body == {"options": {"num_ctx": 9}, "keep_alive": "5m"}
    assert (got.response_format, got.stream) == ({"type": "json_object"}, True)
    assert read(HI, options={"num_predict": -1}).options.extra_body == {"options": {"num_predict": -1}}


@pytest.mark.parametrize(
    ("think", "thinking", "effort"), [(True, "on", None), (False, "off", None), ("high", None, "high")]
)
def test_thinking(think: Any, thinking: Any, effort: Any) -> None:
    got = read(HI, think=think, stream=False).options
    assert (got.thinking, got.effort, got.stream) == (thinking, effort, False)


def again(body: dict[str, Any]) -> dict[str, Any]:
    """The request, read and written for its own model."""
    parsed = parse_request(json.dumps(body).encode())
    dialect = resolve(f"ollama/{parsed.model}").dialect
    request = encode_draft(parsed.conversation, dialect, parsed.model, tools=parsed.tools, options=parsed.options)
    written: dict[str, Any] = json.loads(request.body)
    return written


def test_unknown_fields_and_settings_survive() -> None:
    body = {
        "model": "qwen3:4b",
        "messages": [{"role": "user", "content": "look", "images": ["QUJD"]}],
        "stream": False,
        "keep_alive": "5m",
        "format": {"type": "object", "properties": {"a": {"type": "string"}}},
        "options": {"num_ctx": 4096, "num_predict": 50, "stop": ["x"], "temperature": 0, "seed": 1, "top_p": 0.5},
        "think": True,
    }
    assert again(body) == body


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"messages": 3}', b'{"messages": [3]}'])
def test_what_is_no_request_is_said_so(body: bytes) -> None:
    with pytest.raises(InvalidHistory):
        parse_request(body)


def test_a_result_without_a_name_is_written_with_its_calls() -> None:
    call = {"function": {"name": "look", "arguments": {"at": "sea"}}}
    messages = [HI, {"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "content": "blue"}]
    written = again({"model": "qwen3:4b", "messages": messages})["messages"]
    assert written[2] == {"role": "tool", "content": "blue", "tool_name": "look"}
