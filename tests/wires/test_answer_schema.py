"""How an answer is held to a schema: which way is taken for which request, and what is noted of it."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from midstream.codec import encode_request
from midstream.core.blocks import Conversation, human
from midstream.core.dialect import AnswerWay, Options
from midstream.core.tools import ToolSpec
from midstream.wires.answer_schema import _PLANS, schema_in_words

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
MAP = {"type": "object", "additionalProperties": {"type": "integer"}}
LONG = {**SCHEMA, "properties": {"name": {"type": "string", "minLength": 3}}}
LIST = {"type": "array", "items": {"type": "string"}}
LOOK = ToolSpec("look", "Look.", {"type": "object", "properties": {}})
ON, OFF = Options(thinking="on"), Options(thinking="off")
TEXT_TOOLS = Options(tool_format="hermes")
PREFILL = Options(prefill="{")

# model, options, schema, whether there are tools -> the way, and the codes of the notes
ROWS: tuple[tuple[str, Options, dict[str, Any], bool, str, str], ...] = (
    ("openai/gpt-4o", Options(), SCHEMA, False, "schema", ""),
    ("openai/gpt-4o", Options(), LONG, False, "schema", "schema_adapted"),
    ("openai/gpt-4o", Options(), MAP, False, "schema", ""),
    ("openai/gpt-4o", Options(), LIST, False, "schema", ""),
    ("openai/gpt-4o", Options(), SCHEMA, True, "schema", ""),
    ("openai/gpt-4o", PREFILL, SCHEMA, False, "words", "schema_in_words"),
    ("openai-responses/gpt-5.2", Options(), SCHEMA, True, "schema", ""),
    ("anthropic/claude-sonnet-4-5", ON, SCHEMA, True, "schema", ""),
    ("anthropic/claude-sonnet-4-5", Options(), MAP, False, "tool", "schema_adapted"),
    ("anthropic/claude-sonnet-4-5", ON, MAP, False, "words", "schema_in_words"),
    ("anthropic/claude-sonnet-4-5", Options(), MAP, True, "words", "schema_in_words"),
    ("anthropic/claude-sonnet-4-0", Options(), SCHEMA, False, "tool", "schema_adapted"),
    ("anthropic/claude-sonnet-4-0", ON, SCHEMA, False, "words", "schema_in_words"),
    ("anthropic/claude-sonnet-4-0", TEXT_TOOLS, SCHEMA, False, "words", "schema_in_words"),
    ("moonshot-anthropic/kimi-k2.5", Options(), SCHEMA, False, "words", "schema_in_words"),
    ("gemini/gemini-2.5-pro", Options(), SCHEMA, False, "schema", ""),
    ("gemini/gemini-2.5-pro", Options(), LIST, False, "schema", ""),
    ("gemini/gemini-2.5-pro", Options(), SCHEMA, True, "words", "schema_in_words"),
    ("ollama/qwen3:4b", Options(), SCHEMA, False, "grammar", ""),
    ("ollama/qwen3:4b", Options(), SCHEMA, True, "words", "schema_in_words"),
    ("cohere/command-a-03-2025", Options(), SCHEMA, False, "schema", "schema_adapted"),
    ("cohere/command-a-03-2025", Options(), MAP, False, "tool", "schema_adapted"),
    ("cohere/command-a-03-2025", Options(), SCHEMA, True, "words", "schema_in_words"),
    ("moonshot/kimi-k2.5", Options(), SCHEMA, False, "json", "schema_in_words"),
    ("moonshot/kimi-k2.5", Options(), SCHEMA, True, "words", "schema_in_words"),
    ("deepseek/deepseek-chat", Options(), LIST, False, "json", "schema_in_words"),
    ("qwen/qwen-plus", Options(), SCHEMA, False, "tool", "schema_adapted"),
    ("qwen/qwen-plus", ON, SCHEMA, False, "words", "schema_in_words"),
    ("minimax/MiniMax-M2", Options(), SCHEMA, False, "words", "schema_in_words"),
    ("vllm/model", Options(), SCHEMA, False, "grammar", ""),
    ("vllm/model", Options(), LONG, True, "words", "schema_in_words"),
    ("completions/qwen3", Options(), SCHEMA, False, "grammar", ""),
    ("deepinfra/moonshotai/Kimi-K2.5", Options(), SCHEMA, False, "schema", ""),
    ("llamacpp/kimi-k2-instruct", Options(), SCHEMA, False, "grammar", ""),
)  # fmt: skip
_FIELDS = ("response_format", "text", "output_config", "format", "json_schema")


def way_of(body: dict[str, Any], answer_tool: str) -> str:
    """What a request asks with, by what is in it."""
    if answer_tool:
        assert [answer_tool] == [tool.get("name") or tool["function"]["name"] for tool in body["tools"]]
        return "tool"
    asked = next(
        (body[field] for field in _FIELDS if field in body),
        (body.get("generationConfig") or {}).get("responseJsonSchema"),
    )
    in_words = "follows this JSON schema" in json.dumps(body)
    if asked is None:
        assert in_words
        return "words"
    if not in_words:
        return "schema"
    return "json" if asked == {"type": "json_object"} else "grammar"


@pytest.mark.parametrize(("model", "options", "schema", "tools", "way", "notes"), ROWS)
def test_the_way_is_chosen_by_the_dialect_and_the_request(
    model: str, options: Options, schema: dict[str, Any], tools: bool, way: str, notes: str
) -> None:
    options = Options(
        schema=schema, thinking=options.thinking, tool_format=options.tool_format, prefill=options.prefill
    )
    said = Conversation((human("Invent one."),))
    request = encode_request(model, said, tools=(LOOK,) if tools else (), options=options, cache=None)
    assert way_of(json.loads(request.body), request.answer_tool) == way
    assert " ".join([note.code for note in request.notes if note.code.startswith("schema_")]) == notes


JSON: tuple[tuple[str, Options, bool, str], ...] = (
    ("openai/gpt-4o", Options(), True, "mode"),
    ("gemini/gemini-2.5-pro", Options(), False, "mode"),
    ("gemini/gemini-2.5-pro", Options(), True, "words"),  # refused beside tools
    ("cohere/command-a-03-2025", Options(), False, "mode"),
    ("cohere/command-a-03-2025", Options(), True, "words"),
    ("ollama/qwen3:4b", Options(), True, "words"),  # the grammar leaves no room for a call
    ("anthropic/claude-sonnet-4-5", Options(), False, "words"),
    ("anthropic/claude-sonnet-4-5", ON, True, "words"),
    ("moonshot-anthropic/kimi-k2.5", Options(), False, "words"),
    ("anthropic/claude-sonnet-4-0", PREFILL, False, "dropped"),
)
"""JSON without a schema: the host's mode, a line of words, or nothing, where the caller has begun the answer."""


@pytest.mark.parametrize(("model", "options", "tools", "way"), JSON)
def test_json_without_a_schema(model: str, options: Options, tools: bool, way: str) -> None:
    wanted = replace(options, response_format={"type": "json_object"})
    request = encode_request(model, "Invent one.", tools=(LOOK,) if tools else (), options=wanted, cache=None)
    body, codes = json.loads(request.body), [note.code for note in request.notes]
    named = any(field in body for field in _FIELDS) or "responseMimeType" in (body.get("generationConfig") or {})
    assert named == (way == "mode")
    assert ("schema_in_words" in codes) == ("one JSON object" in request.body.decode()) == (way == "words")
    assert ("unsupported_option" in codes) == (way == "dropped")


def test_a_host_that_cannot_be_strict_is_told_the_schema_all_the_same() -> None:
    for schema, strict in ((SCHEMA, True), (MAP, False)):
        body = json.loads(encode_request("openai/gpt-4o", "Hi", options=Options(schema=schema), cache=None).body)
        assert body["response_format"]["json_schema"]["strict"] is strict
    named = body["response_format"]["json_schema"]
    assert named["name"] == "answer" and named["schema"]["additionalProperties"] == {"type": "integer"}


def test_a_schema_stands_in_for_a_response_format() -> None:
    options = Options(schema=SCHEMA, response_format={"type": "text"})
    body = json.loads(encode_request("openai/gpt-4o", "Hi", options=options, cache=None).body)
    assert body["response_format"]["type"] == "json_schema"


def test_every_way_of_a_dialect_has_its_plan() -> None:
    assert tuple(_PLANS) == get_args(AnswerWay)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Hello",
        "follows this JSON schema, and nothing else:\n{",
        "with one JSON value that follows this JSON schema, and nothing else:\n[1]",
    ],
)
def test_words_that_tell_no_schema(text: str) -> None:
    assert schema_in_words(text) is None
