"""A circuit breaker: after several failures in a row, a host gets no requests for a while, then one as a trial."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import urlsplit

from ..core.errors import MidstreamError, Overloaded, ProviderError, RateLimited, RetriesExhausted, TransportError

# Enough that a few unlucky requests do not shut a host out, few
# enough that a host that is down does not keep everybody waiting.
FAILURES = 5
REST = 30.0


class Breaker:
    """Counts the failures of each host. `check` raises while the host's breaker is open; report how each call went."""

    def __init__(
        self, failures: int = FAILURES, rest: float = REST, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = failures
        self._rest = rest
        self._clock = clock
        self._failures: dict[str, int] = {}
        self._opened: dict[str, float] = {}

    def check(self, host: str) -> None:
        """Raise Overloaded if the host may not be asked now."""
        opened = self._opened.get(host)
        if opened is None:
            return
        left = opened + self._rest - self._clock()
        if left > 0:
            raise Overloaded(
                f"{host} failed {self._failures.get(host, 0)} times in a row: not asked again for another {left:.0f} s",
                provider=host,
                retry_after=left,
            )
        self._opened[host] = self._clock()  # this caller may try; the others still wait

    def judge(self, host: str, error: MidstreamError) -> None:
        """Report how a call failed. No answer and a broken host count as failures; a refusal shows that the host works.

        "Too many requests" counts as neither: Retry-After says how long to wait. Of several attempts the last one counts.
        """
        if isinstance(error, RetriesExhausted) and error.attempts:
            error = error.attempts[-1]
        # A refusal (a bad request, a wrong key) was answered by a working host: it clears the count.
        if isinstance(error, (Overloaded, TransportError)):
            self.failed(host)
        elif isinstance(error, ProviderError) and not isinstance(error, RateLimited):
            self.succeeded(host)

    def succeeded(self, host: str) -> None:
        self._failures.pop(host, None)
        self._opened.pop(host, None)

    def failed(self, host: str) -> None:
        count = self._failures.get(host, 0) + 1
        self._failures[host] = count
        if count >= self._limit:
            self._opened[host] = self._clock()


@lru_cache(maxsize=512)  # asked for with every request
def host_of(base_url: str) -> str:
    """Host and port of an address: all paths and wires of a host fail together."""
    return urlsplit(base_url).netloc.rpartition("@")[2].lower()
