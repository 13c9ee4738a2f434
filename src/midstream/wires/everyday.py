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
from msgspec.structs import replace

from ..core.blocks import Text, ToolCall, ToolResponse, Turn
from ..core.handoff import Note
from ..core.history import lawful_length
from .encode_context import EncodeContext
from .lenient_json import encode_json, is_object_text

_TOGETHER = 64
"""So many messages are encoded in one go: a piece that stays in the processor's cache."""
_APART = 8
"""So many turns behind one that is not everyday the lane is not tried: to change sides has its price, too."""


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


# Two ways to write one thing, so the second is only a shortcut: whatever the lane does not take goes through `write`. A
# property in the tests holds both to the same bytes.
def write_lawful(writer: LawfulWriter, turns: Sequence[Turn], start: int, known: set[str]) -> int:
    """Write turns up to the first that needs repair, in one walk; how many they were.

    `start` is the place of the first in the conversation. The ids of calls go into `known`; one that is there needs repair.
    """
    make_lane = getattr(writer, "lane", None)
    if make_lane is not None:
        return _write_by_lane(writer, make_lane(), turns, start, known)
    length = lawful_length(turns, known)
    write_plain(writer, turns[:length], start)
    return length


def write_plain(writer: LawfulWriter, turns: Sequence[Turn], start: int, places: Sequence[int] | None = None) -> None:
    """Write lawful turns in the reader's terms, and let the notes say where they stand in the conversation: from `start` on, or
    at their `places`."""
    if not turns:
        return
    notes = writer.context.notes
    before = len(notes)
    plain, places = writer.context.plain_turns(turns, start, places)
    writer.write(plain, start)
    # A writer counts turns from `start` on; where turns were left out or moved, that is not their place.
    if len(notes) > before and places != list(range(start, start + len(places))):
        notes[before:] = [_moved(note, places, start) for note in notes[before:]]


def _moved(note: Note, places: Sequence[int], start: int) -> Note:
    """The note with its turn's place; a turn from before `start` was counted by its place already."""
    return note if note.turn is None or note.turn < start else replace(note, turn=places[note.turn - start])


def _write_by_lane(writer: LawfulWriter, lane: EverydayLane, turns: Sequence[Turn], start: int, known: set[str]) -> int:
    context, total = writer.context, len(turns)
    at = begun = 0  # turns[begun:at] are in the lane, or wait for the writer
    gathered = False
    lane_from = 0  # where the lane may be tried again
    while at < total:
        turn = turns[at]
        taken = 0
        # A failure, a role or anything extra is not everyday.
        if at >= lane_from and not (turn.failure or turn.role or turn.extra):
            # Order: what waits for the writer comes first.
            if begun < at and not gathered:
                write_plain(writer, turns[begun:at], start + begun)
                begun = at
            blocks, speaker = turn.blocks, turn.speaker
            only = blocks[0] if len(blocks) == 1 else None
            if type(only) is Text:
                # Blank texts are left out or replaced on many wires, with a note.
                if (speaker == "human" or speaker == "ai") and not only.extra and not only.text.isspace() and only.text:
                    taken = 1 if lane.said(speaker, only.text) else 0
            elif speaker == "ai" and at + 1 < total:
                taken = _exchanged(lane, turn, turns[at + 1], known)
            if taken:
                gathered = True
                at += taken
                continue
        # One turn, or an answer with its results. Nothing lawful: what follows needs repair.
        width = lawful_length(turns[at : at + 2], known)
        if not width:
            break
        if gathered:
            # The lane may refuse at the end (half a character). Nothing is written then, and the writer does it all.
            if not lane.flush():
                write_plain(writer, turns[begun:at], start + begun)
            begun, gathered = at, False
        lane_from = at + _APART
        # A turn that is left out ends a run: in a run, a turn's number is its place.
        for turn in turns[at : at + width]:
            if (turn.tools or start + at < context.lead) and context.left_out(turn, start + at):
                write_plain(writer, turns[begun:at], start + begun)
                begun = at + 1
            at += 1
    if begun < at and not (gathered and lane.flush()):
        write_plain(writer, turns[begun:at], start + begun)
    return at


def _exchanged(lane: EverydayLane, answer: Turn, results: Turn, known: set[str]) -> int:
    """2 if this is a lawful exchange that the lane took: a text, plain calls, and one text for each result."""
    calls: list[ToolCall] = []
    texts: list[str] = []
    text = ""
    responses, due = results.blocks, len(results.blocks)
    number = 0
    # The everyday exchange is checked in one pass together with gathering it; `lawful_length` would be a second one.
    if results.speaker != "tool" or results.failure:
        return 0
    for block in answer.blocks:
        if type(block) is ToolCall:
            if block.extra is not None or block.namespace or block.kind != "function" or block.id in known:
                return 0
            response = responses[number] if number < due else None
            # An error result is marked in different ways by different wires.
            if type(response) is not ToolResponse or response.call_id != block.id or response.is_error:
                return 0
            content = response.content
            part = content[0] if len(content) == 1 else None
            if type(part) is not Text or part.extra or response.extra or not is_object_text(block.arguments):
                return 0
            said = part.text
            number += 1
            calls.append(block)
            texts.append(said)
        elif type(block) is Text and not (calls or text or block.extra):
            said = text = block.text
        else:
            return 0
        if not said or said.isspace():
            return 0
    if not number or number != due:
        return 0
    if number > 1 and len({call.id for call in calls}) < len(calls):
        return 0
    if not lane.exchanged(text, calls, texts):
        return 0
    for call in calls:
        known.add(call.id)
    return 2


def encode_together(messages: Sequence[msgspec.Struct]) -> list[bytes]:
    """Messages as pieces of JSON, each of several messages with commas between them."""
    # Without the brackets: the pieces are joined with others into one list.
    return [encode_json(messages[at : at + _TOGETHER])[1:-1] for at in range(0, len(messages), _TOGETHER)]
