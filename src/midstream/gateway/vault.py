"""Reasoning of answers whose clients do not bring it back, kept by tenant and canonical call id, for a while.

Before the state there is memory, bounded in bytes for each tenant and for all: what was put or read lately, and what was looked
for and is not there. An absence is believed for a minute at most, for another process may have put the entry since.
Every entry names its tenant inside; one that names another, or cannot be read, is none.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ..core.blocks import Turn
from ..core.kept_turn import KeptTurn, decode_kept, encode_kept, kept_of
from .state.protocol import VaultEntry

if TYPE_CHECKING:
    from .state.protocol import GatewayState

# A conversation that is picked up after a holiday should still have its reasoning.
KEEP = 30 * 86_400.0
"""For how many seconds an entry is kept."""
SIZE = 64 * 1024 * 1024
_SHARE = 8
"""A tenant may fill so large a part of the memory: one in eight."""
_ABSENT_FOR = 60.0
_READ_FOR = 3600.0
"""For how many seconds an entry that was read is believed to be there still: only the store knows when it expires."""
_OVERHEAD = 300
"""About what an entry costs beside its bytes."""


class _Remembered:
    __slots__ = ("data", "until")

    def __init__(self, data: bytes, until: float) -> None:
        self.data = data  # empty: it is known that there is none
        self.until = until

    @property
    def size(self) -> int:
        return len(self.data) + _OVERHEAD


class _TenantMemory:
    """One tenant's entries, the one used last at the end."""

    __slots__ = ("entries", "size")

    def __init__(self) -> None:
        self.entries: OrderedDict[str, _Remembered] = OrderedDict()
        self.size = 0

    def put(self, call_id: str, entry: _Remembered) -> None:
        self.drop(call_id)
        self.entries[call_id] = entry
        self.size += entry.size

    def drop(self, call_id: str) -> None:
        found = self.entries.pop(call_id, None)
        if found is not None:
            self.size -= found.size

    def drop_oldest(self) -> None:
        _, entry = self.entries.popitem(last=False)
        self.size -= entry.size


class Vault:
    def __init__(
        self,
        state: GatewayState | None,
        *,
        keep: float = KEEP,
        size: int = SIZE,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`state` None: memory is all there is."""
        self._state = state
        self._keep = keep
        self._limit = size
        self._clock = clock
        self._tenants: OrderedDict[str, _TenantMemory] = OrderedDict()  # the one heard last at the end
        self.size = 0
        """About how many bytes are in memory."""

    async def put(self, tenant: str, turn: Turn) -> None:
        """Keep the reasoning of an answer with calls. When this returns, every process that shares the state finds it."""
        calls = turn.tool_calls
        kept = kept_of(turn, tenant)
        data = encode_kept(kept) if calls and not kept.is_empty else None
        if data is None:
            return
        now = self._clock()
        until = now + self._keep
        for call in calls:
            self._remember(tenant, call.id, _Remembered(data, until))
        if self._state is not None:
            # Under every id: clients send the calls of one answer in messages of their own, or leave some out.
            await self._state.put_vault(tenant, [VaultEntry(call.id, data) for call in calls], until)

    async def get(self, tenant: str, call_ids: Iterable[str]) -> dict[str, KeptTurn]:
        """What is kept for these calls of this tenant."""
        now = self._clock()
        found: dict[str, bytes] = {}
        unknown: list[str] = []
        memory = self._tenants.get(tenant)
        for call_id in call_ids:
            entry = memory.entries.get(call_id) if memory is not None else None
            # A remembered absence counts as an answer too: histories with foreign calls come back with every request.
            if memory is not None and entry is not None and entry.until > now:
                memory.entries.move_to_end(call_id)
                if entry.data:
                    found[call_id] = entry.data
            else:
                unknown.append(call_id)
        if memory is not None:
            self._tenants.move_to_end(tenant)
        if unknown and self._state is not None:
            stored = await self._state.get_vault(tenant, unknown, now)
            for call_id in unknown:
                data = stored.get(call_id, b"")
                self._remember(tenant, call_id, _Remembered(data, now + (_READ_FOR if data else _ABSENT_FOR)))
                if data:
                    found[call_id] = data
        opened: dict[bytes, KeptTurn | None] = {}  # the calls of one answer share their entry
        for data in found.values():
            if data not in opened:
                opened[data] = decode_kept(data)
        return {
            call_id: kept
            for call_id, data in found.items()
            # The address already separates tenants; this is the second lock on the same door.
            if (kept := opened[data]) is not None and kept.tenant == tenant
        }

    def _remember(self, tenant: str, call_id: str, entry: _Remembered) -> None:
        memory = self._tenants.get(tenant)
        if memory is None:
            memory = self._tenants[tenant] = _TenantMemory()
        self._tenants.move_to_end(tenant)
        before = memory.size
        # One busy tenant must not push all others out of memory.
        share = self._limit // _SHARE
        if entry.size > share:
            memory.drop(call_id)  # it is in the state, if there is one
        else:
            memory.put(call_id, entry)
            while memory.size > share:
                memory.drop_oldest()
        self.size += memory.size - before
        while self.size > self._limit:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        """All tenants together: those heard longest ago give way first."""
        tenant, memory = next(iter(self._tenants.items()))
        if memory.entries:
            before = memory.size
            memory.drop_oldest()
            self.size += memory.size - before
        if not memory.entries:
            del self._tenants[tenant]
