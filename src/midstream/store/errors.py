"""The ways a store says no.

StoreError
├─ UnknownConversation   no conversation has this id
├─ ConversationExists    this id is taken
├─ LengthConflict        someone else appended first; nothing was written
├─ CorruptRecord         what is stored cannot be read back; the message names the place
└─ NewerSchema           a later midstream wrote this store
"""

from __future__ import annotations

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
