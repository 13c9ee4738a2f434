"""The outline of a long history, and that the doctor's work grows with the history and no faster. Work is counted, not timed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import midstream
from midstream.core.blocks import (
    Block,
    Conversation,
    Media,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResponse,
    Turn,
    human,
)
from midstream.doctor import SCENES, examine, refusals
from midstream.doctor.diagnosis import _refused
from midstream.doctor.naive import naive_body
from midstream.doctor.outline import outline
from midstream.sim.players import make_players
from midstream.sim.rules.hosts import HOSTS, host_for, judge
from midstream.sim.rules.rule import Rule
from tests.long_run import each_once

PLAYERS = make_players()
SOURCE = f"{Path(midstream.__file__).parent}{os.sep}"


def exchange(number: int, *more: Block, said: str = "Let me look.") -> list[Turn]:
    call = ToolCall(f"hist_tool_{number:024d}", "read_file", f'{{"path":"{number}.txt"}}')
    return [
        human(f"What is in file {number}?", key=f"q{number}"),
        Turn("ai", (*more, Text(said), call), key=f"a{number}"),
        Turn("tool", (ToolResponse(call.id, call.name, (Text(f"line {number}"),)),), key=f"t{number}"),
        Turn("ai", (Text(f"It says {number}."),), key=f"b{number}"),
    ]


def long_history(exchanges: int) -> Conversation:
    return Conversation(tuple([turn for number in range(exchanges) for turn in exchange(number)]), system="Be kind.")


def test_the_outline_does_not_grow_with_more_of_the_same() -> None:
    short, long = outline(long_history(50)), outline(long_history(1000))
    assert len(short.turns) == len(long.turns) < 20
    assert long.system == "Be kind."


def test_a_short_history_is_its_own_outline() -> None:
    for scene in SCENES.values():
        history = scene(PLAYERS["moonshot-k2.5"], PLAYERS["moonshot-k2.5"]).done()
        assert outline(history) is history


ORIGIN = Origin("anthropic", "anthropic", "claude-sonnet-4-5")
ODD = {
    "thinking": Thinking("Hm.", "thinking", "signature", origin=ORIGIN),
    "unsigned": Thinking("Hm.", "reasoning_content", origin=ORIGIN),
    "media": Media("image/png", "iVBORw0KGgo="),
    "blank text": Text(" "),
    "another tool": ToolCall("hist_tool_" + "z" * 24, "ls"),
    "extra": Text("cited", {"citations": []}),
}  # fmt: skip


@each_once(("name", ODD), ("place", [0, 217, 399]))
def test_what_is_there_once_is_in_the_outline(name: str, place: int) -> None:
    turns = [turn for number in range(400) for turn in exchange(number, *([ODD[name]] if number == place else []))]
    found = outline(Conversation(tuple(turns))).turns
    assert any(ODD[name] in turn.blocks for turn in found)
    at = found.index(turns[4 * place + 1])
    assert found[at - 1 : at + 2] == tuple(turns[4 * place : 4 * place + 3]), "with what stands around it"
    assert len(found) < 40


def test_results_that_answer_another_call_are_another_shape() -> None:
    turns = list(long_history(100).turns)
    result = turns[202].tool_responses[0]
    turns[202] = replace(turns[202], blocks=(replace(result, call_id="hist_tool_elsewhere"),))
    assert turns[202] in outline(Conversation(tuple(turns))).turns


def test_turns_before_a_new_pair_come_along() -> None:
    """Two steps that were seen before, but never one after the other."""
    turns = list(long_history(100).turns)
    at = 4 * 60
    turns[at : at + 3] = [human("a", key="x"), human("b", key="y")]
    found = outline(Conversation(tuple(turns))).turns
    assert found.index(turns[at + 1]) == found.index(turns[at]) + 1


def test_what_an_odd_step_is_refused_for_is_found_by_way_of_the_outline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A double with one more rule, about a word that stands in one place of a long history: its verdict is that on the whole."""

    def check(body: Any, traits: Any) -> Iterator[str]:
        for index, message in enumerate(body["messages"]):
            if message.get("tool_calls") and message.get("content") is None:
                yield f"messages[{index}]: calls without a word"

    name = "moonshot-k2"
    strict = replace(HOSTS[name], rules=(*HOSTS[name].rules, Rule("says something", "observed", "a test", check)))
    monkeypatch.setitem(HOSTS, name, strict)
    turns = list(long_history(100).turns)
    odd = 4 * 70 + 1
    turns[odd] = replace(turns[odd], blocks=turns[odd].tool_calls)
    found = refusals(Conversation(tuple(turns)))
    assert {each.message for each in found["moonshot-k2"]} == {f"messages[{odd}]: calls without a word"}


# What a turn says and the ids of its calls: nearly always of one kind, now and then odd, in a way that some rule reads.
said = st.sampled_from(["Yes.", "It is done.", "今天", "ok then"]) | st.sampled_from(
    ["", " ", "ends \n", "\u2003", "\0"]
)
ids = st.sampled_from(
    ["", "call_1", "a b", "functions.ls:7", "x" * 41, "x" * 70, "toolu_1!", "今", "123456789", "12345678-"]
)
names = st.sampled_from(["read_file", "ls"]) | st.sampled_from(["", "two words", "1st", "n" * 65, "a.b", "今"])
arguments = st.sampled_from(["{}", '{"path":"a"}']) | st.sampled_from(["", "{", "[1]", "null", '{"a":1', " "])
extras = st.none() | st.sampled_from([{"item": {"id": "fc_1"}}, {"item": {"id": "odd id"}}, {"id": "msg_1"}, {"x": []}])
origins = st.sampled_from(
    [None, ORIGIN, Origin("moonshot", "openai-chat", "kimi-k2.5"), Origin("openai", "openai-responses", "o")]
)
thoughts = st.builds(
    Thinking, said, st.sampled_from(["reasoning_content", "thinking", ""]), st.none() | st.sampled_from(["", "sig"]),
    st.none() | st.just("enc"), st.booleans(), origins,
)  # fmt: skip
media = st.sampled_from(
    [Media("image/png", "iVBORw0KGgo="), Media("image/png", "data:x"), Media("image/png", url="https://x/y.png")]
)
calls = st.builds(ToolCall, ids, names, arguments, st.none() | ids, extra=extras)
results = st.builds(
    ToolResponse, ids, names, st.lists(st.builds(Text, said) | media, max_size=2).map(tuple), st.booleans()
)
blocks = st.builds(Text, said, extras) | thoughts | media | calls | results
faults = st.builds(
    Turn,
    st.sampled_from(["human", "ai", "tool", "system"]),
    st.lists(blocks, max_size=3).map(tuple),
    key=st.just("fault"),
    origin=origins,
)
planted = st.lists(st.tuples(st.integers(0, 99), st.booleans(), faults), max_size=3)
# The words of one exchange in a history of exchanges that are alike but for them.
words = st.dictionaries(
    st.integers(3, 22),
    st.fixed_dictionaries(
        {},
        optional={
            "asked": said,
            "said": said,
            "id": ids,
            "name": names,
            "arguments": arguments,
            "result": said,
            "answer": said,
        },
    ),
    max_size=3,
)


def with_faults(faults: list[tuple[int, bool, Turn]], words: dict[int, dict[str, str]]) -> Conversation:
    """A long history with odd words in some of its exchanges, and odd turns: between two, or in place of one."""
    turns: list[Turn] = []
    for number in range(25):
        odd = words.get(number, {})
        call = ToolCall(odd.get("id", f"call_{number:03d}"), odd.get("name", "ls"), odd.get("arguments", "{}"))
        turns += [
            human(odd.get("asked", "And?"), key=f"q{number}"),
            Turn("ai", (Text(odd.get("said", "I look.")), call), key=f"a{number}"),
            Turn("tool", (ToolResponse(call.id, call.name, (Text(odd.get("result", "x")),)),), key=f"t{number}"),
            Turn("ai", (Text(odd.get("answer", "Done.")),), key=f"b{number}"),
        ]
    for place, instead, turn in faults:
        turns[place : place + instead] = [turn]
    return Conversation(tuple(turns), system="Be kind.")


# These count, or compare, through the whole of a history: one dialect for each scheme of ids is told all of it.
COUNTED = {"ids count up", "ids unique"}


def broken_rules(history: Conversation) -> set[tuple[str, str, str]]:
    """What the hosts refuse about the history if nobody takes care of it; where it stands is another place in the outline."""
    found = set()
    for name in JUDGED:
        body = naive_body(history, HOSTS[name].traits.wire)
        assert body is not None
        found |= {(name, problem.rule, problem.basis) for problem in judge(body, HOSTS[name], "paranoid")}
    return {each for each in found if each[1] not in COUNTED}


JUDGED = [name for name, host in HOSTS.items() if naive_body(Conversation(), host.traits.wire) is not None]


@given(planted, words)
@settings(max_examples=12, deadline=None)
def test_the_outline_breaks_every_rule_that_the_whole_breaks(
    faults: list[tuple[int, bool, Turn]], words: dict[int, dict[str, str]]
) -> None:
    history = with_faults(faults, words)
    assert broken_rules(outline(history)) == broken_rules(history)


ODD_WORDS = {
    "id": ["a b", "x" * 41, "x" * 70],
    "name": ["two words", "n" * 65, "a.b"],
    "arguments": ["", "{", "[1]"],
    "asked": ["", " "],
    "said": [" "],
    "answer": ["", " "],
}


@pytest.mark.parametrize(("where", "odd"), [(where, odd) for where, each in ODD_WORDS.items() for odd in each])
def test_odd_words_in_one_place_break_a_rule_of_the_outline(where: str, odd: str) -> None:
    history, plain = with_faults([], {14: {where: odd}}), with_faults([], {})
    assert broken_rules(outline(history)) == broken_rules(history) > broken_rules(plain)


@given(planted, words)
@settings(max_examples=2, deadline=None)
def test_what_is_refused_is_what_each_dialect_refuses_about_the_whole(
    faults: list[tuple[int, bool, Turn]], words: dict[int, dict[str, str]]
) -> None:
    history = with_faults(faults, words)
    found = refusals(history)
    if history.turns[-1].speaker == "ai":
        history = history.add(human("Go on.", key="doctor"))
    whole = {name: _refused(history, player, set()) for name, player in PLAYERS.items()}
    assert found == {name: problems for name, problems in whole.items() if problems}


def test_a_body_that_one_host_accepts_is_still_judged_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two dialects that send the same are one question only to hosts of the same rules."""

    def check(body: Any, traits: Any) -> Iterator[str]:
        yield "never"

    name = "xai"
    monkeypatch.setitem(
        HOSTS, name, replace(HOSTS[name], rules=(*HOSTS[name].rules, Rule("no", "observed", "a test", check)))
    )
    found = refusals(long_history(1))
    assert found and set(found) == {
        each.name for each in PLAYERS.values() if host_for(each.target.dialect).name == name
    }


def calls_made(work: Callable[[], object]) -> int:
    """How many functions of midstream this calls."""
    count = 0

    def counted(frame: FrameType, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(SOURCE)

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def test_the_work_grows_with_the_history_and_no_faster() -> None:
    def doctored(exchanges: int) -> int:
        history = long_history(exchanges)
        return calls_made(lambda: refusals(examine(history).healed))

    doctored(20)  # what is only done once
    few, more, many = [doctored(number) for number in (30, 60, 120)]
    per_message = (many - more) / (60 * 4)
    assert per_message < 600, f"{per_message:.0f} calls for each further message"
    assert many - more < 2.2 * (more - few)


class CountedText(str):
    """An id that counts how often it is compared."""

    compared = 0
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedText.compared += 1
        return str.__eq__(self, other)

    def __str__(self) -> str:
        return self


def _chat(ids: list[CountedText]) -> dict[str, Any]:
    calls = [{"id": each, "type": "function", "function": {"name": "ls", "arguments": "{}"}} for each in ids]
    results = [{"role": "tool", "tool_call_id": each, "content": "x"} for each in reversed(ids)]
    return {"model": "m", "messages": [{"role": "user", "content": "go"}, {"role": "assistant", "tool_calls": calls}, *results]}  # fmt: skip


def _anthropic(ids: list[CountedText]) -> dict[str, Any]:
    calls = [{"type": "tool_use", "id": each, "name": "ls", "input": {}} for each in ids]
    results = [{"type": "tool_result", "tool_use_id": each, "content": "x"} for each in reversed(ids)]
    said = [("user", "go"), ("assistant", calls), ("user", results)]
    return {"model": "m", "max_tokens": 9, "messages": [{"role": role, "content": content} for role, content in said]}


def _responses(ids: list[CountedText]) -> dict[str, Any]:
    calls = [{"type": "function_call", "call_id": each, "name": "ls", "arguments": "{}"} for each in ids]
    results = [{"type": "function_call_output", "call_id": each, "output": "x"} for each in reversed(ids)]
    return {"model": "m", "input": [{"role": "user", "content": "go"}, *calls, *results]}


BODIES = {"openai-chat": _chat, "cohere": _chat, "anthropic": _anthropic, "openai-responses": _responses}


@pytest.mark.parametrize("name", [name for name, host in HOSTS.items() if host.traits.wire in BODIES])
def test_a_rule_compares_each_id_a_few_times_however_many_there_are(name: str) -> None:
    many = 300
    body = BODIES[HOSTS[name].traits.wire]([CountedText(f"call_{number:05d}") for number in range(many)])
    CountedText.compared = 0
    judge(body, name, "paranoid")
    assert CountedText.compared < 20 * many
