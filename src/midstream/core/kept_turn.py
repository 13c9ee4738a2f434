"""The part of an answer that its client does not send back: the reasoning, and where it was.

Kept are the thinking blocks, who made them, and what the host put beside its calls and texts (signatures, item ids). Of calls
only the canonical id is kept, of texts a digest: enough to find the places again in the turn that a client sends back, however
it was rewritten since. `restored` puts the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from .blocks import Block, Opaque, Origin, Text, Thinking, ToolCall, Turn, Value

DETAILS = "reasoning_details"
"""The key in a turn's `extra` that holds reasoning."""


class KeptCall(Value, frozen=True, tag="kept_call"):
    """A call's place, and what its host put beside it."""

    id: str
    extra: dict[str, Any] | None = None


class KeptText(Value, frozen=True, tag="kept_text"):
    """A text's place, and what its host put beside it."""

    digest: bytes
    extra: dict[str, Any] | None = None


# Places, not contents: the client sends texts and calls again,
# so storing them would double everything and gain nothing.
KeptBlock: TypeAlias = Thinking | KeptCall | KeptText


class KeptTurn(Value, frozen=True):
    """The reasoning of one answer. `tenant` is its owner, which is compared when it is read."""

    origin: Origin | None = None
    blocks: tuple[KeptBlock, ...] = ()
    extra: dict[str, Any] | None = None
    tenant: str = ""

    @property
    def thinking(self) -> tuple[Thinking, ...]:
        return tuple([block for block in self.blocks if type(block) is Thinking])

    @property
    def is_empty(self) -> bool:
        """Whether it holds nothing that a reader could want back."""
        return not self.extra and not any(type(block) is Thinking or block.extra for block in self.blocks)

    @property
    def is_opaque(self) -> bool:
        """Whether it holds more than plain text: what a client that shows reasoning has no place for."""
        return bool(self.extra) or any(
            block.extra is not None if type(block) is not Thinking else _has_proof(block) for block in self.blocks
        )


def _has_proof(block: Thinking) -> bool:
    return bool(block.signature or block.encrypted or block.redacted or block.extra)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(KeptTurn).decode


def encode_kept(kept: KeptTurn) -> bytes | None:
    """The turn as bytes; None if it cannot be written (half a character, endless nesting)."""
    try:
        return _encode(kept)
    except (UnicodeEncodeError, RecursionError, OverflowError):
        return None


def decode_kept(data: bytes) -> KeptTurn | None:
    try:
        return _decode(data)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def kept_of(turn: Turn, tenant: str = "") -> KeptTurn:
    """What is kept of an answer."""
    blocks: list[KeptBlock] = []
    for place, block in enumerate(turn.blocks):
        if type(block) is Thinking:
            # Reasoning that led to a block of its host's own (a search …) is refused without that block.
            if not any(type(each) is Opaque for each in turn.blocks[place + 1 : place + 2]):
                blocks.append(block)
        elif type(block) is ToolCall:
            blocks.append(KeptCall(block.id, block.extra))
        elif type(block) is Text:
            blocks.append(kept_text(block))
    extra = turn.extra if turn.extra and turn.extra.get(DETAILS) else None
    return KeptTurn(turn.origin, tuple(blocks), {DETAILS: extra[DETAILS]} if extra else None, tenant)


def kept_text(text: Text) -> KeptText:
    return KeptText(_digest(text.text), text.extra)


def _digest(text: str) -> bytes:
    # Only to find a text again within one turn; 96 bits are plenty.
    return sha256(text.encode("utf-8", "surrogatepass")).digest()[:12]


def restored(turn: Turn, kept: KeptTurn, wire: str) -> Turn:
    """The turn that a client of `wire` sent, with what was kept of it; its own reasoning gives way.

    Thinking goes where it stood: before the same call, or before the text that came between; else to the beginning.
    """
    # What a client sends beside a call belongs to its own wire; a maker of another wire never put it there.
    same_wire = kept.origin is not None and kept.origin.wire == wire
    provider = kept.origin.provider if kept.origin is not None else ""
    calls = {block.id: block for block in kept.blocks if type(block) is KeptCall}
    texts = {block.digest: block for block in kept.blocks if type(block) is KeptText and block.extra}
    said: list[Block] = []
    for block in turn.blocks:
        if type(block) is Thinking:
            continue
        if type(block) is ToolCall:
            found = calls.get(block.id)
            extra = _over(block.extra if same_wire else None, found.extra if found is not None else None)
            block = replace(block, extra=extra, provider=provider)
        elif type(block) is Text and texts and (text := texts.get(_digest(block.text))) is not None:
            block = replace(block, extra=_over(block.extra, text.extra))
        said.append(block)
    extra = {**(turn.extra or {}), **kept.extra} if kept.extra else turn.extra
    return replace(turn, blocks=placed(said, kept.blocks), origin=kept.origin, extra=extra)


def _over(own: dict[str, Any] | None, kept: dict[str, Any] | None) -> dict[str, Any] | None:
    return {**own, **kept} if own and kept else kept or own


def placed(said: Sequence[Block], kept: Sequence[KeptBlock]) -> tuple[Block, ...]:
    """The blocks of the client with the kept thinking among them. One walk over each."""
    places = {block.id: number for number, block in enumerate(said) if type(block) is ToolCall}
    before: dict[int, list[Thinking]] = {}
    waiting: list[Thinking] = []
    # The walk keeps the order of the kept blocks, and only moves forward in the client's: thinking that belongs
    # before a call goes right before it, unless a text stood between, in which case it goes before that text.
    at, behind_text = (
        0,
        0,
    )  # where the next thinking may stand at the earliest; how many of those waiting precede a text
    for each in kept:
        if type(each) is Thinking:
            waiting.append(each)
        elif type(each) is KeptText:
            behind_text = len(waiting)
        elif type(each) is KeptCall and each.id in places:
            place = places[each.id]
            if waiting and place >= at:
                before.setdefault(at if behind_text else place, []).extend(waiting[:behind_text])
                before.setdefault(place, []).extend(waiting[behind_text:])
                waiting, behind_text = [], 0
            at = max(at, place + 1)
    if waiting:  # no call follows it: before what is left of the answer
        before.setdefault(at, []).extend(waiting)
    out: list[Block] = []
    for number, block in enumerate(said):
        out += before.get(number, ())
        out.append(block)
    out += before.get(len(said), ())
    return tuple(out)
