"""Whose arguments are these? The routing of streamed tool calls, the same for every wire that labels their pieces.

Hosts label the pieces of a call with an index, an id, both, or nothing; they reuse indexes, repeat ids, mint an id for each
piece, repeat the name or send it in two halves. Index and id are therefore labels that a call learns, not its identity.

For each piece there is a candidate, the call that its labels point to: among the calls of a known index the newest with the
same id, else the newest; for a new index none; without an index the newest call of that id; without either, in an array of two
or more the call at the same place of the previous such array, otherwise the last call. Elements of one array without labels
are different calls. A blank id and a negative index are none. A call is complete when its arguments parse as one JSON object.
The first row that fits decides:

    no candidate; an id or a name                                     a new call
    no candidate; arguments only                                      held: a later name on that index makes it a call; at the
                                                                      end joined to the last call if that gives an object
    another id; a name, or arguments for a complete call              a new call
    another id; no name; not complete                                 goes on (an id is minted for each piece)
    same index, same name, equal arguments, an id that names the call the host said it again: dropped, and told as a problem
    same or no id; a name; complete; arguments                        a new call (index and id are reused)
    same or no id; the same name; complete; no arguments              held: a call only if arguments follow
    another name; no arguments yet; the two names joined are declared the names are joined
    another name                                                      a new call; the old one stays as it is, and will not parse
    else                                                              goes on

An id names the call unless it is a counter (`0`, `call_1`). A call whose name never comes has the one that its id holds.

Where no label tells two unfinished calls apart, a piece that went to the newer one may have been meant for the older. If it
would have finished that one, nobody can tell, and the answer is malformed: no tool runs with another tool's arguments. So it is
when the places in arrays left a call with a part of something, and when an id that was taken for a single piece's turns out to be that of a call whose name came late, and the piece is missing there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import msgspec

from ..core.errors import MalformedStream
from ..core.json_progress import JsonProgress, State, object_text
from ..core.patterns import late_pattern
from ..core.reduce import Piece, TurnBuilder

_MAX_RIVALS = 64
"""How many ways of reading an unlabelled stream are followed; one more is a doubt in itself."""

_COUNTER = late_pattern(r"(?:(?:call|tool|tooluse|toolu|fc|id)[_:-]?)?\d{1,6}", re.IGNORECASE)
# How Kimi's weights write an id, and what its hosts make of it (field-guide/tool-ids.md#what-hosts-give).
_KIMI_ID = late_pattern(r"functions\.(.{1,200}):\d{1,6}", re.DOTALL)
_SHORT_ID = late_pattern(r"(.{1,200})[:_]\d{1,6}", re.DOTALL)

# Stands for "nested deeper than we follow" among the states, and equals no real one.
_TOO_DEEP: State = ("", -1, 0, False)

Label = tuple[int | None, str | None]


class ToolDelta(msgspec.Struct, gc=False):
    """One piece of a call, as a wire read it. `id` is what labels it; `raw_id` the call's own id where that is another, `""` for none."""

    index: int | None = None
    id: str | None = None
    name: str = ""
    arguments: str = ""
    extra: dict[str, Any] | None = None
    raw_id: str | None = None
    freeform: bool = False
    """Its arguments are plain text."""
    namespace: str = ""


# `number` is the order of arrival: labels go to the newest call, and a late label must not take one back to an older.
class _Call:
    """A call on its way, and the labels it has learned."""

    __slots__ = ("again", "id", "index", "name", "number", "piece", "repeats", "repeats_labels")

    def __init__(self, number: int, index: int | None, id: str | None, name: str, piece: Piece) -> None:
        self.number = number
        self.index = index
        self.id = id
        self.name = name  # as the host wrote it; the piece gets it when it can no longer grow
        self.piece = piece
        self.repeats = False  # its name came once more with nothing else: the next arguments are another call's
        self.repeats_labels = False  # and with it the labels by which it may be the same call
        self.again: _Again | None = None


class _Again:
    """What comes under all labels of a complete call: as long as it is the beginning of its arguments, the host may be saying it again."""

    __slots__ = ("_arguments", "_same", "held")

    def __init__(self, arguments: str) -> None:
        self._arguments = arguments.strip()
        self._same = 0  # how much of them has come again
        self.held: list[str] = []

    def take(self, text: str) -> bool:
        """Whether this goes on as the call did; blanks around it are nothing."""
        said = text if self._same else text.lstrip()
        if self._same + len(said) > len(self._arguments):
            said = said.rstrip()
        if not self._arguments.startswith(said, self._same):
            return False
        self._same += len(said)
        self.held.append(text)
        return True

    @property
    def is_whole(self) -> bool:
        return self._same == len(self._arguments)


class _Owner:
    """The newest call of one label, and where the unfinished ones before it stood when it came."""

    __slots__ = ("call", "rival_states")

    def __init__(self, call: _Call, rival_states: set[State]) -> None:
        self.call = call
        self.rival_states = rival_states


# Rows are tried in the order of the table above. `_piece` finds the candidate,
# `_piece_of_nobody` has the first two rows, `_is_new` those that can open a call, `_go_on`
# the last. Everything beside the table is about not guessing: `_lost`, `_placed`, `_uneven`,
# `_late` and the rival states remember why the answer may be ambiguous, and `end` says so.
class ToolDeltaRouter:
    """Gives each piece to its call in the builder. `declared` are the names of the tools as the host knows them, `own` what they are to us."""

    __slots__ = ("_builder", "_calls", "_declared", "_held", "_ids", "_last", "_late", "_lost", "_minted", "_own", "_owners", "_partial_name", "_placed", "_places", "_uneven")  # fmt: skip

    def __init__(
        self, builder: TurnBuilder, declared: Collection[str] = (), own: Mapping[str, str] | None = None
    ) -> None:
        self._builder = builder
        self._declared = declared
        self._own = own or {}
        self._owners: dict[Label, _Owner] = {}
        self._calls: list[_Call] = []
        self._last: _Call | None = None
        self._places: Sequence[_Call | None] = ()
        self._placed = False  # arguments went to a call for their place in an array alone
        self._uneven = False  # and the arrays were not all of the same calls
        self._held: dict[int | None, list[str]] = {}
        self._lost = False  # arguments without a label were held when another call began
        self._ids: dict[int | None, str] = {}  # of pieces that opened nothing
        self._minted: set[str] = set()  # ids taken for those of single pieces
        self._late: list[_Call] = []  # calls that came under one of them
        self._partial_name: dict[_Call, None] = {}  # calls whose name may be the first half of one

    def more(self, index: int, arguments: str) -> bool:
        """Arguments alone under an index: the everyday piece. False, and nothing done, where the table has to be asked."""
        piece = self._everyday(index)
        if piece is None:
            return False
        if arguments:
            self._builder.call_arguments(piece, arguments)
        return True

    def all_more(self, index: int, arguments: list[str]) -> bool:
        """As `more` for each of them. False, and nothing done, where they have to be looked at one by one."""
        piece = self._everyday(index)
        return piece is not None and self._builder.all_arguments(piece, arguments)

    # Four ifs that are false in nearly every stream: then index and call are one, and the table need not be asked.
    def _everyday(self, index: int) -> Piece | None:
        """The call of this index, where nothing but the index decides."""
        owner = self._owners.get((index, None))
        if owner is None or owner.rival_states or owner.call.repeats or owner.call in self._partial_name:
            return None
        return owner.call.piece if owner.call.again is None else None

    def array(self, deltas: Sequence[ToolDelta]) -> None:
        """The pieces of one array of a stream."""
        if len(deltas) == 1:
            # A bare piece alone, after arrays of several: whose it is, is a guess from here on.
            self._uneven |= bool(self._places) and _is_bare(deltas[0])
            self._piece(deltas[0], self._last)
            return
        taken: list[_Call | None] = []
        for place, delta in enumerate(deltas):
            # By place first: hosts that label nothing send the pieces in the same order each time.
            there = self._places[place] if place < len(self._places) else self._last
            if _is_bare(delta):
                self._placed = True
                self._uneven |= len(self._places) != len(deltas)
            taken.append(self._piece(delta, None if there in taken else there, placed=place < len(self._places)))
        self._places = taken

    def whole(self, deltas: Iterable[ToolDelta]) -> None:
        """The array of a whole body: every element is a call of its own, whatever its labels say."""
        for delta in deltas:
            # In a whole body nothing is split, so labels have nothing to tell.
            delta.index = None
            if delta.name or delta.arguments:
                self._open(delta, grows=False)
            elif delta.id:
                self._ids[len(self._ids)] = delta.id

    def open(self, delta: ToolDelta) -> Piece:
        """A call that the host announced as a new one."""
        return self._open(delta, grows=False).piece

    def find(self, index: int | None, id: str | None) -> Piece | None:
        """The call these labels point to. One that was announced by its id alone learns its index here."""
        owner = self._owner(index, id)
        if owner is None and id and (named := self._owners.get((None, id))) is not None and named.call.index is None:
            named.call.index = index
            self._own_labels(named.call)
            owner = named
        return owner.call.piece if owner is not None else None

    def end(self) -> None:
        """The end was said: what was held back is due. MalformedStream for arguments that are nobody's."""
        # Names first: a call that still waits for half a name cannot be judged.
        self.settle()
        if self._ids and self._last is None:
            raise MalformedStream("the answer holds a tool call without a name")
        # An id that looked minted for one piece was a call's own. If its
        # arguments are not whole without that piece, it went to somebody else.
        for call in self._late:
            if not call.piece.is_complete:
                raise MalformedStream(
                    f"arguments of the tool call {call.name!r} came before its name, as another call's"
                )
        if self._placed and any(self._is_broken(call.piece) for call in self._calls):
            raise MalformedStream("arguments came without a label in arrays that do not tell whose they are")
        held, self._held = self._held, {}
        texts = ["".join(parts) for parts in held.values()]
        if not any(text.strip() for text in texts):
            return
        last = self._last
        # Arguments that were never named join the last call only if
        # that makes it whole, and if nobody else could own them.
        if last is None or len(texts) > 1 or self._lost or object_text("".join([*last.piece.parts, texts[0]])) is None:
            raise MalformedStream("arguments came for a tool call that was never named")
        self._builder.call_arguments(last.piece, texts[0])

    def finish(self) -> None:
        """The finish reason came: every named call has ended. What cannot be placed yet waits for `end`."""
        self.settle()
        held, last = self._held, self._last
        # The same as at the end, but a call that can be finished now should not wait for the usage or `[DONE]`.
        if len(held) == 1 and last is not None and not last.piece.closed and not self._lost:
            text = "".join(next(iter(held.values())))
            if object_text("".join([*last.piece.parts, text])) is not None:
                self._held = {}
                self._builder.call_arguments(last.piece, text)
        self._builder.end_calls()

    def settle(self) -> None:
        """What waited for more is decided: names for their second half, and for coming at all."""
        for call in list(self._partial_name):
            self._say(call)
        for call in [call for call in self._calls if call.again is not None]:
            self._open_apart(call)
        for index, id in list(self._ids.items()):
            # Arguments came behind an id, or nothing did in the whole answer.
            if (index in self._held or self._last is None) and (name := self._name_in(id)):
                self._open(ToolDelta(index, id, name, "".join(self._held.pop(index, ()))))
        for call in self._calls:
            if not call.name and call.id and (name := self._name_in(call.id)):
                call.name = name
                self._builder.name_call(call.piece, self._own.get(name, name))

    def _name_in(self, id: str) -> str:
        """The name that an id holds; without the weights' own prefix only a declared one."""
        if found := _KIMI_ID.fullmatch(id):
            return found[1]
        found = _SHORT_ID.fullmatch(id)
        return found[1] if found and found[1] in self._declared else ""

    def _say(self, call: _Call) -> None:
        del self._partial_name[call]
        self._builder.name_call(call.piece, self._own.get(call.name, call.name))

    def _is_broken(self, piece: Piece) -> bool:
        """Whether these arguments are not what one call was given. Those that were only cut off may be, where the places were clear."""
        progress = piece.progress()
        return not (progress.is_blank or piece.is_complete or (progress.alive and not self._uneven))

    def _owner(self, index: int | None, id: str | None) -> _Owner | None:
        owners = self._owners
        if index is None:
            return owners.get((None, id))
        # Index and id together are the better label; hosts reuse either.
        return (owners.get((index, id)) if id else None) or owners.get((index, None))

    def _piece(self, delta: ToolDelta, there: _Call | None, *, placed: bool = False) -> _Call | None:
        """The call this piece went to. `there` is the one its place points to, should it have no label."""
        if delta.index is not None and delta.index < 0:
            delta.index = None
        if delta.id is not None and not delta.id.strip():
            delta.id = None
        owner: _Owner | None
        if delta.index is None and delta.id is None:
            call, owner = there, None if placed else self._owners.get((None, None))
        else:
            owner = self._owner(delta.index, delta.id)
            call = owner.call if owner is not None else None
        if call is None:
            return self._piece_of_nobody(delta)
        if call.again is not None:
            if delta.name in ("", call.name) and delta.id in (None, call.id) and call.again.take(delta.arguments):
                self._drop_if_whole(call, call.again)
                return call
            # Another call after all. It has the labels now, and this piece is judged by them.
            call = self._open_apart(call)
            owner = self._owner(delta.index, delta.id) or self._owners[None, None]
        # Nothing in the piece speaks for a new call: the row "goes on", without asking.
        if (delta.name or call.repeats or (delta.id and call.id and delta.id != call.id)) and self._is_new(delta, call):
            return self._open(delta)
        self._go_on(delta, call, owner.rival_states if owner is not None and owner.call is call else None)
        return call

    def _piece_of_nobody(self, delta: ToolDelta) -> _Call | None:
        # An id alone opens nothing: hosts send one ahead of the name, and some send one too many.
        if delta.name or (delta.id and delta.arguments):
            return self._open(delta)
        if delta.id:
            if delta.index is not None or self._name_in(delta.id):
                self._ids[delta.index] = delta.id
        elif delta.index in self._held:
            self._held[delta.index].append(delta.arguments)
        elif delta.arguments and not delta.arguments.isspace():
            self._held[delta.index] = [delta.arguments]
        if delta.arguments:
            # Held text counts towards the limit like any other.
            self._builder.count(len(delta.arguments))
        return None

    def _is_new(self, delta: ToolDelta, call: _Call) -> bool:
        """The rows between the first two and the last. What is held back, or joined, is seen to here."""
        arguments = bool(delta.arguments) and not delta.arguments.isspace()
        if delta.id and call.id and delta.id != call.id:
            # Another id and a name, or arguments for a call that is complete: hosts that reuse the index.
            if delta.name or (arguments and call.piece.is_complete):
                return True
            if arguments:
                # Another id in the middle of a call: this host mints one for
                # each piece. Remembered, in case it turns out to be a call's.
                self._minted.add(delta.id)
            elif delta.index is not None and call.piece.is_complete:
                self._ids[delta.index] = delta.id
            return False
        if arguments and call.repeats and not delta.name:
            if call.repeats_labels and self._is_again(delta, call):
                return False
            delta.name = call.name
            return True
        if not delta.name or not call.name:
            return bool(delta.name and arguments and call.piece.is_complete)
        same = delta.name == call.name and delta.index is not None and delta.index == call.index
        same = same and delta.id is not None and _COUNTER.fullmatch(delta.id) is None
        if arguments and call.piece.is_complete:
            return not (same and self._is_again(delta, call))
        if delta.name == call.name:
            # The name once more, alone: a repetition, or the next call of the same tool. The next piece tells.
            call.repeats = call.piece.is_complete
            call.repeats_labels = same
            return False
        joined = call.name + delta.name
        # Only if the joined name is declared and the first half is
        # not: two tools `read` and `file` must not become `read_file`.
        if not call.piece.parts and call.name not in self._declared and joined in self._declared:
            call.name, delta.name = joined, ""
            return False
        return True

    def _is_again(self, delta: ToolDelta, call: _Call) -> bool:
        """Whether this may be the whole call once more. What it brings is then held, until it is, or is not."""
        again = _Again("".join(call.piece.parts))
        if call.piece.freeform or not again.take(delta.arguments):
            return False
        call.again, call.repeats = again, False
        self._drop_if_whole(call, again)
        delta.name = delta.arguments = ""
        return True

    def _drop_if_whole(self, call: _Call, again: _Again) -> None:
        if again.is_whole:
            call.again = None
            self._builder.report(f"the host said the call of {call.name!r} again ({call.id}); it runs once")

    def _open_apart(self, call: _Call) -> _Call:
        """What was taken for a call once more is another one."""
        again, call.again = call.again, None
        assert again is not None
        return self._open(ToolDelta(call.index, call.id, call.name, "".join(again.held)))

    def _open(self, delta: ToolDelta, *, grows: bool = True) -> _Call:
        index, name = delta.index, delta.name
        if index is not None and not delta.id:
            delta.id = self._ids.pop(index, None)
        held = self._held.pop(index, None) if index is not None else None
        said = self._own.get(name, name)
        # A name that may be a first half is not told yet, since a
        # start cannot be taken back. With arguments it is whole.
        waits = grows and bool(name) and not held and not delta.arguments and self._may_grow(name)
        piece = self._builder.open_call(
            _raw_id(delta), "" if waits else said, delta.extra, freeform=delta.freeform, namespace=delta.namespace
        )
        call = _Call(len(self._calls), index, delta.id, name, piece)
        self._calls.append(call)
        # Held arguments without an index, and now two calls that could own them.
        self._lost |= None in self._held and len(self._calls) > 1
        if waits:
            self._partial_name[call] = None
        if delta.id in self._minted:
            self._late.append(call)
        self._last = call
        self._own_labels(call)
        for text in (*(held or ()), delta.arguments):
            if text:
                self._builder.call_arguments(piece, text)
        return call

    def _may_grow(self, name: str) -> bool:
        """Whether this is the first half of a declared name."""
        return name not in self._declared and any(known.startswith(name) for known in self._declared)

    def _own_labels(self, call: _Call) -> None:
        labels: list[Label] = [(None, None)]
        if call.index is not None:
            labels.append((call.index, None))
        if call.id:
            labels.append((None, call.id))
            if call.index is not None:
                labels.append((call.index, call.id))
        for label in labels:
            before = self._owners.get(label)
            if before is None:
                self._owners[label] = _Owner(call, set())
            elif before.call.number < call.number:
                rival_states = before.rival_states
                # An older call that is unfinished stays a rival for pieces that only this label points to.
                if not before.call.piece.is_complete and before.call.piece.progress().alive:
                    rival_states.add(before.call.piece.progress().state or _TOO_DEEP)
                self._owners[label] = _Owner(call, rival_states)

    def _go_on(self, delta: ToolDelta, call: _Call, rival_states: set[State] | None) -> None:
        piece = call.piece
        if delta.id and not call.id:
            call.id = delta.id
            # The first id stays: it is part of the canonical id, if the call has been told.
            if not piece.raw_id:
                piece.raw_id = _raw_id(delta)
            self._own_labels(call)
        if delta.extra and not piece.extra:
            piece.extra = delta.extra
        if delta.freeform and not piece.parts:
            piece.freeform = True
        if delta.name and not call.name:
            call.name = delta.name
            self._builder.name_call(piece, self._own.get(delta.name, delta.name))
        if delta.arguments:
            if call in self._partial_name:
                self._say(call)
            if rival_states and not delta.name:
                self._doubt(rival_states, call, delta.arguments)
            self._builder.call_arguments(piece, delta.arguments)
        elif call in self._partial_name and call.name in self._declared:
            self._say(call)

    def _doubt(self, rival_states: set[State], call: _Call, text: str) -> None:
        """A piece that no label gives to this call alone: could an older one have been finished with it?"""
        began = not call.piece.progress().is_blank
        for state in list(rival_states):
            if state is _TOO_DEEP:
                self._cannot_tell(call)
            other = JsonProgress.at(state)
            if other.is_blank and not began:
                continue  # the older call had no arguments when this one came: it has none
            other.feed(text)
            reached = other.state
            # It would have finished the older call, or it cannot be followed
            # any further. Either is a doubt, and a doubt is the end.
            if other.closed or (other.alive and reached is None) or len(rival_states) > _MAX_RIVALS:
                self._cannot_tell(call)
            if reached is not None:
                rival_states.add(reached)

    @staticmethod
    def _cannot_tell(call: _Call) -> NoReturn:
        raise MalformedStream(
            f"arguments came without a label while two calls were unfinished, the later one of {call.name!r}"
        )


def _is_bare(delta: ToolDelta) -> bool:
    """Whether this is arguments and nothing else."""
    if delta.name or (delta.id and not delta.id.isspace()) or (delta.index is not None and delta.index >= 0):
        return False
    return bool(delta.arguments) and not delta.arguments.isspace()


def _raw_id(delta: ToolDelta) -> str | None:
    return (delta.id if delta.raw_id is None else delta.raw_id) or None
