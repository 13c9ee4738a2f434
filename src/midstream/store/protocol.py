"""What every store promises.

A conversation only grows: `append` adds one turn behind the `expected_length` the caller has seen, or raises
LengthConflict and writes nothing. When `append` returns, the turn is durable. What was stored is loaded equal: text is
literal, whatever it holds; text that is not Unicode (a lone surrogate) is refused. A fork shares nothing with its parent.
Search reads the query as plain words, never as syntax, and gives the newest turn first.
Every failure is a StoreError. All methods may be called from several threads at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from ..core.blocks import Conversation, Speaker, Turn, Value
from ..core.errors import StoreError


class UnknownConversation(StoreError):
    """No conversation of this id is stored."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"no conversation {conversation_id!r} in this store: list() names those there are")
        self.conversation_id = conversation_id


class ConversationExists(StoreError):
    """The id is taken."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(
            f"conversation {conversation_id!r} is already stored: delete it first, or add it without an id"
        )
        self.conversation_id = conversation_id


class LengthConflict(StoreError):
    """The conversation is not as long as the caller believes; `length` is what it is."""

    retryable = True

    def __init__(self, conversation_id: str, expected: int, length: int) -> None:
        super().__init__(
            f"conversation {conversation_id!r} has {length} turns, not {expected}: "
            "another session appended to it; load it again, or fork it. Nothing was written"
        )
        self.conversation_id = conversation_id
        self.expected = expected
        self.length = length


class CorruptRecord(StoreError):
    """A stored record that cannot be read; every other conversation still loads."""


class NewerSchema(StoreError):
    """The store was written by a later midstream."""


class ConversationInfo(Value, frozen=True):
    """A conversation in a list. `parent` and `forked_at` say where it was forked from; times are seconds since 1970."""

    id: str
    title: str = ""
    created: float = 0.0
    updated: float = 0.0
    turns: int = 0
    models: tuple[str, ...] = ()
    parent: str | None = None
    forked_at: int | None = None


class Hit(Value, frozen=True):
    """A turn that holds the words searched for. `marks` are the [start, end) of the words within `snippet`."""

    conversation: str
    position: int
    speaker: Speaker
    title: str = ""
    snippet: str = ""
    marks: tuple[tuple[int, int], ...] = ()


class Original(Value, frozen=True):
    """The bytes a conversation was imported from, in the format they came in."""

    format: str
    data: bytes
    name: str = ""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A conversation and all that is kept beside it: what moves between stores and files.

    Times that are None become the time of adding.
    """

    conversation: Conversation
    meta: Mapping[str, str] = {}
    created: float | None = None
    updated: float | None = None
    parent: str | None = None
    forked_at: int | None = None
    original: Original | None = None


class Store(Protocol):
    """A place where conversations are kept."""

    def create(self, conversation: Conversation = ..., /) -> str:
        """Store a conversation with the turns it has; its id, or a new one if it has none."""
        ...

    def add(self, entry: Entry) -> str:
        """Store an entry whole, in one step; the id it got."""
        ...

    def append(self, conversation_id: str, turn: Turn, expected_length: int) -> int:
        """Add a turn behind `expected_length` others; the new length."""
        ...

    def load(self, conversation_id: str) -> Conversation: ...

    def entry(self, conversation_id: str) -> Entry:
        """The conversation with all that is kept beside it."""
        ...

    def info(self, conversation_id: str) -> ConversationInfo: ...

    def list(self, limit: int = 50, offset: int = 0) -> Sequence[ConversationInfo]:
        """The conversations, last changed first."""
        ...

    def search(self, query: str, limit: int = 20) -> Sequence[Hit]:
        """Turns that hold every word of the query (the last one may be a beginning), newest first."""
        ...

    def fork(self, conversation_id: str, at_position: int | None = None) -> str:
        """A new conversation with the first `at_position` turns (all, if None) and the settings; its id."""
        ...

    def delete(self, conversation_id: str) -> None:
        """Remove a conversation, its settings, its original, and what search knew of it."""
        ...

    def set_meta(self, conversation_id: str, key: str, value: str | None) -> None:
        """Keep a setting of the conversation (`title`, `model`, `tool_format` …); None removes it."""
        ...

    def get_meta(self, conversation_id: str, key: str) -> str | None: ...

    def close(self) -> None: ...
