"""An answer on its way to one client: its reasoning is sealed if the client will send it back.

| client | where a seal travels |
|---|---|
| Messages | `signature` of each thinking block, if the client asked for thinking |
| Responses | `encrypted_content` of each reasoning item, if the client asked for it by `include` |
| Gemini | `thoughtSignature` of each call, with the reasoning before it; of each thought too, if the client asked for them |
| chat | nowhere: the vault keeps it |

What a host of the client's own wire signed or encrypted passes unchanged. Streams and whole turns get the same seals: each is
made once, for the block at its place in the turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ..core.blocks import Block, Text, Thinking, ToolCall, Turn
from ..core.events import Event, TextEnd, ThinkingEnd, ToolCallEnd
from ..core.kept_turn import DETAILS, KeptCall, KeptText, KeptTurn, kept_text
from ..wires.openai_responses.answer import ENCRYPTED
from ..wires.request import RequestedAnswer
from .seal import Sealer

_SIGNATURE = "thoughtSignature"
_SEALED = frozenset({ThinkingEnd, ToolCallEnd})
_SEALABLE = frozenset({Thinking, ToolCall})


class SealedAnswer:
    """The events of one answer, or the whole of it."""

    __slots__ = ("_on_calls", "_proof", "_sealer", "_seals", "_since_call", "_tenant", "_wire")

    def __init__(self, wire: str, tenant: str, sealer: Sealer | None, requested: RequestedAnswer) -> None:
        self._wire = wire
        self._tenant = tenant
        self._sealer = sealer
        self._proof = _proof_field(wire, requested)
        # Gemini's clients return signatures on calls, whether they show thoughts or not
        # (field-guide/clients.md#what-they-give-back).
        self._on_calls = wire == "gemini"
        self._since_call: list[Thinking | KeptText] = []  # what was streamed since the last call
        self._seals: dict[int, tuple[KeptTurn, str | None]] = {}  # by the place of their block; None: it is too large

    def events(self, batch: list[Event]) -> list[Event]:
        """The same events, with seals where they belong: nothing can be sealed before a block has ended."""
        kinds = set(map(type, batch))
        if kinds.isdisjoint(_SEALED) and not (self._since_call and TextEnd in kinds):
            return batch
        return [self.event(event) for event in batch]

    def event(self, event: Event) -> Event:
        if isinstance(event, ThinkingEnd):
            self._since_call.append(event.block)
            block = self._thinking(event.index, event.block)
            return event if block is event.block else ThinkingEnd(event.index, block)
        if isinstance(event, ToolCallEnd):
            before, self._since_call = self._since_call, []
            call = self._call(event.index, event.block, before)
            return event if call is event.block else ToolCallEnd(event.index, call)
        # Only text between thinking and a call matters: its place tells where the thinking stood.
        if isinstance(event, TextEnd) and self._since_call:
            self._since_call.append(kept_text(event.block))
        return event

    def turn(self, turn: Turn) -> Turn:
        """The whole answer as this client gets it."""
        if _SEALABLE.isdisjoint(map(type, turn.blocks)):
            return turn
        blocks: list[Block] = []
        before: list[Thinking | KeptText] = []
        for place, block in enumerate(turn.blocks):
            if type(block) is Thinking:
                before.append(block)
                blocks.append(self._thinking(place, block))
            elif type(block) is ToolCall:
                blocks.append(self._call(place, block, before))
                before = []
            else:
                if type(block) is Text and before:
                    before.append(kept_text(block))
                blocks.append(block)
        same = all(new is old for new, old in zip(blocks, turn.blocks, strict=True))
        return turn if same else replace(turn, blocks=tuple(blocks))

    def for_vault(self, turn: Turn) -> bool:
        """Whether the vault must keep this answer's reasoning: it has calls, and the client will not bring all of it back.

        A native signature does come back, but not who made it: that is kept too, for the name may mean another model by then.
        """
        # The vault finds an answer by its calls; one without calls has no id that a client would bring back.
        if turn.failure or not turn.tool_calls:
            return False
        if turn.extra and turn.extra.get(DETAILS):
            return True
        sent = self.turn(turn).blocks
        loose = False  # there is reasoning that no seal holds so far
        for place, (new, old) in enumerate(zip(sent, turn.blocks, strict=True)):
            if type(old) is Thinking:
                loose = loose or self._on_calls or self._seals.get(place, (None, None))[1] is None
            elif type(old) is ToolCall:
                # A client that did not ask for thoughts may know nothing of signatures either.
                held = self._on_calls and new is not old and bool(self._proof)
                if not held and (loose or _has_state(old)):
                    return True
                loose = loose and not held
        return loose and not self._on_calls

    def _thinking(self, place: int, block: Thinking) -> Thinking:
        # A native proof must reach the client unchanged: its host will verify it.
        if block.origin is not None and block.origin.wire == self._wire and self._is_proven(block):
            return block
        sealed = self._sealed(place, KeptTurn(block.origin, (block,))) if self._proof else None
        if sealed is not None and self._proof == "encrypted":
            return replace(block, encrypted=sealed, signature=None, redacted=False)
        if sealed is None and not (block.signature or block.encrypted or block.redacted):
            return block
        # Another wire's proofs are not given out: they would come back as if this wire's host had made them.
        return replace(block, signature=sealed, encrypted=None, redacted=False)

    def _is_proven(self, block: Thinking) -> bool:
        """Whether a host of this wire gave it what it needs to know it again. Gemini's own signs calls and texts instead."""
        if self._on_calls:
            return True
        return bool(block.encrypted if self._wire == "openai-responses" or block.redacted else block.signature)

    def _call(self, place: int, call: ToolCall, before: Sequence[Thinking | KeptText]) -> ToolCall:
        """On Gemini's wire a call is the one block whose signature every client sends back."""
        if not self._on_calls or not before or (call.extra and call.extra.get(_SIGNATURE)):
            return call
        # All of it was made by one model, so the first block's origin is that of all.
        thought = before[0]
        origin = thought.origin if type(thought) is Thinking else None
        if origin is not None and origin.wire == self._wire:
            return call
        sealed = self._sealed(place, KeptTurn(origin, (*before, KeptCall(call.id, call.extra))))
        return call if sealed is None else replace(call, extra={_SIGNATURE: sealed})

    def _sealed(self, place: int, kept: KeptTurn) -> str | None:
        if self._sealer is None:
            return None
        made = self._seals.get(place)
        # A streamed answer is written twice (as events, and for a stored
        # response), and a seal has a random nonce: made once, both are equal.
        if made is None or made[0] != kept:
            made = self._seals[place] = (kept, self._sealer.seal_kept(self._tenant, kept))
        return made[1]


def _proof_field(wire: str, requested: RequestedAnswer) -> str:
    """The field of a thinking block that this client sends back; empty if it has none, or gets no thinking."""
    if wire == "openai-responses":
        return "encrypted" if ENCRYPTED in requested.include else ""
    return "signature" if wire in ("anthropic", "gemini") and requested.thinking else ""


def _has_state(call: ToolCall) -> bool:
    """Whether a host put more beside its call than the id of an item."""
    return call.extra is not None and any(key != "item" for key in call.extra)
