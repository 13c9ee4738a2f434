"""Tools that a host runs: asked for on one wire, served on another, or refused in plain words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from midstream import Conversation, Opaque, Origin, Text, Turn, encode_request
from midstream.core.errors import BadRequest
from midstream.core.events import Done
from midstream.dialects.registry import resolve
from midstream.wires.request import ParsedRequest, parse_request
from midstream.wires.server_tools import answer_search, sources_as_text, without_server_tools
from tests.long_run import each_once

SEARCH: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
    "openai-responses": {"type": "web_search", "external_web_access": True},
    "gemini": {"google_search": {}},
    "openai-chat": {"type": "builtin_function", "function": {"name": "$web_search"}},
}
SHELL: dict[str, dict[str, Any]] = {
    "anthropic": {"name": "Bash", "input_schema": {"type": "object", "properties": {}}},
    "openai-responses": {"type": "function", "name": "Bash", "parameters": {"type": "object", "properties": {}}},
    "gemini": {"functionDeclarations": [{"name": "Bash", "parameters": {"type": "object"}}]},
    "openai-chat": {
        "type": "function",
        "function": {"name": "Bash", "parameters": {"type": "object", "properties": {}}},
    },
}
HAVE = {
    "anthropic/claude-sonnet-5": "web_search",
    "openai-responses/gpt-5.2": "web_search",
    "gemini/gemini-2.5-pro": "googleSearch",
}


def asked(wire: str, *tools: dict[str, Any], **fields: Any) -> ParsedRequest:
    said: dict[str, Any] = {"messages": [{"role": "user", "content": "weather in Oslo?"}]}
    if wire == "gemini":
        said = {"contents": [{"role": "user", "parts": [{"text": "weather in Oslo?"}]}]}
    elif wire == "openai-responses":
        said = {"input": "weather in Oslo?"}
    return parse_request(wire, json.dumps({"model": "m", **said, "tools": list(tools), **fields}).encode())


def sent_tools(model: str, parsed: ParsedRequest) -> str:
    request = encode_request(model, parsed.conversation, tools=parsed.tools, options=parsed.options)
    return json.dumps(json.loads(request.body).get("tools"))


@each_once(("wire", SEARCH), ("model, word", HAVE.items()))
def test_the_readers_own_search_is_asked_for(wire: str, model: str, word: str) -> None:
    reader = resolve(model).dialect
    parsed, notes = without_server_tools(asked(wire, SEARCH[wire]), wire, reader)
    assert word in sent_tools(model, parsed)
    assert [note.action for note in notes] == ([] if wire == reader.wire else ["adapted"])


@pytest.mark.parametrize("wire", SEARCH)
def test_without_one_the_other_tools_stay(wire: str) -> None:
    model = "mistral/mistral-large-latest"
    parsed, notes = without_server_tools(asked(wire, SEARCH[wire], SHELL[wire]), wire, resolve(model).dialect)
    assert [tool.name for tool in parsed.tools] == ["Bash"]
    assert [(note.action, note.code) for note in notes] == [("dropped", "foreign_builtin")]
    assert "search" not in sent_tools(model, parsed)


@pytest.mark.parametrize("wire", SEARCH)
def test_a_search_alone_is_refused_in_plain_words(wire: str) -> None:
    with pytest.raises(BadRequest, match="has no other tool") as caught:
        without_server_tools(asked(wire, SEARCH[wire]), wire, resolve("mistral/mistral-large-latest").dialect)
    assert caught.value.status == 400


def test_a_messages_client_is_told_in_its_own_words() -> None:
    mistral, claude = resolve("mistral/mistral-large-latest").dialect, resolve("anthropic/claude-sonnet-5").dialect
    search, code = SEARCH["anthropic"], {"type": "code_execution_20250825", "name": "code_execution"}
    told = answer_search(asked("anthropic", search), "anthropic", mistral, "x1")
    assert told is not None
    last = told[0][-1]
    assert isinstance(last, Done) and last.turn.stop_reason == "end_turn"
    call, result, text = last.turn.blocks
    assert isinstance(call, Opaque) and isinstance(result, Opaque) and isinstance(text, Text)
    assert call.data == {"type": "server_tool_use", "id": "srvtoolu_x1", "name": "web_search", "input": {"query": "weather in Oslo?"}}  # fmt: skip
    error = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    assert result.data == {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_x1", "content": error}
    assert [(note.action, note.code) for note in told[1]] == [("dropped", "foreign_builtin")]
    for wire, reader, tools in (
        ("anthropic", claude, [search]),  # it has one
        ("anthropic", mistral, [search, SHELL["anthropic"]]),  # the rest of the request is for a model
        ("anthropic", mistral, [search, code]),
        ("anthropic", mistral, []),
        ("openai-responses", mistral, [SEARCH["openai-responses"]]),
        ("gemini", mistral, [SEARCH["gemini"]]),
        ("openai-chat", mistral, [SEARCH["openai-chat"]]),
    ):
        assert answer_search(asked(wire, *tools), wire, reader, "x1") is None, (wire, tools)


def test_gemini_takes_its_search_only_alone() -> None:
    parsed, _ = without_server_tools(
        asked("anthropic", SEARCH["anthropic"], SHELL["anthropic"]),
        "anthropic",
        resolve("gemini/gemini-2.5-pro").dialect,
    )
    assert [tool.name for tool in parsed.tools] == ["Bash"]


def test_a_choice_of_a_dropped_tool_goes_with_it() -> None:
    choice = {"type": "tool", "name": "web_search"}
    request = asked("anthropic", SEARCH["anthropic"], SHELL["anthropic"], tool_choice=choice)
    parsed, _ = without_server_tools(request, "anthropic", resolve("mistral/mistral-large-latest").dialect)
    assert parsed.options.tool_choice is None


def test_results_of_another_host_stay_as_sources() -> None:
    results = [
        {"type": "web_search_result", "title": "Oslo", "url": "https://yr.example/oslo", "encrypted_content": "x"}
    ]
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": results}
    history = [
        {"role": "user", "content": "weather?"},
        {"role": "assistant", "content": [found]},
        {"role": "user", "content": "go on"},
    ]
    parsed = asked("anthropic", messages=history)
    assert sources_as_text(parsed, resolve("anthropic/claude-sonnet-5").dialect) is parsed
    kimi = sources_as_text(parsed, resolve("moonshot/kimi-k2.5").dialect)
    assert "https://yr.example/oslo" in kimi.conversation.turns[1].text


def test_only_what_a_model_found_becomes_a_source() -> None:
    found = {"type": "web_search_tool_result", "content": [{"type": "web_search_result", "url": "https://a.example"}]}
    mine = Opaque("web_search_tool_result", found, Origin(provider="anthropic", wire="anthropic"))
    parsed = asked("anthropic")
    parsed = replace(parsed, conversation=Conversation((Turn("human", (mine,)),)))
    assert sources_as_text(parsed, resolve("moonshot/kimi-k2.5").dialect) is parsed


def test_what_is_no_source_is_left_out_of_the_list() -> None:
    found = [
        {"type": "web_search_result", "url": "https://a.example", "title": "A"},
        {"type": "web_search_result", "url": "https://b.example"},
        {"type": "web_search_result", "title": "no address"},
        {"type": "web_search_result", "url": 7, "title": "a number"},
    ]
    history = [
        {"role": "user", "content": "weather?"},
        {
            "role": "assistant",
            "content": [
                {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
                {"type": "web_search_tool_result", "tool_use_id": "s1", "content": found},
                {"type": "text", "text": "Rain."},
            ],
        },
        {"role": "user", "content": "go on"},
    ]
    kimi = sources_as_text(asked("anthropic", messages=history), resolve("moonshot/kimi-k2.5").dialect)
    assert (
        "Search results:\n- A: https://a.example\n- https://b.example: https://b.example"
        in kimi.conversation.turns[1].text
    )
    assert "no address" not in kimi.conversation.turns[1].text and "a number" not in kimi.conversation.turns[1].text
