"""What a Responses request means, field by field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midstream.core.blocks import Media, Opaque, Text, Thinking
from midstream.core.errors import InvalidHistory
from midstream.wires.openai_responses.parse import parse_request

HI = {"role": "user", "content": "hi"}


def read(*items: Any, **body: Any) -> Any:
    return parse_request(json.dumps({"model": "m", "input": list(items), **body}).encode(), provider="p")


def test_a_plain_input_and_instructions() -> None:
    told = parse_request(b'{"model": "m", "input": "hi", "instructions": "be kind"}').conversation
    assert (told.system, [turn.text for turn in told.turns]) == ("be kind", ["hi"])


@pytest.mark.parametrize(
    ("part", "block"),
    [
        ({"type": "input_text", "text": "a"}, Text("a")),
        ({"type": "input_image", "image_url": "data:image/png;base64,QUJD"}, Media("image/png", "QUJD")),
        ({"type": "input_audio", "input_audio": {"data": "QUJD", "format": "mp3"}}, Media("audio/mp3", "QUJD")),
    ],
    ids=str,
)
def test_parts(part: Any, block: Any) -> None:
    (turn,) = read({"role": "user", "content": [part]}).conversation.turns
    assert turn.blocks == (block,)


def test_a_part_we_do_not_know_is_kept() -> None:
    for role in ("user", "assistant"):
        (turn,) = read({"role": role, "content": [{"type": "odd", "a": 1}, 3]}).conversation.turns
        assert [type(block) for block in turn.blocks] == [Opaque]


def test_what_an_assistant_said_and_refused() -> None:
    content = [{"type": "output_text", "text": "a", "annotations": []}, {"type": "refusal", "refusal": "no"}]
    (turn,) = read({"type": "message", "role": "assistant", "content": content}).conversation.turns
    assert [block.text for block in turn.blocks] == ["a", "no"]
    assert turn.blocks[1].extra["refusal"] is True


def test_reasoning_calls_and_their_results() -> None:
    told = read(
        HI,
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "hm"}],
            "encrypted_content": "e",
        },
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call", "call_id": "c2", "name": "g", "arguments": {"b": 2}},
        {"type": "custom_tool_call", "call_id": "c3", "name": "h", "input": "free"},
        {"type": "function_call_output", "call_id": "c2", "output": {"n": 1}},
        {"type": "function_call_output", "call_id": "c1", "output": "one"},
        {"type": "custom_tool_call_output", "call_id": "c3", "output": [{"type": "input_text", "text": "three"}]},
    ).conversation
    blocks = [block for turn in told.turns for block in turn.blocks]
    (thought,) = [block for block in blocks if isinstance(block, Thinking)]
    assert (thought.text, thought.encrypted) == ("hm", "e")
    calls = {call.id: call for turn in told.turns for call in turn.tool_calls}
    assert [(call.name, call.arguments, call.kind) for call in calls.values()] == [
        ("f", '{"a": 1}', "function"),
        ("g", '{"b":2}', "function"),
        ("h", '{"input":"free"}', "freeform"),
    ]
    answers = {calls[r.call_id].name: r.text for turn in told.turns for r in turn.tool_responses}
    assert answers == {"f": "one", "g": '{"n":1}', "h": "three"}


def test_tools() -> None:
    schema = {"type": "object", "properties": {}}
    nested = {"type": "function", "function": {"name": "g", "parameters": schema}}
    tools = [
        {"type": "function", "name": "f", "description": "F.", "parameters": schema, "strict": False},
        nested,
        {"type": "web_search"},
        3,
    ]
    first, second, third = read(HI, tools=tools).tools
    assert (first.name, first.description, first.parameters, first.strict) == ("f", "F.", schema, False)
    assert (second.name, second.parameters, second.strict, second.extra) == ("g", schema, None, {"strict": None})
    assert (third.name, third.extra) == (
        "web_search",
        {"tool": {"type": "web_search"}, "wire": "openai-responses"},
    )


@pytest.mark.parametrize(
    ("given", "choice"),
    [("required", "required"), ({"type": "function", "name": "f"}, "f"), ({"type": "custom", "name": "h"}, "h")],
)
def test_tool_choice(given: Any, choice: str) -> None:
    assert read(HI, tool_choice=given).options.tool_choice == choice


def test_a_choice_we_have_no_word_for_is_kept() -> None:
    choice = {"type": "web_search"}
    options = read(HI, tool_choice=choice).options
    assert (options.tool_choice, options.extra_body) == (None, {"tool_choice": choice})


def test_settings() -> None:
    schema = {"type": "object", "properties": {}}
    shape = {"type": "json_schema", "name": "n", "schema": schema, "strict": True}
    options = read(
        HI, max_output_tokens=9, temperature=0, reasoning={"effort": "low"}, text={"format": shape}, odd=1, stream=True
    ).options
    assert (options.max_tokens, options.temperature, options.effort, options.stream) == (9, 0, "low", True)
    inner = {"name": "n", "schema": schema, "strict": True}
    assert options.response_format == {"type": "json_schema", "json_schema": inner}
    assert options.extra_body is not None and options.extra_body["odd"] == 1
    assert read(HI, text={"format": {"type": "json_object"}}).options.response_format == {"type": "json_object"}
    assert read(HI, reasoning={"effort": "none"}).options.thinking == "off"


@pytest.mark.parametrize("body", [b"[]", b'{"input": 3}', b'{"input": [3]}'])
def test_what_is_no_request_is_said_so(body: bytes) -> None:
    with pytest.raises(InvalidHistory):
        parse_request(body)
