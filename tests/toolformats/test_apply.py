from __future__ import annotations

from midstream.core.blocks import Origin, Text, Thinking, ToolCall, Turn
from midstream.core.lifecycle import check
from midstream.core.reduce import MAX_PROBLEMS, TurnBuilder
from midstream.toolformats.apply import FilteredText
from midstream.toolformats.registry import leak_filter, think_filter

from .feeding import tool

TOOLS = (tool("read", path="string"),)
CALL = "<|tool_call_begin|>functions.{}:0<|tool_call_argument_begin|>{}<|tool_call_end|>"
READ = CALL.format("read", '{"path": "/x"}')


def _turn(text: str, *, field: str = "", tags: tuple[str, str] | None = None) -> Turn:
    builder = TurnBuilder("key", Origin("p", "w", "m"))
    filtered = FilteredText(builder, leak_filter("kimi", TOOLS, tags=tags), field)
    for char in text:
        filtered.feed(char)
    filtered.close()
    filtered.close()
    builder.finish("end_turn")
    return builder.take()[-1].turn  # type: ignore[union-attr]


def test_calls_in_text_become_calls_of_the_turn() -> None:
    turn = _turn("Let me see. " + READ + " Done.")
    assert [type(block) for block in turn.blocks] == [Text, ToolCall, Text]
    call = turn.tool_calls[0]
    assert (call.name, call.arguments, call.raw_id) == ("read", '{"path": "/x"}', "functions.read:0")
    assert call.id.startswith("hist_tool_")
    assert turn.text == "Let me see.  Done."


def test_a_reasoning_field_stays_thinking() -> None:
    turn = _turn("I plan. " + READ + "Then more.", field="reasoning_content")
    assert [type(block) for block in turn.blocks] == [Thinking, ToolCall, Thinking]
    assert turn.blocks[0] == Thinking("I plan. ", "reasoning_content", origin=turn.origin)


def test_problems_stand_beside_the_text_and_not_in_it() -> None:
    turn = _turn("Hm. " + CALL.format("rm", "{}"))
    assert turn.text == "Hm. "
    assert turn.tool_calls == ()
    assert turn.extra is not None
    (problem,) = turn.extra["problems"]
    assert problem["why"] == "no tool 'rm' is declared"
    assert "functions.rm:0" in problem["raw"]


def test_problems_are_bounded() -> None:
    turn = _turn("x" + "<|tool_call_end|>" * (MAX_PROBLEMS + 10))
    assert turn.extra is not None
    assert len(turn.extra["problems"]) == MAX_PROBLEMS


def test_events_are_lawful() -> None:
    builder = TurnBuilder("key", Origin())
    filtered = FilteredText(builder, think_filter(None, True))
    filtered.feed("plan</thi")
    filtered.feed("nk>answer")
    filtered.close()
    builder.finish("end_turn")
    events = builder.take()
    check(events)
    assert [event.__struct_config__.tag for event in events] == [
        "start", "thinking_start", "thinking_delta", "thinking_end", "text_start", "text_delta", "text_end", "done",
    ]  # fmt: skip
