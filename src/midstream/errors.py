"""Every exception midstream raises on purpose; the tree is drawn in `midstream.core.errors`.

    from midstream.errors import ContextTooLong, RateLimited

Catch the most general class you can handle: LocalError (nothing was sent), RemoteError (the peer broke its protocol),
ProviderError (the peer refused), TransportError (no answer), StoreError; MidstreamError is all of them. `retryable` says
whether the same request may succeed later. `KINDS` maps the `kind` of an ErrorInfo or a turn's `failure` to its class.
"""

from __future__ import annotations

from .core.errors import *

__all__ = [
    "KINDS",
    "Aborted",
    "BadArguments",
    "BadRequest",
    "CompactionFailed",
    "ConfigError",
    "ConnectFailed",
    "ContentFiltered",
    "ContextTooLong",
    "ConversationExists",
    "CorruptRecord",
    "EmptyAnswer",
    "IdleTimeout",
    "InvalidHistory",
    "InvalidSchema",
    "InvalidValue",
    "LengthConflict",
    "LifecycleViolation",
    "LimitExceeded",
    "LocalError",
    "MalformedStream",
    "MediaRefused",
    "MidstreamError",
    "MissingKey",
    "MissingReasoning",
    "NewerSchema",
    "NotFound",
    "Overloaded",
    "PathRefused",
    "ProviderError",
    "QuotaExceeded",
    "RateLimited",
    "RemoteError",
    "RetriesExhausted",
    "SchemaMismatch",
    "StoreError",
    "StoreUnavailable",
    "TimedOut",
    "ToolFailed",
    "TransportError",
    "TruncatedStream",
    "Unauthorized",
    "UnknownConversation",
    "UnknownModel",
    "UnknownToolFormat",
    "UnsupportedBlock",
]
