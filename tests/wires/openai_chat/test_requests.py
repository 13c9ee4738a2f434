"""Recorded chat requests, read into a conversation and written again, say the same."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.core.blocks import Origin, Thinking
from midstream.core.dialect import Dialect, Limits, Reasoning
from midstream.core.errors import InvalidHistory
from midstream.wires.openai_chat.parse import parse_request, read_messages
from tests.wires.drafts import encode_draft
from tests.wires.recordings import recordings

# A host that takes everything, so that what is lost was lost by the reader or the writer.
ANY = Dialect(
    "any",
    "openai-chat",
    "any",
    reasoning=Reasoning(echo="always", default_on=True, details=True, fields=("reasoning_content", "reasoning")),
    media=("image", "audio", "video", "file"),
    tool_result_media="inline",
    strict_tools=True,
    limits=Limits(tool_name_pattern=r".+"),
)
EXCEPTIONS: dict[str, str] = {}


def same_ids(messages: list[Any]) -> list[Any]:
    """Ids by the order of their first sight; results without an id by position."""
    seen: dict[str, str] = {}
    for message in messages:
        for call in message.get("tool_calls") or ():
            call["id"] = seen.setdefault(call.get("id") or f"?{len(seen)}", f"#{len(seen)}")
        if message.get("role") in ("tool", "function"):
            last = list(seen.values())[-1] if seen else "#?"
            message["tool_call_id"] = seen.get(message.get("tool_call_id") or "", last)
    return messages


def plain(message: dict[str, Any]) -> dict[str, Any]:
    """One spelling for what says the same: a text part and a string, no content and blank content, no name and null."""
    said = {key: value for key, value in message.items() if value is not None and key not in ("annotations", "audio")}
    content = said.get("content")
    if isinstance(content, list):
        thinking = [inner["text"] for part in content if part.get("type") == "thinking" for inner in part["thinking"]]
        if thinking:
            said["reasoning_content"] = "".join(thinking)
        parts = [part for part in content if part.get("type") != "thinking"]
        if said["role"] in ("assistant", "tool") and all(part.get("type") == "text" for part in parts):
            joint = "" if said["role"] == "assistant" else "\n"
            content = joint.join(part["text"] for part in parts)
        else:
            content = [dict(part) for part in parts]
            if len(content) == 1 and set(content[0]) == {"type", "text"}:
                content = content[0]["text"]
        said["content"] = content
    content = said.get("content")
    if not content or (isinstance(content, str) and content.isspace()):
        said.pop("content", None)
    for field in ("reasoning", "reasoning_text"):
        if said.get(field):
            said.setdefault("reasoning_content", said[field])
        said.pop(field, None)
    if said.get("prefix") is False:
        said.pop("prefix")
    if said["role"] == "function":
        said["role"] = "tool"
    if said["role"] == "tool":
        said.pop("name", None)
    if said.get("tool_calls") == []:
        said.pop("tool_calls")
    for key in ("refusal", "function_call"):
        if not said.get(key):
            said.pop(key, None)
    calls = []
    for call in said.get("tool_calls") or ():
        inner = dict(call.get("function") or call.get("custom") or {})
        inner["arguments"] = inner.get("arguments") or "{}"
        calls.append({"id": call["id"], "function": inner, "extra": call.get("extra_content")})
    if calls:
        said["tool_calls"] = calls
    return said


def said(body: dict[str, Any]) -> dict[str, Any]:
    messages = json.loads(json.dumps(body["messages"]))
    head: list[str] = []
    while messages and messages[0].get("role") in ("system", "developer"):
        head.append(json.dumps(plain(messages.pop(0)).get("content", ""), sort_keys=True))
    spelled = [plain(message) for message in same_ids(messages)]
    for message in spelled:
        if message["role"] == "developer":
            message["role"] = "system"
    tools = [tool.get("function") or tool for tool in body.get("tools") or ()]
    choice = body.get("tool_choice")
    return {
        "system": "".join(head).replace('""', ""),
        "messages": [message for message in spelled if set(message) - {"role"}],
        "tools": [{key: tool.get(key) for key in ("name", "description") if tool.get(key)} for tool in tools],
        "tool_choice": {"any": "required"}.get(str(choice), choice) if body.get("tools") else None,
        "temperature": body.get("temperature"),
        "max_tokens": body.get("max_tokens") or body.get("max_completion_tokens"),
    }


def again(body: dict[str, Any]) -> dict[str, Any]:
    parsed = parse_request(msgspec.json.encode(body), provider="any")
    request = encode_draft(parsed.conversation, ANY, parsed.model, tools=parsed.tools, options=parsed.options)
    return json.loads(request.body)


def multi_turn() -> list[dict[str, Any]]:
    return [
        case
        for case in recordings("openai-chat", "kimi", "mistral-chat")
        if case["request"] and "multi_turn" in case["features"] and isinstance(case["request"].get("body"), dict)
    ]


def test_recorded_requests_survive_the_round_trip() -> None:
    cases = [case for case in multi_turn() if isinstance(case["request"]["body"].get("messages"), list)]
    assert len(cases) > (100 if any(not case.get("own") for case in cases) else 2)
    wrong = {
        case["id"]: (found, wanted)
        for case in cases
        if (found := said(again(case["request"]["body"]))) != (wanted := said(case["request"]["body"]))
    }
    unexplained = {name: pair for name, pair in wrong.items() if name not in EXCEPTIONS}
    assert not unexplained, "\n\n".join(f"{name}:\n{a}\n{b}" for name, (a, b) in unexplained.items())
    assert set(EXCEPTIONS) <= set(wrong), "an exception that is none any more"
    assert len(wrong) <= 0.02 * len(cases)


def test_reading_twice_gives_the_same_conversation() -> None:
    for case in multi_turn()[:20]:
        raw = msgspec.json.encode(case["request"]["body"])
        assert parse_request(raw) == parse_request(raw)


@pytest.mark.parametrize("body", [b"[]", b"{}", b'{"messages": 3}', b'{"messages": [3]}'])
def test_what_is_no_request_is_said_so(body: bytes) -> None:
    with pytest.raises(InvalidHistory):
        parse_request(body)


_JSON = st.recursive(
    st.none() | st.integers(-1, 9) | st.sampled_from(["user", "assistant", "tool", "text", "thinking", "function", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "role content type text thinking tool_calls function name arguments id custom image_url file".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
_REQUEST = st.fixed_dictionaries(
    {"messages": st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "tool"])}, optional={
        "content": _JSON, "tool_calls": _JSON, "function_call": _JSON, "reasoning_details": _JSON, "tool_call_id": _JSON,
    }), max_size=3)},
    optional={"stop": _JSON, "tools": _JSON, "tool_choice": _JSON, "model": _JSON},
)  # fmt: skip


@given(_REQUEST)
def test_a_request_of_any_shape_is_read(body: Any) -> None:
    parse_request(json.dumps(body).encode())


@pytest.mark.parametrize("thinking", ["hm", [{"type": "text", "text": "h"}, {"type": "text", "text": "m"}]])
def test_thinking_among_the_parts_is_read(thinking: Any) -> None:
    said = {"role": "assistant", "content": [{"type": "thinking", "thinking": thinking}]}
    (turn,) = read_messages([said], Origin(wire="openai-chat")).turns
    assert turn.blocks == (Thinking("hm", "thinking", origin=turn.origin),)


def test_results_without_an_id_find_their_call_by_position() -> None:
    conversation = read_messages(
        [
            {"role": "user", "content": "x"},
            {"role": "assistant", "tool_calls": [{"function": {"name": "f"}}, {"function": {"name": "g"}}]},
            {"role": "tool", "content": "1"},
            {"role": "tool", "content": "2", "name": "g"},
        ],
        Origin(wire="openai-chat"),
    )
    calls = conversation.turns[1].tool_calls
    assert [response.call_id for response in conversation.turns[2].tool_responses] == [call.id for call in calls]
    assert len({call.id for call in calls}) == 2
