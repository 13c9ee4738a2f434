"""How long to wait, how often to try again, and how much to hold. All times are seconds, all sizes bytes."""

from __future__ import annotations

from msgspec.structs import replace

from ..core.blocks import Value


class RetryPolicy(Value, frozen=True):
    """When a failed attempt is made again, before the first block of an answer only.

    The numbers are those users know from the vendors' own clients (field-guide/names.md#timeouts-and-retries).
    """

    max_retries: int = 2
    """One count for an answer of one model, wherever a request for it fails; each model of a chain has its own."""
    initial: float = 0.5
    max_backoff: float = 8.0
    jitter: float = 0.25
    """The share of the backoff that is left to chance; it only ever shortens the wait."""
    max_retry_after: float = 120.0
    """If a peer asks for a longer wait, the error is raised instead."""
    budget: float = 180.0
    """No wait may end later than this after the first attempt began."""


class TransportOptions(Value, frozen=True):
    """How long a client waits for a host, how often it tries again, and how much it reads: `Client(transport=TransportOptions(idle=30))`."""

    connect: float = 10.0
    """Name lookup, TCP and TLS of one attempt."""
    first_byte: float = 600.0
    """From the start of an attempt, connecting included, to the first data of the answer, whatever keep-alives come before it."""
    idle: float = 180.0
    """How long a begun answer may bring no data. Keep-alive comments and blank lines are not data. Before the first data: how long a
    host that sent two of them or more may be silent, if that is more than three times their spacing."""
    total: float = 3600.0
    """From the call to the last byte, retries included."""
    retry: RetryPolicy = RetryPolicy()
    error_body: float = 10.0
    """How long an error's body is read; its status alone is error enough."""
    max_error_body: int = 1024 * 1024
    """An error's body is cut here, not refused."""
    max_body: int = 64 * 1024 * 1024
    """What `HTTPResponse.read` takes."""
    max_stream: int = 1024 * 1024 * 1024
    """What one streamed answer may bring in all, decompressed; single events are bounded by the decoders."""
    max_redirects: int = 0
    """Redirects to follow within the same origin. Another origin is never followed: the key would go with it."""
    keep_alive: float = 60.0
    """How long an unused connection waits for the next turn."""
    max_unused: int = 100
    """How many unused connections wait at once; the one unused for longest is closed first."""
    linger: float = 1.0
    """After a terminal event: how long the end of the body may take before the connection is given up, not reused."""

    def with_waits(
        self, first_byte: float | None = None, idle: float | None = None, total: float | None = None
    ) -> TransportOptions:
        """The same options with those of these waits that are given."""
        given = {"first_byte": first_byte, "idle": idle, "total": total}
        given = {name: seconds for name, seconds in given.items() if seconds is not None}
        return replace(self, **given) if given else self
