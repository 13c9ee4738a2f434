"""Everyday turns as chat messages: what ChatWriter writes for them, encoded many at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import UNSET, Struct, UnsetType

from ...core.blocks import ToolCall
from ..encode_context import EncodeContext
from ..everyday import encode_together

# UNSET leaves the key out, None writes null: two of the three ways to say nothing.
_BLANK: dict[str, str | UnsetType | None] = {"keep": "", "null": None, "omit": UNSET}


class _Said(Struct, gc=False):
    role: str
    content: str


class _Function(Struct, gc=False):
    name: str
    arguments: str


class _Call(Struct, gc=False):
    id: str
    type: str
    function: _Function


class _Calling(Struct, gc=False, tag_field="role", tag="assistant"):
    content: str | UnsetType | None
    tool_calls: list[_Call]


class _Result(Struct, gc=False, tag_field="role", tag="tool"):
    tool_call_id: str
    content: str


class ChatLane:
    """See `wires/everyday.py: EverydayLane`. `messages` are the writer's so far, `take` adds to them."""

    __slots__ = ("_bare_calls", "_bare_texts", "_blank", "_call_id", "_gathered", "_messages", "_name", "_take")

    def __init__(
        self, context: EncodeContext, messages: Sequence[bytes], take: Callable[[Sequence[bytes]], None]
    ) -> None:
        dialect = context.dialect
        self._name, self._call_id = context.names.wire, context.ids.resolve_tool_call_id
        self._messages, self._take = messages, take
        self._gathered: list[_Said | _Calling | _Result] = []
        self._blank = _BLANK[dialect.blank_content]
        # Where a turn has to carry reasoning, an everyday one is missing it: the writer decides what to do.
        self._bare_texts = not context.requires_reasoning(False)
        wants_reasoning = context.echo != "never" and context.requires_reasoning(True)
        self._bare_calls = not (wants_reasoning or dialect.arguments_object or dialect.tool_result_name)

    def said(self, speaker: str, text: str) -> bool:
        if speaker != "human" and not self._bare_texts:
            return False
        self._gathered.append(_Said("user" if speaker == "human" else "assistant", text))
        return True

    def exchanged(self, text: str, calls: Sequence[ToolCall], results: Sequence[str]) -> bool:
        if not self._bare_calls:
            return False
        gathered = self._gathered
        before = len(gathered)
        written: list[_Call] = []
        gathered.append(_Calling(text or self._blank, written))
        for number, call in enumerate(calls):
            name = call.name
            # A name that must change leaves a note, and that is the writer's work.
            if self._name(name) != name:
                # Nothing of this exchange stays gathered. Ids that were
                # minted for it stay, and the writer finds them again.
                del gathered[before:]
                return False
            call_id = self._call_id(call)
            written.append(_Call(call_id, "function", _Function(name, call.arguments)))
            gathered.append(_Result(call_id, results[number]))
        return True

    def flush(self) -> bool:
        gathered, self._gathered = self._gathered, []
        begin = 0 if self._messages else 1  # the first message of all and the last stand alone
        end = max(begin, len(gathered) - 1)
        try:
            # A few calls of the encoder for a whole history: this is what the lane is for.
            first, middle = encode_together(gathered[:begin]), encode_together(gathered[begin:end])
            self._take([*first, *middle, *encode_together(gathered[end:])])
        except UnicodeEncodeError:
            return False
        return True
