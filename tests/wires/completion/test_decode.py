"""Raw completions as events: three flavours, one lifecycle, and the same as the chat path would tell."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from midstream.core.blocks import Origin, Text, Thinking, ToolCall
from midstream.core.errors import BadRequest, LimitExceeded, ProviderError, RateLimited
from midstream.core.events import (
    Done,
    ErrorEvent,
    ErrorInfo,
    Event,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
)
from midstream.core.lifecycle import check
from midstream.sim.answer import Answer, Call
from midstream.sim.players import Player
from midstream.sim.speech import speak, speak_whole
from midstream.wires.completion.decode import CompletionStreamReader
from midstream.wires.decode_context import DecodeContext
from midstream.wires.sse import SSEParser
from midstream.wires.stream_decoder import StreamDecoder, decode_chunks, decode_whole
from tests.representatives import dialect_cases
from tests.wires.completion.answers import (
    CHAT,
    FLAVOURS,
    LLAMACPP,
    NATIVE,
    OPENAI,
    PLAYERS,
    answers,
    decoder,
    dialect,
    last,
    sse,
    token,
)
from tests.wires.feeding import by_byte, by_lengths, events_of

CALLING = Answer(
    "Both.", "Two files.", (Call("read_file", {"path": "a"}), Call("list_files", {"path": "b"})), input_tokens=7
)


def spoken(player: Player, answer: Answer) -> bytes:
    return b"".join(speak(player.target.dialect.wire, answer, player.style()))


def native(*chunks: Any, **fields: Any) -> list[Event]:
    """The events of a DeepInfra stream, whole and byte by byte."""
    read_by = replace(NATIVE.target.dialect, **fields)
    events = events_of(decoder(read_by), [sse(*chunks)])
    assert joined(events_of(decoder(read_by), by_byte(sse(*chunks)))) == joined(events)
    return events


def joined(events: list[Event]) -> list[Any]:
    """Neighbouring deltas as one: where a delta is cut is not said anywhere."""
    out: list[Any] = []
    for event in events:
        if out and isinstance(event, (TextDelta, ThinkingDelta, ToolCallDelta)) and type(out[-1]) is type(event):
            event = replace(event, delta=out.pop().delta + event.delta)
        out.append(event)
    return out


def turn(events: list[Event]) -> Any:
    end = events[-1]
    assert isinstance(end, (Done, ErrorEvent))
    return end.turn


def test_tokens_stream_as_they_come_and_thinking_has_no_opening_tag() -> None:
    events = native(token("Let me"), token(" see."), token("</think>"), token("Hi"), token(" you"), last("…"), "[DONE]")
    thinking = Thinking("Let me see.", origin=Origin("deepinfra", "completion"))
    assert events[:-1] == [
        Start("t"), ThinkingStart(0), ThinkingDelta(0, "Let me"), ThinkingDelta(0, " see."), ThinkingEnd(0, thinking),
        TextStart(1), TextDelta(1, "Hi"), TextDelta(1, " you"), TextEnd(1, Text("Hi you")),
    ]  # fmt: skip
    assert isinstance(events[-1], Done) and events[-1].reason == "end_turn" and turn(events).raw_stop == "stop"


def test_an_answer_without_any_tag_is_text() -> None:
    """The prompt opened the thinking, and the model answered all the same: not an empty answer. What streamed stays told."""
    events = native(token("Four"), token(" files."), last("Four files."), "[DONE]")
    assert isinstance(events[-1], Done) and events[-1].reason == "end_turn"
    found = turn(events)
    assert (found.text, found.thinking, found.failure) == ("Four files.", "Four files.", "")
    assert [type(event) for event in events[4:-1]] == [ThinkingEnd, TextStart, TextDelta, TextEnd]
    (problem,) = found.extra["problems"]
    assert "no tag ended the thinking" in problem["why"]
    # Cut off inside its thinking, for all that is known.
    cut = turn(native(token("Fo"), last("Fo", finish="length")))
    assert (cut.text, cut.thinking, cut.stop_reason) == ("", "Fo", "max_tokens")
    assert turn(native(token("Fo"))).text == ""


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Hm.</think>", "empty"),  # it thought, and then said nothing
        ("<think>Hm.", "empty"),
        ("  \n", "empty"),
        ("Hm.</think>Yes", ""),
        ("Hm.<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{}<|tool_call_end|>", ""),
    ],
)  # fmt: skip
def test_one_with_a_tag_is_what_it_says(said: str, kind: str) -> None:
    found = turn(native(token(said), last(said)))
    assert found.failure == kind and "Hm." not in found.text


@pytest.mark.parametrize("name", ["deepinfra-kimi-k3-native", "deepinfra-kimi-k2.6-native"])
def test_so_is_one_of_the_other_models_that_begin_inside(name: str) -> None:
    found = turn(events_of(decoder(dialect(name)), [sse(token("Hi"), last("Hi"))]))
    assert (found.text, found.failure) == ("Hi", "")


def test_every_token_is_told_at_once() -> None:
    reader = decoder(NATIVE)
    reader.feed(sse(token("a")))
    assert reader.feed(sse(token("b")))[-1] == ThinkingDelta(0, "b")
    reader.feed(sse(token("</think>")))
    assert reader.feed(sse(token("c")))[-1] == TextDelta(1, "c")


@pytest.mark.parametrize("name", ["deepinfra-kimi-k2-native", "deepinfra-kimi-k2-thinking-native"])
def test_a_prompt_that_opens_no_thinking_has_text_or_tags(name: str) -> None:
    events = events_of(decoder(dialect(name)), [sse(token("Hi"), last("Hi"))])
    assert turn(events).blocks == (Text("Hi"),)
    events = events_of(decoder(dialect(name)), [sse(token("<think>"), token("a</think>b"), last())])
    assert (turn(events).thinking, turn(events).text) == ("a", "b")


def test_the_text_said_again_at_the_end_is_not_appended() -> None:
    assert turn(native(token("a</think>b"), last("a</think>b"))).text == "b"


def test_a_stream_that_says_the_text_only_at_the_end_has_it() -> None:
    found = turn(native(last("a</think>b", num_output_tokens=4, num_input_tokens=2)))
    assert (found.thinking, found.text, found.usage.output) == ("a", "b", 4)


def test_special_tokens_are_text_for_tool_markers_may_be_flagged() -> None:
    parts = ["x</think>", "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "functions.read_file:0",
             "<|tool_call_argument_begin|>", '{"path":', '"a"}', "<|tool_call_end|>", "<|tool_calls_section_end|>"]  # fmt: skip
    chunks = [token(part) for part in parts]
    for chunk in chunks:
        chunk["token"]["special"] = True
    found = turn(native(*chunks, last("".join(parts))))
    assert [(call.raw_id, call.name, call.arguments) for call in found.tool_calls] == [
        ("functions.read_file:0", "read_file", '{"path":"a"}')
    ]
    assert found.stop_reason == "tool_use" and found.raw_stop == "stop"


@pytest.mark.parametrize("stop", ["<|im_end|>", "[EOS]", "[EOT]"])
@pytest.mark.parametrize("where", ["a</think>b{}", "a</think>b{} ", "a{}</think>b"])
def test_what_ends_an_answer_never_shows(stop: str, where: str) -> None:
    found = turn(native(token(where.format(stop)), last()))
    assert stop not in found.text + found.thinking
    for part in ("<|im", "[E"):
        assert part not in found.text + found.thinking


@pytest.mark.parametrize("stop", ["<|im_end|>", "[EOS]", "[EOT]"])
def test_an_end_that_comes_letter_by_letter_is_one_and_nothing_follows_it(stop: str) -> None:
    chunks = [token(letter) for letter in f"a</think>b [E<{stop} and more"]
    assert turn(native(*chunks, last())).text == "b [E<"


def test_a_host_that_runs_on_is_cut_and_the_answer_is_finished() -> None:
    found = turn(native(token("a</think>b<|im_end|><|im_user|>user<|im_middle|>forged"), last(finish="length")))
    assert (found.text, found.stop_reason, found.raw_stop) == ("b", "end_turn", "length")


def test_the_beginning_of_a_stop_text_that_becomes_none_is_text() -> None:
    assert turn(native(token("a</think>b <|im_"), token("x|>"), last())).text == "b <|im_x|>"
    assert turn(native(token("a</think>b [EO"), last())).text == "b [EO"


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"),
     ("malformed_function_call", "malformed_function_call")],
)  # fmt: skip
def test_finish_reasons(finish: str, reason: str) -> None:
    assert turn(native(token("a</think>b"), last(finish=finish))).stop_reason == reason


def test_thinking_cut_by_the_limit_is_done() -> None:
    events = native(token("still thinking"), last(finish="length"))
    assert isinstance(events[-1], Done) and turn(events).blocks[0].text == "still thinking"


@pytest.mark.parametrize("ending", [(), ("[DONE]",), (last(finish=None), "[DONE]")])
def test_an_end_that_is_not_said_is_truncated(ending: tuple[Any, ...]) -> None:
    end = native(token("a</think>b"), *ending)[-1]
    assert isinstance(end, ErrorEvent) and end.error.kind == "truncated" and end.turn.text == "b"
    assert isinstance(native(token("a</think>b"), *ending, sends_finish=False)[-1], Done)


def test_nothing_but_thinking_is_empty() -> None:
    end = native(token("hm</think>"), last())[-1]
    assert isinstance(end, ErrorEvent) and end.error.kind == "empty"


def test_counts_and_cost() -> None:
    counts = {"num_output_tokens": 5, "num_input_tokens": 9, "estimated_cost": 0.25}
    usage = turn(native(token("a</think>b"), last(**counts))).usage
    assert (usage.input, usage.output, usage.cost, usage.raw) == (9, 5, 0.25, counts)
    usage = turn(
        native(token("a</think>b"), last(num_output_tokens="?", num_input_tokens=None, estimated_cost="x"))
    ).usage
    assert (usage.input, usage.output, usage.cost) == (0, 0, None)


@pytest.mark.parametrize(
    ("chunk", "message", "kind"),
    [
        ({"error_type": "validation_error", "error_message": "too hot"}, "too hot", "validation_error"),
        ({"error": {"message": "overloaded", "type": "engine_overloaded"}}, "overloaded", "engine_overloaded"),
        ({"detail": {"error": "no such model"}}, "no such model", None),
    ],
)
def test_an_error_in_the_stream_keeps_what_came(chunk: dict[str, Any], message: str, kind: str | None) -> None:
    end = native(token("a</think>half a"), chunk)[-1]
    assert isinstance(end, ErrorEvent) and isinstance(end.to_exception(), ProviderError)
    assert (end.error.message, end.error.type, end.turn.text) == (message, kind, "half a")


def test_an_event_named_error_is_one() -> None:
    for said in ('{"message":"busy"}', '{"error":{"message":"busy"}}', '"busy"'):
        end = events_of(decoder(NATIVE), [sse(token("a</think>b")), f"event: error\ndata: {said}\n\n".encode()])[-1]
        assert isinstance(end, ErrorEvent) and (end.error.kind, end.error.message) == ("provider", "busy")
        assert end.turn.text == "b"


def test_the_hosts_own_id_may_come_late() -> None:
    assert turn(native(token("a</think>b"), last(request_id="r-1"))).response_id == "r-1"
    assert turn(native(token("a</think>b", request_id="r-0"), last(request_id=7))).response_id == "r-0"


def test_an_html_page_is_named() -> None:
    end = events_of(decoder(NATIVE), [b" <html><title>502</title></html>"])[-1]
    assert isinstance(end, ErrorEvent) and "HTML" in end.error.message


def test_the_first_error_is_told_even_if_what_was_held_back_does_not_fit() -> None:
    class Overfull:
        idle = None

        def feed(self, text: str) -> list[Any]:
            return []

        def close(self) -> list[Any]:
            raise LimitExceeded("too long")

    answer = CompletionStreamReader(DecodeContext(NATIVE.target.dialect, "t"), Overfull())
    reader = StreamDecoder(answer, SSEParser(), limit=1000)
    end = reader.feed(sse(token("a"), {"error": {"message": "busy"}}))[-1]
    assert isinstance(end, ErrorEvent) and end.error.message == "busy"


def test_text_held_back_is_not_lost_to_an_error() -> None:
    assert turn(native(token("a</think>b <"), {"error_type": "x", "error_message": "y"})).text == "b <"


def test_bad_json_is_malformed_and_never_skipped() -> None:
    end = native(token("a"), "{bad", token("b"))[-1]
    assert isinstance(end, ErrorEvent) and end.error.kind == "malformed" and end.turn.thinking == "a"
    assert native("[]")[-1].error.kind == "malformed"  # type: ignore[union-attr]
    assert native({"token": 5})[-1].error.kind == "malformed"  # type: ignore[union-attr]


def test_what_the_transport_loses() -> None:
    reader = decoder(NATIVE)
    reader.feed(sse(token("a</think>b")))
    end = reader.fail(ErrorInfo("transport", "reset"))[-1]
    assert isinstance(end, ErrorEvent) and end.error.kind == "transport" and end.turn.text == "b"
    reader = decoder(NATIVE)
    reader.feed(sse(token("a</think>b"), last()))
    assert isinstance(reader.fail(ErrorInfo("transport", "reset"))[-1], Done)
    assert reader.fail(ErrorInfo("transport", "reset")) == [] and reader.feed(b"data: x\n\n") == []


def test_progress_counts_data_and_not_comments() -> None:
    reader = decoder(NATIVE)
    reader.feed(b": ping\n\n")
    assert reader.progress == 0
    reader.feed(sse(token("a"), token("b")))
    assert reader.progress == 2


def plain(events: list[Event]) -> list[Any]:
    """The events without what only one of the paths says: counts, the answer's own id, and how thinking came."""

    def block(value: Any) -> Any:
        return replace(value, origin=None, field="") if isinstance(value, Thinking) else value

    out: list[Any] = []
    for event in joined(events):
        match event:
            case Start():
                event = replace(event, response_id=None)
            case ThinkingEnd():
                event = replace(event, block=block(event.block))
            case Done():
                bare = tuple([block(each) for each in event.turn.blocks])
                told = replace(event.turn, blocks=bare, usage=None, response_id=None, origin=None, raw_stop=None)
                event = Done(told)
        out.append(event)
    return out


@given(answers())
@example(CALLING)
@settings(max_examples=150)
def test_both_paths_of_deepinfra_tell_the_same(answer: Answer) -> None:
    chat = replace(CHAT.style(), ids="functions")
    over_chat = events_of(decoder(CHAT), speak("openai-chat", answer, chat))
    over_native = events_of(decoder(NATIVE), speak("completion", answer, NATIVE.style()))
    assert plain(over_native) == plain(over_chat)
    a, b = turn(over_native).usage, turn(over_chat).usage
    assert (a.input, a.output) == (b.input, b.output)


def test_token_by_token_the_paths_tell_the_same_deltas() -> None:
    chat = [type(event) for event in events_of(decoder(CHAT), speak("openai-chat", CALLING, CHAT.style()))]
    assert chat == [type(event) for event in events_of(decoder(NATIVE), speak("completion", CALLING, NATIVE.style()))]


@pytest.mark.parametrize("flavour", FLAVOURS)
@given(answers(), st.lists(st.integers(0, 40), max_size=60))
@settings(max_examples=60)
def test_any_split_gives_the_same_events(flavour: str, answer: Answer, lengths: list[int]) -> None:
    player = FLAVOURS[flavour]
    data = spoken(player, answer)
    whole = events_of(decoder(player), [data])
    assert events_of(decoder(player), by_lengths(data, lengths)) == whole
    assert events_of(decoder(player), by_byte(data)) == whole


@pytest.mark.parametrize("flavour", FLAVOURS)
@given(answers())
@settings(max_examples=60)
def test_a_whole_body_is_the_same_turn(flavour: str, answer: Answer) -> None:
    player = FLAVOURS[flavour]
    streamed = turn(events_of(decoder(player), [spoken(player, answer)]))
    body = speak_whole("completion", answer, player.style())
    whole = decode_whole(decoder(player), body)
    assert (whole.blocks, whole.tool_calls) == (streamed.blocks, streamed.tool_calls)
    assert (whole.usage.input, whole.usage.output) == (streamed.usage.input, streamed.usage.output)
    if flavour != "deepinfra":  # whose bodies say no finish reason
        assert whole.stop_reason == streamed.stop_reason
    assert turn(events_of(decoder(player), [body])).blocks == whole.blocks  # a body where a stream was due


RAW = [name for name, player in PLAYERS.items() if player.target.dialect.wire == "completion"]


@pytest.mark.parametrize(
    "name",
    dialect_cases("template", "leaks", "completion", "stop", "reasoning.starts_inside", "reasoning.tags", among=RAW),
)
def test_every_dialect_reads_calls_in_its_own_format(name: str) -> None:
    player = PLAYERS[name]
    found = turn(events_of(decoder(player), [spoken(player, CALLING)]))
    assert [(call.name, json.loads(call.arguments)) for call in found.tool_calls] == [
        ("read_file", {"path": "a"}), ("list_files", {"path": "b"}),
    ]  # fmt: skip
    assert (found.text, found.thinking, found.stop_reason) == ("Both.", "Two files.", "tool_use")


@given(st.binary(max_size=300))
@example(b"{}")
@example(b"[]")
@example(b"<html>")
@example(b'data: {"token":{"text":"\\ud800"}}\n\n')
@example(b'{"results":[{"generated_text":"\\ud800"}]}')
@settings(max_examples=200)
def test_any_bytes_give_lawful_events(data: bytes) -> None:
    for player in FLAVOURS.values():
        check(decode_chunks(decoder(player), [data]))
        check(decoder(player).read_body(data))


_JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(allow_nan=False), st.text(max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=6,
)
_KEYS = st.sampled_from(
    "token generated_text details num_output_tokens num_input_tokens estimated_cost request_id results num_tokens"
    " inference_status error error_type error_message detail choices text usage id model content stop stop_type"
    " tokens_predicted tokens_evaluated timings object message".split()
)


@given(st.lists(st.dictionaries(_KEYS, _JUNK, max_size=5), max_size=4))
@settings(max_examples=200)
def test_any_shape_gives_lawful_events(chunks: list[Any]) -> None:
    for player in FLAVOURS.values():
        events_of(decoder(player), [sse(*chunks)])
        for chunk in chunks:
            check(decoder(player).read_body(json.dumps(chunk).encode()))


def test_buffers_have_limits() -> None:
    for data in (b"data: " + b"x" * 200, b'{"results":' + b" " * 200):
        reader = DecodeContext(NATIVE.target.dialect, "t", limit=100).decoder()
        end = reader.feed(data)[-1]
        assert isinstance(end, ErrorEvent) and end.error.kind == "limit"


def test_counts_of_a_native_body() -> None:
    status = {"status": "succeeded", "cost": 0.5, "tokens_input": 9, "tokens_generated": 5}
    body = {"results": [{"generated_text": "a</think>b"}], "request_id": "r", "inference_status": status}
    found = decode_whole(decoder(NATIVE), json.dumps(body).encode())
    assert (found.usage.input, found.usage.output, found.usage.cost, found.response_id) == (9, 5, 0.5, "r")
    counted = {**body, "num_input_tokens": 8, "num_tokens": 4}
    found = decode_whole(decoder(NATIVE), json.dumps(counted).encode())
    assert (found.usage.input, found.usage.output) == (8, 4)


def test_llamacpp_says_its_end_with_stop() -> None:
    def piece(text: str, **more: Any) -> dict[str, Any]:
        return {"index": 0, "content": text, "tokens": [], "stop": False, **more}

    timings = {"cache_n": 4, "prompt_n": 6, "predicted_n": 2}
    end = piece("", stop=True, stop_type="eos", tokens_evaluated=10, tokens_predicted=2, timings=timings, model="m")
    found = turn(events_of(decoder(LLAMACPP), [sse(piece("a</think>b"), end)]))
    assert (found.text, found.stop_reason, found.raw_stop) == ("b", "end_turn", "eos")
    assert (found.usage.input, found.usage.output, found.usage.cache_read) == (10, 2, 4)
    for stop_type, reason in (("limit", "max_tokens"), ("word", "end_turn")):
        events = events_of(decoder(LLAMACPP), [sse(piece("a</think>b"), {**end, "stop_type": stop_type})])
        assert turn(events).stop_reason == reason
    old = piece("", stop=True, stopped_limit=True, stopped_eos=False)
    assert turn(events_of(decoder(LLAMACPP), [sse(piece("a</think>b"), old)])).stop_reason == "max_tokens"
    cut = events_of(decoder(LLAMACPP), [sse(piece("a</think>b"))])[-1]
    assert isinstance(cut, ErrorEvent) and cut.error.kind == "truncated"
    broken = events_of(decoder(LLAMACPP), [sse(piece("a"), {"error": {"code": 500, "message": "no room"}})])[-1]
    assert isinstance(broken, ErrorEvent) and (broken.error.message, broken.error.status) == ("no room", 500)


def test_openai_reads_choice_0_and_usage_in_a_chunk_of_its_own() -> None:
    def chunk(*choices: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"id": "cmpl-1", "object": "text_completion", "model": "kimi", "choices": list(choices), **more}

    usage = {"prompt_tokens": 9, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 3}}
    stream = sse(
        chunk({"index": 0, "text": "a</think>"}, {"index": 1, "text": "other"}), chunk({"index": 0, "text": "b"}),
        chunk({"index": 0, "text": "", "finish_reason": "stop"}), chunk(usage=usage), "[DONE]",
    )  # fmt: skip
    events = events_of(decoder(OPENAI), [stream])
    assert events[0] == Start("t", "kimi", "cmpl-1")
    found = turn(events)
    assert (found.text, found.thinking, found.stop_reason, found.response_id) == ("b", "a", "end_turn", "cmpl-1")
    assert (found.usage.input, found.usage.output, found.usage.cache_read) == (9, 5, 3)


def test_an_error_for_a_body() -> None:
    for said in ({"object": "error", "message": "no room"}, {"detail": "no room"}, {"error": "no room"}):
        with pytest.raises(ProviderError, match="no room"):
            decode_whole(decoder(OPENAI), json.dumps(said).encode())
    with pytest.raises(ProviderError, match="the inference failed"):
        decode_whole(decoder(NATIVE), b'{"results":[],"inference_status":{"status":"failed"}}')
    with pytest.raises(RateLimited):
        decode_whole(decoder(NATIVE), b'{"detail":{"error":"slow down"}}', status=429)
    with pytest.raises(BadRequest, match="input"):
        decode_whole(decoder(NATIVE), b'{"detail":[{"loc":["body","input"],"msg":"Field required"}]}', status=422)


def test_the_id_of_a_call_is_the_models_own_word() -> None:
    call = turn(events_of(decoder(NATIVE), [spoken(NATIVE, CALLING)])).tool_calls[1]
    assert isinstance(call, ToolCall) and call.raw_id == "functions.list_files:1" and call.id.startswith("hist_tool_")


def test_calls_stream_their_arguments() -> None:
    events = events_of(decoder(NATIVE), speak("completion", CALLING, NATIVE.style()))
    assert sum(isinstance(event, ToolCallDelta) for event in events) > 2
    assert sum(isinstance(event, ToolCallEnd) for event in events) == 2
