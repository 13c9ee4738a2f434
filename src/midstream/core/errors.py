"""Every exception midstream raises on purpose.

MidstreamError
├─ LocalError      we or the caller asked for what the wire cannot say
│  ├─ UnsupportedBlock · InvalidHistory · InvalidSchema · UnknownModel · UnknownToolFormat · MissingKey · MissingReasoning
│  │  · ConfigError
├─ RemoteError     the peer broke its own protocol
│  ├─ MalformedStream · TruncatedStream · EmptyAnswer · LimitExceeded
├─ ProviderError   the peer answered with an error (status, code, request_id, retry_after)
│  ├─ RateLimited · Overloaded · QuotaExceeded · Unauthorized · NotFound · BadRequest · ContextTooLong · ContentFiltered
├─ TransportError  no answer
│  ├─ ConnectFailed · TimedOut · IdleTimeout · RetriesExhausted
└─ StoreError      drawn on in store/errors.py; what a tool refuses is a LocalError in agent/functions.py (ToolFailed)
"""

from __future__ import annotations

from collections.abc import Sequence


class MidstreamError(Exception):
    """The root: catch this to catch everything midstream raises on purpose."""

    retryable = False


class LocalError(MidstreamError):
    """The request cannot be made as asked; nothing was sent."""


class UnsupportedBlock(LocalError):
    """A block has no form on this wire and may not be dropped."""


class InvalidHistory(LocalError):
    """The history cannot be brought into an order this wire accepts."""


class InvalidSchema(LocalError):
    """A tool's schema is no JSON object, or grows past the limits when its references are followed."""


class UnknownModel(LocalError):
    """No registry row answers to this name."""


class UnknownToolFormat(LocalError):
    """No tool format of this name; the message lists the valid ones."""


class MissingKey(LocalError):
    """The provider wants a key and none was given."""


class MissingReasoning(LocalError):
    """The policy is `fail` and a turn lacks the reasoning its next reader demands."""


class ConfigError(LocalError):
    """A configuration file or value cannot be used."""


class RemoteError(MidstreamError):
    """The peer's bytes do not follow the wire's own rules."""


class MalformedStream(RemoteError):
    """Bytes that are not what the wire promises (bad JSON, wrong types, HTML for a stream)."""


class TruncatedStream(RemoteError):
    """The stream ended before its end was said."""

    retryable = True


class EmptyAnswer(RemoteError):
    """A normal stop that carries neither text nor a tool call."""

    retryable = True


class LimitExceeded(RemoteError):
    """The peer sent more than a buffer may hold."""


class ProviderError(MidstreamError):
    """The peer answered, and the answer is an error."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        type: str | None = None,
        provider: str | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.type = type
        self.provider = provider
        self.request_id = request_id
        self.retry_after = retry_after

    def __str__(self) -> str:
        head = " ".join(str(part) for part in (self.provider, self.status, self.code or self.type) if part)
        return f"{head}: {self.message}" if head else self.message


class RateLimited(ProviderError):
    """Too many requests for now; wait `retry_after` and try again."""

    retryable = True


class Overloaded(ProviderError):
    """The service is busy or broken on its side (5xx, 529, engine overloaded)."""

    retryable = True


class QuotaExceeded(ProviderError):
    """The account has no credit left: trying again does not help."""


class Unauthorized(ProviderError):
    """The key is missing, wrong, or not allowed to do this."""


class NotFound(ProviderError):
    """No such model or path at this host."""


class BadRequest(ProviderError):
    """The request itself was refused."""


class ContextTooLong(BadRequest):
    """The conversation does not fit the model's window."""


class ContentFiltered(ProviderError):
    """The provider's moderation refused the input or the output."""


class TransportError(MidstreamError):
    """No usable answer came back."""

    retryable = True


class ConnectFailed(TransportError):
    """No connection could be made."""


class TimedOut(TransportError):
    """A deadline passed before the answer began or ended."""


class IdleTimeout(TransportError):
    """The stream went silent for longer than allowed."""


class RetriesExhausted(TransportError):
    """Every attempt failed; `attempts` holds the error of each."""

    def __init__(self, message: str, attempts: Sequence[MidstreamError] = ()) -> None:
        super().__init__(message)
        self.attempts = tuple(attempts)


class StoreError(MidstreamError):
    """A conversation could not be read from or written to its store."""
