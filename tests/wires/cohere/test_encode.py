"""The rules of the Cohere encoder, one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from midstream.core.blocks import (
    Conversation,
    Media,
    Opaque,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResponse,
    Turn,
    human,
)
from midstream.core.dialect import Options
from midstream.core.errors import InvalidHistory
from midstream.core.tools import ToolSpec
from midstream.dialects.cohere import COMMAND_A, COMMAND_REASONING, COMMAND_VISION
from midstream.sim.rules.hosts import host_for, judge
from midstream.wires.cohere.encode import CohereWriter
from midstream.wires.encode_context import EncodeContext
from midstream.wires.history_cache import HistoryCache
from tests.conversations import PIXEL, Story, weather_story
from tests.wires.drafts import encode_draft

OWN = Origin("cohere", "cohere", "command-a-03-2025")
TOOLS = (ToolSpec("look", "Looks."), ToolSpec("read-file", "Reads."))


def encode(conversation: Conversation, dialect: Any = COMMAND_A, **fields: Any) -> Any:
    request = encode_draft(conversation, dialect, "command-a-03-2025", **fields)
    assert judge(request.body, host_for(dialect), "paranoid") == []
    return request


def body(conversation: Conversation, dialect: Any = COMMAND_A, **fields: Any) -> dict[str, Any]:
    written: dict[str, Any] = json.loads(encode(conversation, dialect, **fields).body)
    return written


def hello(dialect: Any = COMMAND_A, **fields: Any) -> dict[str, Any]:
    return body(Conversation((human("hi"),)), dialect, **fields)


def codes(request: Any) -> list[str]:
    return [note.code for note in request.notes]


def answer(*blocks: Any, calls: bool = False) -> Conversation:
    """A question, an answer of these blocks, and what follows it."""
    made = (*blocks, ToolCall("hist_tool_1", "look", "{}")) if calls else blocks
    result = (Turn("tool", (ToolResponse("hist_tool_1", "look", (Text("ok"),)),), key="c"),) if calls else ()
    return Conversation((human("x", key="a"), Turn("ai", made, key="b", origin=OWN), *result, human("y", key="d")))


def thought(text: str, field: str, origin: Origin | None = OWN) -> Thinking:
    return Thinking(text, field, origin=origin)


def test_a_history_with_calls() -> None:
    request = encode(weather_story(OWN).done())
    messages = json.loads(request.body)["messages"]
    ids = [call.pop("id") for call in messages[2]["tool_calls"]]
    assert [message.pop("tool_call_id") for message in messages[3:5]] == ids and len(set(ids)) == 2
    assert messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather and time in Oslo?"},
        {
            "role": "assistant",
            "tool_plan": "Let me look.",
            "tool_calls": [
                {"type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'}},
                {"type": "function", "function": {"name": "get_time", "arguments": '{"city": "Oslo"}'}},
            ],
        },
        {"role": "tool", "content": "12 C"},
        {"role": "tool", "content": "14:02"},
        {"role": "assistant", "content": "12 C, 14:02."},
        {"role": "user", "content": "And in Rome?"},
    ]
    assert (request.path, codes(request)) == ("/v2/chat", ["misplaced_block"])


PLAN, THOUGHT = thought("plan", "tool_plan"), thought("hm", "thinking")
SAID: dict[str, tuple[Any, Options, tuple[Any, ...], dict[str, Any]]] = {
    # name -> reader, options, blocks beside a call, what the assistant message carries beside it
    "a plan goes back as it came": (COMMAND_A, Options(), (PLAN,), {"tool_plan": "plan"}),
    "and to a reader that thinks": (COMMAND_REASONING, Options(), (PLAN,), {"tool_plan": "plan"}),
    "text joins the plan": (COMMAND_A, Options(), (PLAN, Text("So.")), {"tool_plan": "plan\n\nSo."}),
    "white space is no plan": (COMMAND_A, Options(), (Text(" "),), {}),
    "thinking goes back to a reader that thinks": (COMMAND_REASONING, Options(), (THOUGHT,), {"thinking": "hm"}),
    "text joins it": (COMMAND_REASONING, Options(), (THOUGHT, Text("So.")), {"thinking": "hm\n\nSo."}),
    "thinking is a plan for one that does not": (COMMAND_A, Options(), (THOUGHT,), {"tool_plan": "hm"}),
    "or is told not to": (COMMAND_REASONING, Options(thinking="off"), (THOUGHT,), {"tool_plan": "hm"}),
    "or to make no effort": (COMMAND_REASONING, Options(effort="none"), (THOUGHT,), {"tool_plan": "hm"}),
    "a model that cannot think is not made to": (COMMAND_A, Options(thinking="on"), (THOUGHT,), {"tool_plan": "hm"}),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_what_is_said_beside_calls(name: str) -> None:
    dialect, options, blocks, wanted = SAID[name]
    message = body(answer(*blocks, calls=True), dialect, options=options)["messages"][1]
    thinking = {"thinking": message["content"][0]["thinking"]} if "content" in message else {}
    plan = {"tool_plan": message["tool_plan"]} if "tool_plan" in message else {}
    assert {**thinking, **plan} == wanted
    assert len(message.get("content", [1])) == 1


def test_without_calls_thinking_stands_before_the_text_and_a_plan_nowhere() -> None:
    history = answer(PLAN, THOUGHT, Text("a"))
    assert body(history)["messages"][1] == {"role": "assistant", "content": "a"}
    assert body(history, COMMAND_REASONING)["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "a"},
    ]
    assert body(history, COMMAND_REASONING, options=Options(thinking="off"))["messages"][1]["content"] == "a"


def test_foreign_thinking_is_dropped_kept_or_told() -> None:
    alien = thought("hm", "reasoning_content", Origin("deepseek", "openai-chat", "model-x"))
    assert [str(note) for note in encode(answer(alien, Text("a"))).notes] == [
        "dropped thinking (turn 1): reasoning belongs to model-x; not sent to other models"
    ]
    assert body(answer(alien, Text("a")))["messages"][1]["content"] == "a"
    assert "tool_plan" not in body(answer(alien, calls=True))["messages"][1]
    as_text, kept = Options(foreign_thinking="text"), Options(foreign_thinking="keep")
    assert body(answer(alien, Text("a")), options=as_text)["messages"][1]["content"] == "hm\n\na"
    assert body(answer(alien, calls=True), options=as_text)["messages"][1]["tool_plan"].strip() == "hm"
    assert body(answer(alien, calls=True), options=kept)["messages"][1]["tool_plan"] == "hm"
    assert (
        body(answer(alien, Text("a")), COMMAND_REASONING, options=kept)["messages"][1]["content"][0]["thinking"] == "hm"
    )
    assert codes(encode(answer(alien, Text("a")), options=kept)) == ["reasoning_not_accepted"]


def test_images_go_only_to_a_model_that_reads_them() -> None:
    look = Conversation((human("look", Media("image/png", data=PIXEL), Media("image/*", url="https://a/b")),))
    assert body(look, COMMAND_VISION)["messages"][0]["content"][1:] == [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "image_url", "image_url": {"url": "https://a/b"}},
    ]
    assert {part["type"] for part in body(look)["messages"][0]["content"]} == {"text"}
    assert codes(encode(look)) == ["unsupported_media"] * 2


def test_images_of_results_follow_behind_them() -> None:
    story = Story().says("x").answers("", ("f", "{}"), ("g", "{}")).results(Media("image/png", data=PIXEL), "ok")
    messages = body(story.done(), COMMAND_VISION)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert [part["type"] for part in messages[-1]["content"]] == ["text", "image_url"]


def test_documents_of_results_go_back_as_they_came() -> None:
    part = {"type": "document", "document": {"id": "1", "data": {"text": "x"}}}
    story = Story(OWN).says("x").answers("", ("f", "{}")).results("ok")
    story.turns[-1] = replace(
        story.turns[-1], blocks=(replace(story.turns[-1].blocks[0], content=(Opaque("part", part, OWN), Text("t"))),)
    )
    assert body(story.done())["messages"][-1]["content"] == [part, {"type": "text", "text": "t"}]


def test_a_failed_result_says_so() -> None:
    story = Story().says("x").answers("", ("f", "{}"), ("g", "{}")).results("bad", "Error: worse", error=True)
    assert [m["content"] for m in body(story.done())["messages"][-2:]] == ["Error: bad", "Error: worse"]


def test_instructions_inside_are_sent_in_the_users_name() -> None:
    turn = replace(human("be brief", key="b"), role="developer")
    message = body(Conversation((human("hi", key="a"), turn)))["messages"][1]
    assert message == {"role": "user", "content": "<system-instruction>\nbe brief\n</system-instruction>"}


def test_what_has_no_form_leaves_a_note() -> None:
    history = answer(Opaque("x", {}, OWN), Opaque("citations", [{}], OWN), Text("a"))
    assert codes(encode(history)) == ["foreign_block", "foreign_citations"]


def test_arguments_that_are_no_object_are_wrapped() -> None:
    story = (
        Story()
        .says("x")
        .answers("", ("f", '{"n": 9007199254740993}'), ("g", "[1]"), ("h", "null"))
        .results("1", "2", "3")
    )
    calls = body(story.done())["messages"][1]["tool_calls"]
    assert [call["function"]["arguments"] for call in calls] == ['{"n": 9007199254740993}', '{"_raw":"[1]"}', "{}"]


def test_tools_are_renamed_where_a_name_is_refused() -> None:
    request = encode(Conversation((human("hi"),)), tools=TOOLS)
    first, second = [tool["function"]["name"] for tool in json.loads(request.body)["tools"]]
    assert first == "look" and second.startswith("read_file_")
    assert request.tool_names == {second: "read-file"}
    assert codes(request) == ["tool_renamed"]


@pytest.mark.parametrize(
    ("choice", "said", "tools"),
    [(None, None, 2), ("auto", None, 2), ("none", "NONE", 2), ("required", "REQUIRED", 2), ("look", "REQUIRED", 1), ("other", None, 2)],
)  # fmt: skip
def test_tool_choices(choice: str | None, said: str | None, tools: int) -> None:
    written = hello(tools=TOOLS, options=Options(tool_choice=choice))
    assert (written.get("tool_choice"), len(written["tools"])) == (said, tools)


def test_an_id_that_spells_the_name_spells_the_one_that_was_declared() -> None:
    story = Story().says("x").answers("", ("read-file", "{}")).results("ok").done()
    written = body(story, options=Options(tool_format="kimi"), tools=TOOLS)
    call = written["messages"][1]["tool_calls"][0]
    assert call["id"] == f"functions.{call['function']['name']}:0" == written["messages"][2]["tool_call_id"]


def test_no_tools_no_choice() -> None:
    assert not {"tools", "tool_choice"} & hello(options=Options(tool_choice="required")).keys()
    built_in = ToolSpec("search", builtin="web_search")
    request = encode(Conversation((human("hi"),)), tools=(built_in,), options=Options(parallel_tool_calls=True))
    assert codes(request) == ["unsupported_option", "foreign_builtin"]
    assert "tools" not in json.loads(request.body)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (Options(), None),
        (Options(thinking="on"), {"type": "enabled"}),
        (Options(thinking="off"), {"type": "disabled"}),
        (Options(effort="none"), {"type": "disabled"}),
        (Options(effort="high"), None),
        (Options(thinking_budget=900), {"type": "enabled", "token_budget": 900}),
        (Options(thinking="off", thinking_budget=900), {"type": "disabled"}),
    ],
)
def test_thinking(options: Options, said: Any) -> None:
    assert hello(COMMAND_REASONING, options=options).get("thinking") == said
    assert "thinking" not in hello(options=options)


def test_a_model_that_does_not_think_and_an_effort_leave_a_note() -> None:
    hi = Conversation((human("hi"),))
    assert codes(encode(hi, options=Options(thinking="on"))) == ["unsupported_option"]
    assert codes(encode(hi, COMMAND_REASONING, options=Options(effort="high"))) == ["unsupported_option"]
    assert codes(encode(hi, options=Options(thinking="off"))) == []


def test_sampling_has_its_own_names_and_ranges() -> None:
    options = Options(
        max_tokens=9, temperature=0.5, top_p=0.5, seed=7, presence_penalty=0.1, frequency_penalty=0.2, stop=("a",)
    )
    written = hello(options=options)
    assert {key: value for key, value in written.items() if key not in ("model", "messages", "stream")} == {
        "max_tokens": 9, "temperature": 0.5, "p": 0.5, "seed": 7, "presence_penalty": 0.1, "frequency_penalty": 0.2,
        "stop_sequences": ["a"],
    }  # fmt: skip
    wide = Options(top_p=1.0, presence_penalty=-1.0, frequency_penalty=2.0, stop=tuple("abcdef"), max_tokens=99_999)
    request = encode(Conversation((human("hi"),)), options=wide)
    written = json.loads(request.body)
    assert [written[name] for name in ("p", "presence_penalty", "frequency_penalty", "max_tokens")] == [
        0.99,
        0,
        1,
        8000,
    ]
    assert written["stop_sequences"] == list("abcde")
    assert codes(request) == ["max_tokens_changed", *["option_changed"] * 3, "unsupported_option"]


def test_an_answer_in_json() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    asked = Options(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})
    assert hello(options=asked)["response_format"] == {"type": "json_object", "json_schema": schema}
    plain = Options(response_format={"type": "json_object"})
    assert hello(options=plain)["response_format"] == {"type": "json_object"}
    request = encode(Conversation((human("hi"),)), tools=TOOLS[:1], options=asked)
    assert "response_format" not in json.loads(request.body) and codes(request) == ["unsupported_option"]


def test_the_callers_own_fields_go_last() -> None:
    own = {"k": 3, "documents": [{"data": {"text": "x"}}], "thinking": {"token_budget": 7}}
    written = hello(COMMAND_REASONING, options=Options(extra_body=own, thinking="on"))
    assert (written["k"], written["documents"]) == (3, own["documents"])
    assert written["thinking"] == {"type": "enabled", "token_budget": 7}


def test_streams_and_prefills() -> None:
    assert [hello(options=Options(stream=stream))["stream"] for stream in (True, False)] == [True, False]
    request = encode(Conversation((human("hi"),)), options=Options(prefill="So"))
    assert len(json.loads(request.body)["messages"]) == 1 and codes(request) == ["unsupported_option"]


def test_an_empty_conversation_is_refused() -> None:
    with pytest.raises(InvalidHistory):
        encode_draft(Conversation(()), COMMAND_A, "m")


def test_nothing_is_said_that_was_not_asked_for() -> None:
    messages = [{"role": "user", "content": "hi"}]
    assert hello() == {"model": "command-a-03-2025", "stream": True, "messages": messages}
    assert body(Conversation((human("", "hi"),)))["messages"] == messages


def test_blank_turns_are_left_out() -> None:
    story = Story(OWN).says("x").answers("", thinking="hm").says(" ").answers("a").says("y")
    assert [message["content"] for message in body(story.done())["messages"]] == ["x", "a", "y"]


def test_the_history_is_kept_apart_where_thinking_changes_it() -> None:
    """Thinking that is turned off, or on again, must not go by what was written before."""
    cache, history = HistoryCache(), answer(THOUGHT, calls=True)
    for options in (
        Options(),
        Options(thinking="off"),
        Options(effort="none"),
        Options(effort="low"),
        Options(tool_format="kimi"),
        Options(),
    ):
        cached = encode(history, COMMAND_REASONING, options=options, cache=cache)
        assert cached.body == encode(history, COMMAND_REASONING, options=options).body


def test_a_writer_says_how_much_it_holds() -> None:
    """Or the cache would keep more than it may."""
    writer = CohereWriter(EncodeContext(COMMAND_A, Options(), "m"))
    writer.write(weather_story().done().turns, 0)
    assert writer.size == sum(map(len, writer.messages))
