"""What a chat request means, field by field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midstream.core.blocks import Media, Opaque, Text, Thinking
from midstream.core.tools import ToolSpec
from midstream.wires.openai_chat.parse import parse_request

HI = {"role": "user", "content": "hi"}


def read(*messages: Any, **body: Any) -> Any:
    raw = json.dumps({"model": "m", "messages": list(messages), **body}).encode()
    return parse_request(raw, provider="p")


def blocks(message: dict[str, Any]) -> tuple[Any, ...]:
    (turn,) = read(message).conversation.turns
    found: tuple[Any, ...] = turn.blocks
    return found


def test_the_first_instructions_are_the_system_and_later_ones_turns() -> None:
    told = read({"role": "system", "content": "a"}, {"role": "system", "content": "b"}, HI).conversation
    assert [part.text for part in told.system] == ["a", "b"]
    told = read({"role": "developer", "content": "a"}, HI, {"role": "system", "content": "late"}).conversation
    assert "".join(part if isinstance(part, str) else part.text for part in told.system) == "a"
    assert [(turn.speaker, turn.role) for turn in told.turns] == [("human", ""), ("system", "")]


@pytest.mark.parametrize(
    ("part", "block"),
    [
        ({"type": "text", "text": "a"}, Text("a")),
        (
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
            Text("a", {"cache_control": {"type": "ephemeral"}}),
        ),
        ("a", Text("a")),
        (
            {"type": "image_url", "image_url": {"url": "https://example.com/a", "detail": "low"}},
            Media("image/*", url="https://example.com/a", extra={"detail": "low"}),
        ),
        (
            {"type": "image_url", "image_url": "https://example.com/a"},
            Media("image/*", url="https://example.com/a"),
        ),
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}, Media("image/png", "QUJD")),
        ({"type": "video_url", "video_url": {"url": "ms://v"}}, Media("video/*", url="ms://v")),
        ({"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}}, Media("audio/mp3", "QUJD")),
        (
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,QUJD", "filename": "a.pdf"}},
            Media("application/pdf", "QUJD", name="a.pdf"),
        ),
        ({"type": "file", "file": {"file_id": "file-1"}}, Media("application/octet-stream", url="file-1")),
    ],
    ids=str,
)
def test_parts(part: Any, block: Any) -> None:
    assert blocks({"role": "user", "content": [part]}) == (block,)


def test_a_part_we_do_not_know_is_kept() -> None:
    (block,) = blocks({"role": "user", "content": [{"type": "odd", "a": 1}]})
    assert isinstance(block, Opaque)
    assert block.data == {"type": "odd", "a": 1}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("text", ["hm", ""])
def test_reasoning_keeps_its_field_even_when_empty(field: str, text: str) -> None:
    first = blocks({"role": "assistant", "content": "a", field: text})[0]
    assert isinstance(first, Thinking)
    assert (first.text, first.field) == (text, field)
    assert first.origin is not None and first.origin.provider == "p"


def test_a_refusal_is_text_that_says_so() -> None:
    assert blocks({"role": "assistant", "content": None, "refusal": "no"}) == (Text("no", {"refusal": True}),)


def test_calls_of_every_kind() -> None:
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "free text"}},
    ]
    results = [{"role": "tool", "tool_call_id": id, "content": id} for id in ("c2", "c1")]
    ai, tool = read({"role": "assistant", "content": None, "tool_calls": calls}, *results).conversation.turns
    assert [(call.name, call.arguments, call.raw_id, call.kind) for call in ai.tool_calls] == [
        ("f", '{"a": 1}', "c1", "function"),
        ("g", '{"input":"free text"}', "c2", "freeform"),
    ]
    assert {response.call_id: response.text for response in tool.tool_responses} == {
        ai.tool_calls[0].id: "c1",
        ai.tool_calls[1].id: "c2",
    }


def test_the_old_form_of_a_call() -> None:
    old = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    (ai,) = read(old).conversation.turns
    assert [(call.name, call.arguments) for call in ai.tool_calls] == [("f", "{}")]


def test_tools() -> None:
    schema = {"type": "object", "properties": {}}
    tools = [
        {"type": "function", "function": {"name": "f", "description": "F.", "parameters": schema, "strict": True}},
        {"type": "builtin_function", "function": {"name": "$web_search"}},
        {"type": "odd", "a": 1},
    ]
    first, second, third = read(HI, tools=tools).tools
    assert first == ToolSpec("f", "F.", schema, strict=True)
    assert second.builtin == "$web_search"
    assert third.extra == {"tool": {"type": "odd", "a": 1}, "wire": "openai-chat"}


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("any", "required"),
        ({"type": "function", "function": {"name": "f"}}, "f"),
    ],
)
def test_tool_choice(given: Any, choice: str) -> None:
    assert read(HI, tool_choice=given).options.tool_choice == choice


def test_settings() -> None:
    options = read(
        HI,
        max_completion_tokens=9,
        temperature=0,
        top_p=0.5,
        stop="x",
        seed=3,
        user="u",
        parallel_tool_calls=False,
        response_format={"type": "json_object"},
        stream=True,
        odd={"a": 1},
    ).options
    assert (options.max_tokens, options.temperature, options.top_p, options.stop) == (9, 0, 0.5, ("x",))
    assert (options.seed, options.user, options.parallel_tool_calls, options.stream) == (3, "u", False, True)
    assert options.response_format == {"type": "json_object"}
    assert options.extra_body == {"odd": {"a": 1}}
    assert read(HI, stop=["x", "y"]).options.stop == ("x", "y")
    assert read(HI).options.stream is False
