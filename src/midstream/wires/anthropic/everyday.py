"""Everyday turns as Messages: what MessagesWriter writes for them, encoded many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from msgspec import Raw, Struct

from ...core.blocks import ToolCall
from ..encode_context import EncodeContext
from ..everyday import encode_together
from ..lenient_json import encode_json
from ..merged_messages import MergedMessages


class _Text(Struct, gc=False, tag_field="type", tag="text"):
    text: str


class _Use(Struct, gc=False, tag_field="type", tag="tool_use"):
    id: str
    name: str
    input: Raw


class _Result(Struct, gc=False, tag_field="type", tag="tool_result"):
    tool_use_id: str
    content: str


_Part: TypeAlias = _Text | _Use | _Result


class _Message(Struct, gc=False):
    role: str
    content: list[_Part]


class Answered(Protocol):
    def __call__(self, *, opens: bool, first: bool, calls: bool) -> None: ...


# Messages of one role are merged here too, so a lane gathers blocks of open messages and not bytes.
class MessagesLane:
    """See `wires/everyday.py: EverydayLane`. `answered` tells the writer of the answers that were written."""

    __slots__ = (
        "_answered", "_bare_calls", "_bare_texts", "_call_id", "_calls", "_gathered", "_merges", "_messages", "_name", "_opens", "_role",
    )  # fmt: skip

    def __init__(
        self,
        context: EncodeContext,
        messages: MergedMessages,
        answered: Answered,
        *,
        bare_texts: bool,
        bare_calls: bool,
    ) -> None:
        self._name, self._call_id = context.names.wire, context.ids.resolve_tool_call_id
        self._messages = messages
        self._answered = answered
        self._bare_texts, self._bare_calls = bare_texts, bare_calls
        self._merges = context.dialect.merge_turns
        self._gathered: list[_Message] = []
        self._role = ""  # who spoke last
        self._opens = False  # an answer opened a message
        self._calls: bool | None = None  # whether the last answer calls, if there was one

    def said(self, speaker: str, text: str) -> bool:
        role = "user" if speaker == "human" else "assistant"
        if role == "assistant" and not self._bare_texts:
            return False
        # The first turn joins what the writer has; whether that is simple is asked once, before anything is gathered.
        if not self._gathered and not self._goes_on(role):
            return False
        if role == "assistant":
            self._calls = False
        self._say(role, [_Text(text)])
        return True

    def exchanged(self, text: str, calls: Sequence[ToolCall], results: Sequence[str]) -> bool:
        if not self._bare_calls or not (self._gathered or self._goes_on("assistant")):
            return False
        parts: list[_Part] = [_Text(text)] if text else []
        answers: list[_Part] = []
        for number, call in enumerate(calls):
            call_id = self._call_id(call)
            parts.append(_Use(call_id, self._name(call.name), Raw(call.arguments)))
            answers.append(_Result(call_id, results[number]))
        self._calls = True
        self._say("assistant", parts)
        self._say("user", answers)
        return True

    def _goes_on(self, role: str) -> bool:
        """Whether this speaker may simply go on: not behind a system message, and not first where the user must be."""
        # State of the lane from the writer's: a lane lives for one stretch of turns.
        self._role, self._opens, self._calls = self._messages.role, False, None
        return self._role != "system" and (self._role != "" or role == "user")

    def _say(self, role: str, parts: list[_Part]) -> None:
        if role == self._role:
            if self._gathered and self._merges:
                self._gathered[-1].content += parts
                return
        elif role == "assistant":
            self._opens = True
        self._gathered.append(_Message(role, parts))
        self._role = role

    def flush(self) -> bool:
        gathered, self._gathered = self._gathered, []
        # First and last stay open to what the writer has and what comes next; only those between are finished.
        first, last = gathered[0], gathered[-1]
        try:
            opening = [encode_json(part) for part in first.content]
            whole = encode_together(gathered[1:-1])
            closing = [encode_json(part) for part in last.content]
        except UnicodeEncodeError:
            return False
        self._messages.say(first.role, opening)
        if last is not first:
            self._messages.say_at_once(whole, last.role, closing)
        if self._calls is not None:
            self._answered(opens=False, first=self._opens, calls=self._calls)
        return True
