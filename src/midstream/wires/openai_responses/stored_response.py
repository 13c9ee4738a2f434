"""Going on from a response that the host stored: only what follows it is sent, if the history up to it is as it was."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ...core.blocks import Conversation, Text, ToolCall, Turn
from ...core.dialect import Options
from ...core.handoff import Note
from ...core.history import repair

CONTINUES = "previous_response_id"
"""The key in a conversation's `extra` that names the stored response before its first turn."""
_UNSEEN = Text("(only the host has this answer)")


class Continuation(msgspec.Struct, frozen=True):
    """The calls of the stored response, and the turns after it, the first of which is number `offset`."""

    calls: Sequence[ToolCall]
    turns: Sequence[Turn]
    offset: int
    notes: Sequence[Note]


def is_stored(options: Options) -> bool:
    """Whether the host will keep this response: only where the caller builds on that."""
    asked = (options.extra_body or {}).get("store")
    # Whoever names a response wants it kept; everybody else's history stays with them.
    return asked if isinstance(asked, bool) else options.previous_response_id is not None


def find_continuation(conversation: Conversation, response_id: str) -> Continuation | None:
    """What follows the stored response; None where the history up to it is not as the host has it."""
    turns = conversation.turns
    # The newest, if the same response stands in a history twice.
    place = next((at for at in range(len(turns) - 1, -1, -1) if turns[at].response_id == response_id), None)
    offset = 1
    if place is None:
        if (conversation.extra or {}).get(CONTINUES) != response_id:
            return None
        # The answer is on the host only. A stand-in for it takes the results of its calls, so that they are lawful.
        turns = (_stored_turn(turns), *turns)
        place, offset = 0, 0
    repaired = repair(turns)
    lawful = repaired.turns[: place + 1]
    # `is not`: any repair before that point means that our history is not the one the host has.
    if len(lawful) <= place or any(kept is not turn for kept, turn in zip(lawful, turns, strict=False)):
        return None
    return Continuation(turns[place].tool_calls, repaired.turns[place + 1 :], place + offset, repaired.notes)


def _stored_turn(turns: Sequence[Turn]) -> Turn:
    """What can be known of an answer that only the host has: the calls whose results come now."""
    made = {call.id for turn in turns for call in turn.tool_calls}
    calls: dict[str, ToolCall] = {}
    for response in [response for turn in turns for response in turn.tool_responses]:
        if response.call_id not in made:
            custom = response.extra is not None and response.extra.get("type") == "custom"
            extra = {"type": "custom"} if custom else None
            calls[response.call_id] = ToolCall(response.call_id, response.name, raw_id=response.raw_id, extra=extra)
    return Turn("ai", tuple(calls.values()) or (_UNSEEN,), key="stored")
