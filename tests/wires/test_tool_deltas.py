"""Every call gets its own arguments: the routing table as data, and interleavings without number."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from midstream import ToolSpec, decode_response, make_decoder
from midstream.core.blocks import Origin
from midstream.core.errors import LimitExceeded, MalformedStream
from midstream.core.events import Done, ErrorEvent, Event, ToolCallDelta, ToolCallStart
from midstream.core.reduce import TurnBuilder
from midstream.core.tools import parse_arguments
from midstream.wires.tool_deltas import ToolDelta, ToolDeltaRouter
from tests.long_run import examples
from tests.wires.feeding import at_random, by_byte, events_of

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data" / "tool_deltas.json").read_bytes())
ROWS = {
    "no candidate, labelled", "no candidate, arguments only", "another id, new", "another id, goes on", "name and arguments after the end",
    "same name alone", "names joined", "another name", "else", "opens nothing", "whole body", "after the end", "place", "habit", "said again", "named by its id",
}  # fmt: skip


def sse(events: list[Any]) -> bytes:
    return "".join([f"data: {json.dumps(event)}\n\n" for event in events]).encode()


def wired(piece: dict[str, Any]) -> dict[str, Any]:
    """A piece as the chat wire writes it."""
    function = {key: piece[key] for key in ("name", "arguments") if key in piece}
    labels = {key: piece[key] for key in ("index", "id") if key in piece}
    return {**labels, "type": "function", "function": function}


def chat(arrays: list[Any], finish: str = "tool_calls") -> bytes:
    deltas = [
        {"tool_calls": [wired(piece) for piece in (array if isinstance(array, list) else [array])]} for array in arrays
    ]
    choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": finish})
    return sse([{"id": "r", "model": "m", "choices": [choice]} for choice in choices]) + b"data: [DONE]\n\n"


def raw(case: dict[str, Any]) -> bytes:
    if case.get("whole"):
        message = {"tool_calls": [wired(piece) for piece in case["pieces"]]}
        return json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode()
    return sse(case["events"]) if "events" in case else chat(case["pieces"])


def decoded(case: dict[str, Any], chunks: list[bytes]) -> list[Event]:
    tools = [ToolSpec(name) for name in case.get("tools", ())]
    return events_of(make_decoder(wire=case.get("wire", "openai-chat"), turn_key="t", tools=tools), chunks)


def some_of_each_row() -> list[Any]:
    """All cases, the first few of each row and what is refused quick: the interleavings below try the others in thousands of forms."""
    met: Counter[str] = Counter()
    found = []
    for case in CASES:
        met[case["row"]] += 1
        found.append(pytest.param(case, marks=() if met[case["row"]] <= 6 or "error" in case else pytest.mark.long))
    return found


@pytest.mark.parametrize("case", some_of_each_row(), ids=lambda case: case["name"])
def test_the_table(case: dict[str, Any]) -> None:
    data = raw(case)
    events = decoded(case, [data])
    assert decoded(case, by_byte(data)) == events
    for seed in range(5):
        assert decoded(case, at_random(data, seed)) == events
    assert all(event.delta for event in events if isinstance(event, ToolCallDelta))
    last = events[-1]
    if "error" in case:
        assert isinstance(last, ErrorEvent), last
        assert last.error.kind == case["error"]
        return
    assert isinstance(last, Done), last
    found = last.turn.tool_calls
    assert [[call.raw_id, call.name, call.arguments] for call in found] == case["calls"]
    unfit = [number for number, call in enumerate(found) if "_parse_error" in parse_arguments(call)]
    assert unfit == case.get("parse_errors", [])
    assert len({call.id for call in found}) == len(found)


def test_every_row_has_its_cases() -> None:
    assert {case["row"] for case in CASES} == ROWS
    assert len({case["name"] for case in CASES}) == len(CASES)


def test_a_name_that_comes_in_two_halves_is_told_once_and_whole() -> None:
    events = decoded(
        {"tools": ["get_weather"]}, [chat([{"index": 0, "name": "get_"}, {"index": 0, "name": "weather"}])]
    )
    assert [event.name for event in events if isinstance(event, ToolCallStart)] == ["get_weather"]


def test_a_cut_stream_keeps_a_call_whose_name_might_have_grown() -> None:
    data = chat([{"index": 0, "name": "get_"}]).split(b"data: [DONE]")[0].rsplit(b"data: ", 1)[0]
    last = decoded({"tools": ["get_weather"]}, [data])[-1]
    assert isinstance(last, ErrorEvent) and [call.name for call in last.turn.tool_calls] == ["get_"]


# What the labels of a stream are, by the number of the call a piece belongs to and the number of the piece.
SEPARATE = {
    "an index": lambda call, piece: {"index": call},
    "an index of its own and one id for all": lambda call, piece: {"index": call, "id": "0"},
    "index and id": lambda call, piece: {"index": call, "id": f"call_{call}"},
    "index, and the id in the first piece": lambda call, piece: {"index": call, **({} if piece else {"id": f"c{call}"})},
    "an index, and an id minted for each piece": lambda call, piece: {"index": call, "id": f"c{call}-{piece}"},
    "an id": lambda call, piece: {"id": f"call_{call}"},
    "an id, and index 0 for all": lambda call, piece: {"index": 0, "id": f"call_{call}"},
    "a sparse index and a blank id": lambda call, piece: {"index": 7 * call + 1, "id": " "},
    "an id and a negative index": lambda call, piece: {"index": -1, "id": f"call_{call}"},
}  # fmt: skip
VAGUE = {
    "nothing": lambda call, piece: {},
    "index 0 for all": lambda call, piece: {"index": 0},
    "one id for all": lambda call, piece: {"id": "0"},
    "index 0 and one id for all": lambda call, piece: {"index": 0, "id": "0"},
    "index 0 and an id minted for each piece": lambda call, piece: {"index": 0, "id": f"{call}-{piece}"},
    "index and id in the first piece only": lambda call, piece: {} if piece else {"index": call, "id": f"c{call}"},
    "index 0, and an id in the first piece only": lambda call, piece: {"index": 0, **({} if piece else {"id": f"c{call}"})},
}  # fmt: skip

_WORDS = ["", "a", "{}", "}", '"', '"}', "\\", "{", "[1]", ":1}", ",", "Oslo", "\u00e9\U0001f600", " ", "\n", '{"x":1}']


def some_value(dice: random.Random, depth: int = 0) -> Any:
    kind = dice.randrange(7 if depth < 2 else 4)
    if kind == 0:
        return dice.choice([0, 1, 12, -3.5, True, None])
    if kind < 4:
        return "".join(dice.choices(_WORDS, k=dice.randrange(4)))
    if kind == 4:
        return [some_value(dice, depth + 1) for _ in range(dice.randrange(3))]
    return {dice.choice("abc}") * dice.randrange(1, 3): some_value(dice, depth + 1) for _ in range(dice.randrange(3))}


def pieces_of(dice: random.Random, text: str) -> list[str]:
    cuts = sorted(dice.choices(range(len(text) + 1), k=dice.randrange(5)))
    found = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    return ["", *found] if dice.random() < 0.5 else found


def interleaved(dice: random.Random, labels: Any) -> tuple[bytes, dict[str, Any]]:
    """A stream of up to five calls whose pieces come in any order that keeps each call's own, and what each should get."""
    wanted: dict[str, Any] = {}
    waiting: list[list[dict[str, Any]]] = []
    for number in range(dice.randrange(1, 6)):
        arguments = {"a": some_value(dice)} if dice.random() < 0.8 else {}
        wanted[f"tool_{number}"] = arguments
        text = json.dumps(
            arguments, ensure_ascii=dice.random() < 0.5, separators=dice.choice([(",", ":"), (", ", ": ")])
        )
        parts = [{"arguments": part, **labels(number, at)} for at, part in enumerate(pieces_of(dice, text))]
        parts[0]["name"] = f"tool_{number}"
        waiting.append(parts)
    arrays: list[Any] = []
    in_order = dice.random() < 0.3
    while waiting:
        at = 0 if in_order else dice.randrange(len(waiting))
        arrays.append(waiting[at].pop(0))
        if not waiting[at]:
            waiting.pop(at)
    return chat(arrays), wanted


@pytest.mark.parametrize("labels", SEPARATE)
def test_calls_that_a_label_separates_are_never_mixed(labels: str) -> None:
    dice = random.Random(labels)
    for _ in range(examples(700)):
        data, wanted = interleaved(dice, SEPARATE[labels])
        last = decoded({}, [data])[-1]
        assert isinstance(last, Done), (last, data)
        assert {call.name: parse_arguments(call) for call in last.turn.tool_calls} == wanted, data


@pytest.mark.parametrize("labels", VAGUE)
def test_calls_that_no_label_separates_run_with_their_own_arguments_or_not_at_all(labels: str) -> None:
    dice = random.Random(labels)
    told, tried = 0, examples(700)
    for _ in range(tried):
        data, wanted = interleaved(dice, VAGUE[labels])
        last = decoded({}, [data])[-1]
        if isinstance(last, ErrorEvent):
            assert last.error.kind == "malformed"
            continue
        assert isinstance(last, Done)
        for call in last.turn.tool_calls:
            arguments = parse_arguments(call)
            assert "_parse_error" in arguments or arguments == wanted[call.name], (call, data)
        told += [parse_arguments(call) for call in last.turn.tool_calls] == list(wanted.values())
    assert told > tried // 7, "calls in order, one after the other, need no label"


def test_calls_that_are_said_again_in_any_pieces_run_once() -> None:
    dice = random.Random(2)
    for _ in range(examples(300)):
        wanted, arrays = {}, []
        for number in range(dice.randrange(1, 4)):
            wanted[f"tool_{number}"] = arguments = {"a": some_value(dice)}
            labels = {"index": number, "id": f"functions.tool_{number}:{number}", "name": f"tool_{number}"}
            for _ in range(dice.randrange(1, 4)):
                pieces: list[dict[str, Any]] = [
                    {"index": number, "arguments": part} for part in pieces_of(dice, json.dumps(arguments))
                ]
                arrays += [{**labels, **pieces[0]}, *pieces[1:]]
        last = decoded({}, [chat(arrays)])[-1]
        assert isinstance(last, Done), (last, arrays)
        assert [(call.name, parse_arguments(call)) for call in last.turn.tool_calls] == list(wanted.items()), arrays


def test_a_call_that_is_said_again_is_told_as_a_problem() -> None:
    whole = {"index": 0, "id": "call_a9", "name": "f", "arguments": "{}"}
    last = decoded({}, [chat([whole] * 20_000)])[-1]
    assert isinstance(last, Done) and len(last.turn.tool_calls) == 1 and last.turn.extra is not None
    told = {problem["why"] for problem in last.turn.extra["problems"]}
    assert told == {"the host said the call of 'f' again (call_a9); it runs once"}


def test_a_body_of_calls_that_share_all_labels() -> None:
    dice = random.Random(1)
    for _ in range(200):
        wanted = [{"a": some_value(dice)} for _ in range(dice.randrange(1, 6))]
        calls = [wired({"index": 0, "id": "0", "name": "f", "arguments": json.dumps(each)}) for each in wanted]
        body = {"choices": [{"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}
        turn = decode_response(json.dumps(body).encode(), turn_key="t")
        assert [parse_arguments(call) for call in turn.tool_calls] == wanted


@pytest.mark.parametrize(
    ("head", "piece"),
    [
        ({"arguments": '{"a":"'}, {"name": "f", "arguments": "{}"}),
        ({"arguments": "{}"}, {"name": "f", "arguments": " "}),
        ({"arguments": '{"a":"'}, {"id": "other", "arguments": "{}"}),
        ({"arguments": '{"a":'}, {"name": "f", "arguments": "["}),
    ],
    ids=["in a string", "after the end", "a minted id", "ever deeper"],
)
def test_asking_at_every_piece_whether_a_call_is_complete_stays_linear(head: Any, piece: Any) -> None:
    """Reading all arguments again for each of these pieces would take minutes."""
    count = 20_000
    start = {"index": 0, "id": "a", "name": "f", **head}
    turn = decoded({}, [chat([start, *[{"index": 0, **piece}] * count], "length")])[-1].turn  # type: ignore[union-attr]
    assert sum(len(call.arguments) for call in turn.tool_calls) >= len(head["arguments"]) + count - 1


def test_doubts_without_end_stay_linear() -> None:
    opened = [{"name": f"t{number}", "arguments": '{"a":' + "[" * number} for number in range(400)]
    for more in ('"', "[", "a"):
        last = decoded({}, [chat([*opened, *[{"arguments": more}] * 2_000])])[-1]
        assert isinstance(last, (Done, ErrorEvent))


@pytest.mark.parametrize("depth", [10, 100])
def test_a_doubt_about_a_deep_call_is_a_doubt(depth: int) -> None:
    """The rest of the first call closes it; in the second it stands in a string, which would run."""
    rest = "]" * depth + "}"
    arrays = [
        {"name": "f", "arguments": '{"n":' + "[" * depth},
        {"name": "g", "arguments": '{"s":"'},
        {"arguments": rest},
    ]
    last = decoded({}, [chat([*arrays, {"arguments": '"}'}])])[-1]
    assert isinstance(last, ErrorEvent) and last.error.kind == "malformed"


def test_arguments_that_are_held_count_against_the_limit() -> None:
    router = ToolDeltaRouter(TurnBuilder("t", Origin("p", "w", "m"), limit=10))
    with pytest.raises(LimitExceeded):
        for _ in range(4):
            router.array([ToolDelta(3, arguments="1234")])


def test_an_unlabelled_piece_that_fits_two_calls_says_so() -> None:
    body = chat([{"name": "f", "arguments": '{"n":1'}, {"name": "g", "arguments": '{"s":"'}, {"arguments": "2}"}])
    last = decoded({}, [body])[-1]
    assert isinstance(last, ErrorEvent) and "without a label" in last.error.message and "'g'" in last.error.message
    with pytest.raises(MalformedStream):
        raise last.to_exception()
    assert msgspec.to_builtins(last.turn)["failure"] == "malformed"


def test_a_name_that_waited_is_told_with_the_first_arguments() -> None:
    data = chat([{"index": 0, "name": "get_"}, {"index": 0, "arguments": "{"}])
    decoder = make_decoder(turn_key="t", tools=[ToolSpec("get_weather")])
    waiting, told = data.split(b"\n\n")[:2]
    assert not any(isinstance(event, ToolCallStart) for event in decoder.feed(waiting + b"\n\n"))
    assert any(isinstance(event, ToolCallStart) for event in decoder.feed(told + b"\n\n"))
