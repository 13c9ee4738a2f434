"""The ids that clients get for calls, and which call of a returning history is which.

A client is given `call_` or `toolu_`, the 24 characters of the canonical id, and 8 of a checksum. What comes back so is ours,
and leads to the canonical id without any lookup; an id that merely looks like it (OpenAI's own are `call_` and 24 characters)
is not taken for ours. Calls that we did not issue are known by their wire, their raw ids and names, and how many earlier
turns have the same: clients rewrite texts and arguments, add reminders, and clear or compact what came before.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256

from ..core.blocks import Block, Media, Text, ToolCall, ToolResponse, Turn
from ..core.ids import PREFIX
from ..core.turn_digest import SaidKeys

_ISSUED = re.compile(r"(?:call_|toolu_)([A-Za-z0-9_-]{24})([A-Za-z0-9_-]{8})\Z")
_PLAIN = re.compile(r"[A-Za-z0-9_-]{24}\Z")
# A length is compared before anything is hashed: most ids of other makers are ruled out by it.
_LENGTHS = (len("call_") + 32, len("toolu_") + 32)
_PREFIXES = {"anthropic": "toolu_"}
_REMEMBERED = 16384


def from_issued(wire_id: str) -> str | None:
    """The canonical id behind one that we gave to a client; None for any other."""
    return _from_issued(wire_id) if len(wire_id) in _LENGTHS else None


@lru_cache(_REMEMBERED)
def _from_issued(wire_id: str) -> str | None:
    """Remembered, for a history comes back with every request."""
    match = _ISSUED.match(wire_id)
    return PREFIX + match[1] if match is not None and _checksum(match[1]) == match[2] else None


def _checksum(core: str) -> str:
    # 48 bits: enough that an id of OpenAI's, which may have the same form, is not taken for ours by chance. It is no
    # protection: an id only finds entries of its own tenant.
    return urlsafe_b64encode(sha256(b"midstream issued id|" + core.encode()).digest()[:6]).decode()


class IssuedIds:
    """The ids of an answer on one client wire, as its writer wants them (a ToolIdMapper). It remembers nothing: the id of a call
    follows from its canonical one."""

    __slots__ = ("_prefix",)

    def __init__(self, wire: str) -> None:
        self._prefix = _PREFIXES.get(wire, "call_")

    def extend(self, turns: Iterable[Turn]) -> None:
        """Nothing to take in."""

    def resolve_tool_call_id(self, call: ToolCall) -> str:
        return self._issued(call.id)

    def resolve_tool_response_id(self, response: ToolResponse) -> str:
        return self._issued(response.call_id)

    def clone(self) -> IssuedIds:
        return self

    def _issued(self, canonical: str) -> str:
        core = canonical.removeprefix(PREFIX)
        if _PLAIN.match(core) is None:  # not made by canonical_tool_call_id: still an id, though it leads nowhere
            core = urlsafe_b64encode(sha256(canonical.encode("utf-8", "surrogatepass")).digest()[:18]).decode()
        return f"{self._prefix}{core}{_checksum(core)}"


class ClientCalls:
    """Which call is which in a history that a client sends again and again (a CallIdentity). One serves for one request.

    No text, no arguments and no place in the array are part of it.
    """

    __slots__ = ("_issued", "_keys", "_turns", "_wire")

    def __init__(self, wire: str) -> None:
        self._wire = wire
        self._keys = SaidKeys()
        self._issued: set[str] = set()
        self._turns: dict[bytes, int] = {}

    own = staticmethod(from_issued)
    orphan = staticmethod(from_issued)
    """A result may answer a call of a stored response, which is not in this request."""

    def turn_key(self, turn: Turn, number: int) -> str:
        calls = [block for block in turn.blocks if type(block) is ToolCall]
        # Issued ids lead to their canonical ids by themselves; only foreign ones need a key to make theirs from.
        if not calls or self._all_issued(calls):
            return turn.key or self._other_key(turn)
        digest = self._digest([part for call in calls for part in (call.raw_id or call.id, call.name)])
        # The n-th turn with the same calls. Counting equal turns, not
        # positions, keeps ids when a client drops turns of other content.
        earlier = self._turns.get(digest, 0)
        self._turns[digest] = earlier + 1
        return f"calls-{urlsafe_b64encode(digest[:15]).decode()}-{earlier}"

    def _other_key(self, turn: Turn) -> str:
        """The key of a turn whose calls, if it has any, do not need one."""
        blocks = turn.blocks
        if all(type(block) is Text for block in blocks):
            return self._keys.of_turn(turn)
        # Nothing is made from it, so results and media are not read through: their labels and lengths will do.
        digest = self._digest([turn.speaker, *[part for block in blocks for part in _told_apart_by(block)]])
        earlier = self._turns.get(digest, 0)
        self._turns[digest] = earlier + 1
        return f"turn-{urlsafe_b64encode(digest[:15]).decode()}-{earlier}"

    def _all_issued(self, calls: list[ToolCall]) -> bool:
        """Whether every call has an id of ours that was not there before: then no key is needed."""
        before = len(self._issued)
        found = [own for call in calls if (own := from_issued(call.id)) is not None]
        self._issued.update(found)
        return len(found) == len(calls) and len(self._issued) - before == len(calls)

    def _digest(self, said: list[str]) -> bytes:
        parts = [self._wire, *said]
        # Lengths make the seed injective whatever the parts hold; surrogatepass makes it total.
        seed = ",".join([str(len(part)) for part in parts]) + "|" + "".join(parts)
        return sha256(seed.encode("utf-8", "surrogatepass")).digest()


def _told_apart_by(block: Block) -> tuple[str, ...]:
    if isinstance(block, ToolResponse):
        return "result", block.call_id
    if isinstance(block, ToolCall):
        return "call", block.id
    if isinstance(block, Text):
        return "text", block.text
    if isinstance(block, Media):
        return "media", block.mime, block.url or "", str(len(block.data or "")), (block.data or "")[-64:]
    return (type(block).__name__,)
