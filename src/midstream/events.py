"""Everything that a reply or a run of the agent gives while it works, to match on.

    from midstream.events import Done, ErrorEvent, TextDelta

    async for event in session.send("Hello"):
        match event:
            case TextDelta(delta=words): print(words, end="")
            case ErrorEvent(error=error): print(error.kind, error.message)

A reply gives Start, then blocks that never nest (`*Start`, `*Delta` …, `*End`, or one BlockEvent), then exactly one Done or
ErrorEvent. A run gives ToolStarted and ToolFinished between its answers, CompactionStarted and
CompactionFinished where earlier turns are summarised, and Stopped at its end.
"""

from __future__ import annotations

from .core.events import *

__all__ = [
    "AgentEvent",
    "BlockEvent",
    "CompactionEvent",
    "CompactionFinished",
    "CompactionStarted",
    "Done",
    "ErrorEvent",
    "ErrorInfo",
    "Event",
    "Start",
    "Stopped",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "ThinkingDelta",
    "ThinkingEnd",
    "ThinkingStart",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolFinished",
    "ToolStarted",
]
