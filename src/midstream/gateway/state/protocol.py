"""What the gateway remembers between requests: its keys, sealing keys, the vault, responses, spend, rates and the usage log.

What a method has acknowledged by returning survives the end of the process; each implementation says what else it survives.
The vault and responses belong to a tenant: without its name nothing in them can be addressed. What has expired is never
given, swept or not. Every failure is a StoreError; one that may pass is a StoreUnavailable, and comes within `PATIENCE`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from operator import attrgetter
from typing import Protocol

import msgspec
from msgspec.structs import replace

from ...core.blocks import Value

# Short, because a client waits behind it; long enough for a restart of a database.
PATIENCE = 5.0
"""For how many seconds a call waits for a database that is away or busy."""
USAGE_KEPT = 90 * 86400.0
"""For how many seconds `sweep` leaves a row in the usage log."""
RATES_KEPT = 10
"""For how many minutes `sweep` leaves a counter of requests."""


class KeyRecord(Value, frozen=True):
    """A key of the gateway's own. The key itself is not stored, only its SHA-256."""

    id: str
    tenant: str
    digest: bytes
    name: str = ""
    created: float = 0
    expires: float | None = None
    revoked: float | None = None
    models: tuple[str, ...] = ()
    """Patterns of models that it may use; empty: all."""
    rate: int | None = None
    """Requests a minute."""
    concurrency: int | None = None
    spend: float | None = None
    """US dollars in each `spend_window`: "day", "month" or "total"."""
    spend_window: str = "month"
    text_calls: str = ""
    """Empty: the operator's default."""


class SealKey(Value, frozen=True):
    """A key that seals reasoning; a retired one only opens seals."""

    id: str
    secret: bytes
    created: float
    retired: float | None = None


class VaultEntry(Value, frozen=True):
    """The reasoning that belongs to a tool call, opaque to the store."""

    call_id: str
    thinking: bytes


class UsageRow(Value, frozen=True):
    """One request in the usage log. `cost` is in micro-dollars."""

    time: float
    tenant: str = ""
    key_id: str = ""
    model: str = ""
    provider: str = ""
    wire: str = ""
    status: int = 0
    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    cost: int | None = None
    latency_ms: float | None = None
    ttft_ms: float | None = None


class GatewayState(Protocol):
    """Where the gateway's state is kept. Methods may be called at once from many tasks of one event loop."""

    async def open(self) -> None: ...

    async def close(self) -> None:
        """Finish the calls in progress and close; later calls are refused."""
        ...

    async def ping(self) -> None:
        """Raise StoreUnavailable if the database does not answer."""
        ...

    async def add_key(self, key: KeyRecord) -> None:
        """Store a key; one with the same id or digest is refused."""
        ...

    async def key_by_digest(self, digest: bytes) -> KeyRecord | None:
        """The key, revoked and expired ones included."""
        ...

    async def keys(self) -> list[KeyRecord]:
        """All keys, the oldest first."""
        ...

    async def revoke_key(self, id: str, when: float) -> bool:
        """Revoke a key; False if there is no such key, or it was revoked before."""
        ...

    async def seal_keys(self) -> list[SealKey]:
        """All sealing keys, the newest first."""
        ...

    async def add_seal_key(self, key: SealKey) -> None:
        """Store a sealing key; those that were current are retired when it was created."""
        ...

    async def delete_seal_keys(self, before: float) -> int:
        """Delete the keys that were retired before then, and say how many."""
        ...

    async def put_vault(self, tenant: str, entries: Sequence[VaultEntry], expires: float) -> None:
        """Store entries, all or none; one that was there is replaced."""
        ...

    async def get_vault(self, tenant: str, call_ids: Sequence[str], now: float) -> dict[str, bytes]:
        """The entries there are, by call id."""
        ...

    async def put_response(self, tenant: str, id: str, record: bytes, expires: float) -> None: ...

    async def get_response(self, tenant: str, id: str, now: float) -> bytes | None: ...

    async def delete_response(self, tenant: str, id: str) -> bool:
        """Delete a response; False if there is none."""
        ...

    async def add_spend(self, amounts: Mapping[tuple[str, str], int]) -> None:
        """Add micro-dollars to what each (key id, window such as "2026-11") has spent, all or none."""
        ...

    async def spend(self, key_id: str, window: str) -> int: ...

    async def take_rate(self, key_id: str, minute: int, count: int) -> int:
        """Add to the counter that all processes share (`minute`: minutes since 1970), and give its new value."""
        ...

    async def log_usage(self, rows: Sequence[UsageRow]) -> None:
        """Append to the usage log. Text that a database cannot hold is replaced."""
        ...

    async def usage(self, since: float = 0.0, limit: int = 1000) -> list[UsageRow]:
        """The log from `since` on, the oldest first."""
        ...

    async def sweep(self, now: float) -> None:
        """Delete what has expired."""
        ...


_decode_key = msgspec.json.Decoder(KeyRecord).decode


def stored_key(record: bytes, revoked: float | None) -> KeyRecord:
    """A key from its JSON, and when it was revoked, which is stored beside it."""
    return replace(_decode_key(record), revoked=revoked)


def address(tenant: str, id: str) -> bytes:
    """Where something of a tenant's is kept: of fixed size, whatever a client calls it, and another for each tenant."""
    # surrogatepass: an id comes from a client and only has to be told from others, not to be read.
    owner = tenant.encode("utf-8", "surrogatepass")
    # The length makes it unambiguous: tenant "a" with id "bc" is not tenant "ab" with id "c".
    return sha256(len(owner).to_bytes(8) + owner + id.encode("utf-8", "surrogatepass")).digest()


def loggable(rows: Sequence[UsageRow]) -> Sequence[UsageRow]:
    """The rows with text that every database can hold: without NUL and lone surrogates."""
    # Nearly all texts can be held, and the thousands of rows of a busy second have few different ones.
    text = "".join([name for names in set(map(_NAMED, rows)) for name in names])
    if text.isascii() and "\0" not in text:
        return rows
    return [replace(row, **{name: _holdable(getattr(row, name)) for name in _NAMES}) for row in rows]


_NAMES = ("tenant", "key_id", "model", "provider", "wire")
_NAMED = attrgetter(*_NAMES)


def _holdable(text: str) -> str:
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
