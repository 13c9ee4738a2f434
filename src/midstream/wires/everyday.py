"""The turns that nearly all of a conversation is made of, on a short way to the wire.

A text of the user or the model, and an answer that calls functions with their results behind it, read alike for nearly every
reader: nothing in them is renamed, left out or noted. A writer that has an EverydayLane is handed those as plain values; the
lane gathers them and encodes many in one go. It writes exactly what the writer's `write` would, and where it cannot (a name
the host refuses, half a character) it says so and `write` does it: what a turn means on a wire is said there alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from ..core.blocks import Text, ToolCall, ToolResponse, Turn
from ..core.history import lawful_width
from .encode_context import EncodeContext
from .lenient_json import arguments_text, encode_json

_TOGETHER = 64
"""So many messages are encoded in one go: a piece that stays in the processor's cache."""


class EverydayLane(Protocol):
    """Gathers everyday turns; what cannot be gathered is refused, before anything was changed that `write` would do otherwise."""

    def said(self, speaker: str, text: str) -> bool:
        """A turn of one text."""
        ...

    def exchanged(self, text: str, calls: Sequence[ToolCall], results: Sequence[str]) -> bool:
        """An answer with calls, its text empty if it has none, and the texts of their results in the order of the calls."""
        ...

    def flush(self) -> bool:
        """Write what was gathered: all of it, or nothing if it cannot be encoded so. Whether it is written."""
        ...


class LawfulWriter(Protocol):
    context: EncodeContext

    def write(self, turns: Sequence[Turn], offset: int) -> None: ...


def write_lawful(writer: LawfulWriter, turns: Sequence[Turn], start: int, known: set[str]) -> int:
    """Write turns up to the first that needs repair, in one walk; how many they were.

    `start` is the place of the first in the conversation. The ids of calls go into `known`; one that is there needs repair.
    """
    context = writer.context
    make_lane = getattr(writer, "lane", None)
    lane: EverydayLane | None = make_lane() if make_lane is not None else None
    at = begun = 0  # turns[begun:at] are in the lane, or wait for the writer
    gathered = False

    def settle() -> None:
        nonlocal begun, gathered
        if begun < at and not (gathered and lane is not None and lane.flush()):
            plain, _ = context.plain_turns(turns[begun:at], start + begun)
            writer.write(plain, start + begun)
        begun, gathered = at, False

    while at < len(turns):
        turn = turns[at]
        blocks = turn.blocks
        only = blocks[0] if len(blocks) == 1 else None
        if type(only) is Text and lane is not None and not (turn.failure or turn.role or turn.extra or only.extra):
            speaker, text = turn.speaker, only.text
            if (speaker == "human" or speaker == "ai") and text and not text.isspace():
                if not gathered:
                    settle()
                if lane.said(speaker, text):
                    gathered = True
                    at += 1
                    continue
        width = lawful_width(turns, at, known)
        if not width:
            break
        if width == 2 and lane is not None:
            plain_exchange = _exchange(turn, turns[at + 1])
            if plain_exchange is not None:
                if not gathered:
                    settle()
                if lane.exchanged(*plain_exchange):
                    gathered = True
                    at += 2
                    continue
        if gathered:
            settle()
        if context.left_out(turn, start + at):
            settle()
            begun = at + 1
        at += width
    settle()
    return at


def _exchange(answer: Turn, results: Turn) -> tuple[str, list[ToolCall], list[str]] | None:
    """A lawful exchange as a lane takes it; None for what is not everyday."""
    text = ""
    calls: list[ToolCall] = []
    for block in answer.blocks:
        if type(block) is ToolCall:
            if block.extra is not None or block.namespace or block.kind != "function":
                return None
            if not block.arguments.startswith("{") or arguments_text(block.arguments) is None:
                return None
            calls.append(block)
        elif type(block) is Text and not (text or calls or block.extra) and block.text and not block.text.isspace():
            text = block.text
        else:
            return None
    if answer.extra or answer.role or results.extra:
        return None
    texts: list[str] = []
    for result in results.blocks:
        if type(result) is not ToolResponse or result.is_error or result.extra or len(result.content) != 1:
            return None
        part = result.content[0]
        if type(part) is not Text or part.extra or not part.text or part.text.isspace():
            return None
        texts.append(part.text)
    return text, calls, texts


def encode_together(messages: Sequence[msgspec.Struct]) -> list[bytes]:
    """Messages as pieces of JSON, each of several messages with commas between them."""
    return [encode_json(messages[at : at + _TOGETHER])[1:-1] for at in range(0, len(messages), _TOGETHER)]
