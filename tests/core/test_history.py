from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.core.blocks import Block, Conversation, Media, Text, Thinking, ToolCall, ToolResponse, Turn
from midstream.core.history import INTERRUPTED, CallMatcher, canonicalize, repair
from midstream.core.ids import canonical_tool_call_id, from_own_id, kimi_strategy
from midstream.core.tools import ToolSpec
from tests.core.histories import from_vector, lawful
from tests.core.repair_exceptions import DIFFERENT, LATER
from tests.shared_data import vector_params, vectors

VECTORS = "ids/history_repair.json"


def human(text: str = "q", key: str = "h") -> Turn:
    return Turn("human", (Text(text),), key=key)


def ai(*ids: str, key: str = "a", failure: str = "") -> Turn:
    return Turn("ai", tuple([ToolCall(each, f"tool_{each}") for each in ids]), key=key, failure=failure)


def tool(*ids: str, key: str = "t", said: str = "ok", is_error: bool = False) -> Turn:
    return Turn("tool", tuple([ToolResponse(each, "", (Text(said),), is_error=is_error) for each in ids]), key=key)


def shape(turns: Any) -> list[tuple[str, list[str]]]:
    """Speakers and what they hold, for reading in a failure."""

    def word(block: Block) -> str:
        match block:
            case ToolCall():
                return f"call {block.id}"
            case ToolResponse():
                return f"{'error' if block.is_error else 'result'} {block.call_id}"
            case _:
                return type(block).__name__

    return [(turn.speaker, [word(block) for block in turn.blocks]) for turn in turns]


def assert_lawful(turns: Any) -> None:
    due: list[str] = []
    seen: list[str] = []
    for turn in turns:
        assert turn.blocks
        assert not (turn.failure and turn.speaker == "ai")
        if turn.speaker == "tool":
            assert [type(block) for block in turn.blocks] == [ToolResponse] * len(turn.blocks)
            assert [response.call_id for response in turn.tool_responses] == due
            assert due
            due = []
            continue
        assert not due, f"{turn.speaker} came where results of {due} were due"
        assert not turn.tool_responses
        if turn.speaker == "ai":
            due = [call.id for call in turn.tool_calls]
            seen += due
        else:
            assert not turn.tool_calls
    assert not due
    assert len(set(seen)) == len(seen)


CASES: dict[str, tuple[list[Turn], list[tuple[str, list[str]]]]] = {
    "a missing result is made up": (
        [ai("1", "2"), tool("2"), human()],
        [("ai", ["call 1", "call 2"]), ("tool", ["error 1", "result 2"]), ("human", ["Text"])],
    ),
    "no result at all is made up": ([ai("1")], [("ai", ["call 1"]), ("tool", ["error 1"])]),
    "results come into call order": (
        [ai("1", "2"), tool("2", "1")],
        [("ai", ["call 1", "call 2"]), ("tool", ["result 1", "result 2"])],
    ),
    "results in two turns become one": (
        [ai("1", "2"), tool("1"), tool("2")],
        [("ai", ["call 1", "call 2"]), ("tool", ["result 1", "result 2"])],
    ),
    "an orphan goes": ([human(), tool("x")], [("human", ["Text"])]),
    "a second result goes": ([ai("1"), tool("1"), tool("1")], [("ai", ["call 1"]), ("tool", ["result 1"])]),
    "an error gives way to a later result": (
        [ai("1"), tool("1", is_error=True), tool("1")],
        [("ai", ["call 1"]), ("tool", ["result 1"])],
    ),
    "a result does not give way to a later error": (
        [ai("1"), tool("1"), tool("1", is_error=True)],
        [("ai", ["call 1"]), ("tool", ["result 1"])],
    ),
    "a displaced result moves back": (
        [ai("1"), human(), tool("1")],
        [("ai", ["call 1"]), ("tool", ["result 1"]), ("human", ["Text"])],
    ),
    "results cross over two turns": (
        [ai("1"), human(), ai("2"), tool("1"), tool("2")],
        [("ai", ["call 1"]), ("tool", ["result 1"]), ("human", ["Text"]), ("ai", ["call 2"]), ("tool", ["result 2"])],
    ),
    "an early result moves behind its call": (
        [human(), tool("1"), ai("1")],
        [("human", ["Text"]), ("ai", ["call 1"]), ("tool", ["result 1"])],
    ),
    "a failed answer goes with its results": (
        [human(), ai("1", failure="truncated"), tool("1"), human()],
        [("human", ["Text"]), ("human", ["Text"])],
    ),
    "an empty turn goes": ([human(), Turn("ai", key="e"), Turn("tool"), Turn("human")], [("human", ["Text"])]),
    "a human cannot call": ([Turn("human", (Text("a"), ToolCall("1", "f"))), tool("1")], [("human", ["Text"])]),
    "results in a human turn become a tool turn": (
        [ai("1"), Turn("human", (ToolResponse("1"), Text("go on")))],
        [("ai", ["call 1"]), ("tool", ["result 1"]), ("human", ["Text"])],
    ),
    "results inside the ai turn move behind it": (
        [Turn("ai", (ToolCall("1", "f"), ToolResponse("1"), Text("so")))],
        [("ai", ["call 1", "Text"]), ("tool", ["result 1"])],
    ),
    "media beside results becomes a human turn": (
        [ai("1"), Turn("tool", (ToolResponse("1"), Media("image/png", data="x")))],
        [("ai", ["call 1"]), ("tool", ["result 1"]), ("human", ["Media"])],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_repair(name: str) -> None:
    turns, wanted = CASES[name]
    repaired = repair(turns)
    assert shape(repaired.turns) == wanted
    assert_lawful(repaired.turns)
    assert repaired.notes
    again = repair(repaired.turns)
    assert (again.turns, again.notes) == (repaired.turns, [])


def test_a_lawful_history_is_returned_as_it_is() -> None:
    turns = [human(), ai("1", "2"), tool("1", "2"), ai("3"), tool("3"), human()]
    repaired = repair(turns)
    assert repaired.turns is turns
    assert (repaired.notes, repaired.unanswered, repaired.call_ids) == ([], frozenset(), {"1", "2", "3"})


def test_untouched_turns_stay_the_same_objects() -> None:
    turns = [human(), ai("1"), tool("1"), ai("2"), human(), tool("2"), ai("3"), tool("3"), tool("x")]
    out = repair(turns).turns
    assert [turn for turn in out if not any(turn is old for old in turns)] == [
        Turn("tool", tool("2").blocks, key="a:results")
    ]


def test_a_tool_turn_that_answers_an_older_turn_does_not_take_the_place_of_the_next() -> None:
    late, own = tool("1", key="late"), tool("2", key="own")
    out = repair([ai("1"), human(), ai("2"), late, own]).turns
    assert out[-1] is own


def test_what_was_made_up_says_so() -> None:
    repaired = repair([ai("1", "2"), tool("1")])
    assert repaired.unanswered == {"2"}
    made_up = repaired.turns[1].tool_responses[1]
    assert (made_up.text, made_up.is_error, made_up.name) == (INTERRUPTED, True, "tool_2")


def test_a_repeated_id_gets_its_own_and_each_call_keeps_its_result() -> None:
    turns = [ai("0", key="k1"), tool("0", said="first"), ai("0", key="k2"), tool("0", said="second")]
    repaired = repair(turns)
    assert_lawful(repaired.turns)
    assert repaired.turns[0] is turns[0]
    assert [turn.tool_responses[0].text for turn in repaired.turns if turn.speaker == "tool"] == ["first", "second"]
    assert [note.action for note in repaired.notes] == ["adapted"]
    wire = kimi_strategy.create_mapper(repaired.turns)
    assert [wire.resolve_tool_call_id(call) for turn in repaired.turns for call in turn.tool_calls] == [
        "functions.tool_0:0", "functions.tool_0:1",
    ]  # fmt: skip


def test_repeated_ids_in_one_turn_are_answered_in_order() -> None:
    turns = [
        ai("0", "0"),
        Turn("tool", (ToolResponse("0", content=(Text("a"),)), ToolResponse("0", content=(Text("b"),)))),
    ]
    repaired = repair(turns)
    assert_lawful(repaired.turns)
    assert [response.text for response in repaired.turns[1].tool_responses] == ["a", "b"]


def test_an_orphan_does_not_take_the_place_of_a_real_result_of_the_same_id() -> None:
    # A history cut at its head, from a host that repeats its ids.
    turns = [tool("0", said="of a call that was cut off"), ai("0"), tool("0", said="real")]
    assert [r.text for turn in repair(turns).turns for r in turn.tool_responses] == ["real"]


def test_a_failed_call_does_not_take_the_result_of_its_retry() -> None:
    turns = [ai("0", failure="truncated"), ai("0"), tool("0")]
    repaired = repair(turns)
    assert repaired.turns == turns[1:]
    assert repaired.turns[0] is turns[1]
    assert repaired.call_ids == {"0"}


def test_the_result_of_a_failed_call_is_not_its_retry_s() -> None:
    repaired = repair([ai("0", failure="truncated"), tool("0"), ai("0")])
    assert repaired.unanswered == {"0"}


def test_of_two_early_results_the_first_stays() -> None:
    repaired = repair([tool("0", said="first"), tool("0", said="second"), ai("0")])
    assert [r.text for turn in repaired.turns for r in turn.tool_responses] == ["first"]


def test_a_result_goes_to_the_newest_turn_that_waits() -> None:
    repaired = repair([ai("0", key="k1"), ai("0", key="k2"), tool("0")])
    assert [turn.tool_responses[0].is_error for turn in repaired.turns if turn.speaker == "tool"] == [True, False]


def test_notes_say_where_in_the_whole_conversation() -> None:
    repaired = repair([human(), tool("x", key="lost")], offset=10)
    assert [(note.turn, note.key, note.action, note.what) for note in repaired.notes] == [
        (11, "lost", "dropped", "tool_response")
    ]


def test_ten_thousand_calls_of_one_id_are_repaired_in_good_time() -> None:
    turns = [turn for n in range(10_000) for turn in (ai("0", key=str(n)), tool("0"))]
    assert_lawful(repair(turns).turns)


def wild(rng: random.Random) -> list[Turn]:
    """Turns of every kind with blocks of every kind, ids that meet by chance."""
    turns = []
    for number in range(rng.randrange(10)):
        blocks: list[Block] = []
        for _ in range(rng.choice([0, 1, 1, 2, 4])):
            label = rng.choice("1234")
            blocks.append(
                rng.choice([
                    ToolCall(label, "f"), ToolCall(label, "g"), ToolCall(f"{number}-{len(blocks)}", "f"),
                    ToolResponse(label, "f", (Text(str(number)),)), ToolResponse(label, is_error=True),
                    ToolResponse("none"), Text("t"), Thinking("h"), Media("image/png", data="x"),
                ])
            )  # fmt: skip
        speaker = rng.choice(["human", "ai", "ai", "tool"])
        failure = rng.choice(["", "", "", "truncated"]) if speaker == "ai" else ""
        turns.append(Turn(speaker, tuple(blocks), key=f"k{number}", failure=failure))  # type: ignore[arg-type]
    return turns


@given(st.integers(0, 2**64 - 1))
@settings(max_examples=200, deadline=None)
def test_any_history_becomes_lawful(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(10):
        turns = wild(rng)
        before = copy.deepcopy(turns)
        repaired = repair(turns)
        assert turns == before
        assert_lawful(repaired.turns)
        assert bool(repaired.notes) is (list(repaired.turns) != turns)
        again, twin = repair(repaired.turns), repair(before)
        assert (again.turns, again.notes) == (repaired.turns, [])
        assert (twin.turns, twin.notes, twin.unanswered) == (repaired.turns, repaired.notes, repaired.unanswered)
        old = {turn.key: turn for turn in turns}
        assert all(turn is old[turn.key] for turn in repaired.turns if old.get(turn.key) == turn)
        assert [t for t in repaired.turns if t.speaker == "human" and t.tool_responses == ()] == [
            t for t in repaired.turns if t.speaker == "human"
        ]
        kept = [block for turn in repaired.turns for block in turn.blocks if isinstance(block, (Text, Media, Thinking))]
        said = [b for t in turns if not t.failure for b in t.blocks if isinstance(b, (Text, Media, Thinking))]
        assert kept == said


@given(st.integers(0, 2**64 - 1))
@settings(max_examples=100, deadline=None)
def test_appending_does_not_change_what_was_repaired_before(seed: int) -> None:
    """The prefix that a provider has cached stays as it is while a lawful conversation grows."""
    rng = random.Random(seed)
    head, tail = lawful(rng), lawful(rng, "more")
    before = list(repair(head).turns)
    assert list(repair([*head, *tail]).turns)[: len(before)] == before


@pytest.mark.parametrize("vector", [p for p in vector_params(VECTORS) if p.values[0].get("layer") not in LATER])
def test_repair_vectors(vector: dict[str, Any]) -> None:
    turns = from_vector(vector["before"])
    if vector.get("op") == "prefix_stability":
        after = from_vector([*vector["before"], *vector["append"]])
        before = shape(repair(turns).turns)
        assert shape(repair(after).turns)[: len(before)] == before
        return
    repaired = repair(turns)
    assert_lawful(repaired.turns)
    wanted = from_vector(vector["after"])
    assert (shape(repaired.turns) == shape(wanted)) is (vector["id"] not in DIFFERENT), shape(repaired.turns)


def test_the_lists_of_exceptions_name_only_vectors() -> None:
    known = vectors(VECTORS)
    assert set(DIFFERENT) <= set(known)
    assert set(LATER) < {vector["layer"] for vector in known.values()}


# Matching at ingestion.


def call(own: str, raw: str | None = None, name: str = "f") -> ToolCall:
    return ToolCall(own, name, raw_id=raw)


def test_a_result_finds_its_call_by_raw_id_in_the_newest_turn() -> None:
    matcher = CallMatcher()
    old, new = call("c1", "0"), call("c2", "0")
    matcher.opened([old])
    matcher.opened([new])
    assert [matcher.claim("0"), matcher.claim("0"), matcher.claim("0")] == [new, old, None]


def test_a_result_finds_its_call_by_our_own_ids() -> None:
    own = canonical_tool_call_id("p", "0", "f", "k", 0)
    suffix = own.removeprefix("hist_tool_")
    for label in (own, f"call_{suffix}", f"toolu_{suffix}", "raw"):
        matcher = CallMatcher()
        matcher.opened([call(own, "raw")])
        assert matcher.claim(label) == call(own, "raw")


def test_a_result_without_an_id_goes_by_position_and_name() -> None:
    matcher = CallMatcher()
    older, a, b = call("o", name="h"), call("a", name="f"), call("b", name="g")
    matcher.opened([older])
    matcher.opened([a, b])
    matcher.opened([])
    assert matcher.claim(None, "g") == b
    assert matcher.claim(None, "h") == older
    assert matcher.claim(None, "nobody") is None
    assert matcher.claim("") == a
    assert matcher.claim(None) is None


def test_an_unknown_id_is_an_orphan_not_a_guess() -> None:
    matcher = CallMatcher()
    matcher.opened([call("a", "0")])
    assert matcher.claim("1", "f") is None
    assert matcher.claim(canonical_tool_call_id("p", "0", "f", "k", 0), "f") is None


# Histories made elsewhere.


class SlowMatcher:
    """The rule in its plainest words: every turn looked through, newest first."""

    def __init__(self) -> None:
        self.turns: list[list[ToolCall]] = []

    def opened(self, calls: list[ToolCall]) -> None:
        self.turns.append(list(calls))

    def claim(self, raw_id: str | None, name: str = "") -> ToolCall | None:
        for calls in reversed(self.turns):
            for place, each in enumerate(calls):
                labelled = bool(raw_id) and (each.raw_id == raw_id or each.id in (raw_id, from_own_id(raw_id or "")))
                if labelled or (not raw_id and name in ("", each.name)):
                    return calls.pop(place)
        return None


OWN = ["hist_tool_" + letter * 24 for letter in "ab"]
LABELS = ["x", "y", "call_" + "a" * 24, *OWN]
opening = st.lists(
    st.builds(ToolCall, st.sampled_from(LABELS), st.sampled_from(["f", "g"]), raw_id=st.sampled_from([None, *LABELS]))
)
claiming = st.tuples(st.sampled_from([None, "", *LABELS]), st.sampled_from(["", "f", "g", "h"]))


@settings(max_examples=300)
@given(st.lists(opening | claiming, max_size=30))
def test_the_matcher_does_as_the_rule_says(steps: list[Any]) -> None:
    matcher, slow = CallMatcher(), SlowMatcher()
    for step in steps:
        if isinstance(step, list):
            matcher.opened(step)
            slow.opened(step)
        else:
            assert matcher.claim(*step) == slow.claim(*step)


def test_twenty_thousand_turns_of_strangers_are_matched_in_good_time() -> None:
    matcher = CallMatcher()
    for number in range(20_000):
        matcher.opened([call(f"c{number}", f"r{number}"), call(f"d{number}", "same", "g")])
        assert matcher.claim(f"nobody's {number}") is None
        assert matcher.claim(None, "nobody") is None
    assert matcher.claim("r0") == call("c0", "r0")
    for number in reversed(range(20_000)):
        assert matcher.claim("same") == call(f"d{number}", "same", "g")


def test_many_equal_ids_are_told_apart_in_good_time() -> None:
    turns = [ai(*["x"] * 20_000), tool(*["x"] * 20_000)]
    assert_lawful(repair(turns).turns)
    one_key = [turn for _ in range(5_000) for turn in (ai("x"), tool("x"))]
    assert_lawful(repair(one_key).turns)
    found = canonicalize(Conversation(tuple(one_key)))
    assert len({call.id for turn in found.turns for call in turn.tool_calls}) == 5_000


def pairs(conversation: Conversation) -> dict[str, str]:
    """Canonical id -> the text of its result."""
    return {r.call_id: r.text for turn in conversation.turns for r in turn.tool_responses}


def legacy() -> Conversation:
    labels = ["call_9xYz", "toolu_01AbC", "functions.f:0", "0", "", "functions.f:0", "0", ""]
    turns = []
    for number, label in enumerate(labels):
        turns.append(Turn("ai", (ToolCall(label, "f"), ToolCall(label and f"{label}b", "g"))))
        results = [
            ToolResponse(label, "f", (Text(f"f{number}"),)),
            ToolResponse(label and f"{label}b", "g", (Text(f"g{number}"),)),
        ]
        turns.append(Turn("tool", tuple(results)))
    return Conversation(tuple(turns))


def test_a_legacy_mix_gets_canonical_ids_and_keeps_its_pairs() -> None:
    done = canonicalize(legacy(), "elsewhere")
    calls = [each for turn in done.turns for each in turn.tool_calls]
    assert len({each.id for each in calls}) == len(calls) == 16
    assert all(each.id.startswith("hist_tool_") and len(each.id) == 34 for each in calls)
    assert {each.provider for each in calls} == {"elsewhere"}
    assert [pairs(done)[each.id] for each in calls] == [f"{name}{n}" for n in range(8) for name in "fg"]
    assert [each.raw_id for each in calls[:10:2]] == ["call_9xYz", "toolu_01AbC", "functions.f:0", "0", None]
    assert len({turn.key for turn in done.turns}) == len(done.turns)
    assert repair(done.turns).turns is done.turns


def test_a_call_that_knows_its_provider_keeps_it_in_field_and_seed() -> None:
    made = canonicalize(Conversation((Turn("ai", (ToolCall("0", "f", provider="moonshot"),), key="k"),)), "elsewhere")
    own = canonical_tool_call_id("moonshot", "0", "f", "k", 0)
    assert made.turns[0].blocks == (ToolCall(own, "f", raw_id="0", provider="moonshot"),)


def test_canonicalizing_twice_changes_nothing_more() -> None:
    once = canonicalize(legacy(), "elsewhere")
    assert canonicalize(once, "other") == once


def test_ids_that_are_ours_stay_and_come_back_from_their_wire_forms() -> None:
    own = canonical_tool_call_id("p", "0", "f", "k", 0)
    wire = own.replace("hist_tool_", "toolu_")
    kept = canonicalize(Conversation((Turn("ai", (ToolCall(own, "f"),)), Turn("tool", (ToolResponse(own),)))))
    assert (kept.turns[0].tool_calls[0].id, kept.turns[0].tool_calls[0].raw_id) == (own, None)
    assert (kept.turns[1].tool_responses[0].call_id, kept.turns[1].tool_responses[0].raw_id) == (own, None)
    back = canonicalize(Conversation((Turn("ai", (ToolCall(wire, "f"),)), Turn("tool", (ToolResponse(wire),)))))
    assert (back.turns[0].tool_calls[0].id, back.turns[0].tool_calls[0].raw_id) == (own, wire)
    assert back.turns[1].tool_responses[0] == ToolResponse(own, "f", raw_id=wire)


def test_a_repeated_canonical_id_is_made_unique_and_its_result_follows() -> None:
    own = canonical_tool_call_id("p", "functions.f:0", "f", "k", 0)
    again = ToolCall(own, "f", raw_id="functions.f:0")
    turns = [
        t
        for said in ("a", "b")
        for t in (Turn("ai", (again,), key="k"), Turn("tool", (ToolResponse(own, "", (Text(said),)),)))
    ]
    done = canonicalize(Conversation(tuple(turns)))
    calls = [each for turn in done.turns for each in turn.tool_calls]
    assert calls[0].id == own != calls[1].id
    assert [pairs(done)[each.id] for each in calls] == ["a", "b"]
    assert [each.raw_id for each in calls] == ["functions.f:0", "functions.f:0"]


def test_an_orphan_of_another_make_gets_a_canonical_id_of_its_own() -> None:
    done = canonicalize(Conversation((Turn("tool", (ToolResponse("call_1"), ToolResponse("call_1"))),)))
    first, second = done.turns[0].tool_responses
    assert first.call_id != second.call_id
    assert first.raw_id == second.raw_id == "call_1"


SYSTEM = Turn("system", (Text("s"),), key="s")
CALLED = ToolCall("hist_tool_" + "c" * 24, "ls", "{}")
ASKED = Turn("ai", (CALLED,), key="a")
ANSWERED = Turn("tool", (ToolResponse(CALLED.id, "ls", (Text("r"),)),), key="r")
MOVED = Turn("tool", ANSWERED.blocks, key="a:results")
TOLD = ToolSpec("late")


@pytest.mark.parametrize(
    ("given", "wanted", "codes"),
    [
        ([ASKED, ANSWERED, SYSTEM], [ASKED, ANSWERED, SYSTEM], []),
        ([ASKED, SYSTEM, ANSWERED], [ASKED, MOVED, SYSTEM], ["displaced_result"]),
        ([SYSTEM, SYSTEM], [SYSTEM, SYSTEM], []),
        ([Turn("system", (), key="e")], [], ["empty_turn"]),
        ([Turn("system", (), key="e", tools=(TOLD,))], [Turn("system", (), key="e", tools=(TOLD,))], []),
        (
            [ASKED, Turn("system", (*SYSTEM.blocks, *ANSWERED.blocks), key="s")],
            [ASKED, MOVED, SYSTEM],
            ["text_among_results", "results_out_of_order"],
        ),
    ],
)
def test_a_system_turn_stays_one_and_does_not_part_a_call_from_its_result(
    given: list[Turn], wanted: list[Turn], codes: list[str]
) -> None:
    repaired = repair(given)
    assert list(repaired.turns) == wanted
    assert [note.code for note in repaired.notes] == codes
    assert list(repair(repaired.turns).turns) == wanted
