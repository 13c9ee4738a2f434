"""The rules of reading a Responses answer, one by one, and its properties."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream import Turn, make_decoder
from midstream.core.blocks import Opaque, Text, Thinking, ToolCall
from midstream.core.events import Done, ErrorEvent, ErrorInfo, Event, Start
from midstream.core.lifecycle import check
from tests.wires.feeding import by_lengths, events_of

WIRE = "openai-responses"


def sse(*events: dict[str, Any], named: bool = True) -> bytes:
    return b"".join(
        (b"event: %b\n" % event["type"].encode() if named else b"") + b"data: %b\n\n" % json.dumps(event).encode()
        for event in events
    )


def created(response_id: str = "resp_1") -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": response_id, "model": "m", "output": []}}


def added(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": item}


def text_delta(index: int, delta: str, part: int = 0) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": index, "content_index": part, "delta": delta}


def argument_delta(index: int, delta: str, item_id: str = "") -> dict[str, Any]:
    event = {"type": "response.function_call_arguments.delta", "output_index": index, "delta": delta}
    return {**event, "item_id": item_id} if item_id else event


def completed(status: str = "completed", output: Any = (), **fields: Any) -> dict[str, Any]:
    kind = status if status in ("incomplete", "failed") else "completed"
    response = {"id": "resp_1", "status": status, "output": list(output), **fields}
    return {"type": f"response.{kind}", "response": response}


def decode(*events: dict[str, Any], **options: Any) -> list[Event]:
    return events_of(make_decoder(wire=WIRE, turn_key="t", **options), [sse(*events)])


def turn_of(*events: dict[str, Any], **options: Any) -> Turn:
    last = decode(*events, **options)[-1]
    assert isinstance(last, Done), last
    return last.turn


def failure_of(*events: dict[str, Any]) -> ErrorEvent:
    last = decode(*events)[-1]
    assert isinstance(last, ErrorEvent), last
    return last


MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}


def test_the_response_begins_with_its_id_and_ends_with_the_last_one() -> None:
    final = completed(output=[])
    final["response"]["id"] = "resp_2"
    events = decode(created("resp_1"), text_delta(0, "hi"), final)
    assert events[0] == Start("t", "m", "resp_1")
    assert events[-1].turn.response_id == "resp_2"


def test_streams_without_event_names_and_names_without_types_read_the_same() -> None:
    events = [created(), text_delta(0, "hi"), completed()]
    whole = decode(*events)
    assert events_of(make_decoder(wire=WIRE, turn_key="t"), [sse(*events, named=False)]) == whole
    untyped = b"".join(
        b"event: %b\ndata: %b\n\n"
        % (event["type"].encode(), json.dumps({key: value for key, value in event.items() if key != "type"}).encode())
        for event in events
    )
    assert events_of(make_decoder(wire=WIRE, turn_key="t"), [untyped]) == whole


def test_item_ids_may_change_between_events() -> None:
    turn = turn_of(
        created(),
        added(0, type="function_call", id="a1", call_id="c1", name="f", arguments=""),
        added(1, type="function_call", id="a2", call_id="c2", name="g", arguments=""),
        argument_delta(1, '{"y"', "b2"),
        argument_delta(0, '{"x"', "b1"),
        argument_delta(1, ":2}", "c2"),
        argument_delta(0, ":1}", "c1"),
        done(0, type="function_call", id="d1", call_id="c1", name="f", arguments='{"x":1}'),
        done(1, type="function_call", id="d2", call_id="c2", name="g", arguments='{"y":2}'),
        completed(),
    )
    calls = [(call.name, call.raw_id, call.arguments) for call in turn.tool_calls]
    assert calls == [("f", "c1", '{"x":1}'), ("g", "c2", '{"y":2}')]
    assert turn.stop_reason == "tool_use"


def test_hosts_that_repeat_an_output_index_are_told_apart_by_item_id() -> None:
    turn = turn_of(
        added(0, type="function_call", id="fc_1", call_id="c1", name="f"),
        added(0, type="function_call", id="fc_2", call_id="c2", name="g"),
        argument_delta(0, '{"a":1}', "fc_1"),
        argument_delta(0, '{"b":2}', "fc_2"),
        done(0, type="function_call", id="fc_1", call_id="c1", name="f", arguments='{"a":1}'),
        done(0, type="function_call", id="fc_2", call_id="c2", name="g", arguments='{"b":2}'),
        completed(),
    )
    assert [call.arguments for call in turn.tool_calls] == ['{"a":1}', '{"b":2}']


@pytest.mark.parametrize("with_deltas", [0, 3, 7])
def test_arguments_come_in_deltas_or_whole_never_twice(with_deltas: int) -> None:
    arguments = '{"x":1}'
    deltas = [argument_delta(0, arguments[:with_deltas])] if with_deltas else []
    item = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f"}
    whole = {"type": "response.function_call_arguments.done", "output_index": 0, "arguments": arguments}
    turn = turn_of(added(0, **item, arguments=""), *deltas, whole, done(0, **item, arguments=arguments), completed())
    assert turn.tool_calls[0].arguments == arguments


def test_a_call_nobody_announced_gets_its_name_at_its_end() -> None:
    turn = turn_of(
        argument_delta(0, "{}", "fc_1"),
        done(0, type="function_call", id="fc_1", call_id="c1", name="f", arguments="{}"),
        completed(),
    )
    call = turn.tool_calls[0]
    assert (call.name, call.raw_id, call.arguments) == ("f", "c1", "{}")


def test_items_come_from_their_done_events_when_the_final_output_is_empty() -> None:
    turn = turn_of(created(), done(0, **MESSAGE, content=[{"type": "output_text", "text": "hi"}]), completed(output=[]))
    assert turn.text == "hi"


def test_items_come_from_the_final_output_when_nothing_was_streamed() -> None:
    call = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"}
    output = [{**MESSAGE, "content": [{"type": "output_text", "text": "hi"}]}, call]
    turn = turn_of(created(), completed(output=output))
    assert turn.text == "hi"
    assert turn.tool_calls[0].name == "f"


def test_an_item_begun_and_never_done_is_finished_from_the_final_output() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    turn = turn_of(added(0, type="web_search_call", id="ws_1"), text_delta(1, "hi"), completed(output=[search]))
    assert [type(block) for block in turn.blocks] == [Text, Opaque]


def test_a_message_keeps_its_fields_and_citations() -> None:
    cited = {"type": "url_citation", "url": "https://example.com"}
    part = {"type": "output_text", "text": "hi", "annotations": [cited], "logprobs": []}
    turn = turn_of(
        added(0, **MESSAGE, content=[]),
        text_delta(0, "hi"),
        {"type": "response.content_part.done", "output_index": 0, "content_index": 0, "part": part},
        done(0, **MESSAGE, phase="final_answer", content=[part]),
        completed(),
    )
    fields = {"id": "msg_1", "status": "completed", "phase": "final_answer"}
    assert turn.blocks == (Text("hi", {"annotations": [cited], "item": fields}),)


def test_annotations_that_only_come_as_events_are_kept() -> None:
    cited = {"type": "url_citation", "url": "https://example.com"}
    turn = turn_of(
        text_delta(0, "hi"),
        {"type": "response.output_text.annotation.added", "output_index": 0, "annotation": cited},
        done(0, type="message", content=[{"type": "output_text", "text": "hi"}]),
        completed(),
    )
    assert turn.blocks == (Text("hi", {"annotations": [cited]}),)


def test_each_part_of_a_message_is_a_text_of_its_own() -> None:
    parts = [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]
    turn = turn_of(text_delta(0, "a", 0), text_delta(0, "b", 1), done(0, type="message", content=parts), completed())
    assert turn.blocks == (Text("a"), Text("b"))


def test_a_refusal_is_text_and_marked() -> None:
    refusal = {"type": "response.refusal.delta", "output_index": 0, "content_index": 0, "delta": "no"}
    turn = turn_of(refusal, completed())
    assert turn.blocks == (Text("no", {"refusal": True}),)
    whole = turn_of(done(0, type="message", content=[{"type": "refusal", "refusal": "no"}]), completed())
    assert whole.blocks == turn.blocks


def test_reasoning_is_one_block_an_item_with_its_summary_its_content_and_what_is_encrypted() -> None:
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "ab"}, {"type": "summary_text", "text": "c"}],
        "encrypted_content": "secret",
    }
    kind = "response.reasoning_summary_text.delta"
    turn = turn_of(
        {"type": kind, "output_index": 0, "summary_index": 0, "delta": "a"},
        {"type": kind, "output_index": 0, "summary_index": 0, "delta": "b"},
        {"type": kind, "output_index": 0, "summary_index": 1, "delta": "c"},
        done(0, **item),
        text_delta(1, "hi"),
        completed(),
    )
    thinking = turn.blocks[0]
    assert isinstance(thinking, Thinking)
    assert (thinking.text, thinking.field, thinking.encrypted) == ("abc", "summary", "secret")
    assert thinking.extra == {"item": {"id": "rs_1"}, "lengths": {"summary": [2, 1], "content": []}}
    assert turn_of(done(0, **item), text_delta(1, "hi"), completed()).blocks == turn.blocks


def test_reasoning_repeated_in_the_other_field_is_not_doubled() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "a"}]}
    delta = {"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "delta": "a"}
    assert turn_of(delta, done(0, **item), text_delta(1, "hi"), completed()).thinking == "a"


def test_reasoning_without_text_is_kept() -> None:
    turn = turn_of(
        done(0, type="reasoning", id="rs_1", summary=[], encrypted_content="x"), text_delta(1, "hi"), completed()
    )
    assert isinstance(turn.blocks[0], Thinking)
    assert turn.blocks[0].encrypted == "x"


def test_items_of_built_in_tools_are_kept_whole() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q"}}
    turn = turn_of(added(0, **search), done(0, **search), text_delta(1, "hi"), completed())
    block = turn.blocks[0]
    assert isinstance(block, Opaque)
    assert (block.kind, block.data) == ("web_search_call", search)


def test_a_custom_call_is_a_call_with_text_for_input() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "run"}
    turn = turn_of(
        added(0, **item, input=""),
        {"type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": "print(1)"},
        done(0, **item, input="print(1)"),
        completed(),
    )
    call = turn.tool_calls[0]
    assert (call.arguments, call.kind, call.extra) == ('{"input":"print(1)"}', "freeform", {"item": {"id": "ctc_1"}})


def test_names_go_back_to_the_tools_own() -> None:
    item = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "my_tool", "arguments": "{}"}
    turn = turn_of(added(0, **item), done(0, **item), completed(), tool_names={"my_tool": "my.tool"})
    assert turn.tool_calls[0].name == "my.tool"


@pytest.mark.parametrize(
    ("final", "reason", "raw"),
    [
        (completed(), "end_turn", "completed"),
        (completed("complete"), "end_turn", "complete"),
        (
            completed("incomplete", incomplete_details={"reason": "max_output_tokens"}),
            "max_tokens",
            "incomplete:max_output_tokens",
        ),
        (
            completed("incomplete", incomplete_details={"reason": "content_filter"}),
            "refusal",
            "incomplete:content_filter",
        ),
        (completed("incomplete"), "max_tokens", "incomplete"),
        (completed("cancelled"), "cancelled", "cancelled"),
    ],
)
def test_the_end_is_said_by_the_status(final: dict[str, Any], reason: str, raw: str) -> None:
    turn = turn_of(text_delta(0, "hi"), final)
    assert (turn.stop_reason, turn.raw_stop) == (reason, raw)


def test_usage_is_read_from_the_final_response() -> None:
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 5},
    }
    found = turn_of(text_delta(0, "hi"), completed(usage=usage)).usage
    assert found is not None
    assert (found.input, found.cache_read, found.output, found.reasoning, found.raw) == (10, 4, 7, 5, usage)


@pytest.mark.parametrize("usage", [None, 7, {"input_tokens": None}, {"input_tokens": 1e999}, {"input_tokens": -1}])
def test_odd_usage_counts_nothing(usage: Any) -> None:
    found = turn_of(text_delta(0, "hi"), completed(usage=usage)).usage
    assert found is None or found.input == 0


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": None},
        {"type": "error", "error": {"type": "rate_limit", "code": "rate_limit_exceeded", "message": "slow down"}},
        completed("failed", error={"code": "rate_limit_exceeded", "message": "slow down"}),
        {"type": "", "error": {"code": "rate_limit_exceeded", "message": "slow down"}},
    ],
)
def test_an_error_in_the_stream_ends_it_and_keeps_what_came(event: dict[str, Any]) -> None:
    last = failure_of(created(), text_delta(0, "hi"), event, text_delta(0, "more"))
    assert (last.error.kind, last.error.code, last.error.message) == (
        "rate_limited",
        "rate_limit_exceeded",
        "slow down",
    )
    assert last.error.retryable
    assert last.turn.text == "hi"


def test_done_or_eof_alone_is_truncated() -> None:
    for tail in (b"", b"data: [DONE]\n\n"):
        last = events_of(make_decoder(wire=WIRE, turn_key="t"), [sse(created(), text_delta(0, "hi")), tail])[-1]
        assert isinstance(last, ErrorEvent)
        assert (last.error.kind, last.turn.text) == ("truncated", "hi")


def test_thinking_alone_is_empty() -> None:
    assert failure_of(done(0, type="reasoning", id="rs_1", summary=[]), completed()).error.kind == "empty"


def test_a_lost_transport_keeps_what_came() -> None:
    decoder = make_decoder(wire=WIRE, turn_key="t")
    events = decoder.feed(sse(created(), text_delta(0, "hi")))
    events += decoder.fail(ErrorInfo("transport", "gone"))
    check(events)
    assert events[-1].turn.text == "hi"
    assert decoder.fail(ErrorInfo("transport", "gone")) == []


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"error":{"message":"no","code":"x"}}', "provider"),
        (b'{"detail":"no"}', "provider"),
        (b'{"status":"failed","output":[],"error":{"code":"server_error","message":"no"}}', "overloaded"),
        (b'{"status":"in_progress","output":[]}', "truncated"),
        (b'{"a":1}', "malformed"),
        (b"[1]", "malformed"),
        (b"<html>", "malformed"),
        (b"", "malformed"),
        (b'{"status":"completed","output":[]}', "empty"),
    ],
)
def test_bodies_that_are_no_answer(body: bytes, kind: str) -> None:
    events = make_decoder(wire=WIRE, turn_key="t").read_body(body)
    check(events)
    assert isinstance(events[-1], ErrorEvent)
    assert events[-1].error.kind == kind


def test_a_body_where_a_stream_was_due_is_read() -> None:
    body = json.dumps({"id": "r", "status": "completed", "output": [{**MESSAGE, "content": "hi"}]}).encode()
    last = events_of(make_decoder(wire=WIRE, turn_key="t"), [b" ", body[:9], body[9:]])[-1]
    assert isinstance(last, Done)
    assert last.turn.text == "hi"


def test_progress_counts_data_and_not_comments() -> None:
    decoder = make_decoder(wire=WIRE, turn_key="t")
    decoder.feed(b": ping\n\n" + sse(created()))
    assert decoder.progress == 1


CALL = {"type": "function_call", "call_id": "c1", "name": "look"}
SPOKEN = {
    "text": sse(
        created(),
        added(0, **MESSAGE, content=[]),
        text_delta(0, "h\u00e9 "),
        text_delta(0, "\u4f60"),
        done(0, **MESSAGE, content=[{"type": "output_text", "text": "h\u00e9 \u4f60", "annotations": []}]),
        completed(usage={"input_tokens": 3, "output_tokens": 2}),
    ),
    "thinking and calls": sse(
        created(),
        added(0, type="reasoning", id="rs_1", summary=[]),
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0, "delta": "hm"},
        done(0, type="reasoning", id="rs_1", summary=[{"type": "summary_text", "text": "hm"}], encrypted_content="e"),
        added(1, **CALL, id="fc_1", arguments=""),
        argument_delta(1, '{"at"', "fc_1"),
        argument_delta(1, ': "sea"}', "fc_1"),
        done(1, **CALL, id="fc_1", arguments='{"at": "sea"}'),
        done(2, type="web_search_call", id="ws_1", status="completed"),
        completed(),
    ),
    "failed": sse(created(), text_delta(0, "so"), completed("failed", error={"code": "server_error", "message": "x"})),
}


def test_the_spoken_answers_are_read() -> None:
    told = {name: events_of(make_decoder(wire=WIRE, turn_key="t"), [data])[-1] for name, data in SPOKEN.items()}
    assert [type(last) for last in told.values()] == [Done, Done, ErrorEvent]
    assert told["text"].turn.text == "h\u00e9 \u4f60"
    assert [type(block) for block in told["thinking and calls"].turn.blocks] == [Thinking, ToolCall, Opaque]
    assert told["failed"].turn.text == "so"


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(SPOKEN)), st.lists(st.integers(1, 400), max_size=40))
def test_any_split_gives_the_same_events(name: str, lengths: list[int]) -> None:
    data = SPOKEN[name]
    whole = events_of(make_decoder(wire=WIRE, turn_key="t"), [data])
    assert events_of(make_decoder(wire=WIRE, turn_key="t"), by_lengths(data, lengths)) == whole


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=600), st.lists(st.integers(1, 60), max_size=20))
def test_any_bytes_give_events_and_one_end(data: bytes, lengths: list[int]) -> None:
    events_of(make_decoder(wire=WIRE, turn_key="t"), by_lengths(data, lengths))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(SPOKEN)), st.data())
def test_damaged_streams_give_events_and_one_end(name: str, data: st.DataObject) -> None:
    raw = bytearray(SPOKEN[name])
    for place in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=20)):
        raw[place] = data.draw(st.integers(0, 255))
    events_of(make_decoder(wire=WIRE, turn_key="t"), [bytes(raw)])


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_TYPES = st.sampled_from(
    ["response.created", "response.output_item.added", "response.output_item.done", "response.output_text.delta",
     "response.content_part.done", "response.function_call_arguments.delta", "response.function_call_arguments.done",
     "response.reasoning_text.delta", "response.reasoning_summary_text.delta", "response.refusal.delta", "error",
     "response.output_text.annotation.added", "response.completed", "response.incomplete", "response.failed"]
)  # fmt: skip
_ITEM = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "reasoning", "function_call", "custom_tool_call", "web_search_call"]) | _JSON},
    optional={
        "id": _JSON,
        "call_id": _JSON,
        "name": _JSON,
        "arguments": _JSON,
        "input": _JSON,
        "content": _JSON | st.lists(st.fixed_dictionaries({"text": _JSON}), max_size=2),
        "summary": _JSON | st.lists(st.fixed_dictionaries({"text": _JSON}), max_size=2),
        "encrypted_content": _JSON,
    },
)
_RESPONSE = st.fixed_dictionaries(
    {}, optional={"id": _JSON, "model": _JSON, "status": _JSON, "output": st.lists(_ITEM | _JSON, max_size=3),
                  "usage": _JSON, "error": _JSON, "incomplete_details": _JSON}
)  # fmt: skip
_EVENT = st.fixed_dictionaries(
    {"type": _TYPES},
    optional={
        "delta": _JSON,
        "output_index": st.integers(0, 2) | _JSON,
        "content_index": st.integers(0, 2) | _JSON,
        "summary_index": _JSON,
        "item_id": _JSON,
        "item": _ITEM | _JSON,
        "part": _JSON,
        "annotation": _JSON,
        "response": _RESPONSE | _JSON,
        "arguments": _JSON,
        "name": _JSON,
        "error": _JSON,
    },
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_EVENT, max_size=8), st.lists(st.integers(1, 200), max_size=20))
def test_events_of_any_shape_give_events_and_one_end(events: list[dict[str, Any]], lengths: list[int]) -> None:
    data = sse(*events)
    whole = events_of(make_decoder(wire=WIRE, turn_key="t"), [data])
    assert repr(events_of(make_decoder(wire=WIRE, turn_key="t"), by_lengths(data, lengths))) == repr(whole)


@settings(max_examples=150, deadline=None)
@given(_RESPONSE | _JSON)
def test_bodies_of_any_shape_give_events_and_one_end(body: Any) -> None:
    check(make_decoder(wire=WIRE, turn_key="t").read_body(json.dumps(body).encode()))


def test_what_is_decoded_is_a_call_with_a_canonical_id() -> None:
    item = {"type": "function_call", "id": "fc_1", "call_id": "c:1", "name": "f", "arguments": "{}"}
    call = turn_of(done(0, **item), completed()).blocks[0]
    assert isinstance(call, ToolCall)
    assert call.id.startswith("hist_tool_")
    assert call.raw_id == "c:1"
