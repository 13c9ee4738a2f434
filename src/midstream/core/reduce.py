"""Pieces in, lawful events and one Turn out: the one accumulator.

Every decoder speaks to a TurnBuilder; it never makes events itself. The builder keeps arrival order, closes a text or
thinking block when the kind changes, gives each call its canonical id, and ends with exactly one done or error.
The head tool call streams. When something else begins and the head's arguments are one JSON object, the head has ended and
what begins streams; otherwise the two are interleaved, and it waits in a queue until the head is complete or is closed.
`reduce` folds a stream of events back into a Turn, for whoever holds events only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from .blocks import Block, Media, Opaque, Origin, Text, Thinking, ToolCall, ToolKind, Turn, Usage
from .errors import LimitExceeded, MalformedStream
from .events import (
    BlockEvent,
    Done,
    ErrorEvent,
    ErrorInfo,
    Event,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from .ids import canonical_tool_call_id
from .json_progress import JsonProgress, object_text
from .modules import late_module
from .surrogates import REPLACEMENT, clean, join

if TYPE_CHECKING:
    import json
else:
    # Only for freeform calls.
    json = late_module("json", globals())

_UNCLOSED = "no tag ended the thinking that the answer was taken to begin with: it is the answer's text as well"
MAX_TURN_CHARS = 64 * 1024 * 1024
"""What one answer may hold: far above any model's output limit, far below a machine's memory."""

MAX_PROBLEMS = 64
"""How many problems one turn keeps: the first ones explain the rest."""

# Compared with `is` in the paths that run for every delta: the strings are constants.
_TEXT, _THINKING, _CALL, _WHOLE = "text", "thinking", "call", "whole"
_DELTAS: dict[str, type[TextDelta | ThinkingDelta | ToolCallDelta]] = {
    _TEXT: TextDelta, _THINKING: ThinkingDelta, _CALL: ToolCallDelta,
}  # fmt: skip


# A freeform call streams its text as the inside of a JSON string, so
# that its deltas joined are the arguments, like those of any other call.
_OPENING, _CLOSING = '{"input":"', '"}'


class Called(NamedTuple):
    """The tool that a call is of."""

    name: str
    kind: ToolKind = "function"
    namespace: str = ""


class Piece:
    """A block on its way: what has come of it so far. Held by decoders as the handle of a tool call."""

    __slots__ = (
        "_complete", "_progress", "_read", "block", "call_index", "closed", "encrypted", "extra", "field", "freeform",
        "half", "id", "index", "kind", "name", "namespace", "parts", "raw_id", "redacted", "signature", "started",
    )  # fmt: skip

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.parts: list[str] = []
        self.half = ""  # of a character whose other half is still to come
        self.started = False
        self.closed = False
        self.index = -1
        self.extra: dict[str, Any] | None = None
        self.field = ""
        self.signature: str | None = None
        self.encrypted: str | None = None
        self.redacted = False
        self.raw_id: str | None = None
        self.name = ""
        self.namespace = ""
        self.freeform = False  # its arguments come as plain text, and are kept as the JSON of an object around it
        self.id = ""
        self.call_index = -1
        self.block: Media | Opaque | None = None
        self._progress: JsonProgress | None = None
        self._read = 0
        self._complete: bool | None = None

    # Lazy: most calls come alone, one after the other, and nobody has to know where their JSON ends.
    def progress(self) -> JsonProgress:
        """How far the arguments have come. Read only when somebody asks, and each part once."""
        progress = self._progress
        if progress is None:
            progress = self._progress = JsonProgress()
        parts = self.parts
        while self._read < len(parts):
            progress.feed(parts[self._read])
            self._read += 1
        return progress

    @property
    def is_complete(self) -> bool:
        """Whether the arguments are one whole JSON object."""
        if not self.progress().closed:
            return False
        if self._complete is None:  # blanks may follow, and anything else kills the progress: one parse is enough
            # The automaton says yes to some texts that are not JSON (`{"a":tru}`).
            self._complete = object_text("".join(self.parts)) is not None
        return self._complete


class TurnBuilder:
    """Turns a decoder's findings into events (taken with `take`) and, at the end, a Turn."""

    __slots__ = (
        "_calls",
        "_chars",
        "_head",
        "_keep_empty",
        "_limit",
        "_queue",
        "_started",
        "blocks",
        "called",
        "ended",
        "extra",
        "origin",
        "out",
        "response_id",
        "response_model",
        "split_surrogates",
        "turn_key",
        "unclosed",
        "usage",
    )  # fmt: skip

    # Two places for pieces. The head is the block that readers see open; its deltas become events at once. The queue
    # holds what began while a call at the head was still unfinished, in order of arrival. Events therefore never nest,
    # and a call waits only where the host really interleaves.
    def __init__(
        self,
        turn_key: str,
        origin: Origin,
        *,
        limit: int = MAX_TURN_CHARS,
        called: Mapping[str, Called] | None = None,
        keep_empty: bool = False,
    ) -> None:
        self.turn_key = turn_key
        self.origin = origin
        self.called = called or {}
        self.out: list[Event] = []
        self.blocks: list[Block] = []
        self.usage: Usage | None = None
        self.response_id: str | None = None
        self.response_model = ""
        self.extra: dict[str, Any] | None = None
        self.ended = False
        self.split_surrogates = False
        """Set by a decoder that met odd text: deltas may begin or end in the middle of a character from here on."""
        self.unclosed = False
        """Set by a filter: its text was taken to begin inside thinking, and no tag said so."""
        self._started = False
        self._head: Piece | None = None
        self._queue: deque[Piece] = deque()
        self._calls = 0
        self._chars = 0
        self._limit = limit
        self._keep_empty = keep_empty

    def take(self) -> list[Event]:
        """The events since the last take."""
        out = self.out
        self.out = []
        return out

    @property
    def started(self) -> bool:
        return self._started

    @property
    def calls(self) -> int:
        """How many tool calls this turn holds."""
        return self._calls

    @property
    def is_blank(self) -> bool:
        """Whether no block has been opened yet."""
        return self._head is None and not self.blocks

    @property
    def has_output(self) -> bool:
        """Whether anything but thinking and white space has come."""
        # A call without a name counts too: it is reported as malformed, not as an empty answer.
        if self._calls:
            return True
        pieces = [self._head, *self._queue]
        open_text = any(p and p.kind == _TEXT and not _blank("".join(p.parts)) for p in pieces)
        return open_text or has_output(self.blocks)

    def start(self, model: str = "", response_id: str | None = None) -> None:
        """Say that the answer has begun; later calls only fill in what was not known."""
        # The model a host names may differ from the one that was asked for. What was asked stays the origin, because
        # reasoning goes back by it; an unknown one is filled in as long as nobody has been told.
        if model and model != self.origin.model:
            if self.origin.model or self._started:
                self.response_model = model
            else:
                self.origin = Origin(self.origin.provider, self.origin.wire, model)
        if response_id:
            self.response_id = response_id
        if not self._started:
            self._started = True
            self.out.append(Start(self.turn_key, model or self.origin.model, response_id))

    def text(self, delta: str, extra: dict[str, Any] | None = None) -> None:
        # The everyday delta, written out: one comparison, one append, one event. The same below for thinking.
        head = self._head
        if head is not None and head.kind is _TEXT and extra is None and not self.split_surrogates:
            head.parts.append(delta)
            self.out.append(TextDelta(head.index, delta))
            self._chars += len(delta)
            if self._chars > self._limit:
                self._over_limit()
            return
        piece = self._tail_of(_TEXT)
        if extra:
            piece.extra = {**(piece.extra or {}), **extra}
        self._add(piece, delta)

    def thinking(self, delta: str, field: str = "") -> Piece:
        head = self._head
        # An empty delta takes the slow way: it may have to open a block, since empty reasoning is not absent reasoning.
        if head is not None and head.kind is _THINKING and delta and not self.split_surrogates:
            head.parts.append(delta)
            self.out.append(ThinkingDelta(head.index, delta))
            self._chars += len(delta)
            if self._chars > self._limit:
                self._over_limit()
            return head
        piece = self._tail_of(_THINKING)
        # The first field that brought it is where it goes back to.
        if field and not piece.field:
            piece.field = field
        self._add(piece, delta)
        return piece

    def all_text(self, deltas: list[str]) -> bool:
        """As `text` for each of them. False, and nothing done, where they have to be looked at one by one."""
        head = self._head
        return head is not None and head.kind is _TEXT and self._extend(head, deltas, TextDelta)

    def all_thinking(self, deltas: list[str]) -> Piece | None:
        """As `thinking` for each of them. None, and nothing done, where they have to be looked at one by one."""
        head = self._head
        if head is not None and head.kind is _THINKING and self._extend(head, deltas, ThinkingDelta):
            return head
        return None

    def all_arguments(self, piece: Piece, deltas: list[str]) -> bool:
        """As `call_arguments` for each of them. False, and nothing done, where they have to be looked at one by one."""
        # With something in the queue, each delta has to be asked whether it completes the call.
        if not piece.started or piece.closed or piece.freeform or self._queue:
            return False
        return self._extend(piece, deltas, ToolCallDelta)

    def _extend(self, piece: Piece, deltas: list[str], event: type[TextDelta | ThinkingDelta | ToolCallDelta]) -> bool:
        size = sum(map(len, deltas))
        # Nothing is done in these cases: the single way has to deal
        # with the first delta that is odd, and report it there.
        if self.split_surrogates or "" in deltas or self._chars + size > self._limit:
            return False
        piece.parts += deltas
        self.out += map(event, repeat(piece.index), deltas)
        self._chars += size
        return True

    def end_block(self) -> None:
        """Close the open text or thinking block; the next delta opens a new one."""
        head = self._head
        if head is not None and head.kind in (_TEXT, _THINKING):
            self._close_head()
        elif self._queue and self._queue[-1].kind in (_TEXT, _THINKING):
            # It has not begun, so it has no end to tell yet.
            self._queue[-1].closed = True

    def whole(self, block: Media | Opaque) -> None:
        """A block that needs no deltas."""
        if self.split_surrogates and isinstance(block, Opaque):
            block = Opaque(block.kind, clean(block.data), block.origin)
        piece = Piece(_WHOLE)
        piece.block = block
        piece.closed = True
        self._enqueue(piece)

    def open_call(
        self,
        raw_id: str | None,
        name: str,
        extra: dict[str, Any] | None = None,
        *,
        freeform: bool = False,
        namespace: str = "",
    ) -> Piece:
        """A tool call begins. Its start is emitted when it is at the head and has a name."""
        piece = Piece(_CALL)
        piece.freeform, piece.namespace = freeform, namespace
        piece.raw_id = raw_id
        piece.name = name
        piece.extra = extra
        # In the order in which calls open, which is part of the seed of their ids.
        piece.call_index = self._calls
        self._calls += 1
        self._enqueue(piece)
        return piece

    def name_call(self, piece: Piece, name: str) -> None:
        """The name of a call came late. A call that has one keeps it: its start may have been told already."""
        if piece.name:
            return
        piece.name = name
        if piece is self._head and name:
            self._begin_head()
            # What waited behind it was waiting for its name.
            if self._head is piece and self._queue and piece.is_complete:
                self._close_head()

    def call_arguments(self, piece: Piece, delta: str) -> None:
        if piece.closed:
            # Hosts repeat an empty or blank delta at the end; anything else belongs to a call that was told to be over.
            if not _blank(delta):
                raise MalformedStream(f"arguments came for the call of {piece.name!r} after its end")
            return
        if self.split_surrogates:
            delta, piece.half = join(piece.half, delta)
        if piece.freeform:
            # Each piece is escaped by itself: escapes never span
            # characters, so the pieces joined are the whole text escaped.
            delta = _escaped(delta) if piece.parts else _OPENING + _escaped(delta)
        self._add_arguments(piece, delta)

    def whole_input(self, piece: Piece, text: str) -> None:
        """The whole text of a freeform call: what of it has not streamed."""
        streamed, whole = "".join(piece.parts), _OPENING + _escaped(text)
        # A host that streams the text and then sends the whole of it: only the rest is
        # new. If the two differ, what was streamed has been told already and stands.
        if len(whole) > len(streamed) and whole.startswith(streamed):
            self._add_arguments(piece, whole[len(streamed) :])

    def _add_arguments(self, piece: Piece, delta: str) -> None:
        piece.parts.append(delta)
        if piece.started:
            self.out.append(ToolCallDelta(piece.index, delta))
            if self._queue and piece.is_complete:  # what waits was only waiting for this
                self._close_head()
        # Counted last, after the events are out: what came is kept when the limit is reached.
        self.count(len(delta))

    def count(self, chars: int) -> None:
        """So many more characters are held for this turn, here or by its decoder."""
        self._chars += chars
        if self._chars > self._limit:
            self._over_limit()

    def close_call(self, piece: Piece) -> None:
        """No more arguments will come for this call."""
        piece.closed = True
        if piece is self._head:
            self._close_head()

    def end_calls(self) -> None:
        """The finish reason came: calls have ended, though counts may follow. One without a name still waits for it."""
        # Nameless calls stay open: a name may come late (field-guide/streams.md#deltas-of-calls).
        for piece in self._queue:
            if piece.kind is _CALL and piece.name:
                piece.closed = True
        head = self._head
        if head is not None and head.kind is _CALL and head.started:
            self._close_head()

    def settle(self) -> None:
        """No more text comes: whoever reads calls out of it gives what it held back. Here nobody does."""

    def finish(self, stop_reason: str, raw_stop: str | None = None) -> None:
        """The end was said: done, unless nothing but thinking came of a normal stop and that is not to be kept."""
        if self.ended:
            return
        self.start()
        nameless = self._close_all()
        if nameless:
            self._end_with_error(ErrorInfo("malformed", "the answer holds a tool call without a name"), raw_stop)
        # "Stopped" without a word: a host's parser dropped a call, or the
        # model only thought (field-guide/kimi-failures.md#the-list). With any
        # other reason, as `max_tokens`, an empty answer is what was said.
        elif (
            stop_reason in ("end_turn", "tool_use")
            and not self.has_output
            and not self._answer_unclosed()
            and not self._keep_empty
        ):
            why = "the model stopped normally but gave neither text nor a tool call"
            self._end_with_error(ErrorInfo("empty", why, retryable=True), raw_stop)
        else:
            self.ended = True
            self.out.append(Done(self._turn(stop_reason, raw_stop, "")))

    def _answer_unclosed(self) -> bool:
        """Say the whole answer as text, if all of it was taken for thinking although no tag said so: the model had not begun
        inside thinking. What streamed as such cannot be taken back. False if there is no such answer."""
        thought = "".join([block.text for block in self.blocks if type(block) is Thinking]) if self.unclosed else ""
        if _blank(thought):
            return False
        self._add(self._tail_of(_TEXT), thought)
        self._close_all()
        self.report(_UNCLOSED)
        return True

    def report(self, why: str) -> None:
        """Keep with the turn what was wrong with the answer and did not end it."""
        extra = self.extra or {}
        problems = extra.get("problems", ())
        if len(problems) < MAX_PROBLEMS:
            self.extra = {**extra, "problems": [*problems, {"type": "problem", "why": why, "raw": ""}]}

    def text_answer(
        self, text: str, stop_reason: str, raw_stop: str | None, model: str = "", response_id: str | None = None
    ) -> Turn | None:
        """The turn of an answer that is one text and has ended: what `start`, `text` and `finish` come to, without the events.
        None where they come to anything else."""
        if _blank(text) or len(text) > self._limit:
            return None
        self.start(model, response_id)
        self.blocks.append(Text(text))
        self.ended = True
        return self._turn(stop_reason, raw_stop, "")

    def fail(self, error: ErrorInfo) -> None:
        """The stream cannot go on: close what is open, keep what came, say why."""
        if self.ended:
            return
        self.start()
        self._close_all()
        self._end_with_error(error, None)

    def _end_with_error(self, error: ErrorInfo, raw_stop: str | None) -> None:
        self.ended = True
        self.out.append(ErrorEvent(error, self._turn("", raw_stop, error.kind)))

    def _turn(self, stop_reason: str, raw_stop: str | None, failure: str) -> Turn:
        return Turn(
            "ai",
            tuple(self.blocks),
            key=self.turn_key,
            origin=self.origin,
            usage=self.usage,
            stop_reason=stop_reason,
            raw_stop=raw_stop,
            failure=failure,
            response_id=self.response_id,
            # Scrubbed only where halves were met: it walks everything.
            extra=clean(self.extra) if self.split_surrogates else self.extra,
            response_model=self.response_model,
        )

    def _over_limit(self) -> None:
        raise LimitExceeded(f"the answer is longer than {self._limit} characters")

    def _tail_of(self, kind: str) -> Piece:
        """The open piece of this kind at the end of the line, or a new one there."""
        last = self._queue[-1] if self._queue else self._head
        if last is not None and last.kind is kind and not last.closed:
            return last
        piece = Piece(kind)
        self._enqueue(piece)
        return piece

    def _add(self, piece: Piece, delta: str) -> None:
        if self.split_surrogates:
            delta, piece.half = join(piece.half, delta)
        if not delta:
            return
        piece.parts.append(delta)
        self._chars += len(delta)
        if piece.started:
            self.out.append((TextDelta if piece.kind is _TEXT else ThinkingDelta)(piece.index, delta))
        if self._chars > self._limit:
            self._over_limit()

    def _enqueue(self, piece: Piece) -> None:
        if self.ended:
            return  # nothing may follow the end, whatever the peer still sends
        if not self._started:
            self.start()
        head = self._head
        # The rule that lets every call stream: when something else begins, a head whose JSON is whole has ended, though
        # nobody said so.
        if head is not None and not self._queue and (head.kind is not _CALL or (head.started and head.is_complete)):
            self._close_head()
            head = self._head
        if head is None:
            self._head = piece
            self._begin_head()
        else:
            # Text behind text in the queue would join it, so another kind has come in between: that text is finished.
            last = self._queue[-1] if self._queue else None
            if last is not None and last.kind in (_TEXT, _THINKING):
                last.closed = True
            self._queue.append(piece)

    def _begin_head(self) -> None:
        piece = self._head
        assert piece is not None
        self._start_piece(piece)
        # It may have been closed while it waited, with everything that came for it.
        if piece.closed:
            self._close_head()

    def _start_piece(self, piece: Piece) -> None:
        """Begin a piece that has come to the head, with all that came for it while it waited."""
        out = self.out
        if piece.kind is _CALL:
            if not piece.name:
                return
            piece.started = True
            piece.index = len(self.blocks)
            piece.id = self._id_of(piece)  # fixed here: a raw id that comes later is metadata only
            out.append(ToolCallStart(piece.index, piece.id, *self._called(piece)))
            out.extend([ToolCallDelta(piece.index, part) for part in piece.parts])
        else:
            piece.started = True
            piece.index = len(self.blocks)
            if piece.kind is _TEXT:
                out.append(TextStart(piece.index))
                out.extend([TextDelta(piece.index, part) for part in piece.parts])
            elif piece.kind is _THINKING:
                out.append(ThinkingStart(piece.index))
                out.extend([ThinkingDelta(piece.index, part) for part in piece.parts])

    def _close_head(self) -> None:
        """End the head and let the next pieces in line begin, up to one that is still open."""
        piece = self._head
        if piece is not None:
            piece.closed = True
        # A loop and no recursion: a host may close a thousand waiting calls at once.
        while piece is not None and (
            piece.closed or (self._queue and piece.kind is _CALL and piece.started and piece.is_complete)
        ):
            piece.closed = True
            if piece.kind is _CALL and not piece.started:
                return  # it waits for its name; what follows waits with it
            self._emit_end(piece)
            piece = self._head = self._queue.popleft() if self._queue else None
            if piece is not None:
                self._start_piece(piece)

    def _emit_end(self, piece: Piece) -> None:
        # The other half never came.
        if piece.half:
            piece.half = ""
            piece.parts.append(REPLACEMENT)
            self.out.append(_DELTAS[piece.kind](piece.index, REPLACEMENT))
        if piece.freeform:
            rest = _CLOSING if piece.parts else _OPENING + _CLOSING
            piece.parts.append(rest)
            self.out.append(ToolCallDelta(piece.index, rest))
        content = "".join(piece.parts)
        block: Block
        if piece.kind is _TEXT:
            block = Text(content, piece.extra)
            self.out.append(TextEnd(piece.index, block))
        elif piece.kind is _THINKING:
            block = Thinking(
                content, piece.field, piece.signature, piece.encrypted, piece.redacted, self.origin, piece.extra
            )
            self.out.append(ThinkingEnd(piece.index, block))
        elif piece.kind is _CALL:
            name, kind, namespace = self._called(piece)
            block = ToolCall(piece.id, name, content, piece.raw_id, self.origin.provider, piece.extra, kind, namespace)
            self.out.append(ToolCallEnd(piece.index, block))
        else:
            assert piece.block is not None
            block = piece.block
            self.out.append(BlockEvent(piece.index, block))
        self.blocks.append(block)

    # Not simply "close the head until there is none": a call without
    # a name cannot begin, and would hold up the blocks behind it.
    def _close_all(self) -> bool:
        """Close everything in order; a call that never got a name is left out, and its presence returned."""
        nameless = False
        while self._head is not None:
            piece = self._head
            if piece.kind is _CALL and not piece.started:
                nameless = True
                self._head = self._queue.popleft() if self._queue else None
                if self._head is not None:
                    self._begin_head()
                continue
            self._close_head()
        return nameless

    def _id_of(self, piece: Piece) -> str:
        # By the name that the caller knows, not by the one that the wire needed.
        name = self._called(piece).name
        return canonical_tool_call_id(self.origin.provider, piece.raw_id, name, self.turn_key, piece.call_index)

    def _called(self, piece: Piece) -> Called:
        """What this is a call of: as the host said, or as the name stands for."""
        # A namespace from the host says what is meant; only a plain name may be one that we made up for this request.
        found = None if piece.namespace else self.called.get(piece.name)
        if found is None:
            return Called(piece.name, "freeform" if piece.freeform else "function", piece.namespace)
        return found._replace(kind="freeform") if piece.freeform else found


def _escaped(text: str) -> str:
    # ensure_ascii off: the text stays readable in logs, and as short as it came.
    return json.dumps(text, ensure_ascii=False)[1:-1]


def has_output(blocks: Iterable[Block]) -> bool:
    """Whether an answer holds anything but thinking and white space."""
    return any(
        isinstance(block, (Media, Opaque, ToolCall)) or (type(block) is Text and not _blank(block.text))
        for block in blocks
    )


def _blank(text: str) -> bool:
    return not text or text.isspace()


def reduce(events: Iterable[Event]) -> Turn:
    """The Turn that these events tell of, whole or as far as they go."""
    blocks: list[Block] = []
    parts: list[str] = []
    kind: type[Event] | None = None
    call: ToolCallStart | None = None
    key = ""
    for event in events:
        match event:
            case Done() | ErrorEvent():
                return event.turn
            case Start():
                key = event.turn_key
            case TextStart() | ThinkingStart():
                kind, parts = type(event), []
            case ToolCallStart():
                kind, parts, call = ToolCallStart, [], event
            case TextDelta() | ThinkingDelta() | ToolCallDelta():
                parts.append(event.delta)
            case TextEnd() | ThinkingEnd() | ToolCallEnd() | BlockEvent():
                blocks.append(event.block)
                kind = None
    content = "".join(parts)
    # A stream that broke off inside a block still tells what came of it.
    if kind is TextStart:
        blocks.append(Text(content))
    elif kind is ThinkingStart:
        blocks.append(Thinking(content))
    elif kind is ToolCallStart and call is not None:
        blocks.append(ToolCall(call.id, call.name, content, kind=call.kind, namespace=call.namespace))
    return Turn("ai", tuple(blocks), key=key, failure="truncated")
