"""The form in which every store writes conversations, and the one place where a value is refused as not storable."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from ..core.blocks import Conversation, Turn
from ..core.errors import StoreError
from ..core.plural import pluralize
from .protocol import ConversationInfo, CorruptRecord, Entry, Hit
from .search import Query, folded_text, searchable

_TITLE = 80
_MOST = 2**31  # a larger limit is the same as none

_decode_turn = msgspec.json.Decoder(Turn).decode
_decode_head = msgspec.json.Decoder(Conversation).decode
_encode = msgspec.json.Encoder().encode

# What msgspec raises for values that are not JSON: a lone
# surrogate, an integer of more than 64 bits, nesting without end.
_UNWRITABLE = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
_UNREADABLE = (ValueError, RecursionError, msgspec.MsgspecError)


class Record(NamedTuple):
    """An entry ready to be stored; each turn as JSON with its text for search."""

    info: ConversationInfo
    head: bytes
    turns: list[tuple[bytes, str]]


def make_record(entry: Entry, now: float) -> Record:
    """The record of an entry; a conversation without an id gets a new one, missing times become `now`."""
    conversation = checked_entry(entry).conversation
    created = now if entry.created is None else entry.created
    info = ConversationInfo(
        conversation.id or os.urandom(8).hex(),
        title_of(conversation.turns),
        created,
        created if entry.updated is None else entry.updated,
        len(conversation.turns),
        models_of(conversation.turns),
        entry.parent,
        entry.forked_at,
    )
    return Record(info, encode_head(conversation), [turn_record(turn) for turn in conversation.turns])


def turn_record(turn: Turn) -> tuple[bytes, str]:
    """A turn as JSON, and its text for search."""
    return encode_turn(turn), searchable(turn)


def extended(title: str, models: tuple[str, ...], turn: Turn) -> tuple[str, tuple[str, ...]]:
    """The title and models of a conversation after one more turn."""
    return title or title_of((turn,)), tuple(dict.fromkeys((*models, *models_of((turn,)))))


def fork_position(conversation_id: str, position: int | None, length: int) -> int:
    """Where to fork a conversation of `length` turns: at its end if `position` is None."""
    at = length if position is None else position
    if not 0 <= at <= length:
        raise StoreError(f"cannot fork {conversation_id!r} at {at}: it has {pluralize(length, 'turn')}")
    return at


def make_hit(
    query: Query, conversation_id: str, position: int, title: str, data: bytes, *, check: bool = False
) -> Hit | None:
    """A stored turn as a search result; None if it cannot be read, so that one bad record does not hide the others.

    With `check`, also None if the turn does not match: for an index that knows words, but not their order.
    """
    try:
        turn = decode_turn(data, conversation_id, position)
    except CorruptRecord:
        return None
    text = searchable(turn)
    if check and not query.matches(folded_text(text)):
        return None
    snippet, marks = query.snippet(text)
    return Hit(conversation_id, position, turn.speaker, title, snippet, marks)


def encode_turn(turn: Turn) -> bytes:
    """A turn as JSON. What could not be read back is refused now, while the caller still has it."""
    try:
        data = _encode(turn)
        # Read back at once. It costs little beside the write, and the
        # alternative is a conversation that cannot be opened tomorrow.
        _decode_turn(data)
    except _UNWRITABLE as error:
        raise StoreError(f"this {turn.speaker} turn cannot be stored: {_reason(error)}. Nothing was written") from error
    return data


def decode_turn(data: bytes, conversation_id: str, position: int) -> Turn:
    try:
        return _decode_turn(data)
    except _UNREADABLE as error:
        raise CorruptRecord(
            f"turn {position} of conversation {conversation_id!r} cannot be read: {error}; "
            f"fork the conversation at {position} to keep the turns before it, or delete the conversation"
        ) from error


def encode_head(conversation: Conversation) -> bytes:
    """A conversation without its turns and id, which are stored separately."""
    try:
        data = _encode(replace(conversation, turns=(), id=""))
        _decode_head(data)
    except _UNWRITABLE as error:
        raise StoreError(f"this conversation cannot be stored: {_reason(error)}. Nothing was written") from error
    return data


def decode_head(data: bytes, conversation_id: str) -> Conversation:
    try:
        return replace(_decode_head(data), id=conversation_id)
    except _UNREADABLE as error:
        raise CorruptRecord(
            f"the system prompt of conversation {conversation_id!r} cannot be read: {error}; its turns are still in the database"
        ) from error


def checked_text(text: str, what: str) -> str:
    """The text, if it is valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise StoreError(f"{what} cannot be stored: {_reason(error)}. Nothing was written") from error
    return text


def checked_entry(entry: Entry) -> Entry:
    """The entry, if all texts stored with the conversation are valid Unicode."""
    checked_text(entry.conversation.id, "an id")
    checked_text(entry.parent or "", "a parent's id")
    for key, value in entry.meta.items():
        checked_text(key, "a setting")
        checked_text(value, f"the setting {key!r}")
    if entry.original is not None:
        checked_text(entry.original.format + entry.original.name, "the name of an original")
    return entry


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return f"it is not valid Unicode (a lone surrogate at {error.start}); replace it, e.g. with U+FFFD"
    return str(error)


def title_of(turns: Iterable[Turn]) -> str:
    """The first line a human wrote: the title of a conversation until it is given one."""
    for turn in turns:
        # A turn with a role of its own (`developer` …) or a record of compaction was not typed by the person.
        if turn.speaker == "human" and not turn.role and turn.compacted is None:
            lines = turn.text.lstrip()[: 4 * _TITLE].splitlines()  # not of all the text, which may be megabytes
            if lines:
                line = " ".join(lines[0].split())
                return line if len(line) <= _TITLE else f"{line[: _TITLE - 1].rstrip()}…"
    return ""


def models_of(turns: Iterable[Turn]) -> tuple[str, ...]:
    """The models that answered, in order of their first answer."""
    made = [turn.origin for turn in turns if turn.origin is not None and turn.origin.model and turn.compacted is None]
    return tuple(dict.fromkeys([origin.name for origin in made]))


def assemble(conversation_id: str, head: bytes, length: int, rows: Iterable[tuple[int, bytes]]) -> Conversation:
    """A conversation from its head and the rows of its turns, of which none may be missing."""
    turns: list[Turn] = []
    for position, data in rows:
        # A gap. The turns before it are whole, and the error tells how to keep them.
        if position != len(turns):
            break
        turns.append(decode_turn(data, conversation_id, position))
    if len(turns) != length:
        raise CorruptRecord(
            f"turn {len(turns)} of conversation {conversation_id!r} is missing; fork the conversation at {len(turns)} to keep the turns before it"
        )
    return replace(decode_head(head, conversation_id), turns=tuple(turns))


def make_info(row: tuple[Any, ...]) -> ConversationInfo:
    """A row of a list: id, title, created, updated, length, models, parent, forked_at."""
    conversation_id, title, created, updated, length, models, parent, forked_at = row
    return ConversationInfo(conversation_id, title, created, updated, length, decode_models(models), parent, forked_at)


def encode_models(models: tuple[str, ...]) -> str:
    return msgspec.json.encode(models).decode()


@lru_cache(1024)  # ten thousand conversations have a handful of models, in the same order
def decode_models(text: str) -> tuple[str, ...]:
    try:
        return msgspec.json.decode(text, type=tuple[str, ...])
    except (msgspec.MsgspecError, ValueError):
        return ()  # derived data: one bad row must not break the whole list


def bounded(number: int) -> int:
    """A limit or an offset that a database takes."""
    return max(0, min(number, _MOST))
