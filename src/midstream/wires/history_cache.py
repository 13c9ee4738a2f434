"""Encoding a growing conversation at the cost of its new turns.

A Writer turns lawful turns into a wire's messages. `write_history` lets the writer go on where it stopped the last time, writes
what is new and lawful in one walk, repairs the rest from the first turn on that is not, and keeps the result as a checkpoint
in a HistoryCache. What was written stays only where the conversation really is its continuation: a result for a call in it, or
an id used in it by a later call, starts over with all of it repaired. A tail whose calls still wait for results is written on a
clone and not kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol, Self, TypeVar

from ..core.blocks import ToolCall, ToolResponse, Turn
from ..core.compaction import SentTurns, sent_turns
from ..core.handoff import Note
from ..core.history import Repaired, repair
from ..core.tools import ToolSpec, declared_tools
from .encode_context import EncodeContext
from .everyday import write_lawful, write_plain


class Writer(Protocol):
    """Writes lawful turns as one wire's messages, one after the other. One that has a `lane` besides, which makes an
    EverydayLane, is not asked to write what goes there."""

    context: EncodeContext

    def write(self, turns: Sequence[Turn], offset: int) -> None:
        """Append these turns; the first of them is number `offset` of the conversation."""
        ...

    @property
    def size(self) -> int:
        """Roughly how many bytes it holds."""
        ...

    def clone(self) -> Self:
        """An independent writer: what this one gathers is copied, what it only reads is shared."""
        ...


W = TypeVar("W", bound=Writer)
# How far to look back for a conversation that grew: further back it is read anew, which costs the same as a miss.
_GROWS = 16
"""By fewer turns than these a conversation grows from one request to the next."""


class _Checkpoint:
    __slots__ = ("call_ids", "turns", "writer")

    def __init__(self, turns: tuple[Turn, ...], writer: Writer, call_ids: set[str]) -> None:
        self.turns = turns
        self.writer = writer
        self.call_ids = call_ids


# Encoding is most of the work of a request with a long history, and nearly all of it is the same
# as the last time. An entry is found by what the writing depends on and by the identity of its
# last turn: a conversation that grows shares its old turns. Equal turns that are not the same
# objects are a miss, which is slow and nothing worse.
class HistoryCache:
    """Checkpoints of encoded histories, least recently used first out, bounded by count and bytes.

    A writer stays readable until its checkpoint is taken again, so threads that share a cache must encode one at a time
    (midstream.codec holds a lock).
    """

    def __init__(self, max_entries: int = 32, max_bytes: int = 64 * 1024 * 1024) -> None:
        self._entries: OrderedDict[tuple[Hashable, int], _Checkpoint] = OrderedDict()
        self._bytes = 0
        self._declared: OrderedDict[int, tuple[tuple[Turn, ...], list[tuple[int, ToolSpec]]]] = OrderedDict()
        self._sent: OrderedDict[int, tuple[tuple[Turn, ...], SentTurns]] = OrderedDict()
        self._compared: tuple[tuple[Turn, ...], tuple[Turn, ...]] = (), ()
        self._max_entries = max_entries
        self._max_bytes = max_bytes

    def take(self, key: Hashable, turns: tuple[Turn, ...]) -> _Checkpoint | None:
        """The longest checkpoint that these turns continue; it is the caller's from now on."""
        best, longest = None, 0
        # A few entries are looked at, not each of many turns.
        for place, found in list(self._entries.items()):
            length = len(found.turns)
            if (
                longest < length <= len(turns)
                and turns[length - 1] is found.turns[-1]
                and place[0] == key
                and self._continues(turns, found.turns)
            ):
                best, longest = place, length
        # Taken out, not shared: a writer goes on from here and would spoil it for others.
        return None if best is None else self._drop(best)  # None where another thread was quicker: it is its writer now

    def put(self, key: Hashable, checkpoint: _Checkpoint) -> None:
        size = checkpoint.writer.size
        # One conversation larger than the whole cache would only push everything else out.
        if not checkpoint.turns or size > self._max_bytes:
            return
        place = (key, id(checkpoint.turns[-1]))
        self._drop(place)
        self._entries[place] = checkpoint
        self._bytes += size
        while len(self._entries) > self._max_entries or self._bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))

    def declared_tools(self, turns: tuple[Turn, ...]) -> list[tuple[int, ToolSpec]]:
        """See `core/tools.py: declared_tools`; of a conversation that grew since the last time, only the new turns are read."""
        known: tuple[Turn, ...] = ()
        tools: list[tuple[int, ToolSpec]] = []
        for length in range(len(turns), max(0, len(turns) - _GROWS), -1):
            found = self._declared.get(id(turns[length - 1]))
            if found is not None and len(found[0]) == length and self._continues(turns, found[0]):
                known, tools = self._declared.pop(id(turns[length - 1]))
                break
        start = len(known)
        tools = [*tools, *[(start + number, tool) for number, tool in declared_tools(turns[start:])]]
        if turns:
            self._declared[id(turns[-1])] = turns, tools
            if len(self._declared) > self._max_entries:
                self._declared.popitem(last=False)
        return tools

    def sent_turns(self, turns: tuple[Turn, ...]) -> SentTurns:
        """See `core/compaction.py: sent_turns`; of a conversation that grew since the last time, only the new turns are read."""
        sent: SentTurns | None = None
        for length in range(len(turns), max(0, len(turns) - _GROWS), -1):
            found = self._sent.get(id(turns[length - 1]))
            if found is not None and len(found[0]) == length and self._continues(turns, found[0]):
                sent = self._sent.pop(id(turns[length - 1]))[1].grown(turns, length)
                break
        sent = sent_turns(turns) if sent is None else sent
        if turns:
            self._sent[id(turns[-1])] = turns, sent
            if len(self._sent) > self._max_entries:
                self._sent.popitem(last=False)
        return sent

    def _continues(self, turns: tuple[Turn, ...], known: tuple[Turn, ...]) -> bool:
        """Whether the turns begin with these. One request asks it several times, and of a long history it is most of its cost."""
        before, grown = self._compared
        if before is not known or grown is not turns:
            # Item by item, by identity first. `<=` of tuples is that of the first items that differ, and turns have no order;
            # where none does, the shorter one comes first. `==` would need a copy of all turns that are known.
            try:
                if not known <= turns:
                    return False
            except TypeError:
                return False
            self._compared = known, turns
        return True

    def clear(self) -> None:
        self._compared = (), ()
        self._entries.clear()
        self._declared.clear()
        self._sent.clear()
        self._bytes = 0

    def _drop(self, place: tuple[Hashable, int]) -> _Checkpoint | None:
        found = self._entries.pop(place, None)
        if found is not None:
            # By its size now: nobody has written to it since it was put in.
            self._bytes -= found.writer.size
        return found


def write_history(
    turns: tuple[Turn, ...], make_writer: Callable[[], W], key: Hashable, cache: HistoryCache | None
) -> W:
    """A writer that holds all of `turns`; with a cache, only what is new was written now.

    `key` is all that the writing depends on beside the turns.
    """
    checkpoint = cache.take(key, turns) if cache is not None else None
    if checkpoint is None:
        checkpoint = _Checkpoint((), make_writer(), set())
    writer = checkpoint.writer
    # Notes of earlier requests stay with the writer, for every request reports all of them.
    start, before = len(checkpoint.turns), len(writer.context.notes)
    start += write_lawful(writer, turns[start:] if start else turns, start, checkpoint.call_ids)
    _sort(writer.context.notes, before)
    # What was written is still right only if nothing new answers it or repeats its ids.
    if _reaches_back(turns[start:], checkpoint.call_ids):
        start = before = 0
        checkpoint = _Checkpoint((), make_writer(), set())
        writer = checkpoint.writer
    rest = turns[start:]
    if not rest:
        checkpoint.turns = turns
    else:
        repaired = repair(rest, offset=start)
        checkpoint.turns = turns[:start]
        # The stand-ins for results that may yet come must not be in the checkpoint, so the tail is written on a clone.
        if cache is not None and repaired.unanswered and _still_running(rest, repaired):
            cache.put(key, checkpoint)
            writer = writer.clone()
        elif cache is not None:
            # Ids of what was repaired count as used, or a later turn that touches them would go unnoticed.
            checkpoint.call_ids |= repaired.call_ids
            checkpoint.turns = turns
        notes = writer.context.notes
        notes += repaired.notes
        write_plain(writer, repaired.turns, start, repaired.places)
        _sort(notes, before)
    # `is`: only if all of it was written for good.
    if cache is not None and checkpoint.turns is turns:
        cache.put(key, checkpoint)
    return writer  # type: ignore[return-value]  # made by `make_writer`, now or for an earlier request


def _sort(notes: list[Note], begin: int) -> None:
    """By their turns, from `begin` on."""
    if len(notes) > begin + 1:
        notes[begin:] = sorted(notes[begin:], key=_place)


def _place(note: Note) -> int:
    return -1 if note.turn is None else note.turn


def _reaches_back(fresh: Sequence[Turn], known: set[str]) -> bool:
    """Whether new turns touch a call from before the checkpoint, so that the old part could read differently."""
    if not known:
        return False
    for turn in fresh:
        for block in turn.blocks:
            if type(block) is ToolResponse:
                if block.call_id in known:
                    return True
            elif type(block) is ToolCall and block.id in known:
                return True
    return False


def _still_running(fresh: Sequence[Turn], repaired: Repaired) -> bool:
    """Whether the last ai turn waits for results: they may yet come, so its stand-ins must not be kept."""
    for turn in reversed(fresh):
        if turn.speaker == "ai":
            return any(call.id in repaired.unanswered for call in turn.tool_calls)
    return False
