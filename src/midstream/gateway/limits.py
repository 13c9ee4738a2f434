"""How much a key may use: requests a minute, requests at once, dollars in a window.

Within one process all three are exact, but for one thing that nobody can know before: an answer costs what it costs, so the
requests that are in progress when the money runs out still end. With several processes on one state (`shared`):

- rate: a process takes leases out of the minute's total. It may hold `lease_of(rate)` requests that it has not used, and
  lend as many before the state has answered. So N processes admit at most rate + N x lease_of(rate) in a calendar minute.
- concurrency: counted in each process, so at most N x concurrency.
- spend: a process knows what others spent until 2 x `SYNC_EVERY` seconds ago: by `sync`, or, after a pause, by asking.

docs/gateway-config.md tells operators the same.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from ..core.errors import MidstreamError, Overloaded, QuotaExceeded, RateLimited
from ..core.plural import pluralize
from .bucket import Bucket
from .spend import MICRO, micro_dollars, show_dollars, window_end, window_key
from .tenants import Tenant

SYNC_EVERY = 1.0
"""How often `sync` should run, in seconds."""
_KNOWN_FOR = 2 * SYNC_EVERY
"""For how many seconds what a key has spent counts as known where others spend too."""
_USED_FOR = 5 * SYNC_EVERY
"""For how many seconds after a key's last request `sync` asks for what it has spent."""


# Three methods of the whole state: what counts can be tried in tests without a database.
class LimitStore(Protocol):
    """The part of the gateway's state that counts."""

    async def add_spend(self, amounts: Mapping[tuple[str, str], int]) -> None: ...
    async def spend(self, key_id: str, window: str) -> int: ...
    async def take_rate(self, key_id: str, minute: int, count: int) -> int: ...


def lease_of(rate: int) -> int:
    """How many requests a process takes out of a minute's total at a time."""
    # A twentieth: small enough that a process hardly keeps others from their share, large enough that the store is
    # asked only some twenty times a minute for a busy key.
    return max(1, rate // 20)


class Admission:
    """A request that was let in. Call `charge` when its cost is known and `release` when it has ended, however it ended."""

    __slots__ = ("_account", "_limiter", "_open", "_slot")

    def __init__(self, limiter: Limiter, account: _Account | None, slot: bool) -> None:
        self._limiter = limiter
        self._account = account
        self._slot = slot
        self._open = True

    def charge(self, micros: int | None) -> None:
        """Add what the answer cost, in micro-dollars; None if nobody knows."""
        if micros and self._account is not None:
            self._limiter.charge(self._account, micros)

    def release(self) -> None:
        """Make room for another request. Calling it twice does nothing more."""
        # An answer may end in several places (its end, a refusal, a cancelled task); the slot is given back once.
        if self._open:
            self._open = False
            if self._slot:
                self._limiter.in_flight -= 1
                if self._account is not None:
                    self._account.running -= 1

    def __enter__(self) -> Admission:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class _Account:
    """What one key has used."""

    __slots__ = ("_until", "_window", "bucket", "budget", "learned", "lease", "running", "spent", "tenant", "used")

    def __init__(self, tenant: Tenant) -> None:
        self.take(tenant)
        self.running = 0
        self.bucket: Bucket | None = None
        self.lease: _Lease | None = None
        self.spent: dict[str, int] = {}
        """Micro-dollars by window, once they are known; what `sync` has yet to write is in it."""
        self.learned = 0.0
        """When that was read from the store."""
        self.used = 0.0
        """When its last request came."""
        self._window = ""

    def take(self, tenant: Tenant) -> None:
        """The key's limits, which may have changed."""
        self.tenant = tenant
        self.budget = micro_dollars(tenant.spend or 0.0)
        self._until = 0.0  # the window may be of another kind now

    def window(self, now: float) -> str:
        """The name of the current window."""
        # Names of windows are made from dates; remembered until the
        # window ends, because they are asked for with every request.
        if now >= self._until:
            kind = self.tenant.spend_window
            self._window = window_key(kind, now)
            self._until = window_end(kind, now) or math.inf
        return self._window


class _Lease:
    """A process's part of one minute's requests. `left` falls below 0 while the state has not answered."""

    __slots__ = ("asking", "left", "minute", "over")

    def __init__(self, minute: int) -> None:
        self.minute = minute
        self.left = 0
        self.asking = False
        self.over = False
        """The minute's total is used up."""


class Limiter:
    """Admits requests. `store` keeps what is spent; with `shared`, it also shares the rate with other processes. `clock` never
    goes back; `now` is the time of day."""

    def __init__(
        self,
        store: LimitStore | None = None,
        *,
        shared: bool = False,
        max_in_flight: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._shared = shared and store is not None
        self.max_in_flight = max_in_flight
        self._clock = clock
        self._now = now
        self.in_flight = 0
        self._accounts: dict[str, _Account] = {}
        self._unwritten: dict[tuple[str, str], int] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def prepared(self, tenant: Tenant) -> bool:
        """Whether `admit` knows what this key has spent so far. If not: `await prepare(tenant)` first."""
        if tenant.spend is None or self._store is None:
            return True
        account = self._account(tenant)
        # Alone, a process knows what it has spent itself; with others it has to look.
        if self._shared and self._clock() - account.learned > _KNOWN_FOR:
            return False
        return account.window(self._now()) in account.spent

    async def prepare(self, tenant: Tenant) -> None:
        """Read what the key has spent in the current window."""
        if not self.prepared(tenant):
            account = self._account(tenant)
            await self._learn(account, account.window(self._now()))

    async def enter(self, tenant: Tenant, *, slot: bool = True) -> Admission:
        """`admit`, after `prepare` where that is needed."""
        if not self.prepared(tenant):
            await self.prepare(tenant)
        return self.admit(tenant, slot=slot)

    def admit(self, tenant: Tenant, *, slot: bool = True) -> Admission:
        """Let a request in, or raise RateLimited, QuotaExceeded or Overloaded, each of which says when to come back. Without
        `slot` it does not count as in progress: for what is cheap, such as counting tokens."""
        # The cheapest test first, and nothing is taken before all have passed: the rate comes last, since a request
        # that is refused for another reason must not use it up.
        if slot and self.max_in_flight is not None and self.in_flight >= self.max_in_flight:
            # 503 and not 429: it is the gateway that is full, not this key that has used up its share.
            raise Overloaded(
                f"the gateway already has {pluralize(self.in_flight, 'request')} in progress, its limit; try again in 1s",
                status=503,
                retry_after=1.0,
            )
        account = None
        if tenant.key_id:
            account = self._account(tenant)
            if slot and tenant.concurrency is not None and account.running >= tenant.concurrency:
                raise RateLimited(
                    f"this key already has {pluralize(account.running, 'request')} in progress, its limit; "
                    "wait for one to end, or try again in 1s",
                    status=429,
                    retry_after=1.0,
                )
            if tenant.spend is not None:
                self._check_spend(account, tenant)
            if tenant.rate is not None:
                self._take_rate(account, tenant.rate)
            if slot:
                account.running += 1
        if slot:
            self.in_flight += 1
        return Admission(self, account, slot)

    def charge(self, account: _Account, micros: int) -> None:
        tenant = account.tenant
        window = account.window(self._now())
        # An amount of a window that is not known yet is only in
        # `_unwritten`; the next look at the store adds the two.
        if window in account.spent:
            account.spent[window] += micros
        elif self._store is None:
            account.spent = {window: micros}
        # Kept for keys without a limit too: `keys list` shows it, and a limit may come later.
        key = (tenant.key_id, window)
        self._unwritten[key] = self._unwritten.get(key, 0) + micros

    async def sync(self) -> None:
        """Write what was spent here, and read what was spent elsewhere. Run it every `SYNC_EVERY` seconds and at the end.
        What could not be written is kept for the next time."""
        if self._store is None:
            self._unwritten.clear()
            return
        # Exchanged before the await: what is charged meanwhile goes into the new one.
        amounts, self._unwritten = self._unwritten, {}
        if amounts:
            try:
                await self._store.add_spend(amounts)
            except BaseException:  # a cancelled write too: what was not stored is kept for the next one
                for key, micros in amounts.items():
                    self._unwritten[key] = self._unwritten.get(key, 0) + micros
                raise
        if self._shared:
            # Only keys in use: a gateway may know thousands.
            since = self._clock() - _USED_FOR
            for account in [each for each in self._accounts.values() if each.spent and each.used > since]:
                await self._learn(account, account.window(self._now()))

    async def settled(self) -> None:
        """Wait for the leases that were asked for."""
        while self._asking:
            await asyncio.gather(*self._asking)

    def _account(self, tenant: Tenant) -> _Account:
        account = self._accounts.get(tenant.key_id)
        if account is None:
            account = self._accounts[tenant.key_id] = _Account(tenant)
        elif account.tenant is not tenant:
            account.take(tenant)
        return account

    async def _learn(self, account: _Account, window: str) -> None:
        assert self._store is not None
        key_id = account.tenant.key_id
        spent = await self._store.spend(key_id, window)
        # One window is enough: the former one is over.
        account.spent = {window: spent + self._unwritten.get((key_id, window), 0)}
        account.learned = self._clock()

    def _check_spend(self, account: _Account, tenant: Tenant) -> None:
        now = self._now()
        account.used = self._clock()
        spent = account.spent.get(account.window(now), 0)
        if spent < account.budget:
            return
        end = window_end(tenant.spend_window, now)
        told = f"this key has spent {show_dollars(spent / MICRO)} of its {show_dollars(tenant.spend or 0.0)}"
        if end is None:
            raise QuotaExceeded(f"{told}, which is not reset; ask the gateway's operator for more", status=429)
        raise QuotaExceeded(
            f"{told} a {tenant.spend_window}; it works again from {datetime.fromtimestamp(end, UTC):%Y-%m-%d %H:%M} UTC",
            status=429,
            retry_after=math.ceil(end - now),
        )

    def _take_rate(self, account: _Account, rate: int) -> None:
        clock = self._clock()
        bucket = account.bucket
        if bucket is None or bucket.size != rate:
            bucket = account.bucket = Bucket(rate, clock, period=60.0)
        if not bucket.take(clock):
            # Whichever ends later: coming back after the shorter of the two would only be refused again.
            raise _too_many(rate, max(bucket.wait(clock), self._minute_left(account.lease)))
        wait = self._lease(account, rate) if self._shared else 0.0
        if wait:
            # This process had room, the shared minute had not; its own bucket must not pay for that.
            bucket.give_back()
            raise _too_many(rate, wait)

    def _lease(self, account: _Account, rate: int) -> float:
        """Take one request out of this process's part of the minute; the seconds to wait if there is none."""
        minute = int(self._now() // 60)
        lease = account.lease
        if lease is None or lease.minute != minute:
            lease = account.lease = _Lease(minute)
        # Lend before the store has answered: waiting for it would
        # add its latency to requests at the start of every minute.
        if lease.left > 0 or (not lease.over and lease.left > -lease_of(rate)):
            lease.left -= 1
            wait = 0.0
        else:
            wait = self._minute_left(lease) or 1.0
        # One question at a time for each key; the answer covers everything that was lent meanwhile.
        if lease.left <= 0 and not lease.asking and not lease.over:
            lease.asking = True
            task = asyncio.get_running_loop().create_task(self._ask(account.tenant.key_id, lease, rate))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        return wait

    def _minute_left(self, lease: _Lease | None) -> float:
        """The seconds until a minute whose total is used up is over."""
        return max(0.0, (lease.minute + 1) * 60.0 - self._now()) if lease is not None and lease.over else 0.0

    async def _ask(self, key_id: str, lease: _Lease, rate: int) -> None:
        """Take what was lent, and the next part, out of the minute's total."""
        assert self._store is not None
        try:
            while lease.left <= 0 and not lease.over:
                wanted = lease_of(rate) - min(lease.left, 0)
                total = await self._store.take_rate(key_id, lease.minute, wanted)
                beyond = min(wanted, max(0, total - rate))
                lease.left += wanted - beyond
                # The store counts on past the limit, so what is beyond tells how much of the wish was granted.
                lease.over = total >= rate
        except MidstreamError:
            pass  # the state is away: what may be lent is the limit until it is back
        finally:
            lease.asking = False


def _too_many(rate: int, wait: float) -> RateLimited:
    wait = max(0.1, math.ceil(wait * 10) / 10)
    return RateLimited(
        f"this key may make {pluralize(rate, 'request')} a minute; try again in {wait:g}s", status=429, retry_after=wait
    )
