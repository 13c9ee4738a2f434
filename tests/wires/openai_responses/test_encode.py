"""The rules of writing a Responses request, one by one, and its properties."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from midstream import (
    Conversation,
    Media,
    Opaque,
    Options,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResponse,
    ToolSpec,
    Turn,
    encode_request,
    human,
    resolve,
    tool_result,
)
from midstream.core.blocks import Origin
from midstream.core.errors import InvalidHistory, LocalError
from midstream.wires.encode_context import EncodeContext
from midstream.wires.history_cache import HistoryCache, write_history
from midstream.wires.openai_responses.encode import ResponsesWriter
from midstream.wires.openai_responses.parse import parse_request
from tests.long_run import each_once
from tests.wires.drafts import encode_draft
from tests.wires.openai_responses.requests import normal

MODEL = "openai-responses/gpt-5.2"
OWN = Origin("openai", "openai-responses", "gpt-5.2")
FOREIGN = Origin("anthropic", "anthropic", "claude")
CALL = ToolCall("hist_tool_" + "a" * 24, "read", '{"path":"x"}', "call_1", "openai", {"item": {"id": "fc_1"}})


def ai(*blocks: Any, origin: Origin = OWN, **fields: Any) -> Turn:
    return Turn("ai", blocks, key=fields.pop("key", "a"), origin=origin, **fields)


def results(*responses: ToolResponse) -> Turn:
    return Turn("tool", responses, key="r")


def encode(*turns: Turn, model: str = MODEL, system: str = "", tools: Any = (), **options: Any) -> Request:
    conversation = Conversation(turns, system)
    return encode_request(model, conversation, tools=tools, options=Options(**options), cache=None)


def body(*turns: Turn, **options: Any) -> dict[str, Any]:
    return json.loads(encode(*turns, **options).body)


def items(*turns: Turn, **options: Any) -> list[dict[str, Any]]:
    return body(*turns, **options)["input"]


@each_once(("data", [None, "x", [1], 5]), ("kind", ["part", "web_search_call"]))
def test_a_block_that_is_no_part_stays_behind(kind: str, data: Any) -> None:
    """In a question and in a result, where only parts of a message may stand."""
    odd = Opaque(kind, data, OWN)
    call = ToolCall("c1", "look", "{}")
    request = encode(human(Text("q"), odd), ai(call), Turn("tool", (ToolResponse("c1", "look", (Text("r"), odd)),)))
    found = json.loads(request.body)["input"]
    assert found[0]["content"] in ("q", [{"type": "input_text", "text": "q"}])
    assert found[-1]["output"] == "r"
    assert dropped(request) == ["opaque", "opaque"]


def dropped(request: Request) -> list[str]:
    return [note.what for note in request.notes if note.action == "dropped"]


def test_stateless_by_default() -> None:
    sent = body(human("hi"), system="be brief")
    assert sent["store"] is False
    assert sent["include"] == ["reasoning.encrypted_content"]
    assert sent["instructions"] == "be brief"
    assert sent["stream"] is True
    assert sent["input"] == [{"type": "message", "role": "user", "content": "hi"}]
    assert encode(human("hi")).path == "/responses"


def test_models_that_do_not_reason_are_not_asked_for_encrypted_reasoning() -> None:
    assert "include" not in body(human("hi"), model="openai-responses/gpt-4.1")


def test_the_system_prompt_is_a_message_where_the_dialect_says_so() -> None:
    dialect = replace(resolve(MODEL).dialect, system_role="developer")
    request = encode_draft(Conversation((human("hi"),), "be brief"), dialect, "m")
    sent = json.loads(request.body)
    assert sent["input"][0] == {"type": "message", "role": "developer", "content": "be brief"}
    assert "instructions" not in sent


def test_an_empty_conversation_cannot_be_sent() -> None:
    with pytest.raises(InvalidHistory):
        encode()


def test_a_call_and_its_result_share_an_id_the_wire_takes() -> None:
    odd = ToolCall("functions.read:0", "read", "{}")
    sent = items(human("q"), ai(odd, origin=FOREIGN), results(tool_result(odd, "ok")))
    call, result = sent[1:]
    assert (call["type"], result["type"]) == ("function_call", "function_call_output")
    assert call["call_id"] == result["call_id"]
    assert re.fullmatch(r"call_[A-Za-z0-9_-]{1,59}", call["call_id"])
    assert result["output"] == "ok"


def test_item_ids_go_back_to_their_origin_only_and_only_under_their_prefix() -> None:
    answer = (Text("hi", {"item": {"id": "msg_1", "status": "completed", "phase": "final_answer"}}), CALL)
    back = results(tool_result(CALL, "ok"))
    message, call, _ = items(human("q"), ai(*answer), back)[1:]
    assert (message["id"], message["phase"], call["id"]) == ("msg_1", "final_answer", "fc_1")
    for origin in (
        FOREIGN,
        replace(OWN, wire="openai-chat"),
        replace(OWN, model="gpt-5"),
        replace(OWN, provider="xai"),
    ):
        message, call, _ = items(human("q"), ai(*answer, origin=origin), back)[1:]
        assert message == {"type": "message", "role": "assistant", "content": "hi"}
        assert set(call) == {"type", "call_id", "name", "arguments"}
    for bad in ("msg:1", "item_1", "fc_1", "msg_" + "x" * 61, "", 7):
        message = items(ai(Text("hi", {"item": {"id": bad}})), human("q"))[0]
        assert "id" not in message


def test_reasoning_goes_back_to_its_model_before_the_item_it_led_to() -> None:
    thinking = Thinking("why", "summary", encrypted="secret", origin=OWN, extra={"item": {"id": "rs_1"}})
    sent = items(human("q"), ai(thinking, CALL), results(tool_result(CALL, "ok")))
    assert sent[1] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "why"}],
        "encrypted_content": "secret",
    }
    assert sent[2]["id"] == "fc_1"


@pytest.mark.parametrize("origin", [FOREIGN, replace(OWN, model="gpt-5"), replace(OWN, provider="xai"), None])
def test_foreign_reasoning_is_dropped_with_a_note(origin: Origin | None) -> None:
    thinking = Thinking("why", encrypted="secret", origin=origin)
    request = encode(human("q"), ai(thinking, Text("hi"), origin=origin or OWN))
    assert [item["type"] for item in json.loads(request.body)["input"]] == ["message", "message"]
    assert dropped(request) == ["thinking"]


def test_foreign_reasoning_as_text_where_asked() -> None:
    sent = items(human("q"), ai(Thinking("why", origin=FOREIGN), Text("hi"), origin=FOREIGN), foreign_thinking="text")
    assert [item["content"] for item in sent] == ["q", "why", "hi"]


@pytest.mark.parametrize(
    ("extra", "said"), [(None, "Tools of files."), ({"namespace": {"description": "On disk."}}, "On disk.")]
)
def test_a_namespace_has_the_description_that_the_wire_requires(extra: dict[str, Any] | None, said: str) -> None:
    tool = ToolSpec("close", "Close a file", {"type": "object"}, namespace="files", extra=extra)
    (space,) = json.loads(encode(human("q"), tools=(tool,)).body)["tools"]
    assert (space["type"], space["name"], space["description"]) == ("namespace", "files", said)


def test_foreign_reasoning_that_is_kept_has_an_id_of_its_kind() -> None:
    turns = (human("q"), ai(Thinking("why", origin=FOREIGN), Text("hi"), origin=FOREIGN))
    options = {"model": "responses-compatible/any", "foreign_thinking": "keep"}
    (kept,) = [item for item in items(*turns, **options) if item["type"] == "reasoning"]
    assert re.fullmatch(r"rs_[0-9a-f]{32}", kept["id"]) and kept["content"][0]["text"] == "why"
    assert kept in items(*turns, human("more", key="m"), **options)


def test_reasoning_the_host_cannot_read_again_stays_behind_with_the_ids_that_need_it() -> None:
    thinking = Thinking("why", origin=OWN, extra={"item": {"id": "rs_1"}})
    turns = (human("q"), ai(thinking, CALL), results(tool_result(CALL, "ok")))
    request = encode(*turns)
    sent = json.loads(request.body)["input"]
    assert [item["type"] for item in sent] == ["message", "function_call", "function_call_output"]
    assert "id" not in sent[1]
    assert dropped(request) == ["thinking"]
    stored = items(*turns, extra_body={"store": True})
    assert (stored[1]["id"], stored[2]["id"]) == ("rs_1", "fc_1")
    search = Opaque("web_search_call", {"type": "web_search_call", "id": "ws_1"}, OWN)
    request = encode(human("q"), ai(thinking, search, Text("hi")))
    assert [item["type"] for item in json.loads(request.body)["input"]] == ["message", "message"]
    assert dropped(request) == ["thinking", "opaque"]


def test_a_reasoning_item_never_stands_alone() -> None:
    thinking = Thinking("why", encrypted="secret", origin=OWN)
    request = encode(human("q"), ai(Text("hi"), thinking), human("more"))
    assert [item["type"] for item in json.loads(request.body)["input"]] == ["message"] * 3
    assert dropped(request) == ["thinking"]
    search = Opaque("web_search_call", {"type": "web_search_call"}, FOREIGN)
    request = encode(human("q"), ai(thinking, search, Text("hi")))
    assert [item["type"] for item in json.loads(request.body)["input"]] == ["message"] * 2
    assert dropped(request) == ["thinking", "opaque"]


def test_parts_of_reasoning_go_back_as_they_came() -> None:
    extra = {"lengths": {"summary": [2, 1], "content": [3]}}
    thinking = Thinking("abcdef", "summary", encrypted="x", origin=OWN, extra=extra)
    item = items(human("q"), ai(thinking, Text("hi")))[1]
    assert [part["text"] for part in item["summary"]] == ["ab", "c"]
    assert [part["text"] for part in item["content"]] == ["def"]
    edited = replace(thinking, text="abc")
    assert [part["text"] for part in items(human("q"), ai(edited, Text("hi")))[1]["summary"]] == ["abc"]


def test_items_of_built_in_tools_go_back_to_their_origin_only() -> None:
    data = {"type": "web_search_call", "id": "ws_1"}
    assert items(human("q"), ai(Opaque("web_search_call", data, OWN), Text("hi")))[1] == data
    request = encode(human("q"), ai(Opaque("web_search_call", data, OWN), Text("hi")), model="xai-responses/grok-4")
    assert len(json.loads(request.body)["input"]) == 2
    assert dropped(request) == ["opaque"]


def test_custom_calls_and_their_results() -> None:
    call = ToolCall(
        "hist_tool_" + "b" * 24, "run", "print(1)", "c", "openai", {"type": "custom", "item": {"id": "ctc_1"}}
    )
    sent = items(human("q"), ai(call), results(tool_result(call, "1")))
    assert sent[1] == {
        "type": "custom_tool_call", "call_id": "call_" + "b" * 24, "name": "run", "input": "print(1)", "id": "ctc_1",
    }  # fmt: skip
    assert sent[2]["type"] == "custom_tool_call_output"
    foreign = items(human("q"), ai(call), results(tool_result(call, "1")), model="responses-compatible/x")
    assert foreign[1]["type"] == "function_call"
    assert json.loads(foreign[1]["arguments"]) == {"input": "print(1)"}
    assert foreign[2]["type"] == "function_call_output"


def test_arguments_that_are_no_object_are_wrapped() -> None:
    call = replace(CALL, arguments='{"x":')
    sent = items(human("q"), ai(call), results(tool_result(call, "ok")))
    assert json.loads(sent[1]["arguments"]) == {"_raw": '{"x":'}
    blank = replace(CALL, arguments="")
    assert items(human("q"), ai(blank), results(tool_result(blank, "ok")))[1]["arguments"] == "{}"


def test_a_result_is_a_string_unless_it_holds_an_image() -> None:
    def output(*content: Any, **fields: Any) -> Any:
        return items(human("q"), ai(CALL), results(tool_result(CALL, *content, **fields)))[2]["output"]

    assert output("a", "b") == "a\nb"
    assert output() == ""
    assert output("it broke", is_error=True) == "Error: it broke"
    image = Media("image/png", data="QUJD")
    seen = [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "data:image/png;base64,QUJD"}]
    assert output("a", image) == seen
    assert output("a", image, is_error=True) == [{"type": "input_text", "text": "Error:"}, *seen]


def test_a_refusal_goes_back_as_one() -> None:
    assert items(ai(Text("no", {"refusal": True})), human("q"))[0]["content"] == [{"type": "refusal", "refusal": "no"}]
    assert items(ai(Text("no", {"refusal": True}), origin=FOREIGN), human("q"))[0]["content"] == "no"


@pytest.mark.parametrize(
    ("media", "part"),
    [
        (Media("image/png", data="QQ=="), {"type": "input_image", "image_url": "data:image/png;base64,QQ=="}),
        (
            Media("image/*", url="https://x/y.png", extra={"detail": "low"}),
            {"type": "input_image", "image_url": "https://x/y.png", "detail": "low"},
        ),
        (Media("image/*", url="file-1"), {"type": "input_image", "file_id": "file-1"}),
        (
            Media("application/pdf", data="QQ==", name="a.pdf"),
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="},
        ),
        (Media("", url="file-1"), {"type": "input_file", "file_id": "file-1"}),
        (Media("", url="https://x/y.pdf"), {"type": "input_file", "file_url": "https://x/y.pdf"}),
        (Media("audio/wav", data="QQ=="), {"type": "input_text", "text": "[audio omitted]"}),
    ],
)
def test_media(media: Media, part: dict[str, Any]) -> None:
    sent = body(human("see", media))
    assert sent["input"][0]["content"] == [{"type": "input_text", "text": "see"}, part]
    parsed = parse_request(json.dumps(sent).encode()).conversation.turns[0].blocks[1]
    if part["type"] != "input_text":
        assert parsed == media


def test_tools_are_flat_and_not_strict_unless_said() -> None:
    tools = [
        ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}}),
        ToolSpec("write.file", strict=True),
        ToolSpec("web_search", extra={"tool": {"type": "web_search"}}),
        ToolSpec("$web", builtin="$web_search"),
    ]
    request = encode(human("q"), tools=tools, tool_choice="write.file", parallel_tool_calls=False)
    sent = json.loads(request.body)
    read, write, search = sent["tools"]
    assert (read["type"], read["name"], read["description"], read["strict"]) == ("function", "read", "Reads.", False)
    assert (write["strict"], search) == (True, {"type": "web_search"})
    assert sent["tool_choice"] == {"type": "function", "name": write["name"]}
    assert request.tool_names == {write["name"]: "write.file"}
    assert sent["parallel_tool_calls"] is False
    assert dropped(request) == ["tool"]


OTHER_WIRES = {
    "type": "custom", "cache_control": {"type": "ephemeral"}, "input_examples": [{}], "eager_input_streaming": True,
    "defer_loading": True, "allowed_callers": ["code_execution_20260120"],
}  # fmt: skip
OWN_FIELDS = {"defer_loading": True, "allowed_callers": ["direct"], "async": True, "output_schema": {"type": "string"}}


@pytest.mark.parametrize(("extra", "kept"), [(OTHER_WIRES, {}), (OWN_FIELDS, OWN_FIELDS)], ids=["foreign", "own"])
def test_a_tool_keeps_only_the_fields_that_this_wire_has(extra: dict[str, Any], kept: dict[str, Any]) -> None:
    """`custom` is an ordinary tool of Messages, and one with free text here."""
    search = ToolSpec("tool_search", extra={"tool": {"type": "tool_search"}})
    tools = [ToolSpec("read", parameters={"type": "object"}, extra=extra), *([search] if kept else [])]
    read = json.loads(encode(human("q"), tools=tools).body)["tools"][0]
    plain = {"type": "function", "name": "read", "parameters": {"type": "object"}, "strict": False}
    assert read == {**plain, "parameters": read["parameters"], **kept}


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_tool_choice(choice: str) -> None:
    assert body(human("q"), tools=[ToolSpec("f")], tool_choice=choice)["tool_choice"] == choice
    assert "tool_choice" not in body(human("q"), tool_choice=choice)


@pytest.mark.parametrize(
    ("model", "options", "reasoning"),
    [
        (MODEL, {}, None),
        (MODEL, {"effort": "high"}, {"effort": "high"}),
        (MODEL, {"effort": "max"}, {"effort": "xhigh"}),
        (MODEL, {"thinking": "on"}, {"summary": "auto"}),
        (MODEL, {"thinking": "off"}, {"effort": "none"}),
        ("openai-responses/gpt-5", {"thinking": "off"}, {"effort": "minimal"}),
        ("openai-responses/o3", {"thinking": "off"}, {"effort": "low"}),
        ("openai-responses/gpt-4.1", {"effort": "high"}, None),
        ("xai-responses/grok-4", {"effort": "high"}, None),
        ("xai-responses/grok-3-mini", {"effort": "medium"}, {"effort": "low"}),
        (
            MODEL,
            {"effort": "low", "extra_body": {"reasoning": {"summary": "auto"}}},
            {"effort": "low", "summary": "auto"},
        ),
    ],
)
def test_how_thinking_is_asked_for(model: str, options: dict[str, Any], reasoning: Any) -> None:
    request = encode(human("q"), model=model, **options)
    assert json.loads(request.body).get("reasoning") == reasoning
    sent = (reasoning or {}).get("effort")
    changed = sent is not None and sent != options.get("effort", "none")
    assert bool(request.notes) == (changed or (bool(options) and reasoning is None))


def test_options_the_wire_knows_and_those_it_does_not() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": "object"}, "strict": True}}
    request = encode(
        human("q"),
        model="openai-responses/gpt-4.1",
        max_tokens=9,
        temperature=0.5,
        stop=("x",),
        seed=1,
        prefill="{",
        user="u",
        response_format=schema,
        stream=False,
        extra_body={"text": {"verbosity": "low"}, "metadata": {"a": "b"}},
    )
    sent = json.loads(request.body)
    assert (sent["max_output_tokens"], sent["temperature"], sent["safety_identifier"]) == (9, 0.5, "u")
    assert sent["text"] == {
        "format": {"type": "json_schema", "name": "s", "schema": {"type": "object"}, "strict": True},
        "verbosity": "low",
    }
    assert sent["metadata"] == {"a": "b"}
    assert not {"stop", "seed", "stream", "prefill"} & set(sent)
    assert dropped(request) == ["option"] * 3


def test_reasoning_models_take_no_sampling() -> None:
    request = encode(human("q"), temperature=0.5)
    assert "temperature" not in json.loads(request.body)
    assert dropped(request) == ["option"]


ANSWER = ai(CALL, response_id="resp_1")


def test_with_a_previous_response_only_what_follows_it_is_sent_under_the_hosts_own_ids() -> None:
    request = encode(human("q"), ANSWER, results(tool_result(CALL, "ok")), human("more"), previous_response_id="resp_1")
    sent = json.loads(request.body)
    assert sent["previous_response_id"] == "resp_1"
    assert sent["store"] is True
    assert "include" not in sent
    assert sent["input"] == [
        {"type": "function_call_output", "call_id": "call_1", "output": "ok"},
        {"type": "message", "role": "user", "content": "more"},
    ]
    assert request.notes == ()


@pytest.mark.parametrize(
    "turns",
    [
        (human("q"), ai(Text("hi"), response_id="resp_0")),
        (human("q"), replace(ANSWER, failure="truncated"), results(tool_result(CALL, "ok"))),
        (human("q"), human("x"), replace(ANSWER, failure="truncated")),
        (
            human("q"),
            ai(replace(CALL, id="hist_tool_lost"), key="b"),
            human("x"),
            ANSWER,
            results(tool_result(CALL, "ok")),
        ),
    ],
    ids=["no such response", "it failed", "it failed last", "repaired before it"],
)
def test_a_previous_response_is_dropped_with_a_note_where_the_history_is_not_its_own(turns: tuple[Turn, ...]) -> None:
    request = encode(*turns, previous_response_id="resp_1")
    sent = json.loads(request.body)
    assert "previous_response_id" not in sent
    assert sent["store"] is False
    assert sent["input"][0]["content"] == "q"
    assert "option" in dropped(request)


def test_a_result_still_missing_after_a_previous_response_is_made_up() -> None:
    sent = items(human("q"), ANSWER, human("more"), previous_response_id="resp_1")
    assert (sent[0]["type"], sent[0]["call_id"]) == ("function_call_output", "call_1")


def test_a_request_that_continues_a_stored_response_reads_and_writes_the_same() -> None:
    given_body = {
        "model": "gpt-5.2",
        "previous_response_id": "resp_9",
        "store": True,
        "input": [
            {"type": "function_call_output", "call_id": "c:1", "output": "ok"},
            {"type": "custom_tool_call_output", "call_id": "c:2", "output": "ok"},
            {"type": "message", "role": "user", "content": "go on"},
        ],
    }
    parsed = parse_request(json.dumps(given_body).encode(), provider="openai")
    request = encode_request(MODEL, parsed.conversation, tools=parsed.tools, options=parsed.options, cache=None)
    assert json.loads(request.body) == given_body
    assert request.notes == ()


def test_what_was_encoded_is_not_encoded_again_and_says_the_same() -> None:
    cache = HistoryCache()
    thinking = Thinking("why", encrypted="secret", origin=OWN, extra={"item": {"id": "rs_1"}})
    custom = ToolCall("hist_tool_" + "c" * 24, "run", "x", None, "openai", {"type": "custom"})
    turns = [
        human("q"),
        ai(thinking, CALL, custom),
        results(tool_result(CALL, "a"), tool_result(custom, "b")),
        ai(Text("hi")),
    ]
    for length in range(1, len(turns) + 1):
        conversation = Conversation(tuple(turns[:length]))
        cached = encode_request(MODEL, conversation, cache=cache)
        assert cached == encode_request(MODEL, conversation, cache=None)


_NAME = st.sampled_from(["read", "write.file", "a b"])
_TEXT = st.text(max_size=8)
_EXTRA = st.none() | st.fixed_dictionaries(
    {"item": st.fixed_dictionaries({}, optional={"id": st.sampled_from(["msg_1", "fc_1", "rs_1", "x:y"])})}
)
_ORIGIN = st.sampled_from([OWN, FOREIGN, None])
_BLOCK = st.one_of(
    st.builds(Text, _TEXT, _EXTRA),
    st.builds(Thinking, _TEXT, encrypted=st.none() | st.just("e"), origin=_ORIGIN, extra=_EXTRA),
    st.builds(ToolCall, st.sampled_from(["a", "b:1", "hist_tool_c", "call_d"]), _NAME, _TEXT, extra=_EXTRA),
    st.builds(lambda origin: Opaque("web_search_call", {"type": "web_search_call"}, origin), _ORIGIN),
    st.builds(Media, st.sampled_from(["image/png", ""]), st.just("QQ==")),
)
_RESULT = st.builds(
    ToolResponse,
    st.sampled_from(["a", "b:1", "hist_tool_c", "call_d", "lost"]),
    content=st.lists(st.builds(Text, _TEXT), max_size=2).map(tuple),
    is_error=st.booleans(),
)
_TURN = st.one_of(
    st.builds(human, _TEXT),
    st.builds(
        lambda blocks, origin: Turn("ai", tuple(blocks), key="k", origin=origin), st.lists(_BLOCK, max_size=4), _ORIGIN
    ),
    st.builds(lambda found: Turn("tool", tuple(found), key="r"), st.lists(_RESULT, max_size=3)),
)


@settings(max_examples=250, deadline=None)
@given(st.lists(_TURN, max_size=7), st.sampled_from([MODEL, "xai-responses/grok-4", "responses-compatible/x"]))
def test_any_history_gives_a_request_the_wire_takes(turns: list[Turn], model: str) -> None:
    sent = items(human("q"), *turns, model=model)
    calls = [item["call_id"] for item in sent if item["type"] == "function_call"]
    outputs = [item["call_id"] for item in sent if item["type"] == "function_call_output"]
    assert sorted(calls) == sorted(outputs)
    assert len(set(calls)) == len(calls)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", call) for call in calls)
    for place, item in enumerate(sent):
        if item["type"] == "reasoning":
            assert place + 1 < len(sent)
            after = sent[place + 1]
            assert after.get("role") == "assistant" or after["type"] in (
                "reasoning",
                "function_call",
                "web_search_call",
            )
        if item["type"] == "function_call":
            assert isinstance(json.loads(item["arguments"]), dict)
        if "id" in item and item["type"] in ("message", "function_call", "reasoning"):
            assert item["id"].startswith({"message": "msg", "function_call": "fc", "reasoning": "rs"}[item["type"]])


@settings(max_examples=150, deadline=None)
@given(st.lists(_TURN, max_size=6))
def test_a_written_request_reads_and_writes_the_same(turns: list[Turn]) -> None:
    first = body(human("q"), *turns)
    parsed = parse_request(json.dumps(first).encode(), provider="openai")
    again = encode_request(MODEL, parsed.conversation, tools=parsed.tools, options=parsed.options, cache=None)
    assert normal(json.loads(again.body)) == normal(first)


def test_what_items_carry_does_not_leak_into_the_same_hosts_chat_wire() -> None:
    custom = ToolCall("hist_tool_" + "c" * 24, "run", "x", None, "openai", {"type": "custom", "item": {"id": "ctc_1"}})
    answer = ai(Text("hi", {"item": {"id": "msg_1"}, "annotations": [{"type": "url_citation"}]}), CALL, custom)
    turns = (human("q"), answer, results(tool_result(CALL, "a"), tool_result(custom, "b")))
    message = body(*turns, model="openai/gpt-5.2")["messages"][1]
    assert set(message) == {"role", "content", "tool_calls"}
    assert [set(call) for call in message["tool_calls"]] == [{"id", "type", "function"}, {"id", "type", "custom"}]


def test_the_next_turn_of_a_long_history_encodes_only_what_is_new() -> None:
    cache = HistoryCache()
    turns = tuple(human(f"q{n}") if n % 2 == 0 else ai(Text(f"a{n}"), key=f"k{n}") for n in range(10_000))

    def written(held: tuple[Turn, ...]) -> list[bytes]:
        dialect = resolve(MODEL).dialect
        context = EncodeContext(dialect, Options(), "gpt-5.2")
        writer = write_history(held, lambda: ResponsesWriter(context), "key", cache)
        return writer.items.copy()

    first = written(turns)
    then = written((*turns, human("more")))
    assert len(then) == len(first) + 1
    assert all(old is new for old, new in zip(first, then, strict=False))


@pytest.mark.parametrize("kept", [7, {"item": 7}, {"item": {"type": "x", "id": {}}}, {"lengths": 3},
                                  {"lengths": {"summary": "x", "content": [None]}}, {"annotations": 3, "part": 4},
                                  {"providerOptions": {}, "name": "n", "part": {"type": "x"}}])  # fmt: skip
def test_what_was_kept_may_have_been_tampered_with(kept: Any) -> None:
    extra = kept if isinstance(kept, dict) else None
    thinking = Thinking("why", encrypted="e", origin=OWN, extra=extra)
    call = replace(CALL, extra=extra)
    response = replace(tool_result(call, "ok"), extra=extra)
    sent = items(human("q"), ai(thinking, Text("hi", extra), call), results(response))
    assert [item["type"] for item in sent] == [
        "message",
        "reasoning",
        "message",
        "function_call",
        "function_call_output",
    ]
    assert set(sent[1]) == {"type", "summary", "encrypted_content"}
    assert sent[2]["content"] in ("hi", [{"type": "output_text", "text": "hi", "annotations": []}])
    assert set(sent[3]) == {"type", "call_id", "name", "arguments"}
    assert set(sent[4]) == {"type", "call_id", "output"}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
_ITEM = st.fixed_dictionaries(
    {},
    optional={
        "type": _JSON | st.sampled_from(["message", "reasoning", "function_call", "function_call_output", "custom_tool_call"]),
        "role": _JSON | st.sampled_from(["user", "assistant", "system"]),
        "content": _JSON | st.lists(st.fixed_dictionaries({"type": st.sampled_from(["input_text", "input_image", "input_file"])},
                                                          optional={"text": _JSON, "image_url": _JSON, "file_data": _JSON})),
        "call_id": _JSON, "name": _JSON, "arguments": _JSON, "input": _JSON, "output": _JSON, "summary": _JSON,
        "encrypted_content": _JSON, "id": _JSON,
    },
)  # fmt: skip
_BODY = st.fixed_dictionaries(
    {"input": _JSON | st.lists(_ITEM | _JSON, max_size=4)},
    optional=dict.fromkeys(
        ("model", "instructions", "tools", "tool_choice", "text", "reasoning", "include", "x"), _JSON
    ),
)


@settings(max_examples=250, deadline=None)
@given(_BODY | _JSON)
def test_a_request_of_any_shape_is_read_and_can_be_written_or_is_refused(given_body: Any) -> None:
    try:
        parsed = parse_request(json.dumps(given_body).encode(), provider="openai")
        encode_request(MODEL, parsed.conversation, tools=parsed.tools, options=parsed.options, cache=None)
    except LocalError:
        pass
