"""A digest of turns in one form: equal for the same turn in whichever shape it was sent.

Clients send the same message in other shapes from one request to the next: a text as a string or in a list, a cache mark that
moves on to the newest block, an effort beside a message, an object's keys in another order. What a client does not bring back
(thinking, what a host put beside an answer's texts and calls) is left out; every medium, call and result counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import msgspec

from .blocks import Block, Media, Opaque, Speaker, Text, ToolCall, ToolResponse, Turn
from .json_progress import object_text
from .modules import late_module

if TYPE_CHECKING:
    import hashlib
    import json
else:
    hashlib = late_module("hashlib", globals())
    json = late_module("json", globals())

# A mark for caching and the effort move from message to message
# while the conversation grows (field-guide/clients.md#claude-code).
_MARKS = frozenset({"cache_control", "output_config"})


class TurnDigest:
    """The digest of the turns that were added so far. Each turn is read once."""

    __slots__ = ("_hash", "_is_exact")

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._is_exact = True  # whether all of it could be written down

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
        self._hash.update(framed(kind, *parts))

    def _sorted(self, value: Any) -> str:
        """JSON with the keys of its objects in order; empty for nothing."""
        if not value:
            return ""
        try:
            return json.dumps(msgspec.to_builtins(value), sort_keys=True, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            self._is_exact = False
            return ""


class SaidKeys:
    """Keys for the turns of a history that was made elsewhere: by what a turn says, and by how many before it say the same. One
    serves for one history, read in order."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def of_turn(self, turn: Turn) -> str:
        text = _only_text(turn)
        return self._key(said_by(turn)) if text is None else self.of_text(turn.speaker, text)

    def of_text(self, speaker: Speaker, text: str) -> str:
        """The key of a turn that is one plain text."""
        # What TurnDigest comes to, written out: most turns are of this kind, and a gateway reads a history with each request.
        data = (text.strip() if speaker == "ai" else text).encode("utf-8", "surrogatepass")
        return self._key(hashlib.sha256(_HEADS[speaker] % (len(data), data)).hexdigest()[:_LETTERS])

    def _key(self, said: str) -> str:
        counts = self._counts
        earlier = counts[said] = counts.get(said, -1) + 1
        return f"said-{said}-{earlier}"


_LETTERS = 24
_HEADS = {speaker: f"turn {len(speaker)}|{speaker}text ".encode() + b"%d|%b" for speaker in get_args(Speaker)}


def said_by(turn: Turn) -> str:
    """What a turn says, in a few letters."""
    digest = TurnDigest()
    digest.add(turn)
    return digest._hash.hexdigest()[:_LETTERS]


def _only_text(turn: Turn) -> str | None:
    blocks = turn.blocks
    if len(blocks) != 1 or type(blocks[0]) is not Text or blocks[0].extra is not None:
        return None
    return None if turn.extra or turn.tools or turn.is_instruction else blocks[0].text


def framed(kind: str, *parts: str) -> bytes:
    """A record of a digest."""
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
