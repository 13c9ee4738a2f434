"""The law of event order, as one table: (state, event type) -> state.

`idle` is before the start, `open` between blocks, `ended` after the one terminal event. What is not in the table may not
happen. docs/lifecycle.md is drawn from this table, and every decoder's output is checked against it in the tests.
"""

from __future__ import annotations

from collections.abc import Iterable

from .errors import LifecycleViolation
from .events import (
    BlockEvent,
    Done,
    ErrorEvent,
    Event,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)

# The state is the kind of block that is open, so the table alone says that blocks never nest: while one is open, only
# its own deltas and its end may come. The other promises can be read off it as well.
#
# `idle` has one way out and none back: Start comes once. `ended` has no row: nothing follows done or error. Both of
# those leave only `open`, so whoever fails in the middle of a block has to end the block first, and a reader never has
# to guess whether one is still open. BlockEvent leads from `open` to `open`: what arrives whole has no inside.
#
# Which block an event belongs to is not in the table, because it would make the states infinite: `Lifecycle` counts.
TRANSITIONS: dict[tuple[str, type], str] = {
    ("idle", Start): "open",
    ("open", ThinkingStart): "thinking",
    ("thinking", ThinkingDelta): "thinking",
    ("thinking", ThinkingEnd): "open",
    ("open", TextStart): "text",
    ("text", TextDelta): "text",
    ("text", TextEnd): "open",
    ("open", ToolCallStart): "toolcall",
    ("toolcall", ToolCallDelta): "toolcall",
    ("toolcall", ToolCallEnd): "open",
    ("open", BlockEvent): "open",
    ("open", Done): "ended",
    ("open", ErrorEvent): "ended",
}


class Lifecycle:
    """Walks the table; `advance` raises where an event may not come. Block indexes must count up from 0."""

    def __init__(self) -> None:
        self.state = "idle"
        self._next_index = 0

    def advance(self, event: Event) -> None:
        after = TRANSITIONS.get((self.state, type(event)))
        if after is None:
            raise LifecycleViolation(f"{type(event).__name__} may not come in state {self.state!r}")
        # Indexes are the places of the blocks in the finished turn.
        # Without gaps, so that a reader can append as they come.
        if isinstance(event, (ThinkingStart, TextStart, ToolCallStart, BlockEvent)):
            if event.index != self._next_index:
                raise LifecycleViolation(f"block index {event.index} came where {self._next_index} was due")
            self._next_index += 1
        # A delta or an end can only be about the block that was opened last.
        elif not isinstance(event, (Start, Done, ErrorEvent)) and event.index != self._next_index - 1:
            raise LifecycleViolation(
                f"{type(event).__name__} for block {event.index}, but {self._next_index - 1} is open"
            )
        self.state = after


def check(events: Iterable[Event]) -> None:
    """Raise LifecycleViolation unless `events` is one whole, lawful stream."""
    walk = Lifecycle()
    for event in events:
        walk.advance(event)
    if walk.state != "ended":
        raise LifecycleViolation(f"the stream stopped in state {walk.state!r} without done or error")


def diagram() -> str:
    """The table as a Mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2", "    [*] --> idle"]
    for (state, event), after in TRANSITIONS.items():
        tag = event.__struct_config__.tag  # type: ignore[attr-defined]  # every event is a Struct
        lines.append(f"    {state} --> {after}: {tag}")
    lines.append("    ended --> [*]")
    return "\n".join(lines) + "\n"
