"""A host that keeps failing is left alone for a while: closed, open after so many failures in a row, then one trial."""

from __future__ import annotations

import time
from collections.abc import Callable
from urllib.parse import urlsplit

from ..core.errors import MidstreamError, Overloaded, ProviderError, RateLimited, RetriesExhausted, TransportError

FAILURES = 5
REST = 30.0


class Breaker:
    """One for each host. `check` raises while it is open; tell it how each call went."""

    def __init__(
        self, failures: int = FAILURES, rest: float = REST, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = failures
        self._rest = rest
        self._clock = clock
        self._failures: dict[str, int] = {}
        self._opened: dict[str, float] = {}

    def check(self, host: str) -> None:
        opened = self._opened.get(host)
        if opened is None:
            return
        left = opened + self._rest - self._clock()
        if left > 0:
            raise Overloaded(
                f"{host} failed {self._failures.get(host, 0)} times in a row and is left alone for {left:.0f} s more",
                provider=host,
                retry_after=left,
            )
        self._opened[host] = self._clock()  # one trial; the others still wait

    def judge(self, host: str, error: MidstreamError) -> None:
        """Tell it how a call failed: no answer and a broken host count, a refusal shows a host that works.

        Too many requests says nothing of the host's health; waiting is what Retry-After is for. Of several attempts the
        last is judged.
        """
        if isinstance(error, RetriesExhausted) and error.attempts:
            error = error.attempts[-1]
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


def host_of(base_url: str) -> str:
    """Host and port of an address: its paths and wires share a fate."""
    return urlsplit(base_url).netloc.rpartition("@")[2].lower()
