"""events -> answer -> decode gives the same events and turn, up to what the wire cannot carry, however the bytes are cut."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from midstream.core.blocks import Text, ToolCall, Turn, Usage
from midstream.core.dialect import Reasoning
from midstream.core.errors import KINDS, BadRequest, Overloaded, ProviderError, RateLimited, RetriesExhausted
from midstream.core.events import Done, Event, ToolCallEnd, ToolCallStart
from midstream.core.ids import STRATEGIES, from_own_id
from midstream.core.lifecycle import check
from midstream.core.tools import freeform_input
from midstream.wires.answer import AnswerContext, AnswerWriter, Habits, make_writer, write_events
from midstream.wires.decode_context import DecodeContext
from midstream.wires.provider_errors import provider_error
from midstream.wires.registry import WIRES, get_wire
from tests.long_run import each_once
from tests.wires.answers import LOSSES, Act, Answer, answers, bare, carried, last_turn, speak

EXAMPLES = int(os.environ.get("MIDSTREAM_EXAMPLES", "60"))
"""How many examples each wire is tried with; MIDSTREAM_EXAMPLES=1000 for the long run."""
CONTEXT = AnswerContext(
    "m", "resp-1", 1_790_000_000, include=("reasoning.encrypted_content",), input_tokens=7, request_id="req-1"
)
EVENTFUL = [name for name in WIRES if name != "completion"]


def written(writer: AnswerWriter, events: list[Event]) -> list[bytes]:
    return [writer.event(event) for event in events]


def read(wire: str, chunks: list[bytes]) -> list[Event]:
    decoder = DecodeContext(get_wire(wire).default, "read", "m").decoder()
    found: list[Event] = []
    for chunk in chunks:
        found += decoder.feed(chunk)
    return found + decoder.close()


def cuts(data: bytes, places: list[int]) -> list[bytes]:
    inner = sorted({place % len(data) for place in places} - {0}) if data else []
    return [data[start:end] for start, end in zip([0, *inner], [*inner, len(data)], strict=True)]


def wire_ids(events: list[Event]) -> list[str]:
    return [block.raw_id or "" for block in last_turn(events).blocks if isinstance(block, ToolCall)]


@pytest.mark.parametrize("wire", EVENTFUL)
@settings(max_examples=EXAMPLES)
@given(answer=answers(), places=st.lists(st.integers(0, 10**6), max_size=6), array=st.booleans())
def test_what_is_written_is_read(wire: str, answer: Answer, places: list[int], array: bool) -> None:
    context = replace(CONTEXT, array=array)
    events = speak(answer, wire)
    pieces = written(make_writer(wire, context), events)
    data = b"".join(pieces)
    found = read(wire, pieces)
    check(found)
    ids = wire_ids(found)
    assert [from_own_id(each) for each in ids] == [event.id for event in events if isinstance(event, ToolCallStart)]
    assert [bare(event) for event in found] == [bare(event) for event in carried(answer, wire, context, ids)]
    for chunks in ([data], cuts(data, places), [data[at : at + 1] for at in range(len(data))]):
        assert read(wire, chunks) == found


@pytest.mark.parametrize("wire", EVENTFUL)
@settings(max_examples=EXAMPLES)
@given(answer=answers())
def test_a_body_is_read_as_the_same_turn(wire: str, answer: Answer) -> None:
    """What a body tells in another order than it was said is compared kind by kind."""
    answer = replace(answer, failure="")
    turn = last_turn(speak(answer, wire))
    body = make_writer(wire, CONTEXT).body(turn)
    found = DecodeContext(get_wire(wire).default, "read", "m").decoder().read_body(body)
    check(found)
    read_turn = last_turn(found)
    wanted = last_turn(carried(answer, wire, CONTEXT, wire_ids(found)))
    assert (read_turn.text, read_turn.thinking) == (wanted.text, wanted.thinking)
    assert [(call.id, call.name) for call in read_turn.tool_calls] == [
        (call.id, call.name) for call in wanted.tool_calls
    ]
    assert [json.loads(call.arguments) for call in read_turn.tool_calls] == [
        json.loads(call.arguments) for call in wanted.tool_calls
    ]
    assert [from_own_id(each) for each in wire_ids(found)] == [call.id for call in turn.tool_calls]
    plain = bare(Done(read_turn))
    assert isinstance(plain, Done)
    assert plain.turn.usage == wanted.usage
    assert read_turn.stop_reason == wanted.stop_reason
    if wire in ORDERED:
        kinds = [type(block) for block in read_turn.blocks if not _is_empty(block)]
        assert kinds == [type(block) for block in wanted.blocks if not _is_empty(block)]


ORDERED = ("anthropic", "openai-responses")
"""Wires whose bodies keep the order and the borders of blocks. (Gemini's keep the order, and lose borders.)"""


def _is_empty(block: object) -> bool:
    return isinstance(block, Text) and not block.text


COMPLETIONS = [
    ("openai", "hermes", False),
    ("deepinfra", "kimi", True),
    ("llamacpp", "qwen", False),
    ("deepinfra", "kimi-k3", False),
]


@pytest.mark.parametrize(("flavour", "text_format", "inside"), COMPLETIONS)
@settings(max_examples=EXAMPLES)
@given(answer=answers(), places=st.lists(st.integers(0, 10**6), max_size=6))
def test_a_raw_completion_is_read_as_thinking_text_and_calls(
    flavour: str, text_format: str, inside: bool, answer: Answer, places: list[int]
) -> None:
    """Texts without the marks of any format: a quoted or a half mark is the text formats' own matter."""
    acts = tuple([plain_act(act) for act in in_order(answer.acts)])
    answer = replace(answer, acts=acts if acts else (Act("text", ("a",)),), failure="", stop="end_turn")
    habits = Habits(completion=flavour, text_format=text_format, starts_inside=inside)
    context = replace(CONTEXT, habits=habits)
    default = get_wire("completion").default
    reasoning = replace(default.reasoning, tags=("<think>", "</think>"), starts_inside=inside)
    dialect = replace(default, completion=flavour, leaks=text_format, reasoning=reasoning)
    events = speak(answer, "completion")
    turn = last_turn(events)
    pieces = written(make_writer("completion", context), events)
    data = b"".join(pieces)
    seen = []
    for chunks in (pieces, [data], cuts(data, places)):
        decoder = DecodeContext(dialect, "read", "m").decoder()
        seen.append([event for chunk in chunks for event in decoder.feed(chunk)] + decoder.close())
    assert seen[0] == seen[1] == seen[2]
    body = make_writer("completion", context).body(turn)
    for found in (seen[0], DecodeContext(dialect, "read", "m").decoder().read_body(body)):
        check(found)
        read_turn = last_turn(found)
        assert read_turn.thinking.strip() == turn.thinking.strip()
        assert read_turn.text.strip() == turn.text.strip()
        assert [(call.name, json.loads(call.arguments)) for call in read_turn.tool_calls] == [
            (call.name, json.loads(call.arguments or "{}")) for call in turn.tool_calls
        ]


def test_a_raw_completion_in_tokens_says_all_of_each() -> None:
    context = replace(CONTEXT, habits=Habits(completion="deepinfra"))
    events = speak(Answer((Act("text", ("a", "<|b")),)), "completion")
    data = b"".join(written(make_writer("completion", context), events))
    chunks = [json.loads(line[6:]) for line in data.splitlines() if line.startswith(b"data: {")]
    assert [chunk["token"] for chunk in chunks] == [
        {"id": None, "text": "a", "logprob": 0, "special": False},
        {"id": None, "text": "<|b", "logprob": 0, "special": True},
        {"id": None, "text": "", "logprob": 0, "special": False},
    ]


def in_order(acts: tuple[Act, ...]) -> list[Act]:
    """As a raw model speaks: it thinks once, then talks, then calls."""
    kinds = ("thinking", "text", "call")
    found = [next((act for act in acts if act.kind == kind and act.pieces), None) for kind in kinds[:2]]
    return [act for act in found if act is not None] + [act for act in acts if act.kind == "call"]


def plain_act(act: Act) -> Act:
    if act.kind == "call":
        return act
    words = "".join(act.pieces).translate(str.maketrans("", "", '{}"\\\n '))
    return replace(act, pieces=(words or "w",))


@pytest.mark.parametrize("wire", WIRES)
def test_a_keep_alive_says_nothing(wire: str) -> None:
    """Before the first event, between any two, and before the last: the answer is read as if there were none."""
    answer = Answer((Act("thinking", ("a", "b")), Act("text", ("c",)), Act("call", ("{", "}"), "f")), "tool_use")
    context = replace(CONTEXT, habits=Habits(text_format="hermes"))
    events = speak(answer, wire)
    dialect = (
        replace(get_wire(wire).default, leaks="hermes", reasoning=Reasoning(tags=("<think>", "</think>")))
        if wire == "completion"
        else get_wire(wire).default
    )

    def heard(alive: bool) -> list[Event]:
        writer = make_writer(wire, context)
        chunks = []
        for event in events:
            if alive:
                chunks.append(writer.keep_alive())
            chunks.append(writer.event(event))
        decoder = DecodeContext(dialect, "read", "m").decoder()
        return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.close()

    assert make_writer(wire, context).keep_alive()
    assert heard(True) == heard(False)


ERRORS = {
    "bad_request": 400, "context_too_long": 400, "unauthorized": 401, "not_found": 404, "unknown_model": 404,
    "rate_limited": 429, "quota_exceeded": 429, "content_filtered": 400, "overloaded": 503, "idle_timeout": 504,
    "truncated": 502, "connect_failed": 502, "invalid_history": 400, "missing_key": 401, "store": 500,
}  # fmt: skip
NO_STATUS = ("ollama", "cohere")
"""Wires whose error bodies have a message only: the kind is in the HTTP status."""


@each_once(("wire", WIRES), ("kind", ERRORS))
def test_an_error_has_the_wires_own_shape(wire: str, kind: str) -> None:
    error = KINDS[kind]("it was not to be")
    status, body = make_writer(wire, CONTEXT).error(error)
    assert status == (529 if wire == "anthropic" and kind == "overloaded" else ERRORS[kind])
    found = provider_error(status, body)
    assert "it was not to be" in found.message
    if issubclass(KINDS[kind], ProviderError) and not (
        wire in (*NO_STATUS, "gemini", "anthropic")
        and kind in ("content_filtered", "context_too_long", "quota_exceeded")
    ):
        assert found.kind == kind
    status_in_stream, told = make_writer(wire, CONTEXT).error(error, mid_stream=True)
    assert status_in_stream == status
    assert b"it was not to be" in told


def test_an_upstreams_status_is_kept_and_its_own_words_are_not() -> None:
    error = BadRequest("no", status=403, type="<nil>", code="3280", provider="mistral")
    assert make_writer("openai-chat", CONTEXT).error(error)[0] == 403
    told = json.loads(make_writer("anthropic", CONTEXT).error(error)[1])
    assert told["error"] == {"type": "permission_error", "message": "no"}
    gemini = json.loads(make_writer("gemini", CONTEXT).error(error)[1])
    assert gemini["error"] == {"code": 403, "message": "no", "status": "PERMISSION_DENIED"}


def test_the_last_attempt_speaks_for_all() -> None:
    error = RetriesExhausted("3 attempts failed", (Overloaded("busy"), RateLimited("slow down")))
    assert make_writer("openai-chat", CONTEXT).error(error)[0] == 429


@pytest.mark.parametrize("wire", WIRES)
def test_every_wire_says_what_it_cannot_carry(wire: str) -> None:
    assert LOSSES[wire]
    told = (Path(__file__).parents[2] / "docs" / "answers.md").read_text("utf-8")
    for loss in LOSSES[wire]:
        assert loss in told


@pytest.mark.parametrize("wire", EVENTFUL)
def test_what_has_no_place_leaves_a_note(wire: str) -> None:
    writer = make_writer(wire, CONTEXT)
    written(writer, speak(Answer((Act("foreign"), Act("text", ("a",)))), wire))
    assert [(note.action, note.code) for note in writer.notes] == [("dropped", "foreign_block")]


@pytest.mark.parametrize("wire", EVENTFUL)
def test_thinking_that_nobody_wants_is_not_written(wire: str) -> None:
    events = speak(Answer((Act("thinking", ("secret",), signature="c2ln"), Act("text", ("a",)))), wire)
    writer = make_writer(wire, replace(CONTEXT, thinking=False))
    assert b"secret" not in b"".join(written(writer, events))
    assert b"secret" not in make_writer(wire, replace(CONTEXT, thinking=False)).body(last_turn(events))


@pytest.mark.parametrize("wire", WIRES)
@settings(max_examples=EXAMPLES)
@given(deltas=st.lists(st.text(max_size=4), max_size=12), counted=st.booleans(), cut=st.integers(0, 40))
def test_events_written_together_are_the_same_bytes(wire: str, deltas: list[str], counted: bool, cut: int) -> None:
    """Runs of text are framed in one go; whatever is around them, no byte may differ."""
    acts = (
        Act("text", tuple(deltas)),
        Act("thinking", ("hm",)),
        Act("text", (HALF, *deltas)),
        Act("call", ("{}",), "f"),
    )
    events = speak(Answer(acts, "tool_use"), wire)
    context = replace(CONTEXT, usage=counted)
    writer = make_writer(wire, context)
    together = write_events(writer, events[:cut]) + write_events(writer, events[cut:])
    assert together == b"".join(written(make_writer(wire, context), events))


HALF = "a\ud83d"
"""Half a character, which UTF-8 cannot carry."""


@pytest.mark.parametrize("wire", WIRES)
def test_half_a_character_is_written_as_its_replacement(wire: str) -> None:
    """In a text, a name or an argument: the bytes are valid, and everything beside it is as it was."""
    answer = Answer((Act("text", (HALF,)), Act("call", (f'{{"n":{2**70}}}',), HALF)), "tool_use")
    events = speak(answer, wire)
    context = replace(CONTEXT, model=HALF, habits=Habits(text_format="hermes"))
    writer = make_writer(wire, context)
    for data in (b"".join(written(writer, events)), make_writer(wire, context).body(last_turn(events))):
        assert "a\ufffd" in data.decode()
        assert str(2**70) in data.decode()


def test_a_scheme_that_counts_goes_on_from_the_conversation() -> None:
    """The gateway hands in the ids so far, so that Kimi's numbers go on and lead back."""
    before = Turn("ai", (ToolCall("hist_tool_x", "f"),))
    ids = STRATEGIES["kimi"].create_mapper([before])
    events = speak(Answer((Act("call", ("{}",), "g"),), "tool_use"), "openai-chat")
    context = replace(CONTEXT, ids=ids, habits=Habits(ids="kimi"))
    assert b'"functions.g:1"' in b"".join(written(make_writer("openai-chat", context), events))


def as_freeform(event: Event) -> Event:
    """The same event of a call that is plain text."""
    match event:
        case ToolCallStart():
            return replace(event, kind="freeform", namespace="tools")
        case ToolCallEnd():
            return replace(event, block=replace(event.block, kind="freeform", namespace="tools"))
        case Done():
            blocks = [replace(block, kind="freeform", namespace="tools") for block in event.turn.tool_calls]
            return Done(replace(event.turn, blocks=tuple(blocks)))
    return event


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize("arguments", ['{"input": "*** Begin"}', "*** Begin"])
def test_a_free_form_call_is_written_in_its_own_form(wire: str, arguments: str) -> None:
    """Its plain text, whether a host without such tools wrapped it in JSON or not."""
    said = speak(Answer((Act("call", (arguments[:4], arguments[4:]), "apply_patch"),), "tool_use"), wire)
    events = [as_freeform(event) for event in said]
    found = read(wire, written(make_writer(wire, CONTEXT), events))
    body = make_writer(wire, CONTEXT).body(last_turn(events))
    whole = DecodeContext(get_wire(wire).default, "read", "m").decoder().read_body(body)
    for each in (found, whole):
        (call,) = last_turn(each).tool_calls
        assert (call.name, freeform_input(call), call.kind) == ("apply_patch", "*** Begin", "freeform")
        assert call.namespace == ("tools" if wire == "openai-responses" else "")


HABITS = [
    (Habits(usage="chunk"), lambda chunks: chunks[-1]["usage"]),
    (Habits(usage="finish"), lambda chunks: chunks[-1]["usage"]),
    (Habits(usage="choice"), lambda chunks: chunks[-1]["choices"][0]["usage"]),
    (Habits(usage="x_groq"), lambda chunks: chunks[-1]["x_groq"]["usage"]),
]


@pytest.mark.parametrize(("habits", "find"), HABITS)
def test_a_chat_host_counts_where_it_counts(habits: Habits, find: Callable[[list[Any]], Any]) -> None:
    events = speak(Answer((Act("text", ("a",)),), usage=Usage(5, 3)), "openai-chat")
    data = b"".join(written(make_writer("openai-chat", replace(CONTEXT, habits=habits)), events))
    chunks = [json.loads(line[6:]) for line in data.splitlines() if line.startswith(b"data: {")]
    assert find(chunks)["total_tokens"] == 8
    silent = b"".join(written(make_writer("openai-chat", replace(CONTEXT, usage=False, habits=habits)), events))
    assert b"total_tokens" not in silent and b"usage" not in silent
    assert data.endswith(b"data: [DONE]\n\n") and silent.endswith(b"data: [DONE]\n\n")


def test_habits_change_ids_calls_fields_and_words() -> None:
    events = speak(Answer((Act("thinking", ("t",)), Act("call", ("{", "}"), "f")), "tool_use"), "openai-chat")
    habits = Habits(ids="own", whole_calls=True, reasoning_field="reasoning", finish={"tool_use": "function_call"})
    data = b"".join(written(make_writer("openai-chat", replace(CONTEXT, habits=habits)), events))
    assert b'"reasoning":"t"' in data and b'"finish_reason":"function_call"' in data
    assert data.count(b"tool_calls") == 1 and b'"arguments":"{}"' in data
    assert events[-1].turn.tool_calls[0].id.encode() in data  # type: ignore[union-attr]


@pytest.mark.parametrize(("field", "kind"), [("content", "reasoning_text"), ("summary", "summary_text")])
def test_reasoning_stands_in_the_field_of_its_kind(field: str, kind: str) -> None:
    events = speak(Answer((Act("thinking", ("why",)), Act("text", ("so",))), "stop"), "openai-responses")
    writer = make_writer("openai-responses", replace(CONTEXT, habits=Habits(reasoning_field=field)))
    data = b"".join(written(writer, events))
    assert f'"{field}":[{{"type":"{kind}","text":"why"}}]'.encode() in data


SEQUENCES = {
    "anthropic": (
        "message_start "
        "content_block_start:thinking content_block_delta:thinking_delta content_block_delta:signature_delta content_block_stop "
        "content_block_start:text content_block_delta:text_delta content_block_stop "
        "content_block_start:tool_use content_block_delta:input_json_delta content_block_stop "
        "content_block_start:tool_use content_block_delta:input_json_delta content_block_stop "
        "message_delta message_stop"
    ),
    "openai-responses": (
        "response.created response.in_progress "
        "response.output_item.added:reasoning response.reasoning_summary_part.added response.reasoning_summary_text.delta "
        "response.reasoning_summary_text.done response.reasoning_summary_part.done response.output_item.done:reasoning "
        "response.output_item.added:message response.content_part.added response.output_text.delta "
        "response.output_text.done response.content_part.done response.output_item.done:message "
        "response.output_item.added:function_call response.function_call_arguments.delta "
        "response.function_call_arguments.done response.output_item.done:function_call "
        "response.output_item.added:function_call response.function_call_arguments.delta "
        "response.function_call_arguments.done response.output_item.done:function_call "
        "response.completed"
    ),
    "cohere": (
        "message-start content-start content-delta content-end content-start content-delta content-end "
        "tool-call-start tool-call-delta tool-call-end tool-call-start tool-call-delta tool-call-end message-end"
    ),
}
TOLD = Answer(
    (Act("thinking", ("t",)), Act("text", ("a",)), Act("call", ("{}",), "f"), Act("call", ("{}",), "g")), "tool_use"
)


def told(wire: str) -> list[dict[str, Any]]:
    data = b"".join(written(make_writer(wire, CONTEXT), speak(TOLD, wire)))
    return [json.loads(line[6:]) for line in data.splitlines() if line.startswith(b"data: {")]


@pytest.mark.parametrize("wire", SEQUENCES)
def test_events_come_in_the_wires_own_order(wire: str) -> None:
    """Clients read this order; the empty signature behind unsigned thinking, which says nothing to us, is waited for by some."""

    def name(event: dict[str, Any]) -> str:
        inner = event.get("item") or event.get("content_block") or event.get("delta")
        kind = inner.get("type") if isinstance(inner, dict) else None
        return f"{event['type']}:{kind}" if kind else event["type"]

    assert [name(event) for event in told(wire)] == SEQUENCES[wire].split()


def test_responses_number_every_event_and_item() -> None:
    events = told("openai-responses")
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    done = [event for event in events if event["type"] == "response.output_item.done"]
    assert [event["output_index"] for event in done] == [0, 1, 2, 3]
    assert all(event["item"]["call_id"].startswith("call_") for event in done[2:])
    assert len({event["item"]["id"] for event in done}) == 4
    assert {event["summary_index"] for event in events if "summary_index" in event} == {0}, "one part a summary"
    last = events[-1]["response"]
    assert last["output"] == [event["item"] for event in done] and last["id"] == CONTEXT.response_id


def test_chat_says_the_role_first_and_numbers_its_calls() -> None:
    chunks = told("openai-chat")
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert deltas[0] == {"role": "assistant", "content": "", "refusal": None} and deltas[-1] == {}
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert [(call["index"], "id" in call) for call in calls] == [(0, True), (0, False), (1, True), (1, False)]


def test_a_gemini_array_is_one_json_array() -> None:
    """Our own reader does without commas; others do not."""
    for answer in (TOLD, replace(TOLD, failure="overloaded")):
        chunks = json.loads(
            b"".join(written(make_writer("gemini", replace(CONTEXT, array=True)), speak(answer, "gemini")))
        )
        assert all("candidates" in chunk for chunk in chunks[:-1]) and len(chunks) > 4


def test_a_gemini_signature_is_base64_or_left_out() -> None:
    events = speak(Answer((Act("thinking", ("t",), signature="no base64!"), Act("text", ("a",)))), "gemini")
    writer = make_writer("gemini", CONTEXT)
    assert b"thoughtSignature" not in b"".join(written(writer, events))
    assert [note.code for note in writer.notes] == ["foreign_signature"]


@pytest.mark.parametrize("wire", EVENTFUL)
def test_a_call_without_arguments_has_an_empty_object(wire: str) -> None:
    """No text is no JSON, and clients parse what they get."""
    events = speak(Answer((Act("call", (), "f"),), "tool_use"), wire)
    body = make_writer(wire, CONTEXT).body(last_turn(events))
    whole = DecodeContext(get_wire(wire).default, "read", "m").decoder().read_body(body)
    for found in (read(wire, written(make_writer(wire, CONTEXT), events)), whole):
        assert last_turn(found).tool_calls[0].arguments == "{}"


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("usage", [None, Usage(5, 3)])
def test_a_raw_completion_counts_where_it_was_asked_to(usage: Usage | None, counted: bool) -> None:
    events = speak(Answer((Act("text", ("a",)),), usage=usage), "completion")
    data = b"".join(written(make_writer("completion", replace(CONTEXT, usage=counted)), events))
    chunks = [json.loads(line[6:]) for line in data.splitlines() if line.startswith(b"data: {")]
    told = [chunk["usage"]["total_tokens"] for chunk in chunks if chunk.get("usage")]
    assert told == ([8] if usage is not None and counted else [])
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk["choices"]][-1] == "stop"


@pytest.mark.parametrize(
    ("format", "written_id"), [("mistral", r'"id": ?"(\w+)"'), ("kimi", r"call_begin\|>(\S+?)<\|")]
)
def test_a_call_in_a_raw_completion_has_its_id_where_the_format_writes_one(format: str, written_id: str) -> None:
    events = speak(Answer((Act("call", ('{"a":1}',), "f"),), "tool_use"), "completion")
    data = b"".join(written(make_writer("completion", replace(CONTEXT, habits=Habits(text_format=format))), events))
    chunks = [json.loads(line[6:]) for line in data.splitlines() if line.startswith(b"data: {")]
    text = "".join([chunk["choices"][0]["text"] for chunk in chunks if chunk["choices"]])
    found = re.search(written_id, text)
    assert found is not None and found[1], text
