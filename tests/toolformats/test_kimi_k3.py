from __future__ import annotations

from typing import Any

import pytest

from midstream.core.blocks import Text, ToolCall, ToolResponse
from midstream.toolformats import kimi_k3
from midstream.toolformats.registry import get_filter
from tests.shared_data import vector_params, vectors

from .feeding import Outcome, feed, outcome, splits

VECTORS = "kimi/kimi-k3.json"
CALL = '<|open|>call tool="f" index="1"<|sep|>'
ARGUMENT = '<|open|>argument key="a" type="{}"<|sep|>{}<|close|>argument<|sep|>'
END = "<|close|>call<|sep|>"


def _read(text: str, *, starts_inside: bool = False) -> Outcome:
    return outcome(feed(get_filter("kimi-k3", starts_inside=starts_inside), [text]))


@pytest.mark.parametrize("vector", vector_params(VECTORS, lambda v: v["kind"] == "k3/full"))
def test_vector(vector: dict[str, Any]) -> None:
    expected = vector["expected"]
    for portions in splits(vector["input"]["text"]):
        found = outcome(feed(get_filter("kimi-k3", starts_inside=True), portions))
        assert found.text == expected["content"]
        assert found.thinking == expected["reasoning"]
        assert found.calls == [(call["name"], call["arguments"], None) for call in expected["tool_calls"]]
        assert found.problems == []


def test_rendering_is_the_templates() -> None:
    rendered = vectors(VECTORS)["kimi-k3-013"]
    prompt = rendered["expected"]["prompt"]
    (message,) = [m for m in rendered["input"]["messages"] if "tool_calls" in m]
    calls = [
        ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in message["tool_calls"]
    ]
    assert kimi_k3.render_calls(calls) in prompt
    for message in rendered["input"]["messages"]:
        if message["role"] == "tool":
            number = [call.id for call in calls].index(message["tool_call_id"])
            response = ToolResponse(message["tool_call_id"], calls[number].name, (Text(message["content"]),))
            assert kimi_k3.render_result(response, str(number + 1)) in prompt


@pytest.mark.parametrize(
    ("kind", "text", "arguments"),
    [
        ("string", 'a "b"\n\\c', '{"a":"a \\"b\\"\\n\\\\c"}'),
        ("number", "1.5", '{"a":1.5}'),
        ("boolean", "true", '{"a":true}'),
        ("null", "null", '{"a":null}'),
        ("object", '{"x": [1]}', '{"a":{"x": [1]}}'),
        ("number", "many", '{"a":"many"}'),
    ],
)
def test_an_argument_says_its_type(kind: str, text: str, arguments: str) -> None:
    assert _read(CALL + ARGUMENT.format(kind, text) + END).calls == [("f", arguments, None)]


def test_whole_json_arguments() -> None:
    text = CALL + '<|open|>json type="object"<|sep|>{"a": 1}<|close|>json<|sep|>' + END
    assert _read(text).calls == [("f", '{"a": 1}', None)]


def test_a_call_that_is_cut_off_never_looks_whole() -> None:
    text = CALL + ARGUMENT.format("string", "rm -rf build") + END
    for size in range(len(CALL), len(text) - 1):
        found = _read(text[:size])
        assert len(found.calls) == 1
        assert found.problems
        with pytest.raises(ValueError, match=r"truncated"):
            _ = found.parsed


def test_a_forgotten_end_of_a_call() -> None:
    found = _read(CALL + ARGUMENT.format("number", "1") + CALL + END + "<|end_of_msg|>")
    assert found.parsed == [("f", {"a": 1}), ("f", {})]


def test_words_outside_a_channel_are_text() -> None:
    assert _read("Hello\n\nworld\n").text == "Hello\n\nworld\n"
    assert _read("\n<|open|>response<|sep|> hi <|close|>response<|sep|>\n").text == " hi "


def test_a_call_without_a_tool_is_reported() -> None:
    found = _read('<|open|>call index="1"<|sep|>' + ARGUMENT.format("number", "1") + END)
    assert found.calls == []
    assert '{"a":1}' in found.problems[0].raw
