"""The rules of the Ollama encoder, one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from midstream.core.blocks import Conversation, Media, Opaque, Origin, Text, ToolCall, ToolResponse, Turn, human
from midstream.core.dialect import Options
from midstream.core.errors import InvalidHistory
from midstream.core.tools import ToolSpec
from midstream.dialects.ollama import OLLAMA, OLLAMA_LEVELS
from midstream.sim.rules.hosts import judge
from midstream.wires.encode_context import EncodeContext
from midstream.wires.history_cache import HistoryCache
from midstream.wires.ollama.encode import OllamaWriter
from tests.conversations import PIXEL, Story, weather_story
from tests.wires.drafts import encode_draft

OWN = Origin("ollama", "ollama", "qwen3:4b")


def encode(conversation: Conversation, dialect: Any = OLLAMA, **fields: Any) -> Any:
    return encode_draft(conversation, dialect, "qwen3:4b", **fields)


def body(conversation: Conversation, **fields: Any) -> dict[str, Any]:
    written: dict[str, Any] = json.loads(encode(conversation, **fields).body)
    return written


def hello(**fields: Any) -> dict[str, Any]:
    return body(Conversation((human("hi"),)), **fields)


def test_a_history_with_calls() -> None:
    request = encode(weather_story(OWN, "hm").done())
    assert json.loads(request.body)["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather and time in Oslo?"},
        {
            "role": "assistant",
            "content": "Let me look.",
            "thinking": "hm",
            "tool_calls": [
                {"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}},
                {"function": {"name": "get_time", "arguments": {"city": "Oslo"}}},
            ],
        },
        {"role": "tool", "content": "12 C", "tool_name": "get_weather"},
        {"role": "tool", "content": "14:02", "tool_name": "get_time"},
        {"role": "assistant", "content": "12 C, 14:02.", "thinking": "hm"},
        {"role": "user", "content": "And in Rome?"},
    ]
    assert request.path == "/api/chat" and request.notes == ()


def test_results_stand_in_call_order_whatever_the_history_says() -> None:
    calls = (ToolCall("hist_tool_1", "f"), ToolCall("hist_tool_2", "f"))
    results = (ToolResponse("hist_tool_2", "", (Text("2"),)), ToolResponse("hist_tool_1", "", (Text("1"),)))
    turns = (human("x", key="a"), Turn("ai", calls, key="b"), Turn("tool", results, key="c"))
    messages = body(Conversation(turns))["messages"]
    assert [(m["content"], m["tool_name"]) for m in messages[-2:]] == [("1", "f"), ("2", "f")]


def test_foreign_thinking_is_dropped_kept_or_told() -> None:
    story = Story().says("x").answers("a", thinking="hm").says("y").done()
    assert body(story)["messages"][1] == {"role": "assistant", "content": "a"}
    assert [str(note) for note in encode(story).notes] == [
        "dropped thinking (turn 1): reasoning belongs to model-x; not sent to other models"
    ]
    assert body(story, options=Options(foreign_thinking="text"))["messages"][1]["content"] == "hm\n\na"
    assert body(story, options=Options(foreign_thinking="keep"))["messages"][1]["thinking"] == "hm"


def test_the_strict_double_takes_a_foreign_history() -> None:
    assert judge(encode(weather_story(thinking="hm").done()).body, "ollama", "paranoid") == []


def test_images_travel_as_bare_base64() -> None:
    url = Media("image/*", url=f"data:image/png;base64,{PIXEL}")
    written = body(Conversation((human("look", Media("image/png", data="QUJD"), url),)))["messages"]
    assert written == [{"role": "user", "content": "look", "images": ["QUJD", PIXEL]}]


@pytest.mark.parametrize(
    "media", [Media("image/png", url="https://a/b", name="b"), Media("audio/mp3", data="QUJD", name="b")]
)
def test_other_media_leave_a_line(media: Media) -> None:
    request = encode(Conversation((human("look", media),)))
    assert json.loads(request.body)["messages"][0]["content"] == f"look\n[{media.kind} omitted: b]"
    assert [(note.action, note.what) for note in request.notes] == [("dropped", "media")]


def test_images_of_results_follow_behind_them() -> None:
    story = Story().says("x").answers("", ("f", "{}"), ("g", "{}")).results(Media("image/png", data=PIXEL), "ok")
    messages = body(story.done())["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert messages[-1]["images"] == [PIXEL]


def test_a_failed_result_says_so() -> None:
    story = Story().says("x").answers("", ("f", "{}"), ("g", "{}")).results("bad", "Error: worse", error=True)
    assert [m["content"] for m in body(story.done())["messages"][-2:]] == ["Error: bad", "Error: worse"]


def test_instructions_inside_are_sent_in_the_users_name() -> None:
    turn = replace(human("be brief", key="b"), role="developer")
    message = body(Conversation((human("hi", key="a"), turn)))["messages"][1]
    assert message == {"role": "user", "content": "<system-instruction>\nbe brief\n</system-instruction>"}


def test_what_has_no_form_leaves_a_note() -> None:
    turns = (
        human("hi", key="a"),
        Turn("ai", (Opaque("x", {}, OWN), Text("a")), key="b", origin=OWN),
        human("yo", key="c"),
    )
    assert [note.what for note in encode(Conversation(turns)).notes] == ["opaque"]


def test_large_integers_stay_exact_and_other_arguments_are_wrapped() -> None:
    story = Story().says("x").answers("", ("f", '{"n": 9007199254740993}'), ("g", "[1]")).results("1", "2")
    written = encode(story.done()).body
    assert b'"arguments":{"n": 9007199254740993}' in written
    assert b'"arguments":{"_raw":"[1]"}' in written


def test_options() -> None:
    options = Options(
        max_tokens=9, temperature=0.5, top_p=0.9, stop=("a",), seed=3, stream=False,
        response_format={"type": "json_schema", "json_schema": {"schema": {"type": "object"}}},
        extra_body={"options": {"num_ctx": 64}, "keep_alive": 0},
    )  # fmt: skip
    written = hello(options=options)
    assert written["options"] == {
        "num_predict": 9, "temperature": 0.5, "top_p": 0.9, "stop": ["a"], "seed": 3, "num_ctx": 64,
    }  # fmt: skip
    assert (written["stream"], written["format"], written["keep_alive"]) == (False, {"type": "object"}, 0)
    assert hello(options=Options(response_format={"type": "json_object"}))["format"] == "json"
    assert hello() == {"model": "qwen3:4b", "stream": True, "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize(
    ("dialect", "options", "wanted"),
    [
        (OLLAMA, Options(), None),
        (OLLAMA, Options(thinking="on"), True),
        (OLLAMA, Options(thinking="off"), False),
        (OLLAMA, Options(effort="high"), True),
        (OLLAMA, Options(effort="none"), False),
        (OLLAMA_LEVELS, Options(effort="max"), "high"),
        (OLLAMA_LEVELS, Options(thinking="on"), True),
        (OLLAMA_LEVELS, Options(thinking="off"), None),
    ],
)
def test_thinking(dialect: Any, options: Options, wanted: Any) -> None:
    assert hello(dialect=dialect, options=options).get("think") == wanted


def test_tools_and_choices() -> None:
    tools = [ToolSpec("my tool", "Does.", {"type": "object", "properties": {}}), ToolSpec("$s", builtin="$s")]
    request = encode(Conversation((human("hi"),)), tools=tools, options=Options(tool_choice="required"))
    parameters = {"type": "object", "properties": {}}
    assert json.loads(request.body)["tools"] == [
        {"type": "function", "function": {"name": "my_tool_ba077b42", "description": "Does.", "parameters": parameters}}
    ]
    assert request.tool_names == {"my_tool_ba077b42": "my tool"}
    told = [note.code for note in request.notes]
    assert told == ["tool_choice_changed", "tool_renamed", "foreign_builtin"]
    asked = encode(Conversation((human("hi"),)), tools=tools[:1], options=Options(parallel_tool_calls=True))
    assert any("parallel_tool_calls" in note.why for note in asked.notes)
    assert "tools" not in hello(tools=tools, options=Options(tool_choice="none"))


def test_an_empty_conversation_is_refused() -> None:
    with pytest.raises(InvalidHistory):
        encode(Conversation())


def test_a_cached_history_is_written_as_a_fresh_one() -> None:
    cache = HistoryCache()
    whole = weather_story(OWN, "hm").answers("", ("f", "{}")).results("1").answers("done").says("more").done()
    for length in range(1, len(whole.turns) + 1):
        part = replace(whole, turns=whole.turns[:length])
        cached, fresh = encode(part, cache=cache), encode(part)
        assert (cached.body, cached.notes) == (fresh.body, fresh.notes), length


def test_an_answer_that_says_nothing_here_is_left_out() -> None:
    story = Story().says("x").answers("", thinking="hm").says("y")
    assert [message["content"] for message in body(story.done())["messages"]] == ["x", "y"]


def test_a_writer_says_how_much_it_holds() -> None:
    """Or the cache would keep more than it may."""
    writer = OllamaWriter(EncodeContext(OLLAMA, Options(), "m"))
    writer.write(weather_story().done().turns, 0)
    assert writer.size == sum(map(len, writer.messages))
