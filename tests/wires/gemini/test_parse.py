"""What a Gemini request body means, field by field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midstream.core.blocks import Media, Opaque, Origin, Text, Thinking, ToolCall
from midstream.core.dialect import Options
from midstream.core.errors import InvalidHistory
from midstream.core.tools import ToolSpec
from midstream.wires.gemini.parse import parse_request

HI = {"role": "user", "parts": [{"text": "hi"}]}


def read(*contents: Any, **body: Any) -> Any:
    return parse_request(json.dumps({"contents": list(contents), **body}).encode(), model="models/m")


def options(**body: Any) -> Options:
    return read(HI, **body).options


def config(**fields: Any) -> Options:
    return options(generationConfig=fields)


def test_turns_blocks_and_ids() -> None:
    parsed = read(
        {
            "parts": [
                {"text": "hi"},
                {"inline_data": {"mime_type": "image/png", "data": "QUJD"}, "mediaResolution": "LOW"},
            ]
        },
        {
            "role": "model",
            "parts": [
                {"text": "hm", "thought": True, "thought_signature": "S1"},
                {"text": "a", "thoughtSignature": "S2"},
                {"executableCode": {"code": "1"}, "thoughtSignature": "S3"},
                {"functionCall": {"name": "f", "args": {"n": 9007199254740993}, "id": "x"}, "thoughtSignature": "S4"},
                {"function_call": {"name": "g"}},
            ],
        },
        {
            "role": "function",
            "parts": [
                {"text": "and then?"},
                {"functionResponse": {"name": "g", "response": {"error": "bad"}}},
                {"functionResponse": {"name": "f", "id": "x", "response": {"result": "fine"}}},
            ],
        },
    )
    origin = Origin("gemini", "gemini", "m")
    first, ai, tool, words = parsed.conversation.turns
    assert first.blocks == (Text("hi"), Media("image/png", data="QUJD", extra={"mediaResolution": "LOW"}))
    assert ai.origin == origin
    assert ai.blocks[:3] == (
        Thinking("hm", "thought", "S1", origin=origin),
        Text("a", {"thoughtSignature": "S2"}),
        Opaque("executableCode", {"executableCode": {"code": "1"}, "thoughtSignature": "S3"}, origin),
    )
    f, g = ai.tool_calls
    assert (f.name, f.arguments, f.raw_id, f.extra) == ("f", '{"n":9007199254740993}', "x", {"thoughtSignature": "S4"})
    assert (g.name, g.arguments, g.raw_id, g.extra) == ("g", "{}", None, None)
    assert isinstance(f, ToolCall) and f.id.startswith("hist_tool_") and f.id != g.id
    assert [(r.call_id, r.text, r.is_error) for r in tool.tool_responses] == [
        (g.id, "bad", True),
        (f.id, "fine", False),
    ]
    assert (words.speaker, words.text) == ("human", "and then?")


@pytest.mark.parametrize(
    ("said", "text", "error"),
    [
        ({"output": "x"}, '{"output":"x"}', False),
        ({"result": '{"a":1}'}, '{"result":"{\\"a\\":1}"}', False),
        ({"result": "x", "more": 1}, '{"result":"x","more":1}', False),
        (None, "{}", False),
    ],
)
def test_results_that_are_more_than_a_text_stay_objects(said: Any, text: str, error: bool) -> None:
    call = {"role": "model", "parts": [{"functionCall": {"name": "f"}}]}
    result = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": said}}]}
    response = read(HI, call, result).conversation.turns[-1].tool_responses[0]
    assert (response.text, response.is_error) == (text, error)


@pytest.mark.parametrize(
    ("given", "system"),
    [
        ({"parts": [{"text": "a"}]}, "a"),
        ({"parts": {"text": "a"}}, "a"),
        ("a", "a"),
        ({"parts": [{"text": "a"}, {"text": "b"}]}, (Text("a"), Text("b"))),
        (None, ""),
    ],
)
def test_system(given: Any, system: Any) -> None:
    assert read(HI, systemInstruction=given).conversation.system == system


def test_tools() -> None:
    schema = {"type": "OBJECT", "properties": {"a": {"type": "STRING", "enum": ["STRING"]}, "b": {"type": 5}}}
    tools = [
        {"functionDeclarations": [{"name": "f", "description": "F.", "parameters": schema}], "codeExecution": None},
        {"function_declarations": [{"name": "g", "parametersJsonSchema": {"type": "object", "x": 1}}]},
        {"google_search": {}},
        {"fileSearch": {"stores": ["s"]}},
    ]
    plain = {"type": "object", "properties": {"a": {"type": "string", "enum": ["STRING"]}, "b": {"type": "array"}}}
    assert read(HI, tools=tools).tools == (
        ToolSpec("f", "F.", plain),
        ToolSpec("g", "", {"type": "object", "x": 1}),
        ToolSpec("googleSearch", builtin="googleSearch"),
        ToolSpec("fileSearch", builtin="fileSearch", extra={"config": {"stores": ["s"]}}),
    )


def test_sampling_and_what_is_unknown() -> None:
    got = config(maxOutputTokens=9, temperature=0, topP=0.5, seed=1, stopSequences=["x"], topK=3)
    assert (got.max_tokens, got.temperature, got.top_p, got.seed, got.stop) == (9, 0, 0.5, 1, ("x",))
    assert got.extra_body == {"generationConfig": {"topK": 3}}
    assert options(safetySettings=[1], labels=None).extra_body == {"safetySettings": [1]}
    schema = {"type": "object"}
    shaped = config(responseMimeType="application/json", responseJsonSchema=schema)
    assert shaped.response_format == {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    assert config(responseMimeType="application/json").response_format == {"type": "json_object"}


@pytest.mark.parametrize(
    ("given", "thinking", "effort", "budget", "kept"),
    [
        ({"includeThoughts": True}, "on", None, None, False),
        ({"includeThoughts": True, "thinkingBudget": 128}, "on", None, 128, False),
        ({"includeThoughts": True, "thinkingLevel": "LOW"}, "on", "low", None, False),
        ({"thinkingBudget": 0}, "off", None, None, False),
        ({"thinkingBudget": 64}, "on", None, 64, True),
        ({"thinkingBudget": -1, "includeThoughts": True}, "on", None, None, True),
    ],
)
def test_thinking(given: Any, thinking: str, effort: Any, budget: Any, kept: bool) -> None:
    got = config(thinkingConfig=given)
    assert (got.thinking, got.effort, got.thinking_budget) == (thinking, effort, budget)
    assert got.extra_body == ({"generationConfig": {"thinkingConfig": given}} if kept else None)


@pytest.mark.parametrize(
    ("given", "choice"),
    [
        ({"mode": "AUTO"}, "auto"),
        ({"mode": "NONE"}, "none"),
        ({"mode": "ANY"}, "required"),
        ({"mode": "ANY", "allowedFunctionNames": ["f"]}, "f"),
    ],
)
def test_tool_choice(given: Any, choice: str) -> None:
    got = options(toolConfig={"functionCallingConfig": given})
    assert (got.tool_choice, got.extra_body) == (choice, None)


@pytest.mark.parametrize("given", [{"mode": "VALIDATED"}, {"mode": "ANY", "allowedFunctionNames": ["f", "g"]}])
def test_a_choice_we_have_no_word_for_is_kept(given: Any) -> None:
    got = options(toolConfig={"functionCallingConfig": given})
    assert (got.tool_choice, got.extra_body) == (None, {"toolConfig": {"functionCallingConfig": given}})


def test_the_model_may_stand_in_the_body() -> None:
    parsed = parse_request(b'{"contents":"hi","model":"models/x"}', stream=True)
    assert (parsed.model, parsed.conversation.turns[0].text, parsed.options.stream) == ("x", "hi", True)


@pytest.mark.parametrize(
    ("given", "plain"), [("+/8=", "+/8="), ("-_8=", "+/8="), ("-_8", "+/8="), ("QUJD", "QUJD"), ("_w", "/w==")]
)
def test_inline_data_is_in_the_alphabet_that_every_host_reads(given: str, plain: str) -> None:
    """Google's Python SDK writes the alphabet for URLs, which Anthropic and OpenAI refuse."""
    parsed = read({"parts": [{"inlineData": {"mimeType": "image/png", "data": given}}]})
    assert parsed.conversation.turns[0].blocks == (Media("image/png", data=plain),)


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"contents": 3}', b'{"contents": [3]}'])
def test_what_is_no_request_is_said_so(body: bytes) -> None:
    with pytest.raises(InvalidHistory):
        parse_request(body)
