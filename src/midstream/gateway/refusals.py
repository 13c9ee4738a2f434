"""What a client is told when its request is refused: the error it should see, and how it should take it.

An upstream's trouble with the operator's key is not the client's: it learns that the gateway cannot reach the model, never
that a key was wrong, or it would ask its user for another one and retry for minutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ..core.errors import (
    BadRequest,
    LocalError,
    MidstreamError,
    MissingKey,
    NotFound,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    RetriesExhausted,
    StoreError,
    Unauthorized,
)

if TYPE_CHECKING:
    from .tenants import Tenant

Headers = list[tuple[bytes, bytes]]

_FINAL = (BadRequest, LocalError, NotFound, QuotaExceeded, Unauthorized)
"""Errors that the same request meets again, whenever it is sent."""


class Refusal(msgspec.Struct, frozen=True):
    """A request that was refused before it became an exchange."""

    wire: str
    path: str
    status: int
    error: str
    """The kind of error."""
    tenant: Tenant | None = None
    """Who asked, where that was known."""


def as_told(error: MidstreamError, *, own_key: bool = False) -> MidstreamError:
    """The error as the client may know it; with `own_key` the upstream's key is the client's own."""
    # The last attempt is what a client can act on; the list of all belongs to the log.
    if isinstance(error, RetriesExhausted) and error.attempts:
        return as_told(error.attempts[-1], own_key=own_key)
    if isinstance(error, Unauthorized) and error.provider is not None and not own_key:
        # 502, not 401: a client takes 401 for its own key, and Claude Code retries it for minutes
        # (field-guide/clients.md#claude-code).
        return ProviderError(f"{error.provider} refused the gateway's key: its operator must look at it", status=502)
    if isinstance(error, MissingKey):
        return ProviderError(f"the gateway has no key for this model: {error}", status=503)
    if isinstance(error, StoreError):
        return Overloaded("the gateway cannot reach its database; try again", status=503, retry_after=1)
    if isinstance(error, BadRequest) and error.status is None:
        error.status = 400
    return error


def refusal_headers(error: MidstreamError) -> Headers:
    """When to come back, and whether to: clients that retry by themselves read `x-should-retry`."""
    headers: Headers = []
    wait = getattr(error, "retry_after", None)
    if wait is None and isinstance(error, (Overloaded, RateLimited)):
        wait = 1.0
    if wait is not None:
        # Whole seconds, rounded up: coming back too early is refused again, and some clients cannot read fractions.
        headers.append((b"retry-after", b"%d" % max(1, int(wait + 0.999))))
    if isinstance(error, _FINAL):
        headers.append((b"x-should-retry", b"false"))
    return headers
