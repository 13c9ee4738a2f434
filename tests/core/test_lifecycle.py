from __future__ import annotations

from pathlib import Path

import pytest

from midstream.core.blocks import Media, Text, ToolCall, Turn
from midstream.core.errors import LifecycleViolation
from midstream.core.events import (
    BlockEvent,
    Done,
    ErrorEvent,
    ErrorInfo,
    Event,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from midstream.core.lifecycle import TRANSITIONS, check, diagram

DONE = Done(Turn("ai"))
TEXT = [TextStart(0), TextDelta(0, "a"), TextEnd(0, Text("a"))]
DOCS = Path(__file__).parents[2] / "docs" / "lifecycle.md"

LAWFUL: dict[str, list[Event]] = {
    "nothing but an end": [Start(), DONE],
    "an error": [Start(), *TEXT, ErrorEvent(ErrorInfo("truncated", ""), Turn("ai"))],
    "blocks in a row": [
        Start(), *TEXT, BlockEvent(1, Media()), ToolCallStart(2, "i", "f"), ToolCallEnd(2, ToolCall("i", "f")), DONE,
    ],
}  # fmt: skip
UNLAWFUL: dict[str, list[Event]] = {
    "no start": [*TEXT, DONE],
    "two starts": [Start(), Start(), DONE],
    "no end": [Start(), *TEXT],
    "two ends": [Start(), DONE, DONE],
    "something after the end": [Start(), DONE, *TEXT],
    "an end inside a block": [Start(), TextStart(0), DONE],
    "a block inside a block": [Start(), TextStart(0), ThinkingStart(1)],
    "a whole block inside a block": [Start(), TextStart(0), BlockEvent(1, Media())],
    "a delta without a start": [Start(), TextDelta(0, "a")],
    "a delta of another kind": [Start(), TextStart(0), ToolCallDelta(0, "a")],
    "a delta of another block": [Start(), TextStart(0), TextDelta(1, "a")],
    "an end of another block": [Start(), TextStart(0), TextEnd(1, Text(""))],
    "a skipped index": [Start(), TextStart(1)],
    "a repeated index": [Start(), *TEXT, TextStart(0)],
}


@pytest.mark.parametrize("name", LAWFUL)
def test_lawful(name: str) -> None:
    check(LAWFUL[name])


@pytest.mark.parametrize("name", UNLAWFUL)
def test_unlawful(name: str) -> None:
    with pytest.raises(LifecycleViolation):
        check(UNLAWFUL[name])


def test_every_state_can_be_reached_and_left() -> None:
    reached = {"idle"}
    for (state, _), after in TRANSITIONS.items():
        assert state in reached
        reached.add(after)
    assert reached - {state for state, _ in TRANSITIONS} == {"ended"}


def test_the_documented_diagram_is_up_to_date() -> None:
    assert f"```mermaid\n{diagram()}```" in DOCS.read_text(encoding="utf-8")
