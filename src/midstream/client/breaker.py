"""A circuit breaker: a host that keeps failing is left alone for a while, where there is another model to go to."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from urllib.parse import urlsplit

from ..core.errors import MidstreamError, Overloaded, ProviderError, RateLimited, RetriesExhausted, TransportError
from ..core.plural import pluralize

# Enough that a few unlucky requests do not shut a host out, few
# enough that a host that is down does not keep everybody waiting.
FAILURES = 5
REST = 30.0


class Breaker:
    """Leaves a host alone that keeps failing, where a chain has another model to go to: `Client(breaker=Breaker(failures=3, rest=60))`.

    After `failures` failures in a row, requests of chains pass the host over for `rest` seconds. Then one of them is its trial:
    an answer ends the rest, a failure begins another. Requests that have no other model to go to are never held back; how they end
    counts all the same. Failures of requests that were under way at the same time count once. One breaker may serve several clients.
    """

    def __init__(
        self, failures: int = FAILURES, rest: float = REST, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit = failures
        self._rest = rest
        self._clock = clock
        self._hosts: dict[str, _Host] = {}

    def __repr__(self) -> str:
        return f"Breaker(failures={self._limit}, rest={self._rest:g})"

    def admit(self, host: str, *, has_next: bool = True) -> Admission:
        """Let a request to the host pass. Overloaded if the host is to be left alone now and there is a next model to go to."""
        state = self._hosts.get(host)
        if state is None:
            state = self._hosts[host] = _Host()
        admission = Admission(self, state)
        if has_next and state.opened is not None:
            left = state.opened + self._rest - self._clock()
            failed = f"{host} failed {pluralize(state.failures, 'time')} in a row"
            if left > 0:
                raise Overloaded(f"{failed}: not asked again for another {left:.0f} s", provider=host, retry_after=left)
            if state.trial is not None:
                raise Overloaded(f"{failed}: another request is trying it now", provider=host)
            state.trial = admission
        return admission

    def _count(self, state: _Host) -> None:
        state.failures += 1
        state.burst += 1
        if state.failures >= self._limit:
            state.opened = self._clock()


class _Host:
    """What is known of one host."""

    __slots__ = ("burst", "failures", "opened", "trial")

    def __init__(self) -> None:
        self.failures = 0
        self.burst = 0
        """How many failures were ever counted: requests admitted at the same number were under way together."""
        self.opened: float | None = None
        self.trial: Admission | None = None


class Admission:
    """One request that was let pass: say how it went by `succeeded` or `judge`, and `leave` it in any case."""

    __slots__ = ("_breaker", "_burst", "_state")

    def __init__(self, breaker: Breaker, state: _Host) -> None:
        self._breaker = breaker
        self._state = state
        self._burst = state.burst

    def judge(self, error: MidstreamError) -> None:
        """It failed. No answer and a broken host count as failures; a refusal shows that the host works.

        "Too many requests" counts as neither: Retry-After says how long to wait. Of several attempts the last one counts.
        """
        if isinstance(error, RetriesExhausted) and error.attempts:
            error = error.attempts[-1]
        # A refusal (a bad request, a wrong key) was answered by a working host: it clears the count.
        if isinstance(error, (Overloaded, TransportError)):
            # Fifty requests that meet one hiccup together have met it once.
            if self._burst == self._state.burst:
                self._breaker._count(self._state)
            self.leave()
        elif isinstance(error, ProviderError) and not isinstance(error, RateLimited):
            self.succeeded()
        else:
            self.leave()

    def succeeded(self) -> None:
        state = self._state
        state.failures, state.opened, state.trial = 0, None, None

    def leave(self) -> None:
        """No verdict, or no more: a trial that was cancelled leaves its place to the next request."""
        if self._state.trial is self:
            self._state.trial = None


@lru_cache(maxsize=512)  # asked for with every request
def host_of(base_url: str) -> str:
    """Host and port of an address: all paths and wires of a host fail together."""
    return urlsplit(base_url).netloc.rpartition("@")[2].lower()
