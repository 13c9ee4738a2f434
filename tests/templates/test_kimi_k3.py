from __future__ import annotations

from typing import Any

import pytest

from midstream.core.blocks import Conversation, Text, Thinking, ToolCall, ToolResponse, Turn, human
from midstream.core.dialect import Options
from midstream.templates.registry import get_template
from tests.shared_data import vector_params
from tests.templates.openai_messages import conversation_of, tools_of

K3 = get_template("kimi-k3")
VECTORS = "kimi/kimi-k3.json"


@pytest.mark.parametrize("vector", vector_params(VECTORS, lambda v: v["kind"] == "k3/render"))
def test_the_recorded_prompts(vector: dict[str, Any]) -> None:
    given = vector["input"]
    kwargs = given["template_kwargs"]
    prompt = K3.render(
        conversation_of(given["messages"]),
        tools=tools_of(given.get("tools")),
        thinking=kwargs["thinking"],
        add_generation_prompt=given["add_generation_prompt"],
        options=Options(
            tool_choice=given.get("tool_choice"),
            response_format=given.get("response_format"),
            effort=kwargs.get("thinking_effort"),
        ),
    )
    assert prompt.text == vector["expected"]["prompt"]
    assert prompt.starts_inside_thinking is kwargs["thinking"]


@pytest.mark.parametrize("vector", vector_params(VECTORS, lambda v: v["kind"] == "k3/full"))
def test_an_answer_renders_as_the_model_wrote_it(vector: dict[str, Any]) -> None:
    """The parser's vectors the other way round: what the model emits is what its history shows."""
    said = vector["expected"]
    calls = [ToolCall(str(i), call["name"], call["arguments"]) for i, call in enumerate(said["tool_calls"])]
    results = tuple([ToolResponse(call.id, call.name) for call in calls])
    turns = [human("q"), Turn("ai", (Thinking(said["reasoning"]), Text(said["content"]), *calls))]
    text = K3.render(Conversation((*turns, *([Turn("tool", results)] if results else [])))).text
    wrote = vector["input"]["text"]
    if "<|close|>think" not in wrote and said["reasoning"]:
        wrote += "<|close|>think<|sep|><|open|>response<|sep|><|close|>response<|sep|><|close|>message<|sep|>"
    elif "<|close|>think" not in wrote:
        wrote = "<|close|>think<|sep|>" + wrote
    assert f'<|open|>message role="assistant"<|sep|><|open|>think<|sep|>{wrote}<|end_of_msg|>' in text


def call_text(arguments: str, name: str = "f") -> str:
    turns = (human("q"), Turn("ai", (ToolCall("a", name, arguments),)), Turn("tool", (ToolResponse("a", name),)))
    text = K3.render(Conversation(turns)).text
    return text.partition("<|open|>tools<|sep|>")[2].partition("<|close|>tools")[0]


@pytest.mark.parametrize(
    ("arguments", "inside"),
    [
        ("", ""),
        ("{}", ""),
        ('{"a": null}', '<|open|>argument key="a" type="null"<|sep|>null<|close|>argument<|sep|>'),
        ('{"a": true}', '<|open|>argument key="a" type="boolean"<|sep|>true<|close|>argument<|sep|>'),
        ('{"a": 1.5}', '<|open|>argument key="a" type="number"<|sep|>1.5<|close|>argument<|sep|>'),
        ('{"a": ["é"]}', '<|open|>argument key="a" type="array"<|sep|>["é"]<|close|>argument<|sep|>'),
        ('{"a": {"b":1}}', '<|open|>argument key="a" type="object"<|sep|>{"b": 1}<|close|>argument<|sep|>'),
        ('{"\\"&": "x\\ny"}', '<|open|>argument key="&quot;&amp;" type="string"<|sep|>x\ny<|close|>argument<|sep|>'),
        ('{"a": ', '<|open|>json type="object"<|sep|>{"a": <|close|>json<|sep|>'),
        ("[1]", '<|open|>json type="object"<|sep|>[1]<|close|>json<|sep|>'),
    ],
)
def test_arguments(arguments: str, inside: str) -> None:
    assert call_text(arguments) == f'<|open|>call tool="f" index="1"<|sep|>{inside}<|close|>call<|sep|>'


def test_the_index_restarts_in_each_message() -> None:
    turns = []
    for name in "ab":
        calls = (ToolCall(f"{name}1", name), ToolCall(f"{name}2", name))
        turns += [Turn("ai", calls), Turn("tool", tuple([ToolResponse(call.id, "other") for call in calls]))]
    text = K3.render(Conversation((human("q"), *turns))).text
    for name in "ab":
        for index in "12":
            assert f'<|open|>call tool="{name}" index="{index}"' in text
            assert f'<|open|>message role="tool" tool="{name}" index="{index}"' in text


def test_a_json_schema_is_said() -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "a": 1}}}
    text = K3.render(Conversation((human("q"),)), options=Options(response_format=wanted)).text
    assert 'schema:\n```json\n{"a":1,"type":"object"}\n```<|close|>message' in text


@pytest.mark.parametrize(("effort", "said"), [(None, "max"), ("low", "low"), ("medium", "high"), ("xhigh", "max")])
def test_the_effort_is_one_of_its_words(effort: str | None, said: str) -> None:
    text = K3.render(Conversation((human("q"),)), options=Options(effort=effort)).text
    assert f"`thinking_effort={said}`" in text


def test_names_are_attributes() -> None:
    text = K3.render(Conversation((Turn("human", (Text("hi"),), extra={"name": 'b"ob'}),))).text
    assert '<|open|>message role="user" name="b&quot;ob"<|sep|>hi<|close|>' in text
