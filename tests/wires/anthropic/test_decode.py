"""Oddities of Anthropic's streams and bodies, one by one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream import decode_response, make_decoder
from midstream.core.blocks import Opaque, Origin, Text, Thinking, ToolCall, Turn
from midstream.core.errors import MalformedStream, Overloaded
from midstream.core.events import BlockEvent, Done, ErrorEvent, ErrorInfo, ToolCallDelta
from midstream.core.lifecycle import check
from tests.long_run import each_once
from tests.wires.feeding import by_byte, by_lengths, events_of

START = {"type": "message_start", "message": {"id": "m", "model": "claude-x", "usage": {"input_tokens": 7}}}
STOP = {"type": "message_stop"}


def finish(reason: str | None = "end_turn", **usage: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def opened(block: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def piece(delta: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def closed(index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def says(words: str, index: int = 0) -> list[dict[str, Any]]:
    return [
        opened({"type": "text", "text": ""}, index),
        piece({"type": "text_delta", "text": words}, index),
        closed(index),
    ]


def stream(*told: Any) -> bytes:
    flat = [event for item in told for event in (item if isinstance(item, list) else [item])]
    return b"".join(b"event: %b\ndata: %b\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in flat)


def events(*told: Any, **kwargs: Any) -> list[Any]:
    raw = stream(*told)
    made = events_of(make_decoder(wire="anthropic", turn_key="t", **kwargs), [raw])
    assert made == events_of(make_decoder(wire="anthropic", turn_key="t", **kwargs), by_byte(raw))
    return made


def turn(*told: Any) -> Turn:
    last = events(*told)[-1]
    assert isinstance(last, Done)
    return last.turn


def test_usage_is_revised_by_what_message_delta_carries_only() -> None:
    first = {"input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 2}
    start = {"type": "message_start", "message": {"usage": first}}
    got = turn(start, says("a"), finish(output_tokens=9, cache_read_input_tokens=None)).usage
    assert got is not None
    assert (got.input, got.output, got.cache_read, got.cache_write, got.cache_in_input) == (7, 9, 5, 2, False)
    assert got.read == 14
    revised = turn(start, says("a"), finish(input_tokens=3, output_tokens_details={"thinking_tokens": 4})).usage
    assert revised is not None and (revised.input, revised.reasoning) == (3, 4)


@pytest.mark.parametrize(
    ("raw", "ours"),
    [
        ("end_turn", "end_turn"), ("stop_sequence", "end_turn"), ("max_tokens", "max_tokens"), ("refusal", "refusal"),
        ("pause_turn", "pause_turn"), ("compaction", "compaction"), ("model_context_window_exceeded", "max_tokens"),
    ],
)  # fmt: skip
def test_stop_reasons(raw: str, ours: str) -> None:
    got = turn(START, says("a"), finish(raw), STOP)
    assert (got.stop_reason, got.raw_stop) == (ours, raw)


def test_pings_and_unknown_events_and_deltas_are_read_past() -> None:
    odd = {"type": "from_the_future", "x": [1]}
    got = turn({"type": "ping"}, START, odd, says("a"), piece({"type": "new_delta", "x": 1}), finish(), STOP)
    assert got.blocks == (Text("a"),)


def test_tool_input_at_the_start_by_deltas_or_not_at_all() -> None:
    def call(given: Any, *parts: str) -> list[Any]:
        use = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": given}
        return [opened(use), *[piece({"type": "input_json_delta", "partial_json": part}) for part in parts], closed()]

    for told, wanted in (
        (call({"a": 1}), '{"a":1}'),
        (call({}, "", '{"a"', ": 2}"), '{"a": 2}'),
        (call({}), "{}"),
        (call({"a": 1}, '{"a": 3}'), '{"a": 3}'),
        (call('{"a": 4}'), '{"a": 4}'),
    ):
        made = events(START, told, finish("tool_use"), STOP)
        got = made[-1].turn.tool_calls[0]
        assert (got.arguments, got.raw_id, made[-1].turn.stop_reason) == (wanted, "toolu_1", "tool_use")
        assert "".join(event.delta for event in made if isinstance(event, ToolCallDelta)) == wanted


def test_thinking_with_its_signature_and_redacted_thinking() -> None:
    thought = [
        opened({"type": "thinking", "thinking": "", "signature": ""}),
        piece({"type": "thinking_delta", "thinking": "hm"}),
        piece({"type": "signature_delta", "signature": "sig"}),
        closed(),
    ]
    hidden = [opened({"type": "redacted_thinking", "data": "xyz"}, 1), closed(1)]
    silent = [
        opened({"type": "thinking", "thinking": ""}, 2),
        piece({"type": "signature_delta", "signature": "s2"}, 2),
        closed(2),
    ]
    got = turn(START, thought, hidden, silent, says("a", 3), finish(), STOP)
    origin = Origin("anthropic", "anthropic", "claude-x")
    assert got.blocks == (
        Thinking("hm", "thinking", "sig", origin=origin),
        Thinking("", "thinking", encrypted="xyz", redacted=True, origin=origin),
        Thinking("", "thinking", "s2", origin=origin),
        Text("a"),
    )


def test_server_blocks_are_kept_whole_and_in_place() -> None:
    use = {"type": "server_tool_use", "id": "s", "name": "web", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"x": 1}]}
    compaction = [
        opened({"type": "compaction", "content": None}, 3),
        piece({"type": "compaction_delta", "content": "so "}, 3),
        piece({"type": "compaction_delta", "content": "far"}, 3),
        closed(3),
    ]
    made = events(
        START,
        says("look"),
        opened(use, 1),
        piece({"type": "input_json_delta", "partial_json": '{"q":'}, 1),
        piece({"type": "input_json_delta", "partial_json": '"x"}'}, 1),
        closed(1),
        opened(found, 2),
        closed(2),
        compaction,
        finish(),
        STOP,
    )
    origin = Origin("anthropic", "anthropic", "claude-x")
    assert made[-1].turn.blocks == (
        Text("look"),
        Opaque("server_tool_use", {**use, "input": {"q": "x"}}, origin),
        Opaque("web_search_tool_result", found, origin),
        Opaque("compaction", {"type": "compaction", "content": "so far"}, origin),
    )
    assert sum(isinstance(event, BlockEvent) for event in made) == 3
    assert not made[-1].turn.tool_calls


def test_citations_stay_on_their_text() -> None:
    cited = [
        opened({"type": "text", "text": "", "citations": []}),
        piece({"type": "citations_delta", "citation": {"n": 1}}),
        piece({"type": "text_delta", "text": "so"}),
        piece({"type": "citations_delta", "citation": {"n": 2}}),
        closed(),
    ]
    got = turn(START, cited, says("plain", 1), finish(), STOP)
    assert got.blocks == (Text("so", {"citations": [{"n": 1}, {"n": 2}]}), Text("plain"))


def test_an_error_event_is_the_providers() -> None:
    failure = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    last = events(START, opened({"type": "text", "text": ""}), piece({"type": "text_delta", "text": "a"}), failure)[-1]
    assert isinstance(last, ErrorEvent)
    assert (last.error.kind, last.error.status, last.error.retryable) == ("overloaded", 529, True)
    assert last.turn.text == "a" and isinstance(last.to_exception(), Overloaded)


def test_the_end_must_be_said() -> None:
    cut = events(START, says("a"))[-1]
    assert isinstance(cut, ErrorEvent) and cut.error.kind == "truncated" and cut.turn.text == "a"
    assert isinstance(events(START, says("a"), finish())[-1], Done)  # a stop reason is enough
    assert turn(START, says("a"), STOP).stop_reason == "end_turn"  # so is message_stop
    silent = events(START, finish(), STOP)[-1]
    assert isinstance(silent, ErrorEvent) and silent.error.kind == "empty"
    assert turn(START, finish("stop_sequence"), STOP).stop_reason == "stop_sequence"


def test_a_lost_connection_after_the_end_is_an_end() -> None:
    lost = ErrorInfo("transport", "reset", retryable=True)
    for told, kind in (([START, *says("a"), finish()], Done), ([START, *says("a")], ErrorEvent)):
        decoder = make_decoder(wire="anthropic", turn_key="t")
        made = [*decoder.feed(stream(*told)), *decoder.fail(lost)]
        assert isinstance(made[-1], kind) and made[-1].turn.text == "a"
        assert decoder.ended and decoder.fail(lost) == []


def test_renamed_tools_come_back_under_their_own_name() -> None:
    use = {"type": "tool_use", "id": "t", "name": "files_list", "input": {}}
    made = events(START, opened(use), closed(), finish("tool_use"), STOP, tool_names={"files_list": "files.list"})
    assert made[-1].turn.tool_calls[0].name == "files.list"


def test_bodies_that_are_no_message() -> None:
    with pytest.raises(MalformedStream):
        decode_response(b"<html><title>502</title></html>", wire="anthropic")
    with pytest.raises(MalformedStream):
        decode_response(b'{"choices":[]}', wire="anthropic")
    with pytest.raises(Overloaded):
        decode_response(b'{"type":"error","error":{"type":"overloaded_error","message":"x"}}', wire="anthropic")
    body = {"type": "message", "content": [{"type": "text", "text": "a"}], "stop_reason": None}
    assert decode_response(json.dumps(body).encode(), wire="anthropic").text == "a"


def test_a_json_body_in_place_of_a_stream_is_read() -> None:
    body = {"type": "message", "content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn"}
    made = events_of(make_decoder(wire="anthropic", turn_key="t"), by_byte(json.dumps(body).encode()))
    assert isinstance(made[-1], Done) and made[-1].turn.text == "a"


def test_what_the_turn_said_of_itself_is_kept() -> None:
    told = {"type": "message_delta", "delta": {"stop_reason": "end_turn", "container": {"id": "c"}}}
    assert turn(START, says("a"), told, STOP).extra == {"container": {"id": "c"}}


SPOKEN = stream(
    START,
    opened({"type": "thinking", "thinking": ""}),
    piece({"type": "thinking_delta", "thinking": "h\u00e9"}),
    piece({"type": "signature_delta", "signature": "c2ln"}),
    closed(),
    opened({"type": "redacted_thinking", "data": "ZGF0YQ=="}, 1),
    closed(1),
    says("\u4f60 sky", 2),
    opened({"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}, 3),
    piece({"type": "input_json_delta", "partial_json": '{"at": '}, 3),
    {"type": "ping"},
    piece({"type": "input_json_delta", "partial_json": '"sea"}'}, 3),
    closed(3),
    opened({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}, 4),
    closed(4),
    finish("tool_use", output_tokens=9),
    STOP,
)
"""An answer with each kind of block."""


def fed(chunks: Any) -> list[Any]:
    return events_of(make_decoder(wire="anthropic", turn_key="t"), chunks)


def test_an_answer_with_each_kind_of_block() -> None:
    last = fed([SPOKEN])[-1]
    assert isinstance(last, Done)
    assert [type(block) for block in last.turn.blocks] == [Thinking, Thinking, Text, ToolCall, Opaque]
    assert (last.turn.text, last.turn.tool_calls[0].arguments) == ("\u4f60 sky", '{"at": "sea"}')


@settings(max_examples=150, deadline=None)
@given(lengths=st.lists(st.integers(1, 400), max_size=30))
def test_any_split_gives_the_same_events(lengths: list[int]) -> None:
    assert fed(by_lengths(SPOKEN, lengths)) == fed([SPOKEN])


_EVENTS = [event for event in SPOKEN.split(b"\n\n") if event]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "index", "delta", "text", "content_block", "message", "usage", "error", "input", "id", "name",
                 "partial_json", "thinking", "signature", "citations", "content", "stop_reason", "data"]
            ),
            inner | st.sampled_from(
                ["text", "tool_use", "thinking", "redacted_thinking", "text_delta", "input_json_delta", "message_start",
                 "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"]
            ),
            max_size=4,
        )
    ),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    pieces=st.lists(
        st.one_of(
            st.sampled_from(_EVENTS),
            st.binary(max_size=40),
            _JSON.map(lambda value: b"data: " + json.dumps(value).encode()),
            st.tuples(st.sampled_from(_EVENTS), st.integers(0, 200)).map(lambda pair: pair[0][: pair[1]]),
        ),
        max_size=12,
    ),
    separator=st.sampled_from([b"\n\n", b"\r\n\r\n", b"\n"]),
)
def test_any_bytes_give_events_and_one_end(pieces: list[bytes], separator: bytes) -> None:
    check(fed([separator.join(pieces)]))


@settings(max_examples=200, deadline=None)
@given(value=_JSON)
def test_any_body_gives_events_and_one_end(value: Any) -> None:
    body = json.dumps(value).encode()
    check(make_decoder(wire="anthropic", turn_key="t").read_body(body))


@each_once(("later", ["", None, 5, [], {}, False]), ("reason", ["max_tokens", "end_turn", "stop_sequence"]), ids=repr)
def test_what_is_no_stop_reason_does_not_unsay_one(reason: str, later: Any) -> None:
    got = turn(START, says("a"), finish(reason), {**finish(), "delta": {"stop_reason": later}}, STOP)
    assert got.raw_stop == reason
    assert got.stop_reason == {"stop_sequence": "end_turn"}.get(reason, reason)


@pytest.mark.parametrize("first", ["tool_use", "server_tool_use"])
def test_a_block_that_was_never_stopped_ends_where_its_index_begins_anew(first: str) -> None:
    call = {"type": first, "id": "a", "name": "look", "input": {}}
    other = {"type": "tool_use", "id": "b", "name": "look", "input": {}}
    found = turn(
        START,
        opened(call),
        piece({"type": "input_json_delta", "partial_json": '{"n": 1}'}),
        opened(other),
        piece({"type": "input_json_delta", "partial_json": '{"n": 2}'}),
        closed(),
        finish("tool_use"),
        STOP,
    )
    assert [block.arguments for block in found.tool_calls][-1] == '{"n": 2}'
    if first == "tool_use":
        assert [block.arguments for block in found.tool_calls] == ['{"n": 1}', '{"n": 2}']
    else:
        assert [block.data["input"] for block in found.blocks if isinstance(block, Opaque)] == [{"n": 1}]


def test_a_block_at_a_new_index_leaves_an_open_call_open() -> None:
    """Imitators interleave them."""
    one, two = ({"type": "tool_use", "id": name, "name": "look", "input": {}} for name in "ab")
    found = turn(
        START,
        opened(one, 0),
        piece({"type": "input_json_delta", "partial_json": '{"n":'}, 0),
        opened(two, 1),
        piece({"type": "input_json_delta", "partial_json": '{"n": 2}'}, 1),
        piece({"type": "input_json_delta", "partial_json": " 1}"}, 0),
        closed(0),
        closed(1),
        finish("tool_use"),
        STOP,
    )
    assert sorted([json.loads(block.arguments)["n"] for block in found.tool_calls]) == [1, 2]
