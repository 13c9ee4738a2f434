"""The rules of the Cohere decoder, one by one, and that no bytes can break it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from midstream import MidstreamError, decode_response, make_decoder
from midstream.core.blocks import Opaque, Text, Thinking, ToolCall
from midstream.core.events import Done, ErrorEvent, ErrorInfo
from midstream.core.lifecycle import check
from midstream.wires.cohere.wire import DEFAULT
from midstream.wires.decode_context import DecodeContext
from midstream.wires.stream_decoder import StreamDecoder
from tests.wires.feeding import by_byte, events_of

START = {"type": "message-start", "id": "r1", "delta": {"message": {"role": "assistant", "content": []}}}


def event(kind: str, index: int | None = None, **message: Any) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {"type": kind, **place, **({"delta": {"message": message}} if message else {})}


def text(words: str, index: int = 0) -> dict[str, Any]:
    return event("content-delta", index, content={"text": words})


def thinking(words: str) -> dict[str, Any]:
    return event("content-delta", 0, content={"thinking": words})


def plan(words: str) -> dict[str, Any]:
    return event("tool-plan-delta", tool_plan=words)


def call(index: int | None, name: str, arguments: str = "", id: str | None = None) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return event("tool-call-start", index, tool_calls={"id": id, "type": "function", "function": function})


def more(index: int | None, arguments: str) -> dict[str, Any]:
    return event("tool-call-delta", index, tool_calls={"function": {"arguments": arguments}})


def stop(index: int) -> dict[str, Any]:
    return event("tool-call-end", index)


def end(reason: str | None = "COMPLETE", **fields: Any) -> dict[str, Any]:
    return {"type": "message-end", "delta": {"finish_reason": reason, **fields}}


def sse(*events: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in events)


def decoder(**fields: Any) -> StreamDecoder:
    return DecodeContext(DEFAULT, "t", **fields).decoder()


def last(*events: Any, **fields: Any) -> Any:
    raw = sse(*events)
    found = events_of(decoder(**fields), [raw])
    assert events_of(decoder(**fields), by_byte(raw)) == found
    return found[-1]


def turn(*events: Any, **fields: Any) -> Any:
    closing = last(*events, **fields)
    assert isinstance(closing, Done), closing
    return closing.turn


def test_thinking_plan_text_and_calls_keep_their_order_and_fields() -> None:
    got = turn(
        START, thinking("h"), thinking("m"), plan("I "), plan("look"), text("So"), text("."),
        call(0, "f", id="x"), more(0, '{"a"'), more(0, ":1}"), stop(0), call(1, "g", "{}", id="y"), stop(1), end("TOOL_CALL"),
    )  # fmt: skip
    assert [type(block) for block in got.blocks] == [Thinking, Thinking, Text, ToolCall, ToolCall]
    assert [(b.text, b.field) for b in got.blocks[:2]] == [("hm", "thinking"), ("I look", "tool_plan")]
    assert [(c.raw_id, c.name, c.arguments) for c in got.tool_calls] == [("x", "f", '{"a":1}'), ("y", "g", "{}")]
    assert (got.text, got.stop_reason, got.raw_stop, got.response_id) == ("So.", "tool_use", "TOOL_CALL", "r1")


def test_calls_that_interleave_are_told_apart_by_their_index() -> None:
    got = turn(call(0, "f", id="x"), call(1, "g", id="y"), more(1, '{"b":'), more(0, "{}"), more(1, "2}"), end())
    assert [(c.name, c.arguments) for c in got.tool_calls] == [("f", "{}"), ("g", '{"b":2}')]


def test_pieces_without_an_index_go_to_the_last_call() -> None:
    got = turn(call(None, "f", id="x"), more(None, '{"a"'), more(None, ":1}"), end())
    assert got.tool_calls[0].arguments == '{"a":1}'


def test_arguments_after_the_end_of_a_call_are_malformed() -> None:
    closing = last(call(0, "f"), more(0, "{}"), stop(0), more(0, '{"a":1}'), end())
    assert isinstance(closing, ErrorEvent) and closing.error.kind == "malformed"


def test_a_call_that_is_announced_is_a_new_one() -> None:
    got = turn(call(0, "f"), more(0, "{}"), call(0, "f"), more(0, '{"a":1}'), call(0, "f"), end())
    assert [c.arguments for c in got.tool_calls] == ["{}", '{"a":1}', ""]


def test_a_name_may_come_late_but_must_come() -> None:
    late = event("tool-call-delta", 0, tool_calls={"function": {"name": "f", "arguments": "{}"}})
    assert turn(call(0, "", id="x"), late, end()).tool_calls[0].name == "f"
    closing = last(call(0, "", id="x"), more(0, "{}"), stop(0), end())
    assert isinstance(closing, ErrorEvent) and closing.error.kind == "malformed"


def test_arguments_of_no_call_are_malformed() -> None:
    closing = last(more(3, '{"a":1}'), end())
    assert isinstance(closing, ErrorEvent) and closing.error.kind == "malformed"


def test_names_that_were_changed_come_back() -> None:
    assert turn(call(0, "a_b"), stop(0), end(), tool_names={"a_b": "a-b"}).tool_calls[0].name == "a-b"


def test_what_a_part_starts_with_is_part_of_it() -> None:
    got = turn(
        event("content-start", 0, content={"type": "text", "text": "a"}), text("b"), event("content-end", 0), end()
    )
    assert got.blocks == (Text("ab"),)


def test_parts_are_blocks_of_their_own() -> None:
    opening = [event("content-start", index, content={"type": "text", "text": ""}) for index in (0, 1)]
    got = turn(opening[0], text("a"), event("content-end", 0), opening[1], text("b", 1), event("content-end", 1), end())
    assert got.blocks == (Text("a"), Text("b"))


def test_citations_are_kept_behind_the_text() -> None:
    first, second = {"start": 0, "end": 1, "text": "a"}, {"start": 1, "end": 2, "text": "b"}
    got = turn(
        text("a"), event("citation-start", 0, citations=first), event("citation-end", 0), text("b"),
        event("citation-start", 1, citations=second), event("citation-end", 1), end(),
    )  # fmt: skip
    assert got.text == "ab"
    assert got.blocks[-1] == Opaque("citations", [first, second], got.origin)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("COMPLETE", "end_turn"), ("STOP_SEQUENCE", "end_turn"), ("MAX_TOKENS", "max_tokens"), ("TOOL_CALL", "end_turn"),
        ("ERROR_LIMIT", "max_tokens"), ("ERROR_TOXIC", "refusal"), ("USER_CANCEL", "USER_CANCEL"), (None, "end_turn"),
    ],
)  # fmt: skip
def test_finish_reasons(raw: str | None, reason: str) -> None:
    got = turn(text("a"), end(raw))
    assert (got.stop_reason, got.raw_stop) == (reason, raw)


def test_nothing_before_a_stop_sequence_is_an_answer() -> None:
    assert turn(START, end("STOP_SEQUENCE")).stop_reason == "stop_sequence"


@pytest.mark.parametrize("only", [thinking("hm"), plan("hm")])
def test_thinking_alone_is_an_empty_answer(only: Any) -> None:
    closing = last(only, end())
    assert isinstance(closing, ErrorEvent) and closing.error.kind == "empty"


@pytest.mark.parametrize(
    ("closing", "words", "kind"),
    [
        (end("ERROR", error="out of memory"), "out of memory", "provider"),
        (end("ERROR"), "gave no reason", "provider"),
        (end("TIMEOUT"), "TIMEOUT", "overloaded"),
        (end(None, error="it broke"), "it broke", "provider"),
        ({"id": "r", "message": "too many tokens: size limit exceeded"}, "too many tokens", "context_too_long"),
        ({"type": "error", "error": {"message": "rate_limit"}}, "rate_limit", "rate_limited"),
    ],
)
def test_an_error_ends_the_stream_and_keeps_what_came(closing: Any, words: str, kind: str) -> None:
    found = last(text("a"), closing)
    assert isinstance(found, ErrorEvent) and found.error.kind == kind, found
    assert words in found.error.message and found.turn.text == "a"


def test_usage_of_an_error_is_kept() -> None:
    assert last(text("a"), end("ERROR", usage={"tokens": {"input_tokens": 7}})).turn.usage.input == 7


@pytest.mark.parametrize("events", [(), (text("a"),), (text("a"), event("content-end", 0))])
def test_without_its_end_it_is_truncated(events: Any) -> None:
    closing = last(*events)
    assert isinstance(closing, ErrorEvent) and closing.error.kind == "truncated" and closing.error.retryable
    assert closing.turn.text == ("a" if events else "")


def test_nothing_follows_the_end() -> None:
    assert turn(text("a"), end(), text("b")).text == "a"


def test_events_we_do_not_know_say_that_the_stream_lives() -> None:
    assert turn({"type": "debug", "prompt": "x"}, text("a"), {"type": "new-thing", "message": "x"}, end()).text == "a"


def test_usage() -> None:
    raw = {
        "billed_units": {"input_tokens": 3, "output_tokens": 2},
        "tokens": {"input_tokens": 500, "output_tokens": 9, "reasoning_tokens": 4},
        "cached_tokens": 448,
    }
    usage = turn(text("a"), end(usage=raw)).usage
    assert (usage.input, usage.output, usage.cache_read, usage.reasoning) == (500, 9, 448, 4)
    assert (usage.read, usage.fresh, usage.raw) == (500, 52, raw)
    assert turn(text("a"), end(usage={"billed_units": {"input_tokens": 3}})).usage.input == 3
    assert turn(text("a"), end(usage={"tokens": {"input_tokens": "x", "output_tokens": -1}})).usage.output == 0


def test_the_name_of_an_event_counts_where_its_type_is_missing() -> None:
    raw = b'event: content-delta\ndata: {"delta":{"message":{"content":{"text":"a"}}}}\n\n' + sse(end())
    assert events_of(decoder(), [raw])[-1].turn.text == "a"


BODY = {
    "id": "r1",
    "message": {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "a"},
            {"type": "image", "data": 1},
        ],
        "tool_plan": "look",
        "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}],
        "citations": [{"start": 0}],
    },
    "finish_reason": "TOOL_CALL",
    "usage": {"tokens": {"input_tokens": 7, "output_tokens": 3}},
}


def test_a_whole_body() -> None:
    got = decode_response(json.dumps(BODY).encode(), wire="cohere", turn_key="t")
    assert [(b.text, b.field) for b in got.blocks if isinstance(b, Thinking)] == [
        ("hm", "thinking"),
        ("look", "tool_plan"),
    ]
    assert [(b.kind, b.data) for b in got.blocks if isinstance(b, Opaque)] == [
        ("image", {"type": "image", "data": 1}), ("citations", [{"start": 0}])
    ]  # fmt: skip
    assert (got.text, got.tool_calls[0].arguments, got.stop_reason) == ("a", '{"a":1}', "tool_use")
    assert (got.usage.input, got.usage.output, got.response_id) == (7, 3, "r1")


def test_a_whole_body_may_come_as_one_event() -> None:
    assert turn(BODY) == decode_response(json.dumps(BODY).encode(), wire="cohere", turn_key="t")


@pytest.mark.parametrize("body", [{"message": "nope"}, {"id": "x", "message": "nope"}, {"error": "nope"}])
@pytest.mark.parametrize("status", [200, 400])
def test_errors_of_a_whole_answer_are_raised(body: Any, status: int) -> None:
    with pytest.raises(MidstreamError, match="nope"):
        decode_response(json.dumps(body).encode(), wire="cohere", status=status)


def test_a_dialect_with_think_tags_has_them_read() -> None:
    dialect = replace(DEFAULT, reasoning=replace(DEFAULT.reasoning, tags=("<think>", "</think>")))
    found = events_of(make_decoder(dialect=dialect, turn_key="t"), [sse(text("<think>hm</think>a"), end())])
    assert (found[-1].turn.thinking, found[-1].turn.text) == ("hm", "a")
    held = events_of(make_decoder(dialect=dialect, turn_key="t"), [sse(text("a <thi"), end())])
    assert held[-1].turn.text == "a <thi"


@pytest.mark.parametrize("raw", [b"<html>no</html>", b"[1]\n", b"data: nonsense\n\n", b"{}", b'{"message": {'])
def test_what_is_no_answer_is_malformed(raw: bytes) -> None:
    for chunks in ([raw], by_byte(raw)):
        closing = events_of(decoder(), chunks)[-1]
        assert isinstance(closing, ErrorEvent) and closing.error.kind == "malformed"


def test_what_is_too_long_is_refused() -> None:
    raw = sse(text("a")) + b'data: {"a":"' + b"x" * 300
    for chunks in ([raw], by_byte(raw)):
        closing = events_of(decoder(limit=200), chunks)[-1]
        assert isinstance(closing, ErrorEvent) and closing.error.kind == "limit" and closing.turn.text == "a"


def test_surprising_types_cost_only_their_field() -> None:
    got = turn(
        {**START, "id": 7},
        event("content-delta", 0, content=["no"]),
        {"type": "tool-call-start", "index": "x", "delta": {"message": {"tool_calls": [{"id": 7, "function": {"name": "f"}}]}}},
        {"type": "message-end", "delta": {"finish_reason": 7, "usage": 7}},
    )  # fmt: skip
    assert (got.text, got.tool_calls[0].name, got.tool_calls[0].raw_id) == ('["no"]', "f", None)
    assert (got.raw_stop, got.response_id, got.usage) == (None, None, None)


def test_a_lost_connection_keeps_what_came() -> None:
    open_decoder = decoder()
    events = open_decoder.feed(sse(text("a")))
    events += open_decoder.fail(ErrorInfo("transport", "reset"))
    check(events)
    assert events[-1].turn.text == "a" and events[-1].error.kind == "transport"


_KINDS = [
    "message-start", "content-start", "content-delta", "content-end", "tool-plan-delta", "tool-call-start", "tool-call-delta",
    "tool-call-end", "citation-start", "citation-end", "message-end", "error", "other",
]  # fmt: skip
_KEYS = [
    "message", "content", "text", "thinking", "tool_plan", "tool_calls", "function", "name", "arguments", "id", "citations",
    "finish_reason", "usage", "tokens", "input_tokens", "error", "type",
]  # fmt: skip
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "COMPLETE", "x", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
    max_leaves=10,
)
_EVENTS = st.builds(
    lambda kind, index, message: {"type": kind, "index": index, "delta": {"message": message}},
    st.sampled_from(_KINDS),
    st.none() | st.integers(-1, 2),
    st.dictionaries(st.sampled_from(_KEYS), _JSON, max_size=4),
)


@settings(max_examples=300, deadline=None)
@given(events=st.lists(_EVENTS | _JSON, max_size=5), cuts=st.lists(st.integers(0, 500), max_size=8))
def test_any_events_in_any_cut_give_the_same_lawful_events(events: list[Any], cuts: list[int]) -> None:
    raw = sse(*events)
    places = sorted({min(place, len(raw)) for place in cuts})
    chunks = [raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True)]
    assert events_of(decoder(), chunks) == events_of(decoder(), [raw])


@settings(max_examples=300, deadline=None)
@given(head=st.sampled_from([b"", b"{", b"<", b"data: {", b'{"message":']), raw=st.binary(max_size=60))
def test_any_bytes_give_events_and_one_end(head: bytes, raw: bytes) -> None:
    events_of(decoder(), [head + raw])
    check(decoder().read_body(head + raw))


@settings(max_examples=300, deadline=None)
@given(body=st.dictionaries(st.sampled_from(_KEYS), _JSON, max_size=6))
def test_any_body_gives_events_and_one_end(body: dict[str, Any]) -> None:
    check(decoder().read_body(json.dumps(body).encode()))
