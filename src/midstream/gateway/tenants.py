"""Whose request this is, told before its body is read.

A key comes in `Authorization: Bearer`, `x-api-key`, `x-goog-api-key` or `?key=`. None, an empty one, one header twice, two that
differ, or anything but printable ASCII is a 401. What cannot be one of our keys by its form never reaches the store; the rest is
one lookup of a digest, whose answer, yes or no, is remembered for a few seconds. So a revoked key stops within `TTL` seconds in
every process. Lookups of keys that nobody has seen here are limited, so a flood of bad keys costs hashes, not queries.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from hmac import compare_digest
from typing import Protocol
from urllib.parse import unquote_to_bytes

from ..core.blocks import Value
from ..core.dialect import TextCalls
from ..core.errors import RateLimited, Unauthorized
from ..core.secret import Secret
from ..web.guard import LOOPBACK
from .api_key import digest_of, fault_of
from .bucket import Bucket
from .config import KeysConfig
from .state.protocol import KeyRecord

log = logging.getLogger("midstream.gateway")

# A revoked key works for so long at most; without it every request would be a query.
TTL = 5.0
LONGEST = 512
"""Characters of a key."""
_REMEMBERED = 4096
"""How many digests of bad keys are remembered."""
LOOKUPS = 200
"""How many keys that were never seen here are looked up in a second."""
_PROVIDER_KEY = b"x-midstream-provider-key"
_HEADERS = frozenset((b"authorization", b"x-api-key", b"x-goog-api-key"))
_KEY = re.compile(rb"([!-~]{1,%d})" % LONGEST)
_BEARER = re.compile(rb"Bearer ([!-~]{1,%d})" % LONGEST)
Headers = Sequence[tuple[bytes, bytes]]


class Tenant(Value, frozen=True):
    """Who asks, and what they may do. `id` separates what is kept of one tenant from all others; a tenant may have many keys."""

    id: str
    key_id: str = ""
    name: str = ""
    models: tuple[str, ...] = ()
    """Patterns of the models it may use; empty: all."""
    rate: int | None = None
    """Requests a minute."""
    concurrency: int | None = None
    spend: float | None = None
    """US dollars in `spend_window`."""
    spend_window: str = "month"
    text_calls: TextCalls | None = None
    """None: as the alias or the operator's default says. `Route.text_calls` is what holds."""


LOCAL = Tenant("local")
"""Everybody, while there are no keys and the gateway listens on loopback only."""


class KeyStore(Protocol):
    """The part of the gateway's state that knows keys."""

    async def key_by_digest(self, digest: bytes) -> KeyRecord | None: ...
    async def keys(self) -> list[KeyRecord]: ...


class Authenticator:
    """Tells whose key a request carries. `loopback` says that the gateway can be reached from this machine only: without any
    key, it is then open, but not to pages of other sites than `hosts`. `clock` measures how long an answer is remembered, `now` is the time of day, by which keys expire."""

    def __init__(
        self,
        store: KeyStore,
        config: KeysConfig | None = None,
        *,
        loopback: bool = True,
        hosts: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._config = config or KeysConfig()
        self._loopback = loopback
        self._hosts = frozenset([*LOOPBACK, *[host.lower() for host in hosts]])
        self._clock = clock
        self._now = now
        self._open = False
        self._has_keys = False
        # Good and bad answers apart: a flood of bad keys may empty its own memory, never that of real ones.
        self._found: dict[bytes, tuple[float, KeyRecord, Tenant]] = {}
        self._refused: dict[bytes, tuple[float, str]] = {}
        self._lookups = Bucket(LOOKUPS, clock())

    @property
    def is_open(self) -> bool:
        """Whether requests need no key."""
        return self._open

    async def refresh(self) -> None:
        """See whether there are keys: call it at the start, and every few seconds. The first key that is ever created closes
        an open gateway; revoking the last one does not open it again."""
        required = self._config.required
        # Asked only until there is one: from then on keys are needed, whatever becomes of them.
        if self._loopback and required is None and not self._has_keys:
            self._has_keys = bool(await self._store.keys())
        was_open, self._open = self._open, self._loopback and not (self._has_keys if required is None else required)
        if was_open and not self._open:
            log.info("from now on every request needs a key")
        if len(self._found) > _REMEMBERED:
            self._found = {digest: each for digest, each in self._found.items() if each[0] > self._clock()}

    def reconfigure(self, config: KeysConfig) -> None:
        """Use other settings from now on; `refresh` makes `required` count."""
        self._config = config
        self._found.clear()

    async def tenant(self, headers: Headers, query: bytes = b"") -> Tenant:
        """The tenant of a request, by its headers as ASGI gives them and its query. Unauthorized if there is none."""
        if self._open:
            return self._local(headers)
        key = presented_key(headers, query)
        return self.known(key) or await self._look_up(key)

    def recognised(self, headers: Headers, query: bytes = b"") -> Tenant | None:
        """As `tenant`, for a key that was seen a moment ago; None: ask `tenant`."""
        return self._local(headers) if self._open else self.known(presented_key(headers, query))

    def known(self, presented: str) -> Tenant | None:
        """The tenant with this key if it was seen a moment ago; None: ask `tenant`. Unauthorized if it was refused then."""
        if self._open:
            return LOCAL
        digest = digest_of(presented)
        found = self._found.get(digest)
        if found is None:
            refused = self._refused.get(digest)
            if refused is not None and refused[0] > self._clock():
                raise _unauthorized(refused[1])
            return None
        until, record, tenant = found
        # In constant time, although a digest is compared and not
        # a key: no comparison here should need a second thought.
        if until <= self._clock() or not compare_digest(record.digest, digest):
            return None
        if record.expires is not None and record.expires <= self._now():
            raise _unauthorized(_expired(record.expires))
        return tenant

    # A browser on this machine lets any page it has open post to us. The page could not read the answer, unless the name of its
    # site was pointed at our address, but the operator would pay for it. Programs send no Origin, or one that is not of the web.
    def _local(self, headers: Headers) -> Tenant:
        for name, value in headers:
            if name == b"origin" and not self._is_ours(value.decode("latin-1").strip().lower()):
                raise Unauthorized(
                    "web pages of other sites may not ask while no key is needed: create a key (midstream gateway keys create --name "
                    "me), or add the site's name to hosts of [page]",
                    status=403,
                )
        return LOCAL

    def _is_ours(self, origin: str) -> bool:
        scheme, _, place = origin.partition("://")
        if scheme not in ("http", "https", "null"):
            return True
        host = place if place.endswith("]") else place.rpartition(":")[0] or place
        return host in self._hosts or host.endswith(".localhost")

    async def _look_up(self, presented: str) -> Tenant:
        fault = fault_of(presented)
        if fault is not None:
            raise _unauthorized(f"the key was refused: {fault}")
        digest = digest_of(presented)
        # A key that was good a moment ago is looked up again without a limit: its owner must not suffer from a flood.
        if digest not in self._found and not self._lookups.take(self._clock()):
            raise RateLimited("too many unknown keys at once; try again in 1s", status=429, retry_after=1.0)
        record = await self._store.key_by_digest(digest)
        fault = self._fault(record, digest)
        if fault is not None or record is None:
            self._found.pop(digest, None)
            if len(self._refused) >= _REMEMBERED:
                self._refused.clear()
            self._refused[digest] = (self._clock() + TTL, fault or "")
            raise _unauthorized(fault or "")
        tenant = tenant_of(record, self._config)
        self._found[digest] = (self._clock() + TTL, record, tenant)
        return tenant

    def _fault(self, record: KeyRecord | None, digest: bytes) -> str | None:
        if record is None or not compare_digest(record.digest, digest):
            return "the key was refused: this gateway has no such key"
        if record.revoked is not None:
            return "the key was refused: it was revoked"
        if record.expires is not None and record.expires <= self._now():
            return _expired(record.expires)
        return None


def tenant_of(record: KeyRecord, config: KeysConfig) -> Tenant:
    """The tenant of a key; limits that the key does not have are the configuration's."""
    # Amount and window belong together: the key's window must not be applied to the configuration's amount.
    budget = config.budget if record.spend is None else None
    return Tenant(
        record.tenant,
        record.id,
        record.name,
        tuple(record.models),
        config.rate if record.rate is None else record.rate,
        config.concurrency if record.concurrency is None else record.concurrency,
        budget.dollars if budget else record.spend,
        budget.window if budget else record.spend_window,
        _TEXT_CALLS.get(record.text_calls),
    )


_TEXT_CALLS: dict[str, TextCalls] = {"show": "show", "reask": "reask", "execute": "execute"}


def presented_key(headers: Headers, query: bytes = b"") -> str:
    """The one key that a request carries. Unauthorized if there is not exactly one."""
    fields = dict(headers)
    # Nearly every request has one key, plainly written, and no header twice. Anything else is looked at closely, or
    # refused with its reason.
    if len(fields) == len(headers) and b"key=" not in query:
        given = [*_HEADERS.intersection(fields)]
        if len(given) == 1:
            name = given[0]
            plain = (_BEARER if name == b"authorization" else _KEY).fullmatch(fields[name])
            if plain is not None:
                return plain[1].decode("ascii")
    found: bytes | None = None
    seen: set[bytes] | None = None
    for name, value in headers:
        if name not in _HEADERS:
            continue
        if name == b"authorization":
            scheme, _, value = value.strip().partition(b" ")
            if scheme.lower() != b"bearer":
                raise _unauthorized("expected Authorization: Bearer and a key")
            value = value.strip()
        if seen is None:
            seen = {name}
        # Two values could mean that a proxy added one; which of them counts would be a guess.
        elif name in seen:
            raise _unauthorized(f"the header {name.decode()} came twice; send one key")
        else:
            seen.add(name)
        found = _one(found, value)
    if b"key=" in query:
        for pair in query.split(b"&"):
            if pair.startswith(b"key="):
                if seen is not None and b"key=" in seen:
                    raise _unauthorized("the query has two keys; send one")
                seen = (seen or set()) | {b"key="}
                # Three characters can stand for one; b"\xff" is refused by `_one` with the usual words.
                found = _one(found, unquote_to_bytes(pair[4:]) if len(pair) <= 3 * LONGEST else b"\xff")
    if found is None:
        raise _unauthorized(
            "no key: send one of this gateway's keys as Authorization: Bearer, x-api-key, x-goog-api-key or ?key="
        )
    return found.decode("ascii")


def _one(found: bytes | None, value: bytes) -> bytes:
    if not value:
        raise _unauthorized("the key is empty")
    if len(value) > LONGEST or not value.isascii() or not value.decode("ascii").isprintable() or b" " in value:
        raise _unauthorized("the key was refused: it has characters, or a length, that no key has")
    if found is not None and found != value:
        raise _unauthorized("the request carries two different keys; send one")
    return value


def provider_key(headers: Headers, allowed: bool) -> Secret | None:
    """The client's own key for the provider, if the operator lets clients bring one. It never comes from a body."""
    if not allowed:
        return None
    values = [value for name, value in headers if name == _PROVIDER_KEY]
    if not values:
        return None
    if len(values) > 1:
        raise _unauthorized(f"the header {_PROVIDER_KEY.decode()} came twice; send one key")
    return Secret(_one(None, values[0].strip()).decode("ascii"))


def _expired(when: float) -> str:
    return f"the key was refused: it expired on {datetime.fromtimestamp(when, UTC):%Y-%m-%d}"


def _unauthorized(message: str) -> Unauthorized:
    return Unauthorized(message, status=401)
