"""Same history, same ids: whatever a client does to the rest of it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.core.blocks import ToolCall, ToolResponse
from midstream.core.history import repair
from midstream.core.ids import PREFIX, canonical_tool_call_id
from midstream.gateway.history import read_request
from midstream.gateway.issued_ids import IssuedIds, from_issued
from tests.gateway.clients import CLIENTS

CANONICAL = st.builds(canonical_tool_call_id, st.text(), st.text(), st.text(), st.text(), st.integers(0, 9))
SAFE = re.compile(r"[A-Za-z0-9_-]{1,40}\Z")  # Anthropic's pattern, and OpenAI's shortest limit


@given(st.lists(CANONICAL, unique=True, max_size=20))
def test_issued_ids_fit_every_wire_and_lead_back(canonical: list[str]) -> None:
    for wire in CLIENTS:
        ids = IssuedIds(wire)
        issued = [ids.resolve_tool_call_id(ToolCall(each, "f")) for each in canonical]
        assert issued == [ids.resolve_tool_response_id(ToolResponse(each, "f")) for each in canonical]
        assert len(set(issued)) == len(canonical)
        assert all(SAFE.match(each) for each in issued)
        assert [from_issued(each) for each in issued] == canonical


@given(CANONICAL, st.data())
def test_what_merely_looks_like_ours_is_not_taken_for_ours(canonical: str, data: st.DataObject) -> None:
    core = canonical.removeprefix(PREFIX)
    issued = IssuedIds("openai-chat").resolve_tool_call_id(ToolCall(canonical, "f"))
    place = data.draw(st.integers(len("call_"), len(issued) - 1))
    other = data.draw(st.sampled_from([each for each in "ABCabc019_-" if each != issued[place]]))
    lookalikes = [
        f"call_{core}", f"toolu_{core}", canonical, f"call_{core}{core[:8]}", issued + "x", issued[:-1],
        issued.replace("call_", "hist_tool_"), issued[:place] + other + issued[place + 1 :], "", "run_shell_command_1794790587847_0",
    ]  # fmt: skip
    assert [from_issued(each) for each in lookalikes] == [None] * len(lookalikes)


def test_an_id_that_is_not_canonical_is_still_one_that_clients_take() -> None:
    for odd in ("x", "with space", "\ud800", "é" * 90):
        assert SAFE.match(IssuedIds("anthropic").resolve_tool_call_id(ToolCall(odd, "f")))


# One answer of a history made elsewhere: (raw id, name, arguments) of each call, and the places of the results that there are.
Answer = tuple[list[tuple[str, str, dict[str, int]]], list[int]]

RAW_IDS = st.one_of(
    st.text("ab:_0", min_size=1, max_size=4),
    st.sampled_from(["call_abcdefghijklmnopqrstuvwx", "run_shell_command_1794790587847_0", "functions.f:0"]),
)
ARGUMENTS = st.dictionaries(st.sampled_from("xyz"), st.integers())


@st.composite
def histories(draw: st.DrawFn) -> list[Answer]:
    """Either every call has an id, or none has: the results then find their calls by their order."""
    ids = draw(st.sampled_from([RAW_IDS, st.just("")]))
    calls = st.lists(st.tuples(ids, st.sampled_from("fgh"), ARGUMENTS), min_size=1, max_size=3)
    made = draw(st.lists(calls, max_size=6))
    return [(each, sorted(draw(st.sets(st.sampled_from(range(len(each))))))) for each in made]


def render(wire: str, history: list[Answer], *, changed: bool) -> bytes:
    """A request with this history; `changed` as a client writes it later: other texts, arguments, shapes and reminders."""
    client = CLIENTS[wire]()
    for number, (calls, results) in enumerate(history):
        client.says(f"question {number}" if not changed else f"<reminder/> {number}")
        if changed and number % 2:
            client.says("be quick")
        _answer(wire, client.messages, calls, changed)
        for place in reversed(results) if changed and calls[0][0] else results:
            _result(wire, client.messages, *calls[place][:2], "cleared" if changed else f"result {place}")
    client.says("go on")
    return client.request()


def _answer(wire: str, messages: list[dict[str, Any]], calls: Any, changed: bool) -> None:
    text = "(gone)" if changed else "I will."
    match wire:
        case "openai-chat":
            said = [{"id": i, "type": "function", "function": {"name": n, "arguments": _arguments(a, changed)}} for i, n, a in calls]  # fmt: skip
            messages.append({"role": "assistant", "content": None if changed else text, "tool_calls": said})
        case "anthropic":
            used = [{"type": "tool_use", "id": i, "name": n, "input": {} if changed else a} for i, n, a in calls]
            messages.append({"role": "assistant", "content": [{"type": "text", "text": text}, *used]})
        case "openai-responses":
            messages += [{"type": "function_call", "call_id": i, "name": n, "arguments": _arguments(a, changed)} for i, n, a in calls]  # fmt: skip
        case "gemini":
            parts = [{"functionCall": {"id": i, "name": n, "args": {} if changed else a}} for i, n, a in calls]
            messages.append({"role": "model", "parts": parts if changed else [{"text": text}, *parts]})


def _arguments(arguments: dict[str, int], changed: bool) -> str:
    return json.dumps(arguments, sort_keys=changed, indent=1 if changed else None)


def _result(wire: str, messages: list[dict[str, Any]], raw_id: str, name: str, text: str) -> None:
    match wire:
        case "openai-chat":
            messages.append({"role": "tool", "tool_call_id": raw_id, "content": text})
        case "anthropic":
            result = {"type": "tool_result", "tool_use_id": raw_id, "content": text}
            messages.append({"role": "user", "content": [result]})
        case "openai-responses":
            messages.append({"type": "function_call_output", "call_id": raw_id, "output": text})
        case "gemini":
            response = {"id": raw_id, "name": name, "response": {"result": text}}
            messages.append({"role": "user", "parts": [{"functionResponse": response}]})


def calls_of(wire: str, body: bytes) -> list[list[str]]:
    """The canonical ids of the calls, answer by answer; the results have found theirs."""
    turns = read_request(wire, body, model="m").conversation.turns
    made = [[call.id for call in turn.tool_calls] for turn in turns if turn.tool_calls]
    every = [call_id for each in made for call_id in each]
    assert len(set(every)) == len(every), "two calls share an id"
    assert len({turn.key for turn in turns}) == len(turns), "two turns share a key"
    results = [response.call_id for turn in turns for response in turn.tool_responses]
    assert set(results) <= set(every), "a result lost its call"
    return made


@pytest.mark.parametrize("wire", CLIENTS)
@given(histories())
def test_ids_stay_when_a_client_writes_its_history_again(wire: str, history: list[Answer]) -> None:
    before = calls_of(wire, render(wire, history, changed=False))
    assert calls_of(wire, render(wire, history, changed=True)) == before
    repaired = repair(read_request(wire, render(wire, history, changed=True), model="m").conversation.turns)
    assert not [note for note in repaired.notes if note.code == "repeated_id"]


@pytest.mark.parametrize("wire", CLIENTS)
@given(histories().filter(len), st.data())
def test_ids_stay_when_a_client_compacts(wire: str, history: list[Answer], data: st.DataObject) -> None:
    """Whatever is left out before a turn, its ids stay, unless an earlier one with the same raw ids and names goes."""
    keys = [tuple([call[:2] for call in calls]) for calls, _ in history]
    distinct = [answer for number, answer in enumerate(history) if keys.index(keys[number]) == number]
    left = data.draw(st.integers(0, len(distinct) - 1))
    before = calls_of(wire, render(wire, distinct, changed=False))
    assert calls_of(wire, render(wire, distinct[left:], changed=True)) == before[left:]


@pytest.mark.parametrize("wire", CLIENTS)
@given(st.lists(CANONICAL, unique=True, min_size=1, max_size=6), st.data())
def test_issued_ids_come_back_verbatim_whatever_else_is_gone(
    wire: str, canonical: list[str], data: st.DataObject
) -> None:
    ids = IssuedIds(wire)
    issued = [ids.resolve_tool_call_id(ToolCall(each, "f")) for each in canonical]
    history: list[Answer] = [([(each, "f", {})], [0]) for each in issued]
    left = data.draw(st.integers(0, len(issued) - 1))
    assert calls_of(wire, render(wire, history[left:], changed=True)) == [[each] for each in canonical[left:]]


@pytest.mark.parametrize("wire", CLIENTS)
def test_a_repeated_issued_id_is_another_call_and_stays_so(wire: str) -> None:
    issued = IssuedIds(wire).resolve_tool_call_id(ToolCall(canonical_tool_call_id("", "r", "f", "k", 0), "f"))
    history: list[Answer] = [([(issued, "f", {})], [0]), ([("x", "g", {})], [0]), ([(issued, "f", {})], [0])]
    before = calls_of(wire, render(wire, history, changed=False))
    assert before[0] == [from_issued(issued)]
    without_middle = calls_of(wire, render(wire, [history[0], history[2]], changed=True))
    assert without_middle == [before[0], before[2]]


def test_a_result_of_a_call_that_is_not_in_the_request_keeps_its_id() -> None:
    """It may answer a stored response."""
    canonical = canonical_tool_call_id("", "r", "f", "k", 0)
    issued = IssuedIds("openai-responses").resolve_tool_call_id(ToolCall(canonical, "f"))
    body = {"input": [{"type": "function_call_output", "call_id": issued, "output": "done"}]}
    turns = read_request("openai-responses", json.dumps(body).encode()).conversation.turns
    assert turns[0].tool_responses[0].call_id == canonical


def test_the_wire_is_part_of_a_foreign_call() -> None:
    history: list[Answer] = [([("same", "f", {})], [0])]
    found = {wire: calls_of(wire, render(wire, history, changed=False))[0][0] for wire in CLIENTS}
    assert len(set(found.values())) == len(CLIENTS)


def test_a_result_under_an_id_that_merely_looks_like_a_calls_is_not_its() -> None:
    canonical = canonical_tool_call_id("", "r", "f", "k", 0)
    issued = IssuedIds("openai-chat").resolve_tool_call_id(ToolCall(canonical, "f"))
    lookalike = canonical.replace(PREFIX, "call_")
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "tool_calls": [{"id": issued, "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": lookalike, "content": "not this"},
    ]
    turns = read_request("openai-chat", json.dumps({"messages": messages}).encode()).conversation.turns
    assert turns[1].tool_calls[0].id == canonical
    assert turns[2].tool_responses[0].call_id != canonical
