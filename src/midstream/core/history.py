"""The laws of a history: every call has exactly one result, next to it, in call order.

Stored history is never rewritten. `repair` gives a lawful copy for one request, in this order: failed ai turns go with
their results; orphan and duplicate results go (of two, the first stays, unless it is an error and the other is not);
displaced results move next to their call; missing ones are made up as error results. It is deterministic, idempotent,
leaves every untouched Turn the same object, and notes every change.
Merging of turns is each wire's own last step. `CallMatcher` is the other half: it pairs results with calls at ingestion.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from msgspec.structs import replace

from .blocks import Block, Conversation, Speaker, Text, ToolCall, ToolResponse, Turn
from .handoff import Action, Note, NoteCode
from .ids import PREFIX, canonical_tool_call_id, from_own_id
from .turn_digest import SaidKeys

# What a note of each code is about, and what was done to it.
_ABOUT: dict[NoteCode, tuple[Action, str]] = {
    "failed_turn": ("dropped", "turn"),
    "empty_turn": ("dropped", "turn"),
    "text_among_results": ("adapted", "turn"),
    "results_out_of_order": ("adapted", "turn"),
    "repeated_id": ("adapted", "tool_call"),
    "misplaced_call": ("dropped", "tool_call"),
    "displaced_result": ("adapted", "tool_response"),
    "unanswered_call": ("adapted", "tool_response"),
    "second_result": ("dropped", "tool_response"),
    "orphan_result": ("dropped", "tool_response"),
}
# Written for the model that reads it: it should know that the call did not succeed, and may call again.
INTERRUPTED = "No result: the tool call was interrupted before it returned."


class Repaired:
    """A lawful history and what had to be done for it. `unanswered` are the calls whose result had to be made up;
    `call_ids` all ids that calls or stray results carry."""

    __slots__ = ("call_ids", "notes", "places", "turns", "unanswered")

    def __init__(
        self,
        turns: Sequence[Turn],
        notes: list[Note],
        unanswered: frozenset[str],
        call_ids: frozenset[str],
        places: Sequence[int] | None = None,
    ) -> None:
        self.turns = turns
        self.notes = notes
        self.unanswered = unanswered
        self.call_ids = call_ids
        self.places = places
        """The place of each turn in the conversation; None if no turn moved."""


def repair(turns: Sequence[Turn], *, offset: int = 0) -> Repaired:
    """A lawful copy of `turns`. `offset` is where they begin in the whole conversation, for the notes."""
    # Most histories are lawful, and all of them are checked before each request: first the pass that allocates next to
    # nothing, then, only if it stops early, the one that repairs.
    ids: set[str] = set()
    if lawful_length(turns, ids) == len(turns):
        return Repaired(turns, [], frozenset(), frozenset(ids))
    return _Repair(turns, offset).run()


def lawful_length(turns: Sequence[Turn], known: set[str]) -> int:
    """How many turns can be sent as they stand, up to the first that needs repair; an answer that calls and its results count
    together. The ids of their calls go into `known`, and none may be there before. One cheap pass: this is the everyday case.
    """
    length = 0
    # The calls of the last ai turn, in order, that the next turn has to answer.
    due: list[str] = []
    for number, turn in enumerate(turns, 1):
        blocks, speaker = turn.blocks, turn.speaker
        if turn.failure or not (blocks or turn.tools):
            break
        if speaker == "tool":
            if len(blocks) != len(due):
                break
            # Same ids in the same order, and nothing else in the turn: exactly what every host takes.
            for block, wanted in zip(blocks, due, strict=True):
                if type(block) is not ToolResponse or block.call_id != wanted:
                    # `return` where the loops are nested, `break` where they
                    # are not: both give the turns that were whole so far.
                    return length
            known.update(due)
            due = []
        elif due:
            break
        else:
            for block in blocks:
                kind = type(block)  # mypy does not narrow by it
                if kind is ToolCall:
                    due.append(block.id)  # type: ignore[union-attr]
                elif kind is ToolResponse:
                    return length
            if due:
                # A repeated id is lawful nowhere, neither within an answer nor later (field-guide/kimi.md#ids).
                if speaker != "ai" or not known.isdisjoint(due) or len(set(due)) != len(due):
                    break
                # `length` does not move yet: an answer that calls counts only together with its results.
                continue
        length = number
    return length


class _Slot:
    """A call, its place among the calls of its turn, and the result it waits for."""

    __slots__ = ("call", "noted", "place", "response", "taken", "turn")

    def __init__(self, call: ToolCall, turn: int, place: int) -> None:
        self.call = call
        self.turn = turn
        self.place = place
        # Taken slots stay in the queues and are skipped when they come to the front: each is passed once, so a claim
        # costs constant time on average, with thousands of calls of one id.
        self.taken = False
        self.response: ToolResponse | None = None
        self.noted = False


class _Waiting:
    """Calls by a label. One that is taken is forgotten when it is met, so every call costs the same however many wait."""

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns: dict[str, list[deque[_Slot]]] = {}  # under each label one queue a turn, oldest turn first

    def add(self, label: str, slot: _Slot) -> None:
        turns = self._turns.setdefault(label, [])
        if turns and turns[-1][-1].turn == slot.turn:
            turns[-1].append(slot)
        else:
            turns.append(deque((slot,)))

    def newest(self, label: str) -> _Slot | None:
        """The first call that waits in the newest turn where one does."""
        turns = self._turns.get(label)
        while turns:
            queue = turns[-1]
            while queue and queue[0].taken:
                queue.popleft()
            if queue:
                return queue[0]
            turns.pop()
        return None

    def oldest(self, label: str) -> _Slot | None:
        return next((slot for queue in self._turns.get(label, ()) for slot in queue if not slot.taken), None)


class _Repair:
    """One walk over the history, then one layout.

    The walk cannot know whether a result is an orphan until it has seen every call: hosts and other clients write results
    before, far behind, or twice after their call. So each call becomes a slot and each result looks for the slot that waits
    for it; only when all turns are read are the tool turns laid out anew, right behind their calls.
    """

    def __init__(self, turns: Sequence[Turn], offset: int) -> None:
        self.source = turns
        self.offset = offset
        self.notes: list[Note] = []
        # By the id that the history uses, which may be shared by several calls.
        # That is why a slot is not found by the id alone but by who still waits.
        self.open = _Waiting()  # by the id the history uses
        self.answered: dict[str, _Slot] = {}  # the last one answered under an id
        self.out: list[tuple[Turn, list[_Slot], Turn | None]] = []  # turn, its calls, the tool turn that followed it
        self.at: list[int] = []  # the place of each turn of `out` in the source
        self.places: list[int] = []  # the same for the result
        self.newest = -1  # the place of the last turn of `out` in the source
        self.failed_ids: set[str] = set()
        self.early: dict[str, tuple[ToolResponse, int]] = {}
        self.seen_ids: set[str] = set()
        self.salts: Counter[tuple[str, ...]] = Counter()

    def run(self) -> Repaired:
        for index, turn in enumerate(self.source):
            # A failed answer is never sent again, so the results of its calls have nothing left to answer.
            if turn.failure and turn.speaker == "ai":
                self.failed_ids.update(call.id for call in turn.tool_calls)
                self._note("failed_turn", f"the answer failed ({turn.failure}) and is not sent again", index)
            # A system turn may declare tools and say nothing.
            elif not turn.blocks and not turn.tools:
                self._note("empty_turn", f"the {turn.speaker} turn is empty", index)
            elif turn.speaker == "ai":
                self._take_ai(turn, index)
            else:
                self._take_other(turn, index)
        self._place_early()
        turns, unanswered = self._lay_out()
        touched = frozenset(self.seen_ids | self.failed_ids | self.early.keys())
        return Repaired(turns, self.notes, frozenset(unanswered), touched, self.places)

    def _take_ai(self, turn: Turn, index: int) -> None:
        blocks: list[Block] = []
        slots: list[_Slot] = []
        for block in turn.blocks:
            if type(block) is ToolResponse:
                self._answer(block, index)
                continue
            if type(block) is ToolCall:
                call = block
                # Re-keyed only in the copy that is sent. The seed holds the turn's key and the call's place, so the
                # same history always gets the same new id, and a request stays a prefix of the next one.
                if call.id in self.seen_ids:
                    call = replace(call, id=self._fresh_id(call, turn, len(slots)))
                    self._note("repeated_id", f"the id of {call.name} was used before; it got a new one", index)
                self.seen_ids.add(call.id)
                slot = _Slot(call, index, len(slots))
                slot.noted = call is not block
                slots.append(slot)
                # By its old id, which its result still carries.
                self.open.add(block.id, slot)
                block = call
            blocks.append(block)
        if blocks:
            changed = len(blocks) != len(turn.blocks) or any(
                a is not b for a, b in zip(blocks, turn.blocks, strict=True)
            )
            self._append(replace(turn, blocks=tuple(blocks)) if changed else turn, slots, index)

    def _append(self, turn: Turn, slots: list[_Slot], index: int) -> None:
        self.out.append((turn, slots, None))
        self.at.append(index)
        self.newest = index

    def _fresh_id(self, call: ToolCall, turn: Turn, place: int) -> str:
        # A salt for each seed: two such turns with equal calls must not get equal ids.
        seed = (call.provider, call.id, call.name, turn.key, str(place))  # turns may share a key
        while True:
            key = f"{turn.key}#{self.salts[seed]}"
            self.salts[seed] += 1
            fresh = canonical_tool_call_id(call.provider, call.id, call.name, key, place)
            if fresh not in self.seen_ids:
                return fresh

    def _take_other(self, turn: Turn, index: int) -> None:
        """Take the results out of a turn; what is left stays where it stood, as a human turn unless it is the system's."""
        rest: list[Block] = []
        answers_last = False
        for block in turn.blocks:
            if type(block) is ToolResponse:
                slot = self._answer(block, index)
                answers_last = answers_last or (slot is not None and slot.turn == self.newest)
            elif type(block) is ToolCall:
                self._note("misplaced_call", f"a {turn.speaker} turn cannot call {block.name}", index)
            else:
                rest.append(block)
        if rest or turn.tools:
            # A tool message holds a result and nothing else, so words among results get a turn of their own.
            speaker: Speaker = "system" if turn.speaker == "system" else "human"
            whole = turn.speaker == speaker and len(rest) == len(turn.blocks)
            if not whole:
                self._note("text_among_results", f"what came with tool results became a {speaker} turn", index)
            self._append(turn if whole else replace(turn, speaker=speaker, blocks=tuple(rest)), [], index)
        elif answers_last:
            last, slots, tool_turn = self.out[-1]
            # The first tool turn behind the calls is the one that is kept
            # if it turns out to be right: its key and the object itself.
            if tool_turn is None:
                self.out[-1] = (last, slots, turn)

    def _answer(self, response: ToolResponse, index: int) -> _Slot | None:
        """Give a result to the newest turn that still waits for it, and there to the first such call."""
        slot = self.open.newest(response.call_id)
        if slot is None:
            self._surplus(response, index)
            return None
        self.answered[response.call_id] = slot
        self._fill(slot, response)
        if slot.turn != self.newest:
            slot.noted = True
            self._note("displaced_result", f"the result of {slot.call.name} moved next to its call", index)
        return slot

    def _surplus(self, response: ToolResponse, index: int) -> None:
        """A result that no call waits for, so far."""
        slot = self.answered.get(response.call_id)
        if slot is not None:
            why = f"a second result for {slot.call.name}"
            assert slot.response is not None
            # A client that gives up waiting writes an error, and sometimes the real result comes after it.
            if slot.response.is_error and not response.is_error:
                self._fill(slot, response)
                why = f"an error result of {slot.call.name} was replaced by a later result"
            slot.noted = True
            self._note("second_result", why, index)
        elif response.call_id in self.failed_ids:
            self._note("orphan_result", "its call is in a failed answer, which is not sent again", index)
        elif response.call_id in self.early:
            self._note("second_result", f"a second result for {response.call_id}", index)
        else:
            # Perhaps its call comes later.
            self.early[response.call_id] = (response, index)

    @staticmethod
    def _fill(slot: _Slot, response: ToolResponse) -> None:
        slot.taken = True
        renamed = slot.call.id != response.call_id
        slot.response = replace(response, call_id=slot.call.id) if renamed else response

    def _place_early(self) -> None:
        """Results that came before any call of their id: behind it if it still waits, else they are orphans."""
        for call_id, (response, index) in self.early.items():
            # The oldest: a result that came too early was written for the first call after it.
            slot = self.open.oldest(call_id)
            if slot is not None:
                self._fill(slot, response)
                slot.noted = True
                self._note("displaced_result", f"the result of {slot.call.name} moved after its call", index)
            else:
                self._note("orphan_result", f"no call {call_id} comes before it", index)

    def _lay_out(self) -> tuple[list[Turn], set[str]]:
        turns: list[Turn] = []
        unanswered: set[str] = set()
        for (turn, slots, tool_turn), place in zip(self.out, self.at, strict=True):
            turns.append(turn)
            self.places.append(self.offset + place)
            if not slots:
                continue
            # A turn with calls is followed by the turn of its results, which is given the same place.
            self.places.append(self.offset + place)
            responses: list[ToolResponse] = []
            for slot in slots:
                if slot.response is None:
                    unanswered.add(slot.call.id)
                    slot.noted = True
                    why = f"{slot.call.name} has no result; sent an error result instead"
                    self._note("unanswered_call", why, slot.turn)
                    responses.append(ToolResponse(slot.call.id, slot.call.name, (Text(INTERRUPTED),), is_error=True))
                else:
                    responses.append(slot.response)
            blocks = tuple(responses)
            # The same object where nothing changed: encoded turns are cached by identity.
            if tool_turn is not None and tool_turn.speaker == "tool" and tool_turn.blocks == blocks:
                turns.append(tool_turn)
                continue
            # Every other cause has its own note by now.
            if not any(slot.noted for slot in slots):
                why = "the results were put in one tool turn, in the order of the calls"
                self._note("results_out_of_order", why, slots[0].turn)
            if tool_turn is not None:
                turns.append(replace(tool_turn, speaker="tool", blocks=blocks, role=""))
            else:
                # Derived from the turn it answers, so that it is the same in every request.
                turns.append(Turn("tool", blocks, key=f"{turn.key}:results"))
        return turns, unanswered

    def _note(self, code: NoteCode, why: str, index: int) -> None:
        action, what = _ABOUT[code]
        self.notes.append(Note(action, what, code, why, self.offset + index, self.source[index].key))


# A second matcher beside `_Repair`, for another moment: here a stranger's ids are being read and there are no canonical
# ones yet, so a result is matched by whatever label it has, and at once.
class CallMatcher:
    """Pairs results with calls as they come in: by id among the still-open calls, newest turn first, else by position.

    Position is for results without an id: the first open call of the newest turn that has one, of the same name if any.
    `own` finds the canonical id behind one of ours.
    """

    def __init__(self, own: Callable[[str], str | None] = from_own_id) -> None:
        self._own = own
        self._turn = 0
        self._by_id = _Waiting()
        self._by_raw_id = _Waiting()
        self._by_name = _Waiting()
        self._all = _Waiting()

    def opened(self, calls: Iterable[ToolCall]) -> None:
        """A turn made these calls."""
        self._turn += 1
        for place, call in enumerate(calls):
            slot = _Slot(call, self._turn, place)
            self._by_id.add(call.id, slot)
            if call.raw_id:
                self._by_raw_id.add(call.raw_id, slot)
            self._by_name.add(call.name, slot)
            self._all.add("", slot)

    def claim(self, raw_id: str | None, name: str = "") -> ToolCall | None:
        """The call this result answers, no longer open from now on; None for an orphan."""
        slot = self._labelled(raw_id) if raw_id else self._at_position(name)
        if slot is None:
            return None
        slot.taken = True
        return slot.call

    def _labelled(self, raw_id: str) -> _Slot | None:
        own = self._own(raw_id)
        # One label may be a raw id in one turn and one of our ids in another. The newest turn wins, whichever way it
        # was found: results answer what was asked last.
        found = (
            self._by_raw_id.newest(raw_id),
            self._by_id.newest(raw_id),
            self._by_id.newest(own) if own is not None else None,
        )
        return max([slot for slot in found if slot is not None], key=_newest_turn_first_call, default=None)

    def _at_position(self, name: str) -> _Slot | None:
        # Ollama and Gemini may leave ids out; results then come in
        # the order of the calls (field-guide/ollama.md#tools).
        return self._by_name.newest(name) if name else self._all.newest("")


def _newest_turn_first_call(slot: _Slot) -> tuple[int, int]:
    return slot.turn, -slot.place


_LABELLED = frozenset({ToolCall, ToolResponse})
"""The blocks that carry an id."""


# A store knows whose turns it reads. A gateway sees the same history again with each request, in another shape each
# time, and has to give its calls the same ids: that is a different identity, not a different pass.
class CallIdentity(Protocol):
    """Whose ids the calls of a history carry, and what makes one call another. One serves for one history, read in order."""

    def own(self, wire_id: str) -> str | None:
        """The canonical id behind an id of ours; None for anybody else's."""
        ...

    def turn_key(self, turn: Turn, number: int) -> str:
        """The key of a turn, which is part of the seed of its calls' ids."""
        ...

    def orphan(self, wire_id: str) -> str | None:
        """The canonical id of a call that is not in this history, by what its result is labelled with; None if unknown."""
        ...


class SaidCalls:
    """The rule for a history that was made elsewhere: a turn without a key is known by what it says, and by how many before it say
    the same. So a history whose beginning was cut, or to which one was added, has the ids that it had. One serves for one history."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys = SaidKeys()

    own = staticmethod(from_own_id)

    def turn_key(self, turn: Turn, number: int) -> str:
        return turn.key or self._keys.of_turn(turn)

    @staticmethod
    def orphan(wire_id: str) -> str | None:
        return wire_id if wire_id.startswith(PREFIX) else None


def canonicalize(conversation: Conversation, provider: str = "", identity: CallIdentity | None = None) -> Conversation:
    """The one-time pass over a history made elsewhere: whatever its ids look like, every call gets a canonical one.

    Turns get their key of `identity`; ids that are already ours stay unless they repeat; raw ids are kept as metadata.
    """
    rule: CallIdentity = identity if identity is not None else SaidCalls()
    seen: dict[str, int] = {}  # every id, and how often another had to be found in its place
    matcher = CallMatcher(rule.own)
    turns: list[Turn] = []
    for number, turn in enumerate(conversation.turns):
        key = rule.turn_key(turn, number)
        # Most turns have no ids in them, and stay the same object.
        if key == turn.key and _LABELLED.isdisjoint(map(type, turn.blocks)):
            turns.append(turn)
            continue
        blocks: list[Block] = []
        opened: list[ToolCall] = []
        for block in turn.blocks:
            if type(block) is ToolCall:
                label = block.id or block.raw_id  # what the results of this history call it
                block = _canonical_call(block, provider, key, len(opened), seen, rule)
                opened.append(replace(block, raw_id=label))
            elif type(block) is ToolResponse:
                block = _canonical_response(block, matcher, provider, key, len(blocks), rule)
            blocks.append(block)
        # After the blocks: a turn's results answer earlier turns, never its own calls.
        matcher.opened(opened)
        turns.append(replace(turn, key=key, blocks=tuple(blocks)))
    return replace(conversation, turns=tuple(turns))


def _canonical_call(
    call: ToolCall, provider: str, key: str, index: int, seen: dict[str, int], rule: CallIdentity
) -> ToolCall:
    own = rule.own(call.id)
    raw = call.raw_id
    # An id of ours that repeats was copied by somebody: the first keeps it.
    if own is None or own in seen:
        raw = raw or call.id or None
        own = canonical_tool_call_id(call.provider or provider, raw, call.name, key, index)
        first = own
        while own in seen:  # two turns of one key
            seen[first] += 1
            own = canonical_tool_call_id(call.provider or provider, raw, call.name, f"{key}#{seen[first]}", index)
    elif call.id != own:
        raw = raw or call.id
    seen.setdefault(own, 0)
    return replace(call, id=own, raw_id=raw, provider=call.provider or provider)


def _canonical_response(
    response: ToolResponse, matcher: CallMatcher, provider: str, key: str, place: int, rule: CallIdentity
) -> ToolResponse:
    label = response.call_id or response.raw_id
    call = matcher.claim(label, response.name)
    own = call.id if call is not None else rule.orphan(response.call_id)
    # No call and no clue. A made-up id keeps the result in the history; `repair` decides what is sent.
    if own is None:
        own = canonical_tool_call_id(provider, label, response.name, key, place)
    raw = response.raw_id or (label if label != own else None)
    return replace(response, call_id=own, raw_id=raw, name=response.name or (call.name if call else ""))
