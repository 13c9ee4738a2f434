"""Messages for wires whose speakers must alternate: what one speaker says in a row is one message, and the last stays open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy

from .encode_context import EncodeContext
from .request import empty_conversation


# The last message stays open because the next turn may belong to it: a result beside the user's next words, say. What
# is closed never changes again, so it is a byte prefix of every later request.
class MergedMessages:
    """`closed` are finished messages; `role` and `parts` are the open one."""

    def __init__(
        self,
        context: EncodeContext,
        encode: Callable[[str, Sequence[bytes]], bytes],
        model_role: str,
        first_words: bytes,
    ) -> None:
        self.closed: list[bytes] = []
        self.role = ""
        self.parts: list[bytes] = []
        self.tail = b""  # more fields of the open message
        # For `reopen`: one step back is all that is ever needed.
        self._before: tuple[str, list[bytes], bytes] = (
            "",
            [],
            b"",
        )  # role, parts and tail of the message before the open one
        self._size = 0
        self._context = context
        self._merges = context.dialect.merge_turns
        self._encode = encode
        self._model_role = model_role
        self._first_words = first_words

    # Counted as they are closed: a cache asks often.
    @property
    def size(self) -> int:
        return self._size + sum(map(len, self.parts))

    def clone(self, context: EncodeContext) -> MergedMessages:
        twin = copy(self)
        twin._context = context
        twin.closed, twin.parts = self.closed.copy(), self.parts.copy()
        return twin

    def reopen(self) -> None:
        """Take the open message away, and go on with the one before it."""
        self._size -= len(self.closed.pop())
        self.role, self.parts, self.tail = self._before
        self.parts = self.parts.copy()

    def say(self, role: str, parts: Sequence[bytes]) -> None:
        """Add parts to the open message, or begin the next one."""
        if role != self.role or not self._merges:
            if self.role:
                message = self._message(self.parts)
                self.closed.append(message)
                self._size += len(message)
            # A history that begins with the model's words is refused by some hosts, so a short line of the user's comes
            # first (field-guide/anthropic-messages.md#shape).
            elif role == self._model_role and self._context.dialect.first_speaker_user:
                self._context.first_turn()
                self.closed.append(self._encode("user", [self._first_words]))
            self._before = self.role, self.parts, self.tail
            self.role = role
            self.parts, self.tail = [], b""
        self.parts += parts

    def say_at_once(self, messages: Sequence[bytes], role: str, parts: Sequence[bytes]) -> None:
        """Add finished messages behind the open one, which is closed, and begin the next one."""
        finished = [self._message(self.parts), *messages]
        self.closed += finished
        self._size += sum(map(len, finished))
        self.role, self.parts, self.tail = role, list(parts), b""

    def _message(self, parts: Sequence[bytes]) -> bytes:
        message = self._encode(self.role, parts)
        # The message is finished JSON; its last brace makes room for more fields.
        return message[:-1] + self.tail + b"}" if self.tail else message

    def all(self, last: Sequence[bytes], prefill: bytes | None = None) -> list[bytes]:
        """Every message: the open one with the parts in `last`, and `prefill` at the end of the model's."""
        if prefill is not None and self.role == self._model_role:
            # A prefill continues the model's open message instead of making two of one role.
            last, prefill = [*last, prefill], None
        messages = [*self.closed, self._message(last)] if self.role else self.closed.copy()
        if not messages:
            raise empty_conversation()
        return messages if prefill is None else [*messages, self._encode(self._model_role, [prefill])]
