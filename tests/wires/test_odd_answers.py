"""Answers of odd shape, on every wire that can carry them: nothing is lost, nothing is called by a wrong name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream import ToolSpec, decode_response, make_decoder
from midstream.core.blocks import Opaque, Turn
from midstream.core.errors import ProviderError
from midstream.core.events import Done, ErrorEvent, Event
from midstream.core.tools import parse_arguments
from tests.long_run import each_once
from tests.wires.feeding import at_random, by_byte, events_of

EMILY = {"name": "Emily", "age": 32}
EMILY_TEXT = '{"name":"Emily","age":32}'


def decoded(wire: str, data: bytes, **options: Any) -> list[Event]:
    def fresh() -> Any:
        return make_decoder(wire=None if options else wire, turn_key="t", **options)

    whole = events_of(fresh(), [data])
    assert events_of(fresh(), by_byte(data)) == whole
    assert events_of(fresh(), at_random(data, 1)) == whole
    return whole


def done(wire: str, data: bytes, **options: Any) -> Turn:
    last = decoded(wire, data, **options)[-1]
    assert isinstance(last, Done), last
    return last.turn


def sse(*events: Any) -> bytes:
    lines = [f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n" for event in events]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


def delta(finish: str | None = None, /, **fields: Any) -> dict[str, Any]:
    return {"id": "r", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def body(finish: str | None = "stop", /, **message: Any) -> bytes:
    return json.dumps({"choices": [{"message": {"role": "assistant", **message}, "finish_reason": finish}]}).encode()


def claude(content: Any) -> bytes:
    return json.dumps({"type": "message", "content": content, "stop_reason": "end_turn"}).encode()


COMMAND_END = {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}


def command(message: Any, finish: str | None = "COMPLETE") -> bytes:
    return json.dumps({"id": "r", "message": message, "finish_reason": finish}).encode()


def told(kind: str, **message: Any) -> dict[str, Any]:
    return {"type": kind, "index": 0, "delta": {"message": message}}


def item(content: Any) -> bytes:
    return json.dumps({"status": "completed", "output": [{"type": "message", "content": content}]}).encode()


def reasoned(**fields: Any) -> bytes:
    said = {"type": "message", "content": [{"type": "output_text", "text": "x"}]}
    return json.dumps({"status": "completed", "output": [{"type": "reasoning", **fields}, said]}).encode()


def lines(*told: Any) -> bytes:
    return "".join([json.dumps(each) + "\n" for each in told]).encode()


def parts(*told: Any) -> bytes:
    return json.dumps({"candidates": [{"content": {"parts": list(told)}, "finishReason": "STOP"}]}).encode()


def completed(text: Any) -> bytes:
    return json.dumps({"choices": [{"text": text, "finish_reason": "stop"}]}).encode()


def opened(block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": 0, "content_block": block}


def piece(delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": delta}


ENDED = ({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"})

# wire, answer, its text, its thinking
SHAPES: dict[str, tuple[str, bytes, str, str]] = {
    "chat: an object": ("openai-chat", body(content=EMILY), EMILY_TEXT, ""),
    "chat: an object with a type of its own": ("openai-chat", body(content={"type": "cat"}), '{"type":"cat"}', ""),
    "chat: an object without anything": ("openai-chat", body(content={}), "{}", ""),
    "chat: an object in a delta": ("openai-chat", sse(delta(content=EMILY), delta("stop")), EMILY_TEXT, ""),
    "chat: numbers": ("openai-chat", body(content=[1, 2.5, None]), "[1,2.5,null]", ""),
    "chat: texts": ("openai-chat", body(content=["red", "blue"]), '["red","blue"]', ""),
    "chat: objects": ("openai-chat", body(content=[EMILY, {"name": "Bob"}]), f'[{EMILY_TEXT},{{"name":"Bob"}}]', ""),
    "chat: true": ("openai-chat", body(content=True), "true", ""),
    "chat: a text part that holds a number": ("openai-chat", body(content=[{"type": "text", "text": 5}]), "5", ""),
    "chat: thinking that is a number": (
        "openai-chat", body(content=[{"type": "thinking", "thinking": 5}, {"type": "text", "text": "x"}]), "x", "5",
    ),
    "chat: thinking that is a text": (
        "openai-chat", body(content=[{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "x"}]), "x", "hm",
    ),
    "chat: thinking that is an object": (
        "openai-chat", body(content=[{"type": "thinking", "thinking": {"a": 1}}, {"type": "text", "text": "x"}]), "x", '{"a":1}',
    ),
    "chat: a list of odd thinking": (
        "openai-chat", body(content=[{"type": "thinking", "thinking": [5, {"text": "t"}, None]}, {"type": "text", "text": "x"}]), "x", "5t",
    ),
    "chat: reasoning that is an object": ("openai-chat", body(content="x", reasoning={"a": 1}), "x", '{"a":1}'),
    "chat: reasoning that is a part": ("openai-chat", body(content="x", reasoning_content={"type": "text", "text": "hm"}), "x", "hm"),
    "chat: reasoning that is a list": ("openai-chat", sse(delta(reasoning=["a"]), delta("stop", content="x")), "x", '["a"]'),
    "chat: details that are objects": (
        "openai-chat", body(content="x", reasoning_details=[{"type": "reasoning.text", "text": {"a": 1}}]), "x", '{"a":1}',
    ),
    "chat: a refusal that is an object": ("openai-chat", body(refusal={"a": 1}), '{"a":1}', ""),
    "anthropic: a text": ("anthropic", claude("hi"), "hi", ""),
    "anthropic: an object": ("anthropic", claude(EMILY), EMILY_TEXT, ""),
    "anthropic: numbers": ("anthropic", claude([1, 2]), "[1,2]", ""),
    "anthropic: plain values among blocks": ("anthropic", claude(["a", 3, {"type": "text", "text": "b"}]), "a3b", ""),
    "anthropic: a text block that holds an object": ("anthropic", claude([{"type": "text", "text": EMILY}]), EMILY_TEXT, ""),
    "anthropic: thinking that is a number": (
        "anthropic", claude([{"type": "thinking", "thinking": 5}, {"type": "text", "text": "x"}]), "x", "5",
    ),
    "anthropic: a delta that holds an object": (
        "anthropic", sse(opened({"type": "text", "text": ""}), piece({"type": "text_delta", "text": EMILY}), *ENDED), EMILY_TEXT, "",
    ),
    "responses: an object": ("openai-responses", item(EMILY), EMILY_TEXT, ""),
    "responses: numbers": ("openai-responses", item([1, 2]), "[1,2]", ""),
    "responses: a text part that holds an object": (
        "openai-responses", item([{"type": "output_text", "text": EMILY}]), EMILY_TEXT, "",
    ),
    "responses: plain values among parts": (
        "openai-responses", item(["a", 3, {"type": "output_text", "text": "b"}]), "a3b", "",
    ),
    "responses: a delta that holds an object": (
        "openai-responses", sse({"type": "response.output_text.delta", "delta": EMILY}, {"type": "response.completed"}), EMILY_TEXT, "",
    ),
    "responses: a summary that is a text": ("openai-responses", reasoned(summary="hm"), "x", "hm"),
    "responses: a summary of objects": ("openai-responses", reasoned(summary=[{"text": {"a": 1}}, 5]), "x", '{"a":1}5'),
    "ollama: an object": ("ollama", lines({"message": {"content": EMILY}, "done": True}), EMILY_TEXT, ""),
    "ollama: thinking that is an object": (
        "ollama", lines({"message": {"content": "x", "thinking": {"a": 1}}, "done": True}), "x", '{"a":1}',
    ),
    "cohere: an object": ("cohere", sse(told("content-delta", content={"text": EMILY}), COMMAND_END), EMILY_TEXT, ""),
    "cohere: a body's content that is an object": ("cohere", command({"content": [{"type": "text", "text": EMILY}]}), EMILY_TEXT, ""),
    "cohere: a content that is a text": ("cohere", command({"content": "x", "tool_plan": {"a": 1}}), "x", '{"a":1}'),
    "gemini: an object": ("gemini", parts({"text": EMILY}), EMILY_TEXT, ""),
    "gemini: a thought that is a number": ("gemini", parts({"text": 5, "thought": True}, {"text": "x"}), "x", "5"),
    "completion: an object": ("completion", completed(EMILY), EMILY_TEXT, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", SHAPES)
def test_what_stands_where_text_belongs_is_its_json(case: str) -> None:
    wire, data, text, thinking = SHAPES[case]
    turn = done(wire, data)
    assert (turn.text.strip(), turn.thinking, turn.failure) == (text, thinking, "")


@pytest.mark.parametrize(
    "part",
    [
        {"type": "hologram", "x": 1},
        {"type": "image_url", "image_url": 5},
        {"type": "image_url", "image_url": {"url": 5}},
    ],
)
def test_an_unknown_part_is_kept(part: dict[str, Any]) -> None:
    turn = done("openai-chat", body(content=[{"type": "text", "text": "x"}, part]))
    assert [(block.kind, block.data) for block in turn.blocks if isinstance(block, Opaque)] == [(part["type"], part)]


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "x", "text", "thinking", "\ud83d", "\ude00"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["type", "text", "thinking", "content", "image_url", "url", "summary"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    _ANY, st.sampled_from(["content", "reasoning", "thinking", "reasoning_details", "refusal", "annotations", "audio"])
)
def test_no_shape_of_content_raises(value: Any, field: str) -> None:
    for wire, data in (
        ("openai-chat", body(**{"content": "x", field: value})),
        ("openai-chat", sse(delta(**{field: value}), delta("stop", content="x"))),
        ("anthropic", claude(value)),
        ("anthropic", claude([{"type": field, field: value}, {"type": "text", "text": value}])),
        ("openai-responses", item(value)),
        ("openai-responses", reasoned(summary=value, content=value)),
        ("ollama", lines({"message": {"content": value, "thinking": value}, "done": True})),
        ("gemini", parts({"text": value}, value)),
        ("completion", completed(value)),
        ("cohere", command({"content": value, "tool_plan": value, "tool_calls": value, "citations": value})),
        ("cohere", command({"content": [{"type": field, field: value}, value], "tool_calls": [value]})),
        ("cohere", sse(told("content-delta", content=value), told("tool-call-start", tool_calls=value), COMMAND_END)),
        ("cohere", sse({"type": "content-start", "delta": value}, {"type": "message-end", "delta": value})),
    ):
        last = events_of(make_decoder(wire=wire, turn_key="t"), [data])[-1]
        assert isinstance(last, (Done, ErrorEvent))
        last.turn.text.encode()  # whole characters only


@pytest.mark.parametrize(
    ("told", "message", "status"),
    [
        ({"error": {"message": "upstream is gone", "code": 502}}, "upstream is gone", 502),
        ({"error": "upstream is gone"}, "upstream is gone", None),
        ({}, "gave no reason", None),
        ({"error": {}}, "gave no reason", None),
    ],
)
def test_an_error_inside_a_choice_is_the_hosts(told: dict[str, Any], message: str, status: int | None) -> None:
    choice = {"index": 0, "delta": {"content": "half"}, "finish_reason": "error", **told}
    last = decoded("openai-chat", sse({"id": "r", "choices": [choice]}))[-1]
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.to_exception(), ProviderError)
    assert (last.error.status, last.turn.text) == (status, "half")
    assert message in last.error.message


@pytest.mark.parametrize("finish", [None, "", "stop", "error"])
def test_an_error_inside_a_choice_needs_no_finish_reason(finish: str | None) -> None:
    choice = {"index": 0, "finish_reason": finish, "error": {"message": "upstream is gone", "code": 502}}
    streamed = sse(delta(content="half"), {"id": "r", "choices": [{**choice, "delta": {}}]}, delta("stop"))
    whole = json.dumps({"choices": [{**choice, "message": {"content": "half"}}]}).encode()
    for data in (streamed, whole):
        last = decoded("openai-chat", data)[-1]
        assert isinstance(last, ErrorEvent)
        assert (last.error.message, last.error.status, last.turn.text) == ("upstream is gone", 502, "half")


@pytest.mark.parametrize("empty", ["", {}, None, False, {"message": "", "code": None}], ids=repr)
def test_an_empty_error_beside_content_is_none(empty: Any) -> None:
    choice = {"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}
    assert done("openai-chat", sse({"id": "r", "error": empty, "choices": [choice]})).text == "x"
    assert done("openai-chat", sse({"id": "r", "choices": [{**choice, "error": empty}]})).text == "x"
    assert done("ollama", lines({"error": empty, "message": {"content": "x"}, "done": True})).text == "x"
    answer = {"error": empty, "candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}]}
    assert done("gemini", json.dumps(answer).encode()).text == "x"
    told = {"error": empty, "choices": [{"text": "x", "finish_reason": "stop"}]}
    assert done("completion", json.dumps(told).encode()).text == "x"


@pytest.mark.parametrize("empty", ["", {}, {"message": ""}], ids=repr)
def test_an_error_that_stands_alone_is_one_even_if_it_says_nothing(empty: Any) -> None:
    last = decoded("openai-chat", json.dumps({"error": empty}).encode())[-1]
    assert isinstance(last, ErrorEvent) and last.error.kind == "provider"


_REAL = {"prompt_tokens": 8, "completion_tokens": 5}


@pytest.mark.parametrize("late", [{}, {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": None}], ids=repr)
def test_a_late_empty_usage_does_not_wipe_a_real_one(late: dict[str, Any]) -> None:
    for wire, said in (
        ("openai-chat", delta("stop", content="x")),
        ("completion", {"choices": [{"text": "x", "finish_reason": "stop"}]}),
    ):
        turn = done(wire, sse({**said, "usage": _REAL}, {"choices": [], "usage": late}))
        assert turn.usage is not None and (turn.usage.input, turn.usage.output) == (8, 5)
    turn = done(
        "openai-chat", sse({**delta("stop", content="x"), "usage": _REAL}, {"choices": [], "x_groq": {"usage": late}})
    )
    assert turn.usage is not None and turn.usage.input == 8


def test_the_last_usage_that_counts_anything_stands() -> None:
    turn = done(
        "openai-chat",
        sse({**delta("stop", content="x"), "usage": _REAL}, {"choices": [], "usage": {"prompt_tokens": 9}}),
    )
    assert turn.usage is not None and turn.usage.input == 9


def stops(wire: str, *words: str) -> bytes:
    match wire:
        case "openai-chat":
            return sse(delta(content="x"), *[delta(word) for word in words])
        case "completion":
            return sse(
                {"choices": [{"text": "x"}]}, *[{"choices": [{"text": "", "finish_reason": word}]} for word in words]
            )
        case "anthropic":
            said = [opened({"type": "text", "text": "x"}), {"type": "content_block_stop", "index": 0}]
            told = [{"type": "message_delta", "delta": {"stop_reason": word}} for word in words]
            return sse(*said, *told, {"type": "message_stop"})
        case _:
            said = [{"candidates": [{"content": {"parts": [{"text": "x"}]}}]}]
            return sse(*said, *[{"candidates": [{"finishReason": word}]} for word in words])


@pytest.mark.parametrize(
    ("wire", "words", "reason"),
    [
        ("openai-chat", ("length", "stop"), "max_tokens"),
        ("openai-chat", ("length", "tool_calls"), "max_tokens"),
        ("openai-chat", ("content_filter", "stop"), "refusal"),
        ("openai-chat", ("stop", "length"), "max_tokens"),
        ("openai-chat", ("tool_calls", "stop"), "end_turn"),
        ("completion", ("length", "stop"), "max_tokens"),
        ("anthropic", ("max_tokens", "end_turn"), "max_tokens"),
        ("anthropic", ("end_turn", "max_tokens"), "max_tokens"),
        ("gemini", ("MAX_TOKENS", "STOP"), "max_tokens"),
        ("gemini", ("STOP", "MAX_TOKENS"), "max_tokens"),
    ],
)
def test_an_answer_that_was_cut_stays_cut(wire: str, words: tuple[str, ...], reason: str) -> None:
    assert done(wire, stops(wire, *words)).stop_reason == reason


@pytest.mark.parametrize(
    ("wire", "data"),
    [
        ("openai-chat", stops("openai-chat", "tool_calls")),
        ("openai-chat", stops("openai-chat", "function_call")),
        ("anthropic", stops("anthropic", "tool_use")),
        ("completion", stops("completion", "tool_calls")),
        ("ollama", lines({"message": {"content": "x"}, "done": True, "done_reason": "tool_calls"})),
        ("cohere", command({"content": "x"}, "TOOL_CALL")),
    ],
)
def test_a_stop_for_tools_without_a_call_is_a_plain_end(wire: str, data: bytes) -> None:
    assert done(wire, data).stop_reason == "end_turn"


CALL = {"id": "a", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("wire", "data", "reason"),
    [
        ("openai-chat", body(None, content="x"), "end_turn"),
        ("openai-chat", body(None, content="x", tool_calls=[CALL]), "tool_use"),
        ("ollama", json.dumps({"message": {"content": "x"}}, indent=1).encode(), "end_turn"),
        ("gemini", json.dumps({"candidates": [{"content": {"parts": [{"text": "x"}]}}]}).encode(), "end_turn"),
        ("completion", json.dumps({"choices": [{"text": "x"}]}).encode(), "end_turn"),
        ("cohere", command({"content": "x"}, None), "end_turn"),
        ("cohere", command({"content": "x", "tool_calls": [CALL]}, None), "tool_use"),
    ],
)
def test_one_whole_body_without_a_finish_reason_is_whole(wire: str, data: bytes, reason: str) -> None:
    turn = decode_response(data, wire=wire, turn_key="t")
    assert (turn.text.strip(), turn.stop_reason, turn.failure) == ("x", reason, "")


@pytest.mark.parametrize("data", [b"{}", b'{"object":"x"}'])
def test_a_body_that_holds_no_answer_is_none(data: bytes) -> None:
    last = decoded("openai-chat", data)[-1]
    assert isinstance(last, ErrorEvent) and last.error.kind == "truncated"


def test_a_line_that_says_that_more_comes_is_not_a_whole_body() -> None:
    assert decode_response(b'{"message":{"content":"x"},"done":false}', wire="ollama").failure == "truncated"


SMILE = "\U0001f600"
HIGH, LOW = "\ud83d", "\ude00"


def command_split(field: str, texts: tuple[str, ...]) -> bytes:
    last = [told("content-delta", content={"text": "" if field == "text" else "x"}), COMMAND_END]
    if field == "arguments":
        call = told("tool-call-start", tool_calls={"id": "a", "function": {"name": "f"}})
        more = [told("tool-call-delta", tool_calls={"function": {"arguments": text}}) for text in texts]
        return sse(call, *more, {"type": "tool-call-end", "index": 0}, *last)
    if field == "tool_plan":
        return sse(*[told("tool-plan-delta", tool_plan=text) for text in texts], *last)
    return sse(*[told("content-delta", content={field: text}) for text in texts], *last)


def split(wire: str, field: str, *texts: str) -> bytes:
    if wire == "openai-chat":
        if field == "arguments":
            told = [
                delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "f", "arguments": text}}])
                for text in texts
            ]
            return sse(*told, delta("tool_calls"))
        return sse(
            *[delta(**{field: text}) for text in texts], delta("stop", content="" if field == "content" else "x")
        )
    if wire == "anthropic":
        kind = {"text": "text_delta", "thinking": "thinking_delta", "partial_json": "input_json_delta"}[field]
        block = (
            {"type": "tool_use", "id": "a", "name": "f"}
            if field == "partial_json"
            else {"type": kind.removesuffix("_delta")}
        )
        said = {"type": "text", "text": "x"}
        told = [piece({"type": kind, field: text}) for text in texts]
        return sse(opened(block), *told, {"type": "content_block_stop", "index": 0}, opened(said), *ENDED)
    if wire == "openai-responses":
        name = {
            "text": "output_text.delta",
            "thinking": "reasoning_text.delta",
            "arguments": "function_call_arguments.delta",
        }[field]
        call = {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {"type": "function_call", "name": "f", "call_id": "a"},
        }
        told = [{"type": f"response.{name}", "output_index": 0, "delta": text} for text in texts]
        end = [{"type": "response.output_text.delta", "output_index": 1, "delta": "x"}, {"type": "response.completed"}]
        return sse(*([call] if field == "arguments" else []), *told, *end)
    if wire == "ollama":
        said = "" if field == "content" else "x"
        return lines(*[{"message": {field: text}} for text in texts], {"message": {"content": said}, "done": True})
    if wire == "cohere":
        return command_split(field, texts)
    if wire == "gemini":
        told = [{"text": text, "thought": field == "thinking"} for text in texts]
        chunks = [{"candidates": [{"content": {"parts": [part]}}]} for part in told]
        return sse(*chunks, {"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}]})
    return sse(*[{"choices": [{"text": text}]} for text in texts], {"choices": [{"text": "", "finish_reason": "stop"}]})


FIELDS = [
    ("openai-chat", "content"), ("openai-chat", "reasoning_content"), ("openai-chat", "reasoning"), ("openai-chat", "arguments"),
    ("anthropic", "text"), ("anthropic", "thinking"), ("anthropic", "partial_json"),
    ("openai-responses", "text"), ("openai-responses", "thinking"), ("openai-responses", "arguments"), ("completion", "text"),
    ("ollama", "content"), ("ollama", "thinking"), ("gemini", "text"), ("gemini", "thinking"),
    ("cohere", "text"), ("cohere", "thinking"), ("cohere", "tool_plan"), ("cohere", "arguments"),
]  # fmt: skip


def said(turn: Turn, field: str) -> str:
    if field in ("arguments", "partial_json"):
        return turn.tool_calls[0].arguments
    return turn.text if field in ("content", "text") else turn.thinking


CUT_TEXTS = [
    (("a" + HIGH, LOW + "b"), f"a{SMILE}b"),
    ((HIGH, LOW), SMILE),
    ((HIGH, "", LOW), SMILE),
    (("a", HIGH, LOW, HIGH, LOW + "b"), f"a{SMILE}{SMILE}b"),
    (("a" + HIGH, "b"), "a\ufffdb"),
    (("a", LOW + "b"), "a\ufffdb"),
    (("a", "b" + HIGH), "ab\ufffd"),
    ((HIGH, HIGH, LOW), f"\ufffd{SMILE}"),
    ((f"a{LOW}{HIGH}b", "c"), "a\ufffd\ufffdbc"),
]


@each_once(("wire, field", FIELDS), ("texts, whole", CUT_TEXTS))
def test_a_character_cut_in_two_is_one(wire: str, field: str, texts: tuple[str, ...], whole: str) -> None:
    turn = done(wire, split(wire, field, *texts))
    got = said(turn, field)
    if field == "text" and wire != "completion":
        got = got.removesuffix("x")
    assert got == whole


def test_the_halves_of_two_calls_are_kept_apart() -> None:
    def one(index: int, arguments: str) -> dict[str, Any]:
        return delta(
            tool_calls=[{"index": index, "id": f"c{index}", "function": {"name": "f", "arguments": arguments}}]
        )

    pieces = [one(0, '{"x":"' + HIGH), one(1, '{"x":"' + HIGH), one(0, LOW + '"}'), one(1, "\ude01" + '"}')]
    turn = done("openai-chat", sse(*pieces, delta("tool_calls")))
    assert [parse_arguments(call) for call in turn.tool_calls] == [{"x": SMILE}, {"x": "\U0001f601"}]


@pytest.mark.parametrize("dialect", ["minimax", "deepinfra-kimi-k2.5"])
def test_a_character_cut_in_two_passes_a_text_filter(dialect: str) -> None:
    tools = [ToolSpec("f")]
    data = sse(
        delta(content="a" + HIGH),
        delta(content=LOW + "b"),
        delta(reasoning_content=HIGH),
        delta("stop", content="c" + HIGH),
    )
    turn = done("openai-chat", data, dialect=dialect, tools=tools)
    assert turn.text == f"a{SMILE}bc\ufffd" and turn.thinking == "\ufffd"


def test_half_a_character_in_what_is_only_kept_is_replaced() -> None:
    odd = {"type": "hologram", "text": None, "content": HIGH}
    details = [{"type": "reasoning.text", "text": "t" + HIGH}]
    turn = done(
        "openai-chat",
        sse(delta(content=[odd], reasoning_details=details), delta("stop", content="x")),
        dialect="openrouter",
    )
    assert [block.data["content"] for block in turn.blocks if isinstance(block, Opaque)] == ["\ufffd"]
    assert turn.extra == {"reasoning_details": [{"type": "reasoning.text", "text": "t\ufffd"}]}
    assert turn.thinking == "t\ufffd"


COUNTED = {
    "openai-chat": {
        "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": "COUNT", "completion_tokens": 2},
    },
    "anthropic": {
        "type": "message",
        "content": [{"type": "text", "text": "x"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": "COUNT", "output_tokens": 2},
    },
    "openai-responses": {
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "x"}]}],
        "usage": {"input_tokens": "COUNT", "output_tokens": 2},
    },
    "gemini": {
        "candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": "COUNT", "candidatesTokenCount": 2},
    },
    "ollama": {"message": {"content": "x"}, "done": True, "prompt_eval_count": "COUNT", "eval_count": 2},
    "cohere": {
        "message": {"content": [{"type": "text", "text": "x"}]},
        "finish_reason": "COMPLETE",
        "usage": {"tokens": {"input_tokens": "COUNT", "output_tokens": 2}},
    },
}


@each_once(("count", ["1e999", "-1e999", "1e30", "-3", "true"]), ("wire", COUNTED))
def test_what_is_no_count_of_tokens_counts_nothing(wire: str, count: str) -> None:
    """And never raises: Anthropic's reader once met infinity with a bare OverflowError."""
    turn = decode_response(json.dumps(COUNTED[wire]).replace('"COUNT"', count).encode(), wire=wire)
    assert turn.text == "x" and not turn.failure
    assert turn.usage is None or (turn.usage.input, turn.usage.output) in ((0, 2), (0, 0))
