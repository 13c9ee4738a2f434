"""A client's history on its way in: the calls under their canonical ids, and the reasoning of each answer given back to it.

Of each answer, the first of these counts: a seal that opens, the vault's entry for one of its calls, and what the client sent,
as if it had spoken to the target itself. The vault has more than a client that shows only text; where its text is not the
client's and text is all it has, the client's counts. No seal is left anywhere that a request upstream is made from.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ..core.blocks import Block, Media, Opaque, Origin, Text, Thinking, ToolCall, ToolResponse, Turn
from ..core.errors import InvalidHistory
from ..core.handoff import Note
from ..core.kept_turn import KeptCall, KeptTurn, placed, restored
from ..wires.request import ParsedRequest, parse_request
from .issued_ids import ClientCalls, from_issued
from .seal import Sealer
from .vault import Vault

_SIGNATURE = "thoughtSignature"
_MINTED = re.compile(r"[a-z]{2,4}_resp")
"""How the ids begin that our own answers give to items: the host would look for them in vain, or find that they do not fit."""


def read_request(
    wire: str,
    body: bytes,
    *,
    headers: Mapping[str, str] | None = None,
    model: str = "",
    stream: bool = False,
) -> ParsedRequest:
    """A client's request, its calls under ids that stay the same whatever the client does to the rest of its history."""
    return parse_request(wire, body, headers=headers, identity=ClientCalls(wire), model=model, stream=stream)


async def take_in(
    parsed: ParsedRequest,
    *,
    wire: str,
    tenant: str,
    vault: Vault | None,
    sealer: Sealer | None,
    target: Origin,
) -> tuple[ParsedRequest, list[Note]]:
    """The request with the reasoning of its history restored, and notes of what was not.

    `target` is the model that it goes to first. What a client sent by itself belongs to it if it speaks the client's wire.
    """
    # A first question has no answers to restore. This is every
    # short request, so it is settled before anything is built.
    if not (parsed.options.extra_body or parsed.tools) and all(map(_is_bare, parsed.conversation.turns)):
        return parsed, []
    reading = _Reading(wire, tenant, sealer, target)
    read = [_Answer(number, turn) for number, turn in enumerate(parsed.conversation.turns)]
    if sealer is not None and (sealed := _newest_seal(read)) is not None:
        # A seal made by another process may name a key that this one has not read yet.
        await sealer.learn(sealed, time.time())
    for each in read:
        reading.open(each)
    if vault is not None:
        # One question for the whole history, not one per answer.
        wanted = [call_id for each in read for call_id in each.call_ids]
        if wanted:
            # Without duplicates, in order.
            kept = await vault.get(tenant, dict.fromkeys(wanted))
            if kept:
                reading.restore(read, kept)
    try:
        return reading.request(parsed, [reading.settled(each) for each in read]), reading.notes
    # A client's JSON decides how deep `_clean` goes.
    except RecursionError:
        raise InvalidHistory(f"not a valid {wire} request: it is nested too deeply") from None


def _is_bare(turn: Turn) -> bool:
    """Whether a turn is somebody's plain words, and nothing that could hold reasoning, a seal or an origin."""
    if turn.speaker == "ai" or turn.extra:
        return False
    return all(type(block) is Text and not block.extra for block in turn.blocks)


def _newest_seal(read: list[_Answer]) -> str | None:
    """A seal of the newest answer that has one: if any key is not known yet, it is this one's."""
    for each in reversed(read):
        if not each.is_plain:
            for block in each.turn.blocks:
                if (sealed := _seal_on(block)) is not None:
                    return sealed
    return None


def _is_plain(block: Block) -> bool:
    """Whether there is no place in it where a seal could be."""
    # Compared by type, since this runs for every block; mypy does not narrow by it.
    kind = type(block)
    if kind is Opaque or block.extra is not None:  # type: ignore[union-attr]
        return False
    if kind is ToolResponse:
        return all(map(_is_plain, block.content))  # type: ignore[union-attr]
    return kind is not Thinking or (block.signature is None and block.encrypted is None)  # type: ignore[union-attr]


def _seal_on(block: Block) -> str | None:
    """The seal that stands where our answers put one."""
    if type(block) is Thinking:
        return next((proof for proof in (block.signature, block.encrypted) if proof and Sealer.is_seal(proof)), None)
    extra = block.extra if isinstance(block, (Text, ToolCall, Media)) else None
    found = extra.get(_SIGNATURE) if extra else None
    return found if isinstance(found, str) and Sealer.is_seal(found) else None


class _Answer:
    """A turn while it is read. `call_ids` are what the vault may know more of."""

    __slots__ = ("call_ids", "is_plain", "number", "opened", "restored", "turn")

    def __init__(self, number: int, turn: Turn) -> None:
        self.number = number
        self.turn = turn
        self.is_plain = turn.extra is None and all(map(_is_plain, turn.blocks))
        self.opened = False  # a seal gave its reasoning
        self.restored = False  # its reasoning and its maker are known: nothing of it is the client's
        self.call_ids: list[str] = []


class _Reading:
    def __init__(self, wire: str, tenant: str, sealer: Sealer | None, target: Origin) -> None:
        self.wire = wire
        self.tenant = tenant
        self.sealer = sealer
        self.target = target
        self.notes: list[Note] = []
        self._same_wire = target.wire == wire
        self._used: set[str] = set()  # seals with proofs that a host takes only once
        self._taken: set[int] = set()  # the same for entries of the vault

    def open(self, read: _Answer) -> None:
        """Take the reasoning of an answer out of its seals, and see what the vault may know of it."""
        turn = read.turn
        if turn.speaker != "ai":
            return
        if not read.is_plain and any(_seal_on(block) is not None for block in turn.blocks):
            self._unseal(read)
        calls = [block for block in turn.blocks if type(block) is ToolCall]
        # Where seals gave everything, the vault is asked only if the
        # target made the answer: it may hold proofs that no seal had.
        if calls and (not read.opened or self._is_targets(read.turn.origin)):
            # Only ids that we gave out can be in the vault; others would be lookups that cannot succeed.
            read.call_ids = [call.id for call in calls if call.raw_id and from_issued(call.raw_id) == call.id]

    def _is_targets(self, origin: Origin | None) -> bool:
        return origin is not None and origin.provider == self.target.provider and origin.wire == self.target.wire

    def _unseal(self, read: _Answer) -> None:
        """Put what the seals of a turn hold in their places."""
        turn = read.turn
        blocks: list[Block] = []
        origin: Origin | None = None
        opened: list[Thinking] = []
        since_call = 0  # where the blocks begin that came since the last call
        for block in turn.blocks:
            sealed = _seal_on(block)
            kept = self._open(sealed, block, read) if sealed is not None else None
            if kept is not None:
                origin = origin or kept.origin
                read.opened = True
                opened += kept.thinking
            if sealed is None:
                blocks.append(block)
            elif isinstance(block, ToolCall) and kept is not None:
                # Its seal holds all that was thought since the last call, also what other seals there hold.
                # Texts stay where the client has them; only thinking is laid out anew.
                said = [each for each in blocks[since_call:] if type(each) is not Thinking]
                blocks[since_call:] = placed([*said, _as_kept(block, kept)], kept.blocks)
            else:
                blocks += kept.thinking if kept is not None else ()
                blocks += _unsigned(block)
            if type(block) is ToolCall:
                since_call = len(blocks)
        if read.opened:
            # What the client shows beside a seal is what the seal holds, or a part of it.
            known = {id(each) for each in opened}
            blocks = [block for block in blocks if type(block) is not Thinking or id(block) in known]
        read.turn = replace(turn, blocks=tuple(blocks), origin=origin if read.opened else turn.origin)
        read.restored = read.opened

    def _open(self, sealed: str, block: Block, read: _Answer) -> KeptTurn | None:
        kept = self.sealer.open_kept(self.tenant, sealed) if self.sealer is not None else None
        if kept is None:
            self._note(read, "the seal on this reasoning does not open; not sent")
            return None
        calls = [each.id for each in kept.blocks if type(each) is KeptCall]
        # A seal names the call it was made for. Without this check
        # a client could move reasoning from one answer to another.
        if calls != ([block.id] if type(block) is ToolCall else []) or not isinstance(block, (Thinking, ToolCall)):
            self._note(read, "the seal belongs to another block; not sent")
            return None
        # Proofs of a host may stand in a history once; plain text may come as often as the client likes.
        if sealed in self._used:
            self._note(read, "the same seal came twice; sent once")
            return None
        if kept.is_opaque:
            self._used.add(sealed)
        return kept

    def _note(self, read: _Answer, why: str) -> None:
        self.notes.append(Note("dropped", "thinking", "seal_not_opened", why, read.number, read.turn.key))

    def restore(self, read: list[_Answer], found: dict[str, KeptTurn]) -> None:
        """Give answers what the vault has for them."""
        for each in read:
            kept = next((found[call_id] for call_id in each.call_ids if call_id in found), None)
            if kept is None or not (each.opened or self._prefers(kept, each.turn)):
                continue
            if kept.is_opaque:
                # By identity: the calls of one answer share an entry, and a client may send them as several messages.
                if id(kept) in self._taken:
                    continue
                self._taken.add(id(kept))
            each.turn = restored(each.turn, kept, self.wire)
            each.restored = True

    def _prefers(self, kept: KeptTurn, turn: Turn) -> bool:
        """Whether the vault's entry counts more than what the client sent, which is nobody's where the target speaks another
        wire than the client."""
        said = turn.thinking
        # What the client shows of reasoning is text; where the entry has signatures, only it can satisfy the host.
        if not self._same_wire or kept.is_opaque or not said.strip():
            return True
        # The client's own text, if it changed it: it may have edited its history on purpose.
        return said == "".join([each.text for each in kept.thinking])

    def settled(self, read: _Answer) -> Turn:
        """The turn as it goes on: what the client sent by itself is the target's where they speak one wire; and no seals."""
        turn = read.turn
        if not self._same_wire or (read.is_plain and turn.speaker != "ai"):
            pass
        elif turn.speaker == "ai" and not read.restored:
            # A client that speaks the target's own wire and was never here before is believed: refusing its reasoning
            # would break every conversation that is moved to the gateway.
            turn = replace(turn, origin=self.target, blocks=tuple([self._as_targets(block) for block in turn.blocks]))
        elif turn.speaker == "ai":
            turn = replace(turn, blocks=tuple([_as_host_named(block) for block in turn.blocks]))
        elif any(map(_has_origin, turn.blocks)):
            turn = replace(turn, blocks=tuple([self._as_targets(block) for block in turn.blocks]))
        # Last, over everything: a seal must not reach an upstream, whatever path it took through the code above.
        return turn if read.is_plain else self._scrubbed(read, turn)

    def _as_targets(self, block: Block) -> Block:
        block = _as_host_named(block)
        if isinstance(block, (Thinking, Opaque)):
            return replace(block, origin=self.target)
        if type(block) is ToolCall:
            return replace(block, provider=self.target.provider)
        if type(block) is ToolResponse and any(map(_has_origin, block.content)):
            parts = [replace(part, origin=self.target) if type(part) is Opaque else part for part in block.content]
            return replace(block, content=tuple(parts))
        return block

    def _scrubbed(self, read: _Answer, turn: Turn) -> Turn:
        """The turn without anything that claims to be a seal, wherever a client may have put it."""
        blocks: list[Block] = []
        touched = False
        for block in turn.blocks:
            clean = _clean_block(block)
            touched = touched or clean is not block
            if clean is not None:
                blocks.append(clean)
        extra = _clean(turn.extra) if turn.extra else turn.extra
        if not touched and extra is turn.extra:
            return turn
        self._note(read, "a seal was found where none belongs; not sent")
        return replace(turn, blocks=tuple(blocks), extra=extra or None)

    def request(self, parsed: ParsedRequest, turns: list[Turn]) -> ParsedRequest:
        conversation = replace(parsed.conversation, turns=tuple(turns))
        options = parsed.options
        if options.extra_body:
            clean = _clean(options.extra_body)
            if clean is not options.extra_body:
                options = replace(options, extra_body=clean or None)
        tools = tuple([replace(tool, extra=_clean(tool.extra)) if tool.extra else tool for tool in parsed.tools])
        return replace(parsed, conversation=conversation, options=options, tools=tools)


def _has_origin(block: Block) -> bool:
    return type(block) is Opaque or (type(block) is ToolResponse and any(map(_has_origin, block.content)))


def _without(extra: dict[str, Any] | None, key: str) -> dict[str, Any] | None:
    return {name: value for name, value in extra.items() if name != key} or None if extra else None


def _as_kept(call: ToolCall, kept: KeptTurn) -> ToolCall:
    extra = next((each.extra for each in kept.blocks if type(each) is KeptCall), None)
    return replace(call, extra=extra, provider=kept.origin.provider if kept.origin is not None else "")


def _unsigned(block: Block) -> list[Block]:
    """What is left of a block without its seal: nothing of a thought."""
    if isinstance(block, (Text, ToolCall, Media)):
        return [replace(block, extra=_without(block.extra, _SIGNATURE))]
    return []


def _as_host_named(block: Block) -> Block:
    """The block without an id of its item that we made up."""
    extra = block.extra if isinstance(block, (Thinking, Text, ToolCall)) else None
    item = extra.get("item") if extra else None
    if extra is None or not isinstance(item, dict) or not isinstance(item.get("id"), str):
        return block
    if _MINTED.match(item["id"]) is None:
        return block
    left = _without(item, "id")
    return replace(block, extra={**extra, "item": left} if left else _without(extra, "item"))


_GONE: Any = object()


def _clean(value: Any) -> Any:
    """JSON without the seals in it: the same object if there are none, `_GONE` for a seal itself."""
    if isinstance(value, str):
        return _GONE if Sealer.is_seal(value) else value
    if isinstance(value, dict):
        cleaned = {key: _clean(inner) for key, inner in value.items()}
        if all(cleaned[key] is inner for key, inner in value.items()):
            return value
        return {key: inner for key, inner in cleaned.items() if inner is not _GONE}
    if isinstance(value, list):
        items = [_clean(inner) for inner in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return [inner for inner in items if inner is not _GONE]
    return value


def _clean_block(block: Block) -> Block | None:
    """None for a block that is nothing but a seal."""
    if isinstance(block, Opaque):
        data = _clean(block.data)
        return block if data is block.data else None if data is _GONE else replace(block, data=data)
    if isinstance(block, Thinking) and _seal_on(block) is not None:
        return None
    if isinstance(block, ToolResponse) and not all(type(part) is Text and part.extra is None for part in block.content):
        parts = [(part, _clean_block(part)) for part in block.content]
        if any(new is not old for old, new in parts):
            left = [new for _, new in parts if isinstance(new, (Text, Media, Opaque))]
            block = replace(block, content=tuple(left))
    if block.extra is None:
        return block
    clean = _clean(block.extra)
    return block if clean is block.extra else replace(block, extra=clean or None)
