"""Answers are found again in a history that comes back, and nothing but what was given is put into it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from midstream import Conversation, Origin, Text, Thinking, ToolCall, Turn, human, tool_result
from midstream.adapters.answer_memory import AnswerMemory, packed, reconciled, unpacked

CLAUDE = Origin("anthropic", "anthropic", "claude")
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


def test_an_answer_without_calls_is_known_by_what_it_answered() -> None:
    memory = AnswerMemory()
    ours = Turn("ai", (Thinking("one", origin=CLAUDE), Text("OK")), key="k1", origin=CLAUDE)
    other = Turn("ai", (Thinking("two", origin=CLAUDE), Text("OK")), key="k2", origin=CLAUDE)
    said = Turn("ai", (Text("OK"),), key="m1")
    memory.add(ASKED, ours)
    memory.add(ASKED.add(said, human("more")), other)
    recalled = memory.recall(ASKED.add(said, human("more"), replace(said, key="m3"), human("more?")))
    assert [turn.thinking for turn in recalled.turns if turn.speaker == "ai"] == ["one", "two"]
    assert memory.recall(Conversation((human("never asked"), said))).turns[1] is said


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
    assert set(memory._places.values()) == set(memory._turns)


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
