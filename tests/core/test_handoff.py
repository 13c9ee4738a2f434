"""The switch report counts what the next model sees, turn by turn."""

from __future__ import annotations

from midstream import encode_request
from midstream.core.blocks import Conversation, Media, Text, Thinking, ToolCall, ToolResponse, Turn, human
from midstream.core.handoff import Note, SwitchReport, switch_report

CALL = ToolCall("hist_tool_" + "a" * 24, "look")


def test_blocks_of_a_dropped_turn_are_not_kept_and_not_taken_from_others() -> None:
    turns = (
        human("one"),
        Turn("ai", (Thinking("hm"), Text("cut"), CALL), key="t1", failure="truncated"),
        Turn("ai", (Thinking("hm"), Text("whole")), key="t2"),
    )
    notes = (
        Note("dropped", "turn", "failed_turn", "the answer failed", 1),
        Note("dropped", "thinking", "foreign_thinking", "another model's", 1),
        Note("adapted", "text", "reordered_blocks", "so", 2),
    )
    assert switch_report("m", turns, notes).kept == {"text": 2, "thinking": 1}


def test_what_is_dropped_inside_a_result_is_taken_from_no_other_block() -> None:
    picture = Media("image/png", data="AA==")
    turns = (Turn("human", (picture,)), Turn("ai", (CALL,)), Turn("tool", (ToolResponse(CALL.id, content=(picture,)),)))
    notes = (
        Note("dropped", "media", "unsupported_media", "not read here", 2),
        Note("dropped", "option", "unsupported_option", "unknown"),
    )
    assert switch_report("m", turns, notes).kept == {"media": 1, "tool_call": 1, "tool_response": 1}


def test_a_failed_answer_with_its_results_counts_for_nothing() -> None:
    turns = (human("go"), Turn("ai", (Text("a"), CALL), failure="truncated"), Turn("tool", (ToolResponse(CALL.id),)))
    notes = encode_request("openai/gpt-4o", Conversation((*turns, human("again"))), cache=None).notes
    assert switch_report("m", turns, notes).kept == {"text": 1}


def test_the_lines_count_what_applied_more_than_once_and_say_what_will_not_fit() -> None:
    dropped = Note("dropped", "thinking", "foreign-thinking", "not its own", 1)
    once = Note("adapted", "id", "id-mapped", "another scheme", 2)
    whole = SwitchReport("m", {"text": 2, "call": 1}, (dropped, once, dropped), tokens=1200, context=1000)
    assert whole.lines() == [
        "kept: 1 call, 2 text",
        "dropped: thinking: not its own (x2)",
        "adapted: id: another scheme",
        "to be read again: about 1,200 tokens of a window of 1,000 - too long: it will not fit",
    ]
    assert SwitchReport("m", {}, (), compaction="soon", tokens=1200, context=1000).lines() == [
        "kept: nothing",
        "compaction: soon",
        "to be read again: about 1,200 tokens of a window of 1,000",
    ]
    assert SwitchReport("m", {}, (), tokens=5).lines() == ["kept: nothing", "to be read again: about 5 tokens"]
