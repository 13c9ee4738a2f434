"""Values to stored bytes and back: the one form every store writes, and the one place where it can be refused."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from ..core.blocks import Conversation, Turn
from ..core.errors import StoreError
from .protocol import CorruptRecord, Entry

_TITLE = 80

_decode_turn = msgspec.json.Decoder(Turn).decode
_decode_head = msgspec.json.Decoder(Conversation).decode
_encode = msgspec.json.Encoder().encode

_UNWRITABLE = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
_UNREADABLE = (ValueError, RecursionError, msgspec.MsgspecError)


def new_id() -> str:
    return secrets.token_hex(8)


def encode_turn(turn: Turn) -> bytes:
    """A turn as JSON. What cannot be read back is refused now, while the caller still has it."""
    try:
        data = _encode(turn)
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
            f"fork it at {position} to keep the turns before, or delete it"
        ) from error


def encode_head(conversation: Conversation) -> bytes:
    """A conversation without its turns and its id, which are stored beside it."""
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
            f"the head of conversation {conversation_id!r} cannot be read: {error}; its turns are intact in the database"
        ) from error


def checked_text(text: str, what: str) -> str:
    """The text, if it is Unicode that a store can keep."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise StoreError(f"{what} cannot be stored: {_reason(error)}. Nothing was written") from error
    return text


def checked_entry(entry: Entry) -> Entry:
    """The entry, if all the texts that are kept beside the conversation can be stored."""
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
        return f"it is not Unicode text (a lone surrogate at {error.start}); replace it, e.g. by U+FFFD"
    return str(error)


def title_of(turns: Iterable[Turn]) -> str:
    """The first line a human wrote: what a conversation is called until it gets a title."""
    for turn in turns:
        if turn.speaker == "human" and not turn.role:
            for line in turn.text.splitlines():
                if line.strip():
                    return " ".join(line[: 4 * _TITLE].split())[:_TITLE]
    return ""


def models_of(turns: Iterable[Turn]) -> tuple[str, ...]:
    """The models that spoke, in order of first word."""
    names = [
        f"{turn.origin.provider}/{turn.origin.model}" if turn.origin.provider else turn.origin.model
        for turn in turns
        if turn.origin is not None and turn.origin.model
    ]
    return tuple(dict.fromkeys(names))
