"""A digest of a conversation in one form, rolled on turn by turn: equal for the same history in whichever shape it was sent.

Clients send the same message in other shapes from one request to the next: a text as a string or in a list, a cache mark that
moves on to the newest block, an effort beside a message, an object's keys in another order. What a client does not bring back
(thinking, what a host put beside an answer's texts and calls) is left out; every medium, call and result counts.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import msgspec

from ..core.blocks import Block, Conversation, Media, Opaque, Text, ToolCall, ToolResponse, Turn
from ..core.json_progress import object_text
from .parsing import BILLING

# A mark for caching and the effort move from message to message
# while the conversation grows (field-guide/clients.md#claude-code).
_MARKS = frozenset({"cache_control", "output_config"})


class HistoryDigest:
    """The digest of a system prompt and the turns that were added so far. Each turn is read once."""

    __slots__ = ("_hash", "_is_exact")

    def __init__(self, conversation: Conversation) -> None:
        """`conversation` gives the system prompt; its turns are added one by one."""
        self._hash = sha256()
        self._is_exact = True  # whether all of it could be written down
        # A string and a list of texts are the same system prompt; what it is billed as is a line before it, in some requests.
        system = conversation.system_text
        if system.startswith(BILLING):
            system = system.partition("\n")[2].lstrip("\n")
        self._write("system", system)

    def add(self, turn: Turn) -> None:
        """Roll on over the next turn of the conversation."""
        speaker = "system" if turn.is_instruction else turn.speaker
        self._write("turn", speaker)
        if speaker == "ai":
            self._add_answer(turn)
            return
        if turn.extra or turn.tools:
            self._write("beside", self._sorted(_unmarked(turn.extra)), self._sorted(turn.tools))
        self._add_blocks(turn.blocks)

    def key(self, words: str) -> str | None:
        """What an answer of these words to the conversation so far is found by; None if the conversation has no exact form."""
        answered = self._hash.copy()
        answered.update(_framed("answer", words.strip()))
        return answered.hexdigest() if self._is_exact else None

    def _add_answer(self, turn: Turn) -> None:
        # Libraries join an answer's texts and strip them.
        self._write("text", turn.text.strip())
        # Thinking is left out: whether a client brings it back must not change what follows.
        self._add_blocks(tuple([block for block in turn.blocks if type(block) is not Text]), is_answer=True)

    def _add_blocks(self, blocks: tuple[Block, ...], *, is_answer: bool = False) -> None:
        said: list[str] = []
        for block in blocks:
            if type(block) is Text and not _unmarked(block.extra):
                said.append(block.text)  # joined with the texts beside it
                continue
            if said:
                self._write("text", "".join(said))
                said = []
            self._add_block(block, is_answer)
        if said:
            self._write("text", "".join(said))

    def _add_block(self, block: Block, is_answer: bool) -> None:
        if isinstance(block, ToolCall):
            self._write("call", block.id, block.kind, block.qualified_name, _sorted_arguments(block.arguments))
        elif isinstance(block, ToolResponse):
            self._write("result", block.call_id, str(block.is_error), self._sorted(_unmarked(block.extra)))
            self._add_blocks(block.content)
        elif isinstance(block, Media):
            # What a host put beside a medium of its own answer does not come back.
            beside = "" if is_answer else self._sorted(_unmarked(block.extra))
            self._write("media", block.mime, block.data or "", block.url or "", block.name or "", beside)
        elif isinstance(block, Opaque):
            self._write("opaque", block.kind, self._sorted(block.data))
        elif isinstance(block, Text):
            self._write("marked", block.text, self._sorted(_unmarked(block.extra)))

    def _write(self, kind: str, *parts: str) -> None:
        self._hash.update(_framed(kind, *parts))

    def _sorted(self, value: Any) -> str:
        """JSON with the keys of its objects in order; empty for nothing."""
        if not value:
            return ""
        try:
            return json.dumps(msgspec.to_builtins(value), sort_keys=True, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            self._is_exact = False
            return ""


def _framed(kind: str, *parts: str) -> bytes:
    # Lengths make it injective whatever the parts hold; surrogatepass makes it total.
    data = [part.encode("utf-8", "surrogatepass") for part in parts]
    head = f"{kind} {' '.join([str(len(part)) for part in data])}|"
    return b"".join([head.encode(), *data])


def _unmarked(extra: dict[str, Any] | None) -> dict[str, Any] | None:
    return {key: value for key, value in extra.items() if key not in _MARKS} or None if extra else None


def _sorted_arguments(arguments: str) -> str:
    """An object with its keys in order; what is not an object stays as it is. Clients write arguments anew, so their bytes say
    nothing (field-guide/clients.md#what-they-give-back)."""
    if not arguments.strip():
        return "{}"
    if object_text(arguments) is None:
        return arguments
    try:
        # The standard library's writer, because keys have to be sorted at every level.
        return json.dumps(json.loads(arguments), sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments
