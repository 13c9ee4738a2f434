"""Whether and when to retry a failed attempt: pure decisions from status, headers, clock and random numbers.

Retry-After is read as `retry-after-ms`, as seconds and as an HTTP date, in this order; what is not understood counts as
absent, what lies in the past as "soon". `x-should-retry` overrides the status, but nothing overrides an error that a
retry cannot fix (no credit, wrong key).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC

from ..core.errors import (
    BadRequest,
    ConnectFailed,
    ContentFiltered,
    ContextTooLong,
    MediaRefused,
    MidstreamError,
    NotFound,
    ProviderError,
    QuotaExceeded,
    Unauthorized,
)
from .options import RetryPolicy

# The vendors' own clients retry these (field-guide/names.md#timeouts-and-retries). `_HOPELESS` goes by the
# class of the error, because the status does not tell: Moonshot's 429 may be a rate limit, worth a wait, or
# an empty account, which is final (field-guide/kimi.md#errors).
_RETRIED_STATUSES = frozenset((408, 409, 429))
_HOPELESS = (QuotaExceeded, Unauthorized, NotFound, ContentFiltered, ContextTooLong, MediaRefused)


def retried_status(status: int) -> bool:
    """The statuses that a retry may fix: 408, 409, 429 and everything of the 5xx, 529 among them."""
    return status in _RETRIED_STATUSES or status >= 500


def worth_retrying(error: MidstreamError, headers: Mapping[str, str]) -> bool:
    """Whether another attempt may succeed. `headers` are the answer's, with lower-case names."""
    if not isinstance(error, ProviderError):
        # A deadline that passed is not retried: the request was taken, and a second one would be paid for twice.
        return isinstance(error, ConnectFailed)
    if isinstance(error, _HOPELESS):
        return False
    # Below the hopeless ones on purpose: a proxy that sets it on every answer must not make us retry a wrong key.
    told = headers.get("x-should-retry", "").strip().lower()
    if told in ("true", "false"):
        return told == "true"
    if error.status is None or (isinstance(error, BadRequest) and error.status >= 500):
        return False  # some servers send 500 for what they will never do
    return retried_status(error.status)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds the peer asks to wait, negative for the past; None if it does not say, or says nonsense."""
    # The finer value first, as the vendors' own clients read the two.
    seconds = _number(headers.get("retry-after-ms"))
    if seconds is not None:
        return seconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    return _until(value, now) if seconds is None and value else seconds


def backoff(attempt: int, rng: Callable[[], float], policy: RetryPolicy) -> float:
    """The wait after failed attempt number `attempt` (0 for the first), shortened by chance."""
    doublings = min(attempt, 64)  # far past any sensible maximum, and no overflow
    return min(policy.initial * 2.0**doublings, policy.max_backoff) * (1 - policy.jitter * rng())


def wait_for(
    attempt: int, headers: Mapping[str, str], now: float, rng: Callable[[], float], policy: RetryPolicy
) -> float:
    """How long to wait: what the peer asks if it is sensible, else the backoff."""
    asked = retry_after(headers, now)
    # Zero and the past mean "soon", which is what the backoff says too, only with jitter.
    if asked is not None and 0 < asked <= policy.max_retry_after:
        return asked
    return backoff(attempt, rng, policy)


def retry_delay(
    attempt: int, headers: Mapping[str, str], now: float, rng: Callable[[], float], policy: RetryPolicy
) -> float | None:
    """The wait before the next attempt, or None to give up."""
    if attempt >= policy.max_retries:
        return None
    asked = retry_after(headers, now)
    # A host that names a long wait means it. Trying sooner would fail, and waiting would look like a hang.
    if asked is not None and asked > policy.max_retry_after:
        return None
    return wait_for(attempt, headers, now, rng, policy)


def _number(text: str | None) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _until(text: str, now: float) -> float | None:
    from email.utils import parsedate_to_datetime  # a third of what importing this package costs, for a rare header

    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment.timestamp() - now
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
