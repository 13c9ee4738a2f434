"""Answers that were given through another library, so that a history which comes back finds its reasoning again.

Other libraries have no place for a signature, encrypted reasoning or the name of the model that made a block, and many of
their users rebuild messages by hand. An answer is found surely or not at all: one with calls by their ids, which were minted
at random and given out; one without by the whole conversation before it and its own words. A program may serve many users
with one memory, so two different answers under one key are ambiguous and neither is found. Where the history says the same as
the answer did, the answer itself stands in its place; where it was edited, its words count and the reasoning is laid over
them. The oldest answers are forgotten first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from ..core.blocks import Conversation, Text, Thinking, ToolCall, Turn
from ..core.errors import LocalError, MalformedStream
from ..core.handoff import Note
from ..core.kept_turn import kept_of, restored
from ..wires.history_digest import HistoryDigest
from ..wires.lenient_json import decode_leniently

ANSWERS = 4096
"""So many answers are remembered,"""
CHARACTERS = 64 * 1024 * 1024
"""and so many characters of them."""


class _Place:
    """The answers under one key: how many are remembered, the newest, and whether two of them differ."""

    __slots__ = ("answers", "is_ambiguous", "newest")

    def __init__(self, newest: int) -> None:
        self.newest = newest
        self.answers = 1
        # Until all of them are forgotten: a third answer cannot tell whose history comes back.
        self.is_ambiguous = False


class AnswerMemory:
    """Remembers answers, in this process and for any number of threads."""

    def __init__(self, answers: int = ANSWERS, characters: int = CHARACTERS) -> None:
        self.misses = 0
        """How many answers of histories that came back were not found."""
        self._answers = answers
        self._characters = characters
        self._held = 0
        self._turns: OrderedDict[int, tuple[Turn, tuple[str, ...]]] = OrderedDict()
        self._places: dict[str, _Place] = {}
        self._next = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._turns)

    def add(self, conversation: Conversation, turn: Turn) -> None:
        """Remember `turn` as the answer to `conversation`, which is what `recall` gave. An answer that failed is never sent
        again, and is not kept."""
        if turn.failure:
            return
        keys = tuple(dict.fromkeys([call.id for call in turn.tool_calls])) or _keys_of(_digest(conversation), turn)
        if not keys:  # a conversation that cannot be written down is never found again
            return
        with self._lock:
            number, self._next = self._next, self._next + 1
            for key in keys:
                self._put(key, number, turn)
            self._turns[number] = (turn, keys)
            self._held += _size(turn)
            while len(self._turns) > self._answers or (self._held > self._characters and len(self._turns) > 1):
                _, (old, names) = self._turns.popitem(last=False)
                self._held -= _size(old)
                for name in names:
                    self._places[name].answers -= 1
                    if not self._places[name].answers:
                        del self._places[name]

    def recall(
        self,
        conversation: Conversation,
        wire: str = "",
        carried: Mapping[int, Turn] | None = None,
        notes: list[Note] | None = None,
    ) -> Conversation:
        """The conversation with every answer that is remembered, as it was given; `notes` gets what was not found.

        `wire` is what its reader spoke. `carried` are answers that the history itself brought, by their place in it.
        """
        turns = list(conversation.turns)
        # An answer stands in a history once: a host refuses the same item or signature twice.
        taken: set[str] = set()
        # Each turn goes into the digest as it will be sent: what was found is a part of the conversation before the next answer.
        digest: HistoryDigest | None = None
        digested = 0
        for place, turn in enumerate(turns):
            if turn.speaker != "ai":
                continue
            kept = (carried or {}).get(place)
            if kept is None:
                keys = tuple([call.id for call in turn.tool_calls])
                if not keys:
                    digest = digest or HistoryDigest(conversation)
                    for each in turns[digested:place]:
                        digest.add(each)
                    digested = place
                    keys = _keys_of(digest, turn)
                kept = self._find(keys)
            if kept is not None and kept.key not in taken:
                taken.add(kept.key)
                turns[place] = reconciled(turn, kept, wire)
            # The words that an answer is to begin with were never an answer.
            elif place + 1 < len(turns):
                self._miss(place, turn, notes)
        return replace(conversation, turns=tuple(turns))

    def _put(self, key: str, number: int, turn: Turn) -> None:
        place = self._places.get(key)
        if place is None:
            self._places[key] = _Place(number)
            return
        place.is_ambiguous = place.is_ambiguous or not _is_same(self._turns[place.newest][0], turn)
        place.newest = number
        place.answers += 1

    def _find(self, keys: tuple[str, ...]) -> Turn | None:
        with self._lock:
            found = [place for key in keys if (place := self._places.get(key)) is not None]
            return self._turns[found[0].newest][0] if found and not found[0].is_ambiguous else None

    def _miss(self, place: int, turn: Turn, notes: list[Note] | None) -> None:
        with self._lock:
            self.misses += 1
        if notes is not None:
            why = "no answer of this process is known to stand here; sent as it came, without reasoning of its own"
            notes.append(Note("dropped", "thinking", "reasoning_not_found", why, place, turn.key))


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


def _digest(conversation: Conversation) -> HistoryDigest:
    digest = HistoryDigest(conversation)
    for turn in conversation.turns:
        digest.add(turn)
    return digest


def _keys_of(digest: HistoryDigest, turn: Turn) -> tuple[str, ...]:
    """What an answer without calls to this conversation is found by."""
    key = digest.key(turn.text)
    return () if key is None else (key,)


def _is_same(one: Turn, other: Turn) -> bool:
    """Whether two answers carry the same, so that it does not matter which of them is found."""
    return (one.blocks, one.origin, one.response_id, one.extra) == (
        other.blocks,
        other.origin,
        other.response_id,
        other.extra,
    )


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
