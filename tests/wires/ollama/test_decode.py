"""The rules of the Ollama decoder, one by one, and that no bytes can break it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from midstream import MidstreamError, decode_response, make_decoder
from midstream.core.blocks import Media, Text, Thinking, ToolCall
from midstream.core.events import Done, ErrorEvent, ErrorInfo
from midstream.core.lifecycle import check
from midstream.wires.decode_context import DecodeContext
from midstream.wires.ollama.wire import DEFAULT
from midstream.wires.stream_decoder import StreamDecoder
from tests.wires.feeding import by_byte, events_of


def line(content: str = "", *, done: bool = False, reason: str | None = "stop", **message: Any) -> dict[str, Any]:
    end = {"done_reason": reason} if done and reason else {}
    return {"model": "m", "message": {"role": "assistant", "content": content, **message}, "done": done, **end}


def ndjson(*lines: Any) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in lines)


def decoder(**fields: Any) -> StreamDecoder:
    return DecodeContext(DEFAULT, "t", **fields).decoder()


def last(*lines: Any, **fields: Any) -> Any:
    raw = ndjson(*lines)
    events = events_of(decoder(**fields), [raw])
    assert events_of(decoder(**fields), by_byte(raw)) == events
    return events[-1]


def turn(*lines: Any, **fields: Any) -> Any:
    end = last(*lines, **fields)
    assert isinstance(end, Done), end
    return end.turn


def call(name: str, arguments: Any, **fields: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **fields}


def test_thinking_text_and_calls_keep_their_order() -> None:
    got = turn(
        line(thinking="h"),
        line(thinking="m"),
        line("I "),
        line("see"),
        line(tool_calls=[call("f", {"a": 1}, id="x"), call("f", {})]),
        line(done=True),
    )
    assert [type(block) for block in got.blocks] == [Thinking, Text, ToolCall, ToolCall]
    assert (got.thinking, got.text, got.stop_reason, got.raw_stop) == ("hm", "I see", "tool_use", "stop")
    assert got.blocks[0].field == "thinking" and got.origin.model == "m"
    assert [(each.arguments, each.raw_id) for each in got.tool_calls] == [('{"a":1}', "x"), ("{}", None)]
    assert len({each.id for each in got.tool_calls}) == 2


def test_large_integers_stay_exact() -> None:
    raw = b'{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"n": 123456789012345678901234567890}}}]},"done":true}\n'
    got = events_of(decoder(), [raw])[-1].turn
    assert got.tool_calls[0].arguments == '{"n":123456789012345678901234567890}'


def test_arguments_that_come_as_text_are_taken() -> None:
    assert turn(line(tool_calls=[call("f", '{"a": 1}')], done=True)).tool_calls[0].arguments == '{"a": 1}'


def test_names_that_were_changed_come_back() -> None:
    assert turn(line(tool_calls=[call("a_b", {})], done=True), tool_names={"a_b": "a/b"}).tool_calls[0].name == "a/b"


def test_images_are_kept() -> None:
    assert turn(line(images=["QUJD"]), line(done=True)).blocks == (Media("image/*", data="QUJD"),)


@pytest.mark.parametrize(
    ("raw", "reason"), [("stop", "end_turn"), ("length", "max_tokens"), ("load", "load"), (None, "end_turn")]
)
def test_done_reasons(raw: str | None, reason: str) -> None:
    got = turn(line("a"), line(done=True, reason=raw))
    assert (got.stop_reason, got.raw_stop) == (reason, raw)


def test_loading_a_model_is_no_empty_answer() -> None:
    assert turn(line(done=True, reason="load")).stop_reason == "load"


def test_thinking_alone_is_an_empty_answer() -> None:
    end = last(line(thinking="hm"), line(done=True))
    assert isinstance(end, ErrorEvent) and end.error.kind == "empty"


@pytest.mark.parametrize("lines", [(), (line("a"),), (line("a"), {"done": False})])
def test_without_done_it_is_truncated(lines: Any) -> None:
    end = last(*lines)
    assert isinstance(end, ErrorEvent) and end.error.kind == "truncated" and end.error.retryable
    assert end.turn.text == ("a" if lines else "")


def test_nothing_follows_done() -> None:
    assert turn(line("a"), line(done=True), line("b")).text == "a"


def test_usage_comes_with_the_last_line() -> None:
    got = turn(line("a"), {**line(done=True), "prompt_eval_count": 7, "eval_count": 3, "eval_duration": 99})
    assert (got.usage.input, got.usage.output) == (7, 3)
    assert got.usage.raw == {"prompt_eval_count": 7, "eval_count": 3, "eval_duration": 99}


def test_an_error_line_ends_the_stream() -> None:
    end = last(line("a"), {"error": "model runner has unexpectedly stopped"})
    assert isinstance(end, ErrorEvent) and end.error.kind == "provider" and "runner" in end.error.message
    assert end.turn.text == "a"


def test_errors_of_a_whole_answer_are_raised() -> None:
    for status in (200, 404):
        with pytest.raises(MidstreamError, match="not found"):
            decode_response(b'{"error":"model \\"x\\" not found"}', wire="ollama", status=status)


def test_a_body_laid_out_over_lines_is_read() -> None:
    body = json.dumps(line("a", done=True), indent=1).encode()
    assert decode_response(body, wire="ollama").text == "a"


def test_a_dialect_with_think_tags_has_them_read() -> None:
    dialect = replace(DEFAULT, reasoning=replace(DEFAULT.reasoning, tags=("<think>", "</think>")))
    events = events_of(
        make_decoder(dialect=dialect, turn_key="t"), [ndjson(line("<think>hm</think>a"), line(done=True))]
    )
    assert (events[-1].turn.thinking, events[-1].turn.text) == ("hm", "a")


@pytest.mark.parametrize("raw", [b"<html>no</html>", b"[1]\n", b"nonsense\n", b'{"message": {\n'])
def test_what_is_no_answer_is_malformed(raw: bytes) -> None:
    for chunks in ([raw], by_byte(raw)):
        end = events_of(decoder(), chunks)[-1]
        assert isinstance(end, ErrorEvent) and end.error.kind == "malformed"


def test_what_is_too_long_is_refused() -> None:
    raw = ndjson(line("a")) + b'{"a":"' + b"x" * 300
    for chunks in ([raw], by_byte(raw)):
        end = events_of(decoder(limit=200), chunks)[-1]
        assert isinstance(end, ErrorEvent) and end.error.kind == "limit" and end.turn.text == "a"
    assert decoder(limit=10).read_body(raw)[-1].error.kind == "limit"


def test_surprising_types_cost_only_their_field() -> None:
    got = turn(
        {
            "message": {"content": "a", "thinking": 7, "tool_calls": [7, {"id": 7, "function": {"name": "f"}}]},
            "model": 7,
        },
        {"message": {"content": ["no"], "images": [7, "QUJD"]}},
        {"message": 7, "done": True, "done_reason": 7, "eval_count": 3.0, "prompt_eval_count": "x"},
    )
    assert (got.text, got.tool_calls[0].name, got.tool_calls[0].raw_id, got.raw_stop) == ('a["no"]', "f", None, None)
    assert got.blocks[-1] == Media("image/*", data="QUJD")
    assert (got.usage.input, got.usage.output) == (0, 3)


def test_a_lost_connection_keeps_what_came() -> None:
    open_decoder = decoder()
    events = open_decoder.feed(ndjson(line("a")))
    events += open_decoder.fail(ErrorInfo("transport", "reset"))
    check(events)
    assert events[-1].turn.text == "a" and events[-1].error.kind == "transport"


_KEYS = [
    "message", "content", "thinking", "tool_calls", "function", "name", "arguments", "id", "images", "done", "done_reason",
    "error", "model", "eval_count", "prompt_eval_count",
]  # fmt: skip
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "stop", "x", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=5),
    max_leaves=10,
)
_LINES = st.builds(
    lambda message, done: {**line(done=done), "message": message},
    st.dictionaries(st.sampled_from(_KEYS[1:9]), _JSON, max_size=4),
    st.booleans(),
)


@settings(max_examples=300, deadline=None)
@given(lines=st.lists(_LINES | _JSON, max_size=4), cuts=st.lists(st.integers(0, 500), max_size=8))
def test_any_lines_in_any_cut_give_the_same_lawful_events(lines: list[Any], cuts: list[int]) -> None:
    raw = ndjson(*lines)
    places = sorted({min(place, len(raw)) for place in cuts})
    chunks = [raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True)]
    assert events_of(decoder(), chunks) == events_of(decoder(), [raw])


@settings(max_examples=300, deadline=None)
@given(head=st.sampled_from([b"", b"{", b"<", b'{"message":']), raw=st.binary(max_size=60))
def test_any_bytes_give_events_and_one_end(head: bytes, raw: bytes) -> None:
    events_of(decoder(), [head + raw])
    check(decoder().read_body(head + raw))
