"""The outline of a long history: short, with every kind of exchange that the whole has.

What a host refuses depends on the kinds of blocks in a message, where they came from and what stands beside them, hardly ever
on the words. So a history of a hundred thousand turns, most of which are alike, is told to all dialects as its outline: each
step (a turn and the results behind it) that follows another in a way not seen before, in its place, with the turn before it.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, assert_never

from msgspec.structs import replace

from ..core.blocks import Block, Conversation, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ..core.tools import parse_arguments

_OWN_ID = "hist_tool_"
_PLAIN_ID = re.compile(r"[A-Za-z0-9_-]+")
_SHORT = 64
"""A history of so many turns is its own outline."""


def outline(conversation: Conversation) -> Conversation:
    """The conversation with one example of every two steps that follow each other; a short one as it is."""
    turns = conversation.turns
    if len(turns) <= _SHORT:
        return conversation
    steps = list(_steps(turns))
    shapes = [_step_shape(turns[begin:end]) for begin, end in steps]
    seen: set[Hashable] = set()
    # Pairs, not single steps: what a host refuses often lies between two neighbours (a call and what follows it). The
    # first and the last step are special at many hosts, so both always stay.
    kept: set[int] = {0, len(steps) - 1}
    for number in range(1, len(steps)):
        pair = (shapes[number - 1], shapes[number])
        if pair not in seen:
            seen.add(pair)
            kept |= {number - 1, number}
    chosen = [turn for number in sorted(kept) for turn in turns[slice(*steps[number])]]
    return replace(conversation, turns=tuple(chosen))


def _steps(turns: Sequence[Turn]) -> Iterator[tuple[int, int]]:
    """Where each step begins and ends: a turn, and the results that follow it."""
    begin = 0
    for number in range(1, len(turns) + 1):
        if number == len(turns) or turns[number].speaker != "tool":
            yield begin, number
            begin = number


def _step_shape(turns: Sequence[Turn]) -> Hashable:
    calls = {call.id: place for place, call in enumerate(turns[0].tool_calls)}
    return tuple([_turn_shape(turn, calls) for turn in turns])


# Everything that an encoder looks at and a rule may refuse; of texts only whether and how they are blank.
def _turn_shape(turn: Turn, calls: dict[str, int]) -> Hashable:
    return (
        turn.speaker,
        turn.role,
        turn.origin,
        turn.stop_reason,
        turn.failure,
        turn.response_id is None,
        _keys(turn.extra),
        repr(turn.tools) if turn.tools else "",
        tuple([_block_shape(block, calls) for block in turn.blocks]),
    )


def _block_shape(block: Block, calls: dict[str, int]) -> Hashable:
    match block:
        case Text():
            return ("text", _said(block.text), _keys(block.extra))
        case Thinking():
            data = (_said(block.signature), _said(block.encrypted), block.redacted)
            return ("thinking", _said(block.text), block.field, data, block.origin, _keys(block.extra))
        case ToolCall():
            readable = "_parse_error" not in parse_arguments(block)
            # The length and the characters too: some hosts refuse ids by them.
            known = (block.id[: len(_OWN_ID)] == _OWN_ID, *_id_shape(block.id), _id_shape(block.raw_id))
            name = (block.name, block.namespace, block.kind, block.provider)
            return ("call", name, known, readable, _said(block.arguments), _keys(block.extra))
        case ToolResponse():
            content = tuple([_block_shape(part, calls) for part in block.content])
            answered = (calls.get(block.call_id, -1), _id_shape(block.call_id))
            return ("result", answered, block.name, block.is_error, content, _keys(block.extra))
        case Media():
            # The beginning of the address tells `https://` from `data:` and from a path.
            where = (block.data is None, (block.data or "")[:5] == "data:", _said(block.url), (block.url or "")[:8])
            return ("media", block.mime, where, block.name is None, _keys(block.extra))
        case Opaque():
            kind = block.data.get("type") if isinstance(block.data, dict) else None
            inside = _keys(block.data) if isinstance(block.data, dict) else type(block.data)
            return ("opaque", block.kind, block.origin, str(kind), inside)
        case _:
            assert_never(block)


def _said(text: str | None) -> int:
    """Absent, empty, white space, white space at its end, or words."""
    if text is None:
        return 0
    if not text:
        return 1
    return 2 if text.isspace() else 3 if text[-1].isspace() else 4


def _id_shape(text: str | None) -> tuple[int, bool]:
    """How long an id is (-1: absent), and whether it has only characters that every host takes in one."""
    return (-1, True) if text is None else (len(text), _PLAIN_ID.fullmatch(text) is not None)


def _keys(extra: dict[str, Any] | None) -> Hashable:
    """The keys at every level; of a value its type, and of a text how it begins: that is what tells kinds of ids apart."""
    return None if extra is None else tuple([(key, _value_shape(extra[key])) for key in sorted(extra)])


def _value_shape(value: Any) -> Hashable:
    if isinstance(value, dict):
        return _keys(value) if all(type(key) is str for key in value) else "dict"
    if isinstance(value, list | tuple):
        return frozenset([_value_shape(each) for each in value])
    if isinstance(value, str):
        return (_said(value), value.partition("_")[0] if "_" in value[:6] else "")
    return type(value).__name__
