"""What models are sent of a conversation whose earlier turns were summarised.

Nothing stored is rewritten: a summary is a turn of its own, behind the turns that it stands for, and says how far it reaches
(`Compacted.until`). What a model is sent begins with the system turns from before that, then come the summary, the turns
from `until` on, and whatever was said since. An undo is one more turn, and leaves the conversation to be sent as it was.
A summary ends only where no call is parted from its result (`cuts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from msgspec.structs import replace

from .blocks import Compacted, Conversation, ToolCall, ToolResponse, Turn, Value
from .handoff import Note
from .plural import pluralize

_MARK = attrgetter("compacted")


class SentTurns(Value, frozen=True):
    """The turns that models are sent, and where each stands in the conversation. `summary` is the place of the one that is
    in force, `since` that of the last turn that was not said; -1 for none. `changes`: from which place on which summary was in
    force."""

    turns: tuple[Turn, ...]
    places: Sequence[int]
    # `summary` and `since` differ: an undone or failed summary leaves marks behind that are not turns anybody said, and
    # `since` tells `grown` that the places are no longer simply 0, 1, 2 …
    summary: int = -1
    since: int = -1
    changes: tuple[tuple[int, int], ...] = ()

    def grown(self, turns: tuple[Turn, ...], start: int) -> SentTurns:
        """The same after more turns: `turns` are all of the conversation now, of which `start` were known."""
        fresh = turns[start:]
        # A new mark may reach back behind everything known. Rare enough to start over.
        if any(map(_MARK, fresh)):
            return sent_turns(turns)
        # Nothing was ever summarised, the everyday case: all turns are sent, and no list of places is built.
        if self.since < 0:
            return SentTurns(turns, range(len(turns)))
        return SentTurns(
            self.turns + fresh, [*self.places, *range(start, len(turns))], self.summary, self.since, self.changes
        )

    def was_sent_so(self, place: int) -> bool:
        """Whether what stands at this place was an answer to the conversation in the form that it is sent in now."""
        return next((summary for since, summary in reversed(self.changes) if since < place), -1) == self.summary

    @property
    def until(self) -> int:
        """How many turns the summary stands for."""
        return _until(self.turns[self.places.index(self.summary)], self.summary) if self.summary >= 0 else 0

    def notes(self) -> tuple[Note, ...]:
        """What to tell about the summary."""
        if self.summary < 0:
            return ()
        turn = self.turns[self.places.index(self.summary)]
        who = f", written by {turn.origin.model}" if turn.origin is not None else ""
        why = f"a summary is sent in place of the {pluralize(self.until, 'turn')} before it{who}"
        return (Note("adapted", "turn", "compacted", why, self.summary, turn.key),)

    def placed(self, note: Note) -> Note:
        """A note about one of these turns, with its place in the conversation."""
        if note.turn is None or note.turn >= len(self.places):
            return note
        return Note(note.action, note.what, note.code, note.why, self.places[note.turn], note.key)


def sent_turns(turns: tuple[Turn, ...]) -> SentTurns:
    """What models are sent of these turns: all of them, unless some were summarised."""
    if not any(map(_MARK, turns)):
        return SentTurns(turns, range(len(turns)))
    marks = [(place, mark) for place, turn in enumerate(turns) if (mark := turn.compacted) is not None]
    summaries: list[int] = []
    changes: list[tuple[int, int]] = []
    since = -1
    # Summaries are a stack: an undo takes back the newest one in force, and the one before it counts again.
    for place, mark in marks:
        if mark.action == "summary":
            summaries.append(place)
        elif mark.action == "undo" and summaries:
            summaries.pop()
        if mark.action != "failure":
            changes.append((place, summaries[-1] if summaries else -1))
        since = place
    summary = summaries[-1] if summaries else -1
    until = _until(turns[summary], summary) if summaries else 0
    # Instructions are kept beside the summary: a model that forgets what
    # it was told to do is worse than one that forgets what was said.
    places = [place for place in range(until) if turns[place].is_instruction and turns[place].compacted is None]
    if summaries:
        places.append(summary)
    places += [place for place in range(until, len(turns)) if turns[place].compacted is None]
    return SentTurns(tuple([turns[place] for place in places]), places, summary, since, tuple(changes))


def without_summaries(conversation: Conversation) -> Conversation:
    """The conversation as it was said: every turn, and no summary of any."""
    if not any(map(_MARK, conversation.turns)):
        return conversation
    return replace(conversation, turns=tuple([turn for turn in conversation.turns if turn.compacted is None]))


def said_last(turns: Sequence[Turn]) -> int | None:
    """The place of the user's last message; None if there is none. Summaries were not said by the user."""
    for place in range(len(turns) - 1, -1, -1):
        turn = turns[place]
        # A human turn with a role is an instruction of an older database.
        if turn.speaker == "human" and not turn.role and turn.compacted is None:
            return place
    return None


def cuts(turns: Sequence[Turn]) -> list[int]:
    """The places in rising order, from 0 to the length, where the turns can be parted and no call is on another side than any
    of its results. Calls are paired as `midstream.core.history: repair` pairs them: a result goes to the newest open call of
    its id, else to one that was answered, else to a later one."""
    # A cut at `place` is before the turn of that number. A pair of turns one < other forbids the places one + 1 …
    # other, so it adds one at the first of them and takes it back behind the last. One running sum then finds all
    # places where none is open, however many pairs overlap.
    joined = [0] * (len(turns) + 1)  # at each place: how many pairs begin, less how many end

    def join(one: int, other: int) -> None:
        joined[min(one, other) + 1] += 1
        joined[max(one, other) + 1] -= 1

    waiting: dict[str, list[int]] = {}
    answered: dict[str, int] = {}
    early: dict[str, int] = {}
    for place, turn in enumerate(turns):
        for block in turn.blocks:
            if type(block) is ToolCall:
                waiting.setdefault(block.id, []).append(place)
            elif type(block) is ToolResponse:
                if waiting.get(block.call_id):
                    answered[block.call_id] = waiting[block.call_id].pop()
                    join(answered[block.call_id], place)
                elif block.call_id in answered:
                    join(answered[block.call_id], place)
                else:
                    # A result before its call is a broken history, which `repair` mends by moving the result: the two
                    # have to stay together here as well. Only the first counts; repair drops the others.
                    early.setdefault(block.call_id, place)
    for call_id, place in early.items():
        for call in waiting.get(call_id, ())[:1]:
            join(place, call)
    found: list[int] = []
    open_pairs = 0
    for place, change in enumerate(joined):
        open_pairs += change
        if not open_pairs:
            found.append(place)
    return found


def _until(turn: Turn, place: int) -> int:
    # A mark comes from a file and may say anything. It never
    # reaches beyond its own place, where it would swallow itself.
    mark = turn.compacted or Compacted()
    return max(0, min(mark.until, place))
