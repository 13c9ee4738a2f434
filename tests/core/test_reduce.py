from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.core.blocks import Media, Opaque, Origin, Text, Thinking, ToolCall
from midstream.core.errors import LimitExceeded, MalformedStream
from midstream.core.events import (
    Done,
    ErrorEvent,
    ErrorInfo,
    Event,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from midstream.core.ids import canonical_tool_call_id
from midstream.core.lifecycle import Lifecycle, check
from midstream.core.reduce import Piece, TurnBuilder, reduce

ORIGIN = Origin("moonshot", "openai_chat", "kimi-k2")
LOST = ErrorInfo("transport", "gone")


def builder(**options: Any) -> TurnBuilder:
    return TurnBuilder("turn-1", ORIGIN, **options)


def tags(events: list[Event]) -> list[str]:
    return [event.__struct_config__.tag + str(getattr(event, "index", "")) for event in events]  # type: ignore[operator]


deltas = st.sampled_from(["", "a", "bc", "{", "}", "é"])
places = st.integers(0, 5)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("text"), deltas),
        st.tuples(st.just("thinking"), deltas),
        st.tuples(st.just("end_block")),
        st.tuples(st.just("whole"), st.sampled_from([Media("image/png", data="x"), Opaque("k", {"a": 1})])),
        st.tuples(st.just("open"), st.sampled_from([None, "0", "functions.f:0"]), st.sampled_from(["", "f", "g"])),
        st.tuples(st.just("name"), places, st.sampled_from(["f", "late"])),
        st.tuples(st.just("arguments"), places, deltas),
        st.tuples(st.just("raw_id"), places, st.sampled_from(["late-id"])),
        st.tuples(st.just("close"), places),
    ),
    max_size=30,
)
endings = st.sampled_from(["end_turn", "tool_use", "max_tokens", "refusal", "fail"])


class Told:
    """What was told to a builder, remembered the simple way."""

    def __init__(self) -> None:
        self.builder = builder()
        self.calls: list[tuple[Piece, list[str]]] = []
        self.text: list[str] = []
        self.thinking: list[str] = []
        self.wholes: list[Any] = []

    def tell(self, operation: tuple[Any, ...]) -> None:
        match operation:
            case ("text", delta):
                self.builder.text(delta)
                self.text.append(delta)
            case ("thinking", delta):
                self.builder.thinking(delta)
                self.thinking.append(delta)
            case ("end_block",):
                self.builder.end_block()
            case ("whole", block):
                self.builder.whole(block)
                self.wholes.append(block)
            case ("open", raw_id, name):
                self.calls.append((self.builder.open_call(raw_id, name), []))
            case (what, place, *rest) if self.calls:
                piece, arguments = self.calls[place % len(self.calls)]
                if what == "name":
                    self.builder.name_call(piece, rest[0])
                elif what == "raw_id":
                    piece.raw_id = piece.raw_id or rest[0]
                elif what == "close":
                    self.builder.close_call(piece)
                elif not piece.closed:
                    self.builder.call_arguments(piece, rest[0])
                    arguments.append(rest[0])


@given(operations, endings, st.integers(1, 4))
@settings(max_examples=300, deadline=None)
def test_whatever_is_told_the_events_are_lawful_and_tell_the_whole_turn(
    told: list[tuple[Any, ...]], ending: str, every: int
) -> None:
    run = Told()
    events: list[Event] = []
    for number, operation in enumerate(told):
        run.tell(operation)
        if number % every == 0:
            events += run.builder.take()
    if ending == "fail":
        run.builder.fail(LOST)
    else:
        run.builder.finish(ending, "raw")
    events += run.builder.take()

    check(events)
    end = events[-1]
    assert isinstance(end, (Done, ErrorEvent))
    assert reduce(events) == end.turn
    assert reduce(events[:-1]).blocks == end.turn.blocks
    assert (end.turn.key, end.turn.origin, end.turn.speaker) == ("turn-1", ORIGIN, "ai")

    assert end.turn.text == "".join(run.text)
    assert end.turn.thinking == "".join(run.thinking)
    assert [block for block in end.turn.blocks if isinstance(block, (Media, Opaque))] == run.wholes
    named = [(piece.name, "".join(arguments)) for piece, arguments in run.calls if piece.name]
    assert [(call.name, call.arguments) for call in end.turn.tool_calls] == named
    assert len({call.id for call in end.turn.tool_calls}) == len(named)
    starts = [(event.id, event.name) for event in events if isinstance(event, ToolCallStart)]
    assert starts == [(call.id, call.name) for call in end.turn.tool_calls]
    if ending != "fail":
        assert isinstance(end, ErrorEvent) is (len(named) < len(run.calls) or _is_empty(end, ending))


def _is_empty(end: Done | ErrorEvent, ending: str) -> bool:
    nothing = not end.turn.text and all(isinstance(block, (Text, Thinking)) for block in end.turn.blocks)
    return ending in ("end_turn", "tool_use") and nothing


@given(operations, st.integers(0, 60))
@settings(max_examples=200, deadline=None)
def test_a_stream_cut_anywhere_still_reduces(told: list[tuple[Any, ...]], cut: int) -> None:
    run = Told()
    for operation in told:
        run.tell(operation)
    run.builder.fail(LOST)
    events = run.builder.take()[:cut]
    walk = Lifecycle()
    for event in events:
        walk.advance(event)
    turn = reduce(events)
    if walk.state != "ended":
        assert turn.failure == "truncated"
        deltas_of = "".join(event.delta for event in events if isinstance(event, TextDelta))
        assert turn.text == deltas_of


def test_the_head_call_streams_and_the_others_queue() -> None:
    b = builder()
    first, second = b.open_call("0", "f"), b.open_call("0", "g")
    b.call_arguments(second, "{2")
    b.call_arguments(first, "{1")
    assert tags(b.take()) == ["start", "toolcall_start0", "toolcall_delta0"]
    b.call_arguments(second, "}")
    b.close_call(second)
    assert b.take() == []
    b.close_call(first)
    events = b.take()
    assert tags(events) == ["toolcall_end0", "toolcall_start1", "toolcall_delta1", "toolcall_delta1", "toolcall_end1"]
    assert [event.block.arguments for event in events if isinstance(event, ToolCallEnd)] == ["{1", "{2}"]


def test_text_behind_an_open_call_waits_for_it() -> None:
    b = builder()
    call = b.open_call(None, "f")
    b.text("later")
    b.thinking("then")
    b.take()
    b.close_call(call)
    b.finish("tool_use")
    assert tags(b.take())[1:] == [
        "text_start1", "text_delta1", "text_end1", "thinking_start2", "thinking_delta2", "thinking_end2", "done",
    ]  # fmt: skip


def test_the_start_of_a_call_waits_for_its_name() -> None:
    b = builder()
    call = b.open_call("0", "")
    b.call_arguments(call, "{}")
    assert tags(b.take()) == ["start"]
    b.name_call(call, "f")
    assert tags(b.take()) == ["toolcall_start0", "toolcall_delta0"]


def test_what_is_whole_or_ended_at_the_head_is_told_at_once() -> None:
    b = builder()
    b.whole(Media())
    assert tags(b.take()) == ["start", "block0"]
    call = b.open_call("0", "")
    b.close_call(call)
    b.name_call(call, "")
    assert b.take() == []
    b.name_call(call, "f")
    assert tags(b.take()) == ["toolcall_start1", "toolcall_end1"]


def test_text_that_waits_in_line_is_one_block() -> None:
    b = builder()
    b.open_call("0", "f")
    b.text("a")
    b.text("b", {"x": 1})
    b.text("", {"y": 2})
    b.finish("tool_use")
    assert b.take()[-1].turn.blocks[1:] == (Text("ab", {"x": 1, "y": 2}),)  # type: ignore[union-attr]


def test_the_start_names_the_model_and_fills_in_what_was_not_known() -> None:
    unnamed = TurnBuilder("k", Origin("p", "w"))
    unnamed.start("m-1", "r1")
    unnamed.start("m-2", "r2")
    unnamed.text("a")
    unnamed.finish("end_turn")
    events = unnamed.take()
    assert events[0] == Start("k", "m-1", "r1")
    end = events[-1].turn  # type: ignore[union-attr]
    assert (end.origin, end.response_id) == (Origin("p", "w", "m-1"), "r2")
    named = builder()
    named.start("kimi-k2-0905")
    assert named.take() == [Start("turn-1", "kimi-k2-0905")]
    assert named.origin == ORIGIN
    silent = builder()
    silent.start()
    assert silent.take() == [Start("turn-1", "kimi-k2")]


def test_a_name_is_told_once() -> None:
    """At the head the start is out already, so a name that is said again, or goes on, changes nothing anywhere."""
    b = builder()
    head, queued = b.open_call("0", "f"), b.open_call("1", "g")
    b.name_call(head, "f")
    b.name_call(queued, "g")
    b.finish("tool_use")
    assert [call.name for call in b.take()[-1].turn.tool_calls] == ["f", "g"]  # type: ignore[union-attr]


def test_an_id_that_comes_after_the_start_does_not_change_the_call_s_id() -> None:
    b = builder()
    call = b.open_call(None, "f")
    call.raw_id = "late"
    b.finish("tool_use")
    turn = b.take()[-1].turn  # type: ignore[union-attr]
    assert turn.tool_calls == (
        ToolCall(canonical_tool_call_id("moonshot", None, "f", "turn-1", 0), "f", "", "late", "moonshot"),
    )


def test_a_nameless_call_is_malformed_and_left_out() -> None:
    b = builder()
    b.open_call("0", "")
    b.text("after")
    b.finish("tool_use")
    end = b.take()[-1]
    assert isinstance(end, ErrorEvent)
    assert (end.error.kind, end.turn.failure, end.turn.blocks) == ("malformed", "malformed", (Text("after"),))


def test_arguments_after_the_end_of_their_call_are_malformed() -> None:
    b = builder()
    head, queued = b.open_call("0", "f"), b.open_call("1", "g")
    for call in (queued, head):
        b.close_call(call)
        b.call_arguments(call, "")
        with pytest.raises(MalformedStream):
            b.call_arguments(call, "x")


def test_many_closed_calls_in_line_end_without_recursion() -> None:
    b = builder()
    calls = [b.open_call(str(n), "f") for n in range(5000)]
    for call in reversed(calls):
        b.close_call(call)
    assert len([event for event in b.take() if isinstance(event, ToolCallEnd)]) == 5000


def test_many_closed_calls_behind_a_nameless_one_end_without_recursion() -> None:
    b = builder()
    b.open_call("", "")
    for n in range(5000):
        b.close_call(b.open_call(str(n), "f"))
    b.finish("tool_use")
    check(b.take())


def test_nothing_follows_the_end() -> None:
    b = builder()
    b.text("a")
    b.finish("end_turn")
    b.text("b")
    b.thinking("c")
    b.whole(Media())
    b.call_arguments(b.open_call("0", "f"), "{}")
    b.end_block()
    b.finish("end_turn")
    b.fail(LOST)
    events = b.take()
    check(events)
    assert events[-1].turn.blocks == (Text("a"),)  # type: ignore[union-attr]


def test_a_normal_stop_with_thinking_only_is_empty_but_a_length_stop_is_done() -> None:
    for stop, failure in (("end_turn", "empty"), ("tool_use", "empty"), ("max_tokens", "")):
        b = builder()
        b.thinking("hm")
        b.finish(stop)
        end = b.take()[-1]
        assert end.turn.failure == failure  # type: ignore[union-attr]
        assert isinstance(end, Done) is (not failure)


def test_empty_thinking_is_a_block() -> None:
    b = builder()
    b.thinking("", "reasoning_content")
    b.text("a")
    b.finish("end_turn")
    turn = b.take()[-1].turn  # type: ignore[union-attr]
    assert turn.blocks[0] == Thinking("", "reasoning_content", origin=ORIGIN)


def test_arrival_order_is_kept_and_end_block_parts_what_is_alike() -> None:
    b = builder()
    b.text("a")
    b.thinking("b")
    b.text("c")
    b.end_block()
    b.text("d")
    b.finish("end_turn")
    turn = b.take()[-1].turn  # type: ignore[union-attr]
    assert [block.text for block in turn.blocks] == ["a", "b", "c", "d"]


def test_an_answer_past_its_limit_is_refused_and_can_still_be_ended() -> None:
    for tell in (
        lambda b: b.text("x" * 6),
        lambda b: b.thinking("x" * 6),
        lambda b: b.call_arguments(b.open_call("", "f"), "x" * 6),
        lambda b: (b.open_call("", "f"), b.text("x" * 6)),
    ):
        b = builder(limit=10)
        tell(b)
        with pytest.raises(LimitExceeded):
            for _ in range(2):
                tell(b)
        b.fail(ErrorInfo("limit", "too long"))
        check(b.take())


def test_reduce_keeps_an_open_block_of_each_kind() -> None:
    assert reduce([Start("k"), TextStart(0), TextDelta(0, "a")]).blocks == (Text("a"),)
    assert reduce([Start("k"), ThinkingStart(0)]).blocks == (Thinking(""),)
    called = reduce([Start("k"), ToolCallStart(0, "id", "f"), ToolCallDelta(0, "{")])
    assert called.blocks == (ToolCall("id", "f", "{"),)
    assert (called.key, called.failure) == ("k", "truncated")
    closed = [Start(), TextStart(0), TextEnd(0, Text("whole")), ThinkingStart(1), ThinkingEnd(1, Thinking("t"))]
    assert reduce(closed).blocks == (Text("whole"), Thinking("t"))


def test_text_between_two_parallel_calls_stays_between_them() -> None:
    b = builder()
    first = b.open_call("0", "f")
    b.text("between")
    second = b.open_call("1", "g")
    b.call_arguments(second, "{}")
    b.close_call(first)
    b.text("behind")
    b.close_call(second)
    b.finish("tool_use")
    events = b.take()
    check(events)
    last = events[-1]
    assert isinstance(last, Done)
    told = [block.text if isinstance(block, Text) else block.name for block in last.turn.blocks]  # type: ignore[union-attr]
    assert told == ["f", "between", "g", "behind"]


def test_thinking_between_two_parallel_calls_stays_between_them() -> None:
    b = builder()
    first = b.open_call("0", "f")
    b.thinking("between")
    b.open_call("1", "g")
    b.close_call(first)
    b.thinking("behind")
    b.finish("tool_use")
    kinds = [type(block) for block in b.take()[-1].turn.blocks]  # type: ignore[union-attr]
    assert kinds == [ToolCall, Thinking, ToolCall, Thinking]


def test_blanks_after_the_end_of_a_call_are_nothing_and_words_are_malformed() -> None:
    b = builder()
    call = b.open_call("0", "f")
    b.call_arguments(call, "{}")
    b.close_call(call)
    b.call_arguments(call, " \n")
    with pytest.raises(MalformedStream, match="'f'"):
        b.call_arguments(call, "{}")
