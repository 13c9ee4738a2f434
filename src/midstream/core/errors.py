"""Every exception midstream raises on purpose.

MidstreamError
├─ LocalError               the request cannot be made as asked; nothing was sent
│  ├─ UnsupportedBlock · InvalidHistory · InvalidSchema · InvalidValue · UnknownModel · UnknownToolFormat · MissingKey
│  ├─ MissingReasoning
│  ├─ ConfigError
│  └─ ToolFailed            a tool cannot do what the model asked for
│     └─ BadArguments · PathRefused
├─ RemoteError              the peer broke its own protocol
│  └─ MalformedStream · TruncatedStream · EmptyAnswer · LimitExceeded · SchemaMismatch
├─ ProviderError            the peer answered with an error (status, code, type, provider, request_id, retry_after)
│  ├─ RateLimited · Overloaded · QuotaExceeded · Unauthorized · NotFound · ContentFiltered
│  └─ BadRequest
│     └─ ContextTooLong · MediaRefused
├─ TransportError           no usable answer came back
│  └─ ConnectFailed · TimedOut · IdleTimeout · RetriesExhausted · Aborted
├─ CompactionFailed         no usable summary was written; the conversation is as it was
├─ StoreError               a conversation could not be read from or written to its store
│  └─ UnknownConversation · ConversationExists · LengthConflict · CorruptRecord · NewerSchema · StoreUnavailable
└─ LifecycleViolation       a defect in a decoder of ours

This is the one table of errors: `kind` names a class in an ErrorInfo, an ErrorEvent and a stored turn's `failure`, and
`KINDS` leads from the name back to the class. A kind is stored with conversations, so it never changes, even if its class
is renamed. A subclass without its own `kind` is reported as its base.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from .plural import pluralize

# Filled by `__init_subclass__` as the classes below are made: the tree in the docstring is the only list to keep.
KINDS: dict[str, type[MidstreamError]] = {}
"""Every class by its kind."""


class MidstreamError(Exception):
    """The root: catch this to catch everything midstream raises on purpose."""

    # A word for machines, chosen once. It is stored with every failed turn, so it outlives the class's name.
    kind: ClassVar[str] = "midstream"
    retryable: bool = False
    """Whether the same request may succeed if it is sent again."""
    fields: ClassVar[tuple[str, ...]] = ()
    """The attributes, beside message and `retryable`, that an event about this error carries."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # `vars`, not `getattr`: an inherited kind belongs to the
        # base, and a caller's own subclass must not take its place.
        if "kind" in vars(cls):
            KINDS[cls.kind] = cls

    @property
    def summary(self) -> str:
        """The message alone, without the provider and status that `str` may put before it."""
        return str(self)

    @classmethod
    def restore(cls, message: str, **fields: Any) -> Self:
        """The error of this class that said `message`, as it was; the constructor, which words messages, is not run."""
        # Not the constructor: `UnknownConversation("…")` would put
        # the stored message into its own sentence a second time.
        error = cls.__new__(cls, message)
        Exception.__init__(error, message)
        for name in cls.fields:
            if name in fields:
                setattr(error, name, fields[name])
        return error


# `__init_subclass__` is not called for the root itself.
KINDS[MidstreamError.kind] = MidstreamError


class LocalError(MidstreamError):
    """The request cannot be made as asked; nothing was sent."""

    kind = "local"


class InvalidValue(LocalError, TypeError):
    """A block, turn or conversation was made of something that it cannot hold. It is a TypeError as well."""

    kind = "invalid_value"


class UnsupportedBlock(LocalError):
    """A block cannot be expressed on this wire and must not be dropped."""

    kind = "unsupported_block"


class InvalidHistory(LocalError):
    """The history cannot be brought into an order this wire accepts."""

    kind = "invalid_history"


class InvalidSchema(LocalError):
    """A tool's schema is not a JSON object, or exceeds the limits once its references are followed."""

    kind = "invalid_schema"


class UnknownModel(LocalError):
    """No provider or dialect has this name."""

    kind = "unknown_model"


class UnknownToolFormat(LocalError):
    """No tool format has this name; the message lists the valid ones."""

    kind = "unknown_tool_format"


class MissingKey(LocalError):
    """The provider requires a key and none was given."""

    kind = "missing_key"


class MissingReasoning(LocalError):
    """The policy is `fail`, and a turn lacks the reasoning that the next model requires."""

    kind = "missing_reasoning"


class ConfigError(LocalError):
    """A configuration file or value cannot be used."""

    kind = "config"


class ToolFailed(LocalError):
    """The tool cannot do what was asked. The message is written for the model, which receives it as it is."""

    kind = "tool_failed"


class BadArguments(ToolFailed):
    """The arguments do not match the tool's schema; the message says what to change."""

    kind = "bad_arguments"


class PathRefused(ToolFailed):
    """The path leads out of the folder, or to something that is not a regular file."""

    kind = "path_refused"


class RemoteError(MidstreamError):
    """The peer's bytes do not follow the rules of its own wire."""

    kind = "remote"


class MalformedStream(RemoteError):
    """The bytes are not what the wire promises: invalid JSON, wrong types, an HTML page instead of a stream."""

    kind = "malformed"


class TruncatedStream(RemoteError):
    """The stream ended before the answer was complete."""

    kind = "truncated"
    # Another attempt may well get through, and nothing of the answer has been acted on.
    retryable = True


class EmptyAnswer(RemoteError):
    """The model stopped normally but gave neither text nor a tool call."""

    kind = "empty"
    retryable = True


class LimitExceeded(RemoteError):
    """The peer sent more than a buffer may hold."""

    kind = "limit"


class SchemaMismatch(RemoteError):
    """The answer does not follow the schema that it was asked for with."""

    # Not retryable by itself: the model heard the schema and missed it. Whoever asked decides whether to ask again.
    kind = "schema_mismatch"
    fields = ("text", "places")
    text: str = ""
    """What the model said."""
    places: Sequence[str] = ()
    """What is wrong with it, and where."""

    def __init__(self, text: str, places: Sequence[str]) -> None:
        shown = "; ".join(places[:3]) + (f"; and {len(places) - 3} more" if len(places) > 3 else "")
        super().__init__(f"the answer does not follow its schema: {shown}")
        self.text = text
        self.places = list(places)


class ProviderError(MidstreamError):
    """The peer answered, and the answer is an error."""

    kind = "provider"
    fields = ("status", "code", "type", "provider", "request_id", "retry_after")
    message: str = ""
    status: int | None = None
    code: str | None = None
    type: str | None = None
    provider: str | None = None
    request_id: str | None = None
    retry_after: float | None = None

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

    @property
    def summary(self) -> str:
        return self.message

    @classmethod
    def restore(cls, message: str, **fields: Any) -> Self:
        error = super().restore(message, **fields)
        error.message = message
        return error


class RateLimited(ProviderError):
    """Too many requests for now; wait `retry_after` seconds and try again."""

    kind = "rate_limited"
    retryable = True


class Overloaded(ProviderError):
    """The service is busy or broken on its side (5xx, 529, engine overloaded)."""

    kind = "overloaded"
    retryable = True


class QuotaExceeded(ProviderError):
    """The account has no credit left; trying again does not help."""

    # A 429 like a rate limit, and final: telling the two apart is the work
    # of `midstream.wires.provider_errors` (field-guide/kimi.md#errors).
    kind = "quota_exceeded"


class Unauthorized(ProviderError):
    """The key is missing, wrong, or not allowed to do this."""

    kind = "unauthorized"


class NotFound(ProviderError):
    """This host has no such model or path."""

    kind = "not_found"


class BadRequest(ProviderError):
    """The request itself was refused."""

    kind = "bad_request"


class ContextTooLong(BadRequest):
    """The conversation does not fit into the model's context window."""

    kind = "context_too_long"


class MediaRefused(BadRequest):
    """The model does not read a kind of media that the request carries, and will not on a second attempt."""

    kind = "media_refused"


class ContentFiltered(ProviderError):
    """The provider's moderation refused the input or the output."""

    kind = "content_filtered"


class CompactionFailed(MidstreamError):
    """A model was asked to summarise earlier turns, and its answer cannot stand for them. The conversation is as it was.

    `reason`: `failed` (the answer broke off), `cut` (it reached its token limit), `empty`, `longer` (it is no shorter than
    what it was to replace), `too_much` (there is more to read than fits into a bounded number of requests).
    """

    kind = "compaction_failed"
    fields = ("reason",)
    reason: str = "failed"

    def __init__(self, message: str, reason: str = "failed") -> None:
        super().__init__(message)
        self.reason = reason


class TransportError(MidstreamError):
    """No usable answer came back."""

    kind = "transport"
    retryable = True


class ConnectFailed(TransportError):
    """No connection could be made."""

    kind = "connect_failed"


class TimedOut(TransportError):
    """A deadline passed before the answer began or ended."""

    kind = "timed_out"


class IdleTimeout(TransportError):
    """The stream was silent for longer than allowed."""

    kind = "idle_timeout"


class RetriesExhausted(TransportError):
    """Every attempt failed; `attempts` holds the error of each."""

    kind = "retries_exhausted"
    fields = ("attempts",)
    attempts: tuple[MidstreamError, ...] = ()

    def __init__(self, message: str, attempts: Sequence[MidstreamError] = ()) -> None:
        super().__init__(message)
        self.attempts = tuple(attempts)


class Aborted(TransportError):
    """The caller closed the reply before its end."""

    kind = "aborted"
    # The caller wanted it to stop.
    retryable = False


class StoreError(MidstreamError):
    """A conversation could not be read from or written to its store."""

    kind = "store"


class UnknownConversation(StoreError):
    """No conversation with this id is stored."""

    kind = "unknown_conversation"
    fields = ("conversation_id",)
    conversation_id: str = ""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(f"no conversation {conversation_id!r} in this store: list() names those there are")
        self.conversation_id = conversation_id


class ConversationExists(StoreError):
    """The id is taken."""

    kind = "conversation_exists"
    fields = ("conversation_id",)
    conversation_id: str = ""

    def __init__(self, conversation_id: str) -> None:
        super().__init__(
            f"conversation {conversation_id!r} is already stored: delete it first, or add it without an id"
        )
        self.conversation_id = conversation_id


class LengthConflict(StoreError):
    """The conversation is not as long as the caller believes; `length` is its real length."""

    kind = "length_conflict"
    fields = ("conversation_id", "expected", "length")
    retryable = True
    conversation_id: str = ""
    expected: int = 0
    length: int = 0

    def __init__(self, conversation_id: str, expected: int, length: int) -> None:
        super().__init__(
            f"conversation {conversation_id!r} has {pluralize(length, 'turn')}, not {expected}: "
            "another session appended to it; load it again, or fork it. Nothing was written"
        )
        self.conversation_id = conversation_id
        self.expected = expected
        self.length = length


class CorruptRecord(StoreError):
    """A stored record cannot be read; every other conversation still loads."""

    kind = "corrupt_record"


class NewerSchema(StoreError):
    """The store was written by a later version of midstream."""

    kind = "newer_schema"


class StoreUnavailable(StoreError):
    """The store cannot be reached, or is busy for too long; the same call may succeed later."""

    kind = "store_unavailable"
    retryable = True


class LifecycleViolation(MidstreamError):
    """An event came where the lifecycle has no place for it: a defect in a decoder, never in a provider."""

    kind = "lifecycle"
