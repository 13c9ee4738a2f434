"""The chat decoder's rules, one by one, on answers written for them."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from midstream import ToolSpec, decode_response, decode_stream, make_decoder, reduce, resolve
from midstream.core.blocks import Media, Opaque, Text, Thinking, ToolCall, Turn
from midstream.core.errors import BadRequest, MalformedStream, RateLimited
from midstream.core.events import Done, ErrorEvent, ErrorInfo, ToolCallDelta, ToolCallStart
from midstream.wires.sse import DEFAULT_LIMIT
from midstream.wires.stream_decoder import StreamDecoder
from tests.wires.feeding import at_random, by_byte, events_of


def sse(*chunks: Any, done: bool = True) -> bytes:
    lines = [f"data: {chunk if isinstance(chunk, str) else json.dumps(chunk)}\n\n" for chunk in chunks]
    return "".join([*lines, "data: [DONE]\n\n" if done else ""]).encode()


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "r1", "model": "m", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(
    index: int | None = None, id: str | None = None, name: str | None = None, arguments: Any = None
) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fields = {"index": index, "id": id, "function": function}
    return {key: value for key, value in fields.items() if value is not None}


def fresh(dialect: str | None = None) -> StreamDecoder:
    return make_decoder(wire="openai-chat", dialect=dialect, turn_key="t")


def decode(raw: bytes, dialect: str | None = None) -> list[Any]:
    whole = events_of(fresh(dialect), [raw])
    assert events_of(fresh(dialect), by_byte(raw)) == whole
    return whole


def done(raw: bytes, dialect: str | None = None) -> Turn:
    last = decode(raw, dialect)[-1]
    assert isinstance(last, Done), last
    return last.turn


def error(raw: bytes, dialect: str | None = None) -> ErrorEvent:
    last = decode(raw, dialect)[-1]
    assert isinstance(last, ErrorEvent), last
    return last


def calls(*deltas: Any, finish: str = "tool_calls") -> list[tuple[str | None, str, str]]:
    turn = done(sse(*[delta(tool_calls=part if isinstance(part, list) else [part]) for part in deltas], delta(finish)))
    return [(found.raw_id, found.name, found.arguments) for found in turn.tool_calls]


def test_arrival_order_of_reasoning_and_text_is_kept() -> None:
    turn = done(
        sse(delta(reasoning_content="a"), delta(content="b"), delta(reasoning_content="c"), delta("stop", content="d"))
    )
    assert [(type(block), block.text) for block in turn.blocks] == [
        (Thinking, "a"), (Text, "b"), (Thinking, "c"), (Text, "d"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "text", "field"),
    [
        ({"reasoning_content": "x", "reasoning": "x"}, "x", "reasoning_content"),
        ({"reasoning": "x", "reasoning_details": [{"type": "reasoning.text", "text": "x"}]}, "x", "reasoning"),
        ({"reasoning_text": "x"}, "x", "reasoning_text"),
        ({"reasoning_details": [{"type": "reasoning.summary", "summary": "x"}]}, "x", "reasoning_details"),
        ({"reasoning_details": "x"}, "x", "reasoning_details"),
    ],
)
def test_reasoning_is_read_from_one_field_and_its_name_remembered(fields: Any, text: str, field: str) -> None:
    block = done(sse(delta(**fields), delta("stop", content="y"))).blocks[0]
    assert isinstance(block, Thinking)
    assert (block.text, block.field) == (text, field)


def test_empty_reasoning_is_kept_where_it_must_be_echoed_and_absent_stays_absent() -> None:
    stream = sse(delta(reasoning_content=""), delta("stop", tool_calls=[call(0, "a", "f", "{}")]))
    kept = done(stream, "moonshot-k2.5").blocks
    assert isinstance(kept[0], Thinking) and kept[0].text == "" and kept[0].field == "reasoning_content"
    assert [type(block) for block in done(stream).blocks] == [ToolCall]
    assert [type(block) for block in done(sse(delta("stop", content="x")), "moonshot-k2.5").blocks] == [Text]


def test_tool_deltas_go_by_id_then_index_then_last() -> None:
    assert calls(call(0, "a", "f", '{"x"'), call(1, "b", "g", '{"y"'), call(0, arguments=":1}"), call(1, arguments=":2}")) == [
        ("a", "f", '{"x":1}'), ("b", "g", '{"y":2}'),
    ]  # fmt: skip
    assert calls(call(0, "a", "f", "{"), call(0, "", arguments="}")) == [("a", "f", "{}")]
    assert calls(call(7, "a", "f", "{"), call(arguments="}")) == [("a", "f", "{}")]
    assert calls(call(None, "a", "f", "{}"), call(None, "b", "g", "{}")) == [("a", "f", "{}"), ("b", "g", "{}")]
    assert calls(call(0, "a", "f", "{}"), call(0, "b", "f", "{}")) == [("a", "f", "{}"), ("b", "f", "{}")]
    assert calls(call(1, "a", "f", "{}"), call(3, "b", "g", "{}")) == [("a", "f", "{}"), ("b", "g", "{}")]
    assert calls(call(0, "same", "f", "{}"), call(1, "same", "g", "{}")) == [("same", "f", "{}"), ("same", "g", "{}")]
    assert calls([call(0, "a", "f", "{}"), call(1, "b", "g", "{}")]) == [("a", "f", "{}"), ("b", "g", "{}")]


def test_a_name_a_host_repeats_in_every_piece_is_one_call_and_a_second_whole_call_is_another() -> None:
    assert calls(call(0, None, "f", '{"x"'), call(0, None, "f", ":1}")) == [(None, "f", '{"x":1}')]
    assert calls(call(0, None, "f", "{}"), call(0, None, "f", "{}")) == [(None, "f", "{}"), (None, "f", "{}")]


@pytest.mark.parametrize("index", [{}, {"index": 0}])
def test_in_a_whole_body_a_repeated_id_is_another_call(index: dict[str, int]) -> None:
    """As llama.cpp answers when the model numbers two calls alike."""
    twice = [
        {**index, "id": "functions.f:2", "function": {"name": "f", "arguments": f'{{"a":{number}}}'}}
        for number in range(2)
    ]
    body = {"choices": [{"message": {"tool_calls": twice}, "finish_reason": "tool_calls"}]}
    found = decode_response(json.dumps(body).encode(), turn_key="t").tool_calls
    assert [call.arguments for call in found] == ['{"a":0}', '{"a":1}'] and len({call.id for call in found}) == 2


def test_a_late_name_and_a_late_id_are_waited_for() -> None:
    raw = sse(
        delta(tool_calls=[call(0, None, None, '{"x"')]),
        delta(tool_calls=[call(0, "late", "f", ":1}")]),
        delta("tool_calls"),
    )
    events = decode(raw)
    starts = [event for event in events if isinstance(event, ToolCallStart)]
    assert [start.name for start in starts] == ["f"]
    turn = events[-1].turn
    assert [(c.raw_id, c.arguments) for c in turn.tool_calls] == [("late", '{"x":1}')]


def test_a_call_that_never_gets_a_name_is_an_error_not_a_call() -> None:
    assert error(sse(delta(tool_calls=[call(0, "a", None, "{}")]), delta("tool_calls"))).error.kind == "malformed"


@pytest.mark.parametrize(("arguments", "raw"), [(None, ""), ("", ""), ({"a": 1}, '{"a":1}'), ([1], "[1]")])
def test_arguments_absent_null_empty_or_an_object(arguments: Any, raw: str) -> None:
    assert calls({"index": 0, "id": "a", "function": {"name": "f", "arguments": arguments}}) == [("a", "f", raw)]


def test_the_head_call_streams_and_the_others_follow() -> None:
    events = decode(
        sse(
            delta(tool_calls=[call(0, "a", "f", "1"), call(1, "b", "g", "2")]),
            delta(tool_calls=[call(0, arguments="3")]),
            delta("tool_calls", tool_calls=[call(1, arguments="4")]),
        )
    )
    assert [event.delta for event in events if isinstance(event, ToolCallDelta)] == ["1", "3", "2", "4"]


def test_ids_are_canonical_and_the_raw_one_is_kept() -> None:
    first = done(sse(delta("tool_calls", tool_calls=[call(0, "0", "f", "{}")])))
    other = make_decoder(wire="openai-chat", turn_key="another")
    again = list(other.feed(sse(delta("tool_calls", tool_calls=[call(0, "0", "f", "{}")]))))[-1].turn
    assert first.tool_calls[0].id.startswith("hist_tool_")
    assert first.tool_calls[0].raw_id == "0"
    assert first.tool_calls[0].id != again.tool_calls[0].id


@pytest.mark.parametrize(
    ("raw", "reason"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"), ("weird", "weird")],
)
def test_stop_reasons(raw: str, reason: str) -> None:
    turn = done(sse(delta(raw, content="x")))
    assert (turn.stop_reason, turn.raw_stop) == (reason, raw)


def test_calls_that_end_with_stop_are_calls() -> None:
    turn = done(sse(delta("stop", tool_calls=[call(0, "a", "f", "{}")])))
    assert (turn.stop_reason, turn.raw_stop) == ("tool_use", "stop")


def test_a_finish_reason_is_not_unsaid_by_what_follows() -> None:
    turn = done(
        sse(delta(content="x"), delta("stop"), delta(None, content=""), {"choices": [], "usage": {"prompt_tokens": 3}})
    )
    assert turn.stop_reason == "end_turn"
    assert turn.usage is not None and turn.usage.input == 3


def test_usage_is_counted_once_wherever_it_stands() -> None:
    usage = {"prompt_tokens": 8, "completion_tokens": 5, "cached_tokens": 3}
    choice = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop", "usage": usage}]}
    for extra in ([], [{"choices": [], "usage": usage}], [{"choices": [], "x_groq": {"usage": usage}}]):
        found = done(sse(choice, *extra)).usage
        assert found is not None
        assert (found.input, found.output, found.cache_read) == (8, 5, 3)


@pytest.mark.parametrize("end", [True, False])
def test_an_end_that_was_not_said_is_truncated_and_keeps_what_came(end: bool) -> None:
    failed = error(sse(delta(content="half"), done=end))
    assert (failed.error.kind, failed.error.retryable, failed.turn.text) == ("truncated", True, "half")
    assert failed.turn.failure == "truncated"


def test_finish_without_done_is_done() -> None:
    assert done(sse(delta("stop", content="x"), done=False)).text == "x"


@pytest.mark.parametrize("text", ["", "  \n"])
def test_thinking_and_nothing_else_is_empty_but_a_length_stop_is_not(text: str) -> None:
    assert error(sse(delta(reasoning_content="hm"), delta("stop", content=text))).error.kind == "empty"
    assert done(sse(delta(reasoning_content="hm"), delta("length", content=text))).stop_reason == "max_tokens"


@pytest.mark.parametrize(
    "stream",
    [
        sse(delta(content="x"), {"error": {"message": "slow down", "type": "rate_limit_reached_error", "code": 429}}),
        sse(delta(content="x")).replace(b"data: [DONE]", b'event: error\ndata: {"message":"slow down","code":"429"}'),
    ],
)
def test_an_error_inside_the_stream_is_the_providers_and_keeps_the_text(stream: bytes) -> None:
    failed = error(stream)
    assert (failed.error.kind, failed.error.status, failed.error.message) == ("rate_limited", 429, "slow down")
    assert failed.turn.text == "x"
    assert isinstance(failed.to_exception(), RateLimited)


@pytest.mark.parametrize("body", [b"<html><title>502</title></html>", b"data: {nope}\n\n", b"data: 7\n\n"])
def test_what_is_no_chat_answer_is_malformed(body: bytes) -> None:
    assert error(body).error.kind == "malformed"


def test_a_whole_body_where_a_stream_was_due_is_read_as_one() -> None:
    body = json.dumps({"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}).encode()
    assert done(body).text == "hi"
    assert error(b'{"error":{"message":"no"}}').error.kind == "provider"
    assert error(b"").error.kind == "truncated"


def test_content_as_parts_with_thinking_among_them() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "t"}]},
        {"type": "text", "text": "x"},
        {"type": "reference", "ids": [1]},
    ]
    turn = done(sse(delta("stop", content=parts)))
    assert (turn.thinking, turn.text) == ("t", "x")
    assert turn.blocks[-1].kind == "reference"  # type: ignore[union-attr]


def test_think_tags_become_thinking_where_the_dialect_says_so() -> None:
    stream = sse(delta(content="<thi"), delta(content="nk>hm</th"), delta("stop", content="ink>ok"))
    turn = done(stream, "minimax")
    assert (turn.thinking, turn.text.strip()) == ("hm", "ok")
    assert "<think>" in done(stream).text


LEAK = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>"
    '{"path":"a"}<|tool_call_end|><|tool_calls_section_end|>'
)


def test_an_answer_that_was_to_begin_inside_its_thinking_and_has_no_tag_is_text() -> None:
    known = resolve("vllm/my-finetune").dialect
    inside = replace(known, reasoning=replace(known.reasoning, tags=("<think>", "</think>"), starts_inside=True))
    for said, text, failure in (("Hi", "Hi", ""), ("Hm.</think>Hi", "Hi", ""), ("Hm.</think>", "", "empty")):
        turn = reduce(decode_stream(sse(delta(content=said), delta("stop")), dialect=inside, turn_key="k"))
        assert (turn.text, turn.failure) == (text, failure)


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
def test_calls_leaked_into_text_or_reasoning_are_calls_where_the_host_is_known_to_leak(field: str) -> None:
    cut = len(LEAK) // 2
    raw = sse(delta(**{field: "so " + LEAK[:cut]}), delta(**{field: LEAK[cut:]}), delta(content="ok"), delta("stop"))
    events: list[Any] = []
    for tools in ((ToolSpec("read"),), ()):
        decoder = make_decoder(dialect="deepinfra-kimi-k2.5", turn_key="t", tools=tools)
        events = events_of(decoder, by_byte(raw))
        turn = events[-1].turn
        assert "<|" not in turn.text + turn.thinking
        found = [(call.name, call.arguments) for call in turn.tool_calls]
        assert found == ([("read", '{"path":"a"}')] if tools else [])
        assert bool(turn.extra and turn.extra.get("problems")) is not bool(tools)


def test_surprising_types_are_taken_for_what_they_mean() -> None:
    odd = {"id": 7, "model": None, "usage": None, "choices": [
        {"index": 0, "delta": {"content": "x", "reasoning": {"a": 1}, "tool_calls": None, "refusal": None}, "finish_reason": "stop"}]}  # fmt: skip
    assert done(sse(odd)).text == "x"


def test_hostile_json_is_a_defined_value_or_a_typed_error() -> None:
    nan = '{"choices":[{"index":0,"delta":{"content":"x"},"logprobs":NaN,"finish_reason":"stop"}]}'
    assert done(sse(nan)).text == "x"
    lone = '{"choices":[{"index":0,"delta":{"content":"a\\ud800b"},"finish_reason":"stop"}]}'
    assert done(sse(lone)).text == "a\ufffdb"
    twice = '{"choices":[{"index":0,"delta":{"content":"1","content":"2"},"finish_reason":"stop"}]}'
    assert done(sse(twice)).text == "2"
    deep = '{"choices":' + "[" * 100_000 + "]" * 100_000 + "}"
    assert error(sse(deep)).error.kind == "malformed"
    digits = '{"choices":[{"index":0,"delta":{"content":"x"},"usage":{"a":' + "9" * 6000 + "}}]}"
    assert error(sse(digits)).error.kind in ("malformed", "truncated")


def test_a_line_without_end_is_a_limit_error_and_little_memory() -> None:
    tracemalloc.start()
    decoder = fresh()
    events = []
    for _ in range(1024):
        events += decoder.feed(b"x" * 65536 if decoder.progress or events else b"data: " + b"x" * 65536)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert events[-1].error.kind == "limit"
    assert peak < DEFAULT_LIMIT + 32 * 1024 * 1024


def test_a_whole_answer_and_its_errors() -> None:
    body = json.dumps(
        {"choices": [{"message": {"content": "hi", "reasoning": "hm"}, "finish_reason": "stop"}]}
    ).encode()
    assert decode_response(body, wire="openai-chat").text == "hi"
    refused = json.dumps({"error": {"message": "bad", "type": "invalid_request_error"}}).encode()
    with pytest.raises(BadRequest, match="bad"):
        decode_response(refused, wire="openai-chat", status=400)
    with pytest.raises(MalformedStream):
        decode_response(b"not json", wire="openai-chat")


@settings(max_examples=300)
@given(st.binary(max_size=300), st.integers(0, 10_000))
def test_any_bytes_give_events_and_one_end(data: bytes, seed: int) -> None:
    noise = data.replace(b"\x00", b"data: ").replace(b"\x01", b"\n\n").replace(b"\x02", b'{"choices":[{"delta":')
    raw = sse(delta(content="x"), done=False) + noise
    assert events_of(fresh(), [raw]) == events_of(fresh(), at_random(raw, seed))


_DELTAS = st.one_of(
    st.builds(lambda text: delta(content=text), st.text(max_size=8)),
    st.builds(lambda text: delta(reasoning_content=text), st.text(max_size=8)),
    st.builds(
        lambda *fields: delta(tool_calls=[call(*fields)]),
        st.sampled_from([None, 0, 1, 5]),
        st.sampled_from([None, "", "a", "b"]),
        st.sampled_from([None, "f", "g"]),
        st.sampled_from([None, "", "{}", '{"x":', "1}"]),
    ),
)


@settings(max_examples=300)
@given(st.lists(_DELTAS, max_size=12), st.sampled_from(["stop", "tool_calls", "length", None]), st.integers(0, 10_000))
def test_any_stream_of_deltas_is_lawful_at_any_cut(deltas: list[Any], finish: str | None, seed: int) -> None:
    raw = sse(*deltas, delta(finish))
    assert events_of(fresh(), [raw]) == events_of(fresh(), at_random(raw, seed))


@pytest.mark.parametrize("kind", ["citations", "search_results"])
def test_sources_of_the_whole_answer_are_kept_once(kind: str) -> None:
    sources = {kind: [{"url": "https://example.com"}]}
    turn = done(sse({**delta(content="x"), **sources}, {**delta("stop"), **sources}), "xai")
    assert [(block.kind, block.data) for block in turn.blocks if isinstance(block, Opaque)] == [(kind, sources[kind])]
    assert error(sse({**delta("stop"), **sources}), "xai").error.kind == "empty"


def test_what_else_an_answer_carries_is_kept() -> None:
    fields: dict[str, Any] = {"audio": {"id": "a"}, "annotations": [{"n": 1}], "images": [{"i": 1}]}
    turn = done(sse(delta(content="x"), *[delta(**{name: value}) for name, value in fields.items()], delta("stop")))
    assert {block.kind: block.data for block in turn.blocks if isinstance(block, Opaque)} == fields


def test_a_refusal_is_text_that_says_so() -> None:
    assert done(sse(delta(refusal="no"), delta("stop"))).blocks == (Text("no", {"refusal": True}),)


def test_the_old_form_of_a_call() -> None:
    pieces = [{"name": "f", "arguments": ""}, {"arguments": '{"a"'}, {"arguments": ":1}"}]
    turn = done(sse(*[delta(function_call=piece) for piece in pieces], delta("function_call")))
    assert [(found.name, found.arguments) for found in turn.tool_calls] == [("f", '{"a":1}')]
    assert turn.stop_reason == "tool_use"


def test_a_call_with_free_form_input() -> None:
    custom = {"index": 0, "id": "c", "type": "custom", "custom": {"name": "g", "input": "free text"}}
    (found,) = done(sse(delta(tool_calls=[custom]), delta("tool_calls"))).tool_calls
    assert (found.name, found.arguments, found.kind) == ("g", '{"input":"free text"}', "freeform")


def test_structured_reasoning_comes_together_where_it_is_wanted_back() -> None:
    pieces = [
        {"type": "reasoning.text", "index": 0, "text": "h"},
        {"type": "reasoning.text", "index": 0, "text": "m", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "e"},
    ]
    chunks = [delta(reasoning_details=[piece]) for piece in pieces]
    turn = done(sse(*chunks, delta("stop", content="a")), "openrouter")
    assert (turn.thinking, turn.text) == ("hm", "a")
    joined = {"type": "reasoning.text", "index": 0, "text": "hm", "signature": "s"}
    assert turn.extra == {"reasoning_details": [joined, pieces[2]]}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"content": {"type": "text", "text": "a"}}, "a"),
        ({"content": ["a", 3, {"type": "text", "text": "b"}]}, "a3b"),
        ({"content": 7}, "7"),
        ({"content": "a", "annotations": 3, "images": "x", "audio": 1}, "a"),
    ],
    ids=str,
)
def test_content_of_odd_shapes(fields: dict[str, Any], text: str) -> None:
    assert done(sse(delta(**fields), delta("stop"))).text == text


def test_calls_of_odd_shapes() -> None:
    one = {"id": 5, "function": {"name": "f", "arguments": "{}"}}
    assert calls([one, 3]) == [("5", "f", "{}")]
    turn = done(sse(delta(tool_calls=one), delta("tool_calls")))
    assert [found.raw_id for found in turn.tool_calls] == ["5"]


def test_an_image_among_the_parts() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://example.com/a"}}
    assert done(sse(delta(content=[part]), delta("stop", content="a"))).blocks[0] == Media(
        "image/*", url="https://example.com/a"
    )


def test_a_lost_connection_after_the_end_is_an_end() -> None:
    lost = ErrorInfo("transport", "reset", retryable=True)
    for chunks, kind in (([delta("stop", content="a")], Done), ([delta(content="a")], ErrorEvent)):
        decoder = fresh()
        events = [*decoder.feed(sse(*chunks, done=False)), *decoder.fail(lost)]
        assert isinstance(events[-1], kind) and events[-1].turn.text == "a"
        assert decoder.ended and decoder.feed(sse(delta(content="late"))) == []


@pytest.mark.parametrize("odd", [{"id": 7}, {"usage": 3}, {"model": ["m"]}], ids=str)
def test_an_oddly_typed_chunk_without_a_finish_reason_ends_nothing(odd: dict[str, Any]) -> None:
    chunk = {**delta(None, content="half"), **odd}
    for end in (True, False):
        failed = error(sse(chunk, done=end))
        assert (failed.error.kind, failed.turn.text) == ("truncated", "half")
    assert done(sse(chunk, {**delta(None), **odd, "choices": [{"delta": {}, "finish_reason": 7}]})).raw_stop == "7"
