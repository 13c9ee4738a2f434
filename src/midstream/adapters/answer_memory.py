"""Answers that were given through another library, so that a history which comes back finds its reasoning again.

Other libraries have no place for a signature, encrypted reasoning or the name of the model that made a block, and many of
their users rebuild messages by hand. An answer is found by the canonical ids of its calls; one without calls by its words and
what it answered. Where the history says the same as the answer did, the answer itself stands in its place; where it was
edited, its words count and the reasoning is laid over them. The oldest answers are forgotten first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from ..core.blocks import Conversation, Text, Thinking, ToolCall, Turn
from ..core.errors import LocalError, MalformedStream
from ..core.kept_turn import kept_of, restored
from ..wires.lenient_json import decode_leniently

ANSWERS = 4096
"""So many answers are remembered,"""
CHARACTERS = 64 * 1024 * 1024
"""and so many characters of them."""


class AnswerMemory:
    """Remembers answers, in this process and for any number of threads."""

    def __init__(self, answers: int = ANSWERS, characters: int = CHARACTERS) -> None:
        self._answers = answers
        self._characters = characters
        self._held = 0
        self._turns: OrderedDict[int, tuple[Turn, tuple[str, ...]]] = OrderedDict()
        self._places: dict[str, int] = {}
        self._next = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._turns)

    def add(self, conversation: Conversation, turn: Turn) -> None:
        """Remember `turn` as the answer to `conversation`. An answer that failed is never sent again, and is not kept."""
        if turn.failure:
            return
        keys = _keys(turn, _question(conversation.turns[-1] if conversation.turns else None))
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._turns[number] = (turn, keys)
            self._places.update(dict.fromkeys(keys, number))
            self._held += _size(turn)
            while len(self._turns) > self._answers or (self._held > self._characters and len(self._turns) > 1):
                oldest, (old, names) = self._turns.popitem(last=False)
                self._held -= _size(old)
                for name in names:
                    if self._places.get(name) == oldest:
                        del self._places[name]

    def recall(
        self, conversation: Conversation, wire: str = "", carried: Mapping[int, Turn] | None = None
    ) -> Conversation:
        """The conversation with every answer that is remembered, as it was given.

        `wire` is what its reader spoke. `carried` are answers that the history itself brought, by their place in it.
        """
        turns = list(conversation.turns)
        # An answer stands in a history once: a host refuses the same item or signature twice.
        taken: set[str] = set()
        for place, turn in enumerate(turns):
            if turn.speaker != "ai":
                continue
            kept = (carried or {}).get(place) or self._find(_keys(turn, _question(turns[place - 1] if place else None)))
            if kept is not None and kept.key not in taken:
                taken.add(kept.key)
                turns[place] = reconciled(turn, kept, wire)
        return replace(conversation, turns=tuple(turns))

    def _find(self, keys: tuple[str, ...]) -> Turn | None:
        with self._lock:
            number = next((self._places[key] for key in keys if key in self._places), None)
            return None if number is None else self._turns[number][0]


def reconciled(said: Turn, kept: Turn, wire: str = "") -> Turn:
    """The answer as it was given, if the history says the same; else what the history says, with the answer's reasoning."""
    return kept if _says_the_same(said, kept) else restored(said, kept_of(kept), wire)


def packed(turn: Turn) -> dict[str, Any]:
    """The whole answer as plain data, for a library that has a place for a provider's own."""
    data: dict[str, Any] = msgspec.to_builtins(turn)
    return data


def unpacked(data: object) -> Turn | None:
    """The answer that `packed` wrote; None for anything else: it was stored elsewhere, and may have been changed."""
    try:
        return msgspec.convert(data, Turn)
    except (LocalError, msgspec.ValidationError, RecursionError):
        return None


def _keys(turn: Turn, question: str) -> tuple[str, ...]:
    calls = tuple([call.id for call in turn.tool_calls])
    if calls:
        return calls
    # The same words may answer two questions, and come from two models.
    seed = f"{len(question)}|{question}{turn.text.strip()}"
    return (sha256(seed.encode("utf-8", "surrogatepass")).hexdigest(),)


def _question(turn: Turn | None) -> str:
    """What the next answer is about: the words of the last turn, which is a person's or a tool's."""
    return "" if turn is None else turn.text + "".join([response.text for response in turn.tool_responses])


def _says_the_same(said: Turn, kept: Turn) -> bool:
    ours, theirs = kept.tool_calls, said.tool_calls
    return said.text.strip() == kept.text.strip() and len(ours) == len(theirs) and all(map(_is_same_call, theirs, ours))


def _is_same_call(said: ToolCall, kept: ToolCall) -> bool:
    if (said.id, said.name) != (kept.id, kept.name):
        return False
    # Libraries parse arguments and write them again, with other spaces.
    return said.arguments == kept.arguments or _value(said.arguments) == _value(kept.arguments)


def _value(arguments: str) -> Any:
    try:
        return decode_leniently(arguments.strip() or "{}")
    except MalformedStream:
        return arguments


def _size(turn: Turn) -> int:
    size = 0
    for block in turn.blocks:
        if type(block) is Text:
            size += len(block.text)
        elif type(block) is Thinking:
            size += len(block.text) + len(block.signature or "") + len(block.encrypted or "")
        elif type(block) is ToolCall:
            size += len(block.arguments)
        else:
            size += 1000  # about what an item of a host's own has
    return size
