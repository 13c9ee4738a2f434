"""What every store guarantees.

A conversation only grows: `append` adds a turn if the conversation has `expected_length` turns, else it raises LengthConflict
and writes nothing. When `append` returns, the turn is durable. A loaded value equals the stored one, whatever its text
contains; text that is not valid Unicode (a lone surrogate) is refused. A fork is independent of its parent.
Search treats the query as plain words, never as syntax, and returns the newest turn first.
Every failure is a StoreError. All methods may be called from several threads at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from ..core.blocks import Conversation, Speaker, Turn, Value
from ..core.errors import ConversationExists as ConversationExists
from ..core.errors import CorruptRecord as CorruptRecord
from ..core.errors import LengthConflict as LengthConflict
from ..core.errors import NewerSchema as NewerSchema
from ..core.errors import StoreUnavailable as StoreUnavailable
from ..core.errors import UnknownConversation as UnknownConversation


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
    """A turn that contains the words searched for. `marks` are the [start, end) of the words in `snippet`."""

    conversation: str
    position: int
    speaker: Speaker
    title: str = ""
    snippet: str = ""
    marks: tuple[tuple[int, int], ...] = ()


class Original(Value, frozen=True):
    """The bytes a conversation was imported from, in their own format."""

    format: str
    data: bytes
    name: str = ""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A conversation and everything stored with it, as it moves between stores and files.

    Times that are None become the time at which it is added.
    """

    conversation: Conversation
    meta: Mapping[str, str] = {}
    created: float | None = None
    updated: float | None = None
    parent: str | None = None
    forked_at: int | None = None
    original: Original | None = None


class Store(Protocol):
    """Where conversations are stored."""

    def create(self, conversation: Conversation = ..., /) -> str:
        """Store a conversation with its turns and return its id, a new one if it has none."""
        ...

    def add(self, entry: Entry) -> str:
        """Store an entry in one step and return its id."""
        ...

    def append(self, conversation_id: str, turn: Turn, expected_length: int) -> int:
        """Add a turn after `expected_length` others and return the new length."""
        ...

    def load(self, conversation_id: str) -> Conversation: ...

    def entry(self, conversation_id: str) -> Entry:
        """The conversation with everything stored with it."""
        ...

    def info(self, conversation_id: str) -> ConversationInfo: ...

    def list(self, limit: int = 50, offset: int = 0) -> Sequence[ConversationInfo]:
        """The conversations, most recently changed first."""
        ...

    def search(self, query: str, limit: int = 20) -> Sequence[Hit]:
        """Turns that contain every word of the query (the last one may be a prefix), newest first."""
        ...

    def fork(self, conversation_id: str, at_position: int | None = None) -> str:
        """Copy the first `at_position` turns (None: all) and the settings to a new conversation and return its id."""
        ...

    def delete(self, conversation_id: str) -> None:
        """Remove a conversation, its settings, its original and its words in the search index."""
        ...

    def set_meta(self, conversation_id: str, key: str, value: str | None) -> None:
        """Store a setting of the conversation (`title`, `model`, `tool_format` …); None removes it."""
        ...

    def get_meta(self, conversation_id: str, key: str) -> str | None: ...

    def close(self) -> None: ...


@runtime_checkable
class Versioned(Protocol):
    """A store that can tell cheaply whether anything in it has changed."""

    def version(self) -> int:
        """A number that differs after any change, whoever made it."""
        ...
