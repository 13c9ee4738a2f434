"""What a Messages request means, field by field: read and written again for the same model, it says the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from midstream import encode_request, resolve
from midstream.core.blocks import Media, Opaque, Text, Thinking
from midstream.core.errors import InvalidHistory
from midstream.wires.anthropic.parse import parse_request

MODEL = "claude-sonnet-4-5"
HI = {"role": "user", "content": [{"type": "text", "text": "hi"}]}


def read(*messages: Any, **body: Any) -> Any:
    return parse_request(json.dumps({"model": MODEL, "messages": list(messages), **body}).encode())


def again(*messages: Any, **body: Any) -> dict[str, Any]:
    parsed = read(*messages, max_tokens=4096, **body)
    target = resolve(f"anthropic/{MODEL}")
    request = encode_request(target, parsed.conversation, tools=parsed.tools, options=parsed.options, cache=None)
    written: dict[str, Any] = json.loads(request.body)
    return written


@pytest.mark.parametrize(
    "body",
    [
        {"system": "be kind"},
        {"system": [{"type": "text", "text": "be kind", "cache_control": {"type": "ephemeral"}}]},
        {"temperature": 0.5},
        {"top_p": 0.5},
        {"stop_sequences": ["a", "b"]},
        {"metadata": {"user_id": "u"}},
        {"metadata": {"user_id": "u", "more": 1}},
        {"service_tier": "auto", "top_k": 3},
        {"thinking": {"type": "enabled", "budget_tokens": 2048}},
        {"thinking": {"type": "enabled", "budget_tokens": 2048, "display": "omitted"}},
        {"thinking": {"type": "other", "more": 1}},
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object", "properties": {}}}}},
        {"output_config": {"effort": "low"}},
        {"output_config": {"more": 1}},
        {"stream": True},
    ],
    ids=str,
)
def test_settings_survive(body: dict[str, Any]) -> None:
    written = again(HI, **body)
    for name, value in body.items():
        said = written.get(name)
        assert said == value or said == [{"type": "text", "text": value}], name


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "auto"},
        {"type": "any"},
        {"type": "none"},
        {"type": "tool", "name": "look"},
        {"type": "any", "disable_parallel_tool_use": True},
        {"type": "odd", "more": 1},
    ],
    ids=str,
)
def test_tools_and_their_choice_survive(choice: dict[str, Any]) -> None:
    tools = [
        {"name": "look", "description": "Looks", "input_schema": {"type": "object", "properties": {}}},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
    ]
    written = again(HI, tools=tools, tool_choice=choice)
    assert written["tools"] == tools
    assert written["tool_choice"] == choice


def test_blocks_survive() -> None:
    said = [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="},
        {"type": "text", "text": "looking"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"n": 9007199254740993}},
    ]
    shown = [
        {"type": "text", "text": "see"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "QUJD"}},
        {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "wörter"}},
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
    ]
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "blue"}]}
    thinking = {"type": "enabled", "budget_tokens": 2048}
    written = again(
        {"role": "user", "content": shown},
        {"role": "assistant", "content": said},
        {"role": "user", "content": [{**result, "is_error": True}, {"type": "text", "text": "go on"}]},
        thinking=thinking,
    )["messages"]
    assert written[0]["content"] == shown
    call = written[1]["content"].pop()
    assert written[1]["content"] == said[:-1]
    assert (call["name"], call["input"]) == ("look", {"n": 9007199254740993})
    answer, words = written[2]["content"]
    assert (answer["tool_use_id"], answer["is_error"], words["text"]) == (call["id"], True, "go on")


def test_turns_blocks_and_roles() -> None:
    parsed = read(
        {"role": "user", "content": "plain"},
        {"role": "system", "content": "brief"},
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}, {"type": "odd", "a": 1}]},
        {"role": "user", "content": [{"type": "image", "source": {"type": "odd"}}]},
    )
    human, brief, ai, last = parsed.conversation.turns
    assert human.blocks == (Text("plain"),)
    assert (brief.speaker, brief.role, brief.text) == ("system", "", "brief")
    assert isinstance(ai.blocks[0], Thinking) and ai.blocks[0].redacted and ai.blocks[0].encrypted == "x"
    assert isinstance(ai.blocks[1], Opaque) and ai.blocks[1].data == {"type": "odd", "a": 1}
    assert isinstance(last.blocks[0], Opaque)


def test_media_we_have_a_form_for() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "hi"}
    parsed = read({"role": "user", "content": [{"type": "document", "source": source, "title": "t"}]})
    (media,) = parsed.conversation.turns[0].blocks
    assert isinstance(media, Media)
    assert (media.mime, media.data) == ("text/plain", "aGk=")


def test_results_with_unknown_ids_find_their_calls_by_position() -> None:
    calls = [{"type": "tool_use", "id": f"toolu_{n}", "name": "f", "input": {}} for n in "ab"]
    strays = [{"type": "tool_result", "tool_use_id": f"lost_{n}", "content": n} for n in "ab"]
    ai, tool = read({"role": "assistant", "content": calls}, {"role": "user", "content": strays}).conversation.turns
    assert [response.call_id for response in tool.tool_responses] == [call.id for call in ai.tool_calls]
    one = read({"role": "assistant", "content": calls}, {"role": "user", "content": strays[:1]}).conversation.turns
    assert one[1].tool_responses[0].call_id not in [call.id for call in one[0].tool_calls]


def test_effort_alone_asks_for_no_thinking() -> None:
    options = read(HI, output_config={"effort": "low"}).options
    assert (options.effort, options.thinking, options.extra_body) == (None, None, {"output_config": {"effort": "low"}})


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"messages": 3}', b'{"messages": [3]}'])
def test_what_is_no_request_is_said_so(body: bytes) -> None:
    with pytest.raises(InvalidHistory):
        parse_request(body)
