"""The call of a tool whose arguments are the answer, told as the answer's text.

A host without a mode for schemas is given a tool that it must call (wires/answer_schema.py). Nobody answers that call, so it
is none: what arrives in the conversation is the text that a host with such a mode would have sent.
"""

from __future__ import annotations

from msgspec.structs import replace

from ..core.blocks import Text, ToolCall, Turn
from ..core.events import (
    Done,
    ErrorEvent,
    Event,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from .stop_reasons import settled_stop


class AnswerTool:
    """Retells the events of one answer."""

    def __init__(self, name: str) -> None:
        self._name = name
        # The index of the call that is being told as text. Blocks never nest, so one is enough.
        self._open: int | None = None

    def retell(self, events: list[Event]) -> list[Event]:
        return [self._event(event) for event in events]

    def _event(self, event: Event) -> Event:
        match event:
            case ToolCallStart() if event.name == self._name:
                self._open = event.index
                return TextStart(event.index)
            case ToolCallDelta() if event.index == self._open:
                return TextDelta(event.index, event.delta)
            case ToolCallEnd() if event.index == self._open:
                self._open = None
                return TextEnd(event.index, Text(event.block.arguments))
            case Done() | ErrorEvent():
                return replace(event, turn=self._turn(event.turn))
            case _:
                return event

    def _turn(self, turn: Turn) -> Turn:
        blocks = tuple(
            [
                Text(block.arguments) if type(block) is ToolCall and block.name == self._name else block
                for block in turn.blocks
            ]
        )
        if blocks == turn.blocks:
            return turn
        # The tool was a means of ours: a turn that called nothing else has simply ended.
        calls = sum(type(block) is ToolCall for block in blocks)
        return replace(turn, blocks=blocks, stop_reason=settled_stop(turn.stop_reason, calls))
