"""Answers are found again in a history that comes back, and nothing but what was given is put into it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from midstream import Conversation, Media, Origin, Text, Thinking, ToolCall, ToolResponse, Turn, human, tool_result
from midstream.adapters.answer_memory import AnswerMemory, packed, reconciled, unpacked
from midstream.core.handoff import Note

CLAUDE = Origin("anthropic", "anthropic", "claude")
KIMI = Origin("moonshot", "openai-chat", "kimi-k2.5")
CALL = ToolCall("hist_tool_zfx4O2Q7xIApm_e5-pdtvZkb", "glob", '{"a": 1}', provider="anthropic", raw_id="toolu_1")
ANSWER = Turn("ai", (Thinking("hm", signature="s", origin=CLAUDE), Text("Look."), CALL), key="k1", origin=CLAUDE)
ASKED = Conversation((human("go", key="m0"),))


def returned(*blocks: Text | ToolCall) -> Conversation:
    """A history as a library sends it: nothing of ours but the id."""
    return ASKED.add(Turn("ai", tuple(blocks), key="m1"), Turn("tool", (tool_result(CALL, "x"),), key="m2"))


def plain(arguments: str = '{"a":1}') -> ToolCall:
    return ToolCall(CALL.id, "glob", arguments)


def test_an_answer_that_says_the_same_is_the_answer_itself() -> None:
    memory = AnswerMemory()
    memory.add(ASKED, ANSWER)
    assert memory.recall(returned(Text("Look."), plain())).turns[1] is ANSWER
    assert memory.recall(returned(Text(" Look.\n"), plain())).turns[1] is ANSWER


def test_an_edited_answer_keeps_its_words_and_gets_its_reasoning() -> None:
    memory = AnswerMemory()
    memory.add(ASKED, ANSWER)
    turn = memory.recall(returned(Text("Look again."), plain())).turns[1]
    assert (turn.text, turn.thinking, turn.origin) == ("Look again.", "hm", CLAUDE)
    changed = memory.recall(returned(Text("Look."), plain('{"a":2}'))).turns[1]
    assert (json.loads(changed.tool_calls[0].arguments), changed.thinking) == ({"a": 2}, "hm")


def test_an_answer_stands_in_a_history_once() -> None:
    memory = AnswerMemory()
    memory.add(ASKED, ANSWER)
    twice = returned(Text("Look."), plain()).add(Turn("ai", (Text("Look."), plain()), key="m3"))
    assert [turn.thinking for turn in memory.recall(twice).turns if turn.speaker == "ai"] == ["hm", ""]


def test_an_answer_without_calls_is_known_by_its_conversation() -> None:
    memory = AnswerMemory()
    ours = Turn("ai", (Thinking("one", origin=CLAUDE), Text("OK")), key="k1", origin=CLAUDE)
    other = Turn("ai", (Thinking("two", origin=CLAUDE), Text("OK")), key="k2", origin=CLAUDE)
    said = Turn("ai", (Text("OK"),), key="m1")
    memory.add(ASKED, ours)
    memory.add(ASKED.add(said, human("more")), other)
    recalled = memory.recall(ASKED.add(said, human("more"), replace(said, key="m3"), human("more?")))
    assert [turn.thinking for turn in recalled.turns if turn.speaker == "ai"] == ["one", "two"]
    assert memory.recall(Conversation((human("never asked"), said))).turns[1] is said


ALICE, BOB = (
    Turn(
        "ai",
        (Thinking(f"{name} wants it.", "reasoning_content", origin=KIMI), Text("Done."), Media("image/png", name)),
        key=name,
        origin=KIMI,
        response_id=name,
    )
    for name in ("Alice", "Bob")
)
SAID = Turn("ai", (Text("Done."),), key="m1")


def before(
    name: str = "", *, system: str = "", media: str = "AAAA", drawn: str = "BBBB", call: str = "c", result: str = "ok",
    shown: str = "CCCC", speaker: str = "", told: str = "",
) -> Conversation:  # fmt: skip
    """A conversation before an answer; each argument is something by which two users may differ."""
    asked = ToolCall(f"hist_tool_{call:x<24}", "look", '{"at": "here"}')
    turns = (
        Turn("human", (Text(f"I am {name}."), Media("image/png", media)), "m0", extra={"name": speaker or "user"}),
        Turn("ai", (Text("Hello."), Media("image/png", drawn), asked), "m1"),
        Turn("tool", (ToolResponse(asked.id, "look", (Text(result), Media("image/png", shown))),), "m2"),
        Turn("system", (Text(told or "Be brief."),), "m3"),
        human("go on", key="m4"),
    )
    return Conversation(turns, system)


@pytest.mark.parametrize(
    "bobs",
    [
        {"name": "Bob"}, {"system": "You talk to Bob."}, {"media": "BOBB"}, {"drawn": "BOBB"}, {"call": "b"},
        {"result": "Bob's file"}, {"shown": "BOBB"}, {"speaker": "bob"}, {"told": "This is Bob."},
    ],
    ids=lambda bobs: next(iter(bobs)),
)  # fmt: skip
def test_an_answer_goes_to_no_other_conversation(bobs: dict[str, str]) -> None:
    """The same last question, answered in the same words, to two users who differ in one thing."""
    hers, his = before(), before(**bobs)
    memory = AnswerMemory()
    memory.add(his, BOB)
    assert memory.recall(hers.add(SAID, human("and?"))).turns[5] is SAID
    memory.add(hers, ALICE)
    assert memory.recall(hers.add(SAID, human("and?"))).turns[5] is ALICE
    assert memory.recall(his.add(SAID, human("and?"))).turns[5] is BOB


def test_one_conversation_answered_in_two_wordings_finds_both() -> None:
    memory, other = AnswerMemory(), replace(BOB, blocks=(Thinking("Bob", origin=KIMI), Text("All done.")))
    memory.add(before(), ALICE)
    memory.add(before(), other)
    for turn in (ALICE, other):
        said = Turn("ai", (Text(turn.text),), key="m5")
        assert memory.recall(before().add(said, human("and?"))).turns[5] is turn


def test_different_answers_in_the_same_place_are_not_found_as_long_as_one_is_remembered() -> None:
    memory = AnswerMemory(answers=3)
    history = before().add(SAID, human("and?"))

    def found() -> Turn | None:
        notes: list[Note] = []
        turn = memory.recall(history, notes=notes).turns[5]
        assert (turn is SAID) == ("reasoning_not_found" in [note.code for note in notes if note.turn == 5])
        return None if turn is SAID else turn

    def forget(answers: int) -> None:
        for _ in range(answers):
            memory.add(before(str(memory._next)), replace(ALICE, key=str(memory._next)))

    memory.add(before(), ALICE)
    memory.add(before(), replace(ALICE, key="again", latency_ms=1.0))
    assert found() is not None, "the same answer twice is one answer"
    memory.add(before(), BOB)
    assert found() is None
    memory.add(before(), BOB)
    assert found() is None, "a third does not revive the second"
    forget(2)
    assert found() is None, "the last of them could still be another's"
    forget(1)
    assert found() is None and len(memory) == 3
    memory.add(before(), BOB)
    assert found() is BOB


@pytest.mark.parametrize(
    ("system", "again"),
    [
        ((Text("Be"), Text("kind.")), "Be\n\nkind."),
        (
            "x-anthropic-billing-header: cch=1;\nBe kind.",
            (Text("x-anthropic-billing-header: cch=2;"), Text("Be kind.")),
        ),
        ("x-anthropic-billing-header: cch=1;\nBe kind.", "Be kind."),
    ],
    ids=["texts", "billing line", "no billing line"],
)
def test_an_answer_is_found_under_the_next_shape_of_its_system_prompt(system: Any, again: Any) -> None:
    memory = AnswerMemory()
    memory.add(Conversation((human("go"),), system), ALICE)
    assert memory.recall(Conversation((human("go"), SAID, human("and?")), again)).turns[1] is ALICE


@pytest.mark.parametrize(
    ("sent", "again"),
    [
        ((Text("ab"), Text("c")), (Text("abc"),)),
        ((Text("a"),), (Text("a", extra={"cache_control": {"type": "ephemeral"}}),)),
        ((Media("image/png", "A", extra={"x": 1, "y": {"a": 1, "b": 2}}),), (Media("image/png", "A", extra={"y": {"b": 2, "a": 1}, "x": 1}),)),
    ],
    ids=["texts", "cache mark", "order of keys"],
)  # fmt: skip
def test_an_answer_is_found_in_the_next_shape_of_its_conversation(
    sent: tuple[Text | Media, ...], again: tuple[Text | Media, ...]
) -> None:
    memory = AnswerMemory()
    memory.add(Conversation((Turn("human", sent),)), ALICE)
    history = Conversation((Turn("human", again, key="m0"), SAID, human("and?")))
    assert memory.recall(history).turns[1] is ALICE


def test_what_is_not_found_is_counted_and_the_beginning_of_an_answer_is_not() -> None:
    memory, notes = AnswerMemory(), list[Note]()
    memory.recall(Conversation((human("go"), SAID, human("go on"), SAID)), notes=notes)
    assert memory.misses == 1 and [(note.code, note.turn) for note in notes] == [("reasoning_not_found", 1)]


def test_what_failed_is_not_remembered() -> None:
    memory = AnswerMemory()
    memory.add(ASKED, replace(ANSWER, failure="truncated"))
    assert len(memory) == 0


@given(st.lists(st.integers(0, 400), max_size=40), st.integers(1, 8), st.integers(1, 1000))
def test_memory_is_bounded(sizes: list[int], answers: int, characters: int) -> None:
    memory = AnswerMemory(answers, characters)
    for number, size in enumerate(sizes):
        memory.add(ASKED, Turn("ai", (Text("x" * size), replace(CALL, id=f"hist_tool_{number}")), key=str(number)))
        assert len(memory) <= answers
        # One answer may be larger than all that is allowed; it is then alone.
        assert len(memory) == 1 or sum(sizes[: number + 1][-len(memory) :]) <= characters
    assert {place.newest for place in memory._places.values()} == set(memory._turns)


def test_packed_is_plain_json_and_comes_back_whole() -> None:
    assert unpacked(json.loads(json.dumps(packed(ANSWER)))) == ANSWER
    for odd in (
        None,
        1,
        {},
        {"speaker": "nobody"},
        {"speaker": "ai", "blocks": [{"type": "?"}]},
        {"speaker": "ai", "tools": [{"name": "x"}]},
    ):
        assert unpacked(odd) is None


def test_reconciled_takes_nothing_of_another_answer() -> None:
    said = Turn("ai", (Text("no calls"),), key="m1")
    assert reconciled(said, ANSWER).tool_calls == ()
