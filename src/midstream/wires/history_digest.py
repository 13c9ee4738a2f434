"""A digest of a conversation in one form, rolled on turn by turn: equal for the same history in whichever shape it was sent.

The form of a turn is `core/turn_digest.py`'s.
"""

from __future__ import annotations

from ..core.blocks import Conversation
from ..core.turn_digest import TurnDigest, framed
from .parsing import BILLING


class HistoryDigest(TurnDigest):
    """The digest of a system prompt and the turns that were added so far."""

    __slots__ = ()

    def __init__(self, conversation: Conversation) -> None:
        """`conversation` gives the system prompt; its turns are added one by one."""
        super().__init__()
        # A string and a list of texts are the same system prompt; what it is billed as is a line before it, in some requests.
        system = conversation.system_text
        if system.startswith(BILLING):
            system = system.partition("\n")[2].lstrip("\n")
        self._write("system", system)

    def key(self, words: str) -> str | None:
        """What an answer of these words to the conversation so far is found by; None if the conversation has no exact form."""
        answered = self._hash.copy()
        answered.update(framed("answer", words.strip()))
        return answered.hexdigest() if self._is_exact else None
