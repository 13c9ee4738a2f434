"""Model messages of the AI SDK: what they say, and that a conversation comes back from them as it was."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream import (
    Conversation,
    Media,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResponse,
    ToolSpec,
    Turn,
    human,
    tool_result,
)
from midstream.adapters.ai_sdk import from_model_messages, to_model_messages
from midstream.core.blocks import Origin, Usage
from midstream.core.errors import InvalidHistory
from midstream.core.ids import anthropic_strategy, canonical_tool_call_id, kimi_strategy, mistral_strategy

CALL = ToolCall(canonical_tool_call_id("p", "x", "read_file", "t", 0), "read_file", '{"path": "a"}', "x", "p")
ORIGIN = Origin("moonshot", "openai-chat", "kimi-k2.5")


def conversation(*turns: Turn, system: Any = "") -> Conversation:
    return Conversation(turns, system)


TALK = conversation(
    human("list files", key="h"),
    Turn("ai", (Thinking("hm", "reasoning_content", origin=ORIGIN), Text("ok"), CALL), key="a", origin=ORIGIN),
    Turn("tool", (tool_result(CALL, "a.txt"),), key="r"),
    system="be brief",
)


def test_what_the_format_says() -> None:
    call_id = "call_" + CALL.id.removeprefix("hist_tool_")
    assert to_model_messages(TALK, private=False) == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "list files"},
        {
            "role": "assistant",
            "content": [
                {"type": "reasoning", "text": "hm"},
                {"type": "text", "text": "ok"},
                {"type": "tool-call", "toolCallId": call_id, "toolName": "read_file", "input": {"path": "a"}},
            ],
        },
        {
            "role": "tool",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": call_id,
                    "toolName": "read_file",
                    "output": {"type": "text", "value": "a.txt"},
                }
            ],
        },
    ]


def test_ids_come_from_the_given_scheme_or_mapper() -> None:
    for ids in (kimi_strategy, kimi_strategy.create_mapper(TALK.turns)):
        messages = to_model_messages(TALK, ids)
        assert messages[2]["content"][2]["toolCallId"] == "functions.read_file:0"
        assert messages[3]["content"][0]["toolCallId"] == "functions.read_file:0"
        assert from_model_messages(messages) == TALK


@pytest.mark.parametrize(
    ("response", "output"),
    [
        (tool_result(CALL, "no", is_error=True), {"type": "error-text", "value": "no"}),
        (
            ToolResponse(CALL.id, content=(Text('{"a":1}'),), extra={"output": "json"}),
            {"type": "json", "value": {"a": 1}},
        ),
        (
            ToolResponse(CALL.id, content=(Text("[1]"),), is_error=True, extra={"output": "json"}),
            {"type": "error-json", "value": [1]},
        ),
        (tool_result(CALL, '{"a":1}'), {"type": "text", "value": '{"a":1}'}),
        (tool_result(CALL), {"type": "content", "value": []}),
        (
            tool_result(CALL, "see", Media("image/png", "QQ==")),
            {
                "type": "content",
                "value": [{"type": "text", "text": "see"}, {"type": "media", "data": "QQ==", "mediaType": "image/png"}],
            },
        ),
    ],
)
def test_results(response: ToolResponse, output: dict[str, Any]) -> None:
    turns = (human("q", key="h"), Turn("ai", (CALL,), key="a"), Turn("tool", (response,), key="r"))
    messages = to_model_messages(conversation(*turns))
    assert messages[2]["content"][0]["output"] == output
    back = from_model_messages(messages).turns[2].tool_responses[0]
    assert (back.content, back.is_error, back.extra) == (response.content, response.is_error, response.extra)


def test_files() -> None:
    turn = human("see", Media("image/png", "QQ=="), Media("application/pdf", "QQ==", name="a.pdf"), key="h")
    _, image, file = to_model_messages(conversation(turn))[0]["content"]
    assert image == {"type": "image", "image": "QQ==", "mediaType": "image/png"}
    assert file == {"type": "file", "data": "QQ==", "mediaType": "application/pdf", "filename": "a.pdf"}


def test_a_front_ends_changes_win() -> None:
    messages = to_model_messages(TALK)
    messages[1]["content"] = "list dirs"
    parts = messages[2]["content"]
    parts[0]["text"], parts[1]["text"], parts[2]["input"] = "edited", "fine", {"path": "b"}
    messages[3]["content"][0]["output"] = {"type": "error-text", "value": "gone"}
    back = from_model_messages(messages)
    assert (back.turns[0].text, back.turns[1].thinking, back.turns[1].text) == ("list dirs", "edited", "fine")
    assert json.loads(back.turns[1].tool_calls[0].arguments) == {"path": "b"}
    assert (back.turns[2].tool_responses[0].text, back.turns[2].tool_responses[0].is_error) == ("gone", True)
    assert back.turns[1].tool_calls[0].id == CALL.id


def test_a_result_a_front_end_adds_finds_its_call() -> None:
    messages = to_model_messages(conversation(*TALK.turns[:2]), kimi_strategy)
    result = {"type": "tool-result", "toolCallId": "functions.read_file:0", "toolName": "read_file",
              "output": {"type": "json", "value": {"files": []}}}  # fmt: skip
    back = from_model_messages([*messages, {"role": "tool", "content": [result]}])
    assert back.turns[2].tool_responses[0].call_id == CALL.id


def test_a_strangers_messages_become_canonical() -> None:
    call = {"type": "tool-call", "toolCallId": "functions.f:0", "toolName": "f", "input": {}}
    result = {
        "type": "tool-result",
        "toolCallId": "functions.f:0",
        "toolName": "f",
        "output": {"type": "text", "value": "1"},
    }
    options = {"anthropic": {"cacheControl": {"type": "ephemeral"}}}
    ask = {"type": "tool-approval-request", "approvalId": "1", "toolCallId": "functions.f:0"}
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "q", "providerOptions": options}]},
        {"role": "assistant", "content": [call, ask]},
        {"role": "tool", "content": [result]},
        {"role": "assistant", "content": [call]},
        {"role": "tool", "content": [result]},
        {"role": "system", "content": "later"},
        {"role": "assistant", "content": "done"},
    ]
    read = from_model_messages(messages, "web")
    first, second = read.turns[1].tool_calls[0], read.turns[3].tool_calls[0]
    assert (read.system, first.raw_id, read.turns[5].speaker) == ("s", "functions.f:0", "system")
    assert first.id != second.id
    assert read.turns[2].tool_responses[0].call_id == first.id
    assert read.turns[4].tool_responses[0].call_id == second.id
    again = to_model_messages(read, kimi_strategy, private=False)
    assert again[2]["content"][1] == ask
    assert again[1] == messages[1]
    assert [message["role"] for message in again] == [message["role"] for message in messages]
    assert again[4]["content"][0]["toolCallId"] == "functions.f:1"


@pytest.mark.parametrize("messages", [[{"role": "robot"}], [{}], ["hi"]])
def test_what_is_no_message_is_refused(messages: Any) -> None:
    with pytest.raises(InvalidHistory):
        from_model_messages(messages)


_TEXT = st.text(max_size=6)
# Of every kind and nested in every other one. A table: to draw such values by recursion took ten times as long as the tests.
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -9, 9, [], [None], [[]], ["a", 1], [{"text": "t"}], [{}, ""], {}, {"a": None}, {"": {"a": [1]}},
    {"type": "text"}, {"type": "text", "value": "v"}, {"id": "x", "b": False}, {"text": "t", "a": [True, "\u6c34"]}, {"a": {}, "b": []},
)  # fmt: skip
_JSON = st.sampled_from(_VALUES).map(copy.deepcopy) | _TEXT
_EXTRA = st.none() | st.fixed_dictionaries(
    {}, optional={"a": _JSON, "text": _JSON, "item": st.just({"id": "rs_1"})}
).map(lambda found: found or None)
_ORIGINS = st.none() | st.just(ORIGIN)
_TEXTS = st.builds(Text, _TEXT, _EXTRA)
_MEDIA = st.builds(
    Media,
    st.sampled_from(["image/png", "image/*", "", "application/pdf", "audio/wav"]),
    st.none() | st.just("QQ=="),
    st.none() | st.sampled_from(["https://x/y", "file-1"]),
    st.none() | st.just("name"),
    _EXTRA,
)
_OPAQUE = st.builds(Opaque, st.just("web_search_call"), _JSON, _ORIGINS)
_THINKING = st.builds(
    Thinking,
    _TEXT,
    st.sampled_from(["", "reasoning"]),
    st.none() | _TEXT,
    st.none() | _TEXT,
    st.booleans(),
    _ORIGINS,
    _EXTRA,
)
_ARGUMENTS = st.one_of(_TEXT, _JSON.map(json.dumps), st.just('{"a":1}'), st.just('{ "a" : 1 }'))


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    turns: list[Turn] = []
    for number in range(draw(st.integers(0, 4))):
        key = f"k{number}"
        shape = draw(st.sampled_from(["human", "system", "ai", "calls"]))
        if shape == "human":
            blocks = draw(st.lists(_TEXTS | _MEDIA | _OPAQUE, max_size=3))
            turns.append(Turn("human", tuple(blocks), key=key, extra=draw(_EXTRA)))
        elif shape == "system":
            turns.append(Turn("human", (draw(_TEXTS),), key=key, role=draw(st.sampled_from(["system", "developer"]))))
        else:
            said = draw(st.lists(_TEXTS | _MEDIA | _OPAQUE | _THINKING, max_size=3))
            calls = []
            if shape == "calls":
                for place in range(draw(st.integers(1, 3))):
                    call_id = canonical_tool_call_id("p", None, "f", key, place)
                    calls.append(ToolCall(call_id, "f", draw(_ARGUMENTS), draw(st.none() | _TEXT), "p", draw(_EXTRA)))
            usage = draw(st.none() | st.builds(Usage, st.integers(0, 9), st.integers(0, 9)))
            turns.append(
                Turn(
                    "ai",
                    (*said, *calls),
                    key=key,
                    origin=draw(_ORIGINS),
                    usage=usage,
                    stop_reason="x",
                    extra=draw(_EXTRA),
                )
            )
            if calls:
                found = []
                for call in calls:
                    content = tuple(draw(st.lists(_TEXTS | _MEDIA | _OPAQUE, max_size=2)))
                    extra = draw(_EXTRA | st.just({"output": "json"}) | st.just({"output": "denied"}))
                    found.append(ToolResponse(call.id, "f", content, draw(st.booleans()), extra=extra))
                turns.append(Turn("tool", tuple(found), key=f"{key}r"))
    system = draw(_TEXT | st.lists(_TEXTS, min_size=2, max_size=3).map(tuple))
    return Conversation(tuple(turns), system)


_STRATEGIES = st.sampled_from([kimi_strategy, anthropic_strategy, mistral_strategy])


@settings(max_examples=200, deadline=None)
@given(conversations(), _STRATEGIES)
def test_a_conversation_comes_back_as_it_was_and_its_ids_are_unique(talk: Conversation, ids: Any) -> None:
    """Both of each conversation: to draw one takes longer than to write it."""
    messages = to_model_messages(talk, ids)
    assert from_model_messages(json.loads(json.dumps(messages))) == talk
    parts = [
        part
        for message in to_model_messages(talk, ids, private=False)
        if isinstance(message["content"], list)
        for part in message["content"]
    ]
    calls = [part["toolCallId"] for part in parts if part["type"] == "tool-call"]
    assert calls == [part["toolCallId"] for part in parts if part["type"] == "tool-result"]
    assert len(set(calls)) == len(calls)


_PART = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "reasoning", "image", "file", "tool-call", "tool-result", "new"]) | _JSON},
    optional={
        "text": _JSON, "image": _JSON, "data": _JSON, "mediaType": _JSON, "toolCallId": _JSON, "toolName": _JSON,
        "input": _JSON, "output": _JSON | st.fixed_dictionaries({"type": st.just("content"), "value": _JSON}),
        "providerOptions": _JSON | st.fixed_dictionaries({"midstream": _JSON | st.fixed_dictionaries(
            {}, optional={"id": _JSON, "extra": _JSON, "held": _JSON, "turn": _JSON, "block": _JSON, "arguments": _JSON})}),
    },
)  # fmt: skip
_MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "system", "assistant", "tool"])},
    optional={"content": _JSON | st.lists(_PART, max_size=3), "providerOptions": _JSON},
)


@settings(max_examples=200, deadline=None)
@given(st.lists(_MESSAGE, max_size=4))
def test_messages_of_any_shape_read_or_are_refused(messages: list[dict[str, Any]]) -> None:
    try:
        read = from_model_messages(messages)
    except InvalidHistory:
        return
    to_model_messages(read)


SYSTEM_TURNS = {
    "one text": Turn("system", ["a"], key="s"),
    "a developer's": Turn("system", ["a"], key="s", role="developer"),
    "with tools": Turn("system", ["a"], key="s", tools=(ToolSpec("f", kind="freeform", namespace="n"),)),
    "two texts": Turn("system", ["a", Text("b", {"cache_control": {"type": "ephemeral"}})], key="s"),
    "of an older version": Turn("human", ["a"], key="s", role="system"),
    "with a picture": Turn("system", ["a", Media("image/png", data="aaaa")], key="s"),
}


@pytest.mark.parametrize("name", SYSTEM_TURNS)
def test_a_system_turn_comes_back_as_it_was(name: str) -> None:
    conversation = Conversation((human("q", key="q"), SYSTEM_TURNS[name]))
    messages = to_model_messages(conversation)
    assert from_model_messages(messages).turns == conversation.turns
    bare = to_model_messages(conversation, private=False)[1]
    assert bare["role"] == ("user" if name == "with a picture" else "system")
