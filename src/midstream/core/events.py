"""One stream, one lifecycle: start, blocks that never nest, then exactly one done or error.

Every event of a block carries the block's `index` in the turn. A delta's text is exactly what came; a `*_end` carries the
finished block; `done` and `error` carry the whole Turn. `block` is the one event for what arrives whole and has no deltas
(media, and what the core has no word for).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from .blocks import Media, Opaque, Text, Thinking, ToolCall, ToolKind, ToolResponse, Turn
from .errors import KINDS, MidstreamError, ProviderError, RetriesExhausted


# No cyclic garbage collection: an event holds values that hold values, and a stream makes thousands of them.
class _Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Immutable, compared by content, written without the fields that hold their default."""


class Start(_Event, frozen=True, tag="start"):
    """The host has accepted the request. `turn_key` is the key of the turn; `model` and `response_id` are what is known by then:
    from a client the model that was asked, from a decoder alone what the host's first words say."""

    turn_key: str = ""
    model: str = ""
    response_id: str | None = None


class ThinkingStart(_Event, frozen=True, tag="thinking_start"):
    """Reasoning begins."""

    index: int


class ThinkingDelta(_Event, frozen=True, tag="thinking_delta"):
    """A piece of reasoning, exactly as it came."""

    index: int
    delta: str


class ThinkingEnd(_Event, frozen=True, tag="thinking_end"):
    """Reasoning is complete: the finished block."""

    index: int
    block: Thinking


class TextStart(_Event, frozen=True, tag="text_start"):
    """Text begins."""

    index: int


class TextDelta(_Event, frozen=True, tag="text_delta"):
    """A piece of text, exactly as it came."""

    index: int
    delta: str


class TextEnd(_Event, frozen=True, tag="text_end"):
    """Text is complete: the finished block."""

    index: int
    block: Text


class ToolCallStart(_Event, frozen=True, tag="toolcall_start"):
    """A tool call begins. `id` is canonical: it stays the same whichever models read it later."""

    index: int
    id: str
    name: str
    kind: ToolKind = "function"
    namespace: str = ""


class ToolCallDelta(_Event, frozen=True, tag="toolcall_delta"):
    """A piece of a call's arguments, which are JSON text."""

    index: int
    delta: str


class ToolCallEnd(_Event, frozen=True, tag="toolcall_end"):
    """A tool call is complete: the finished block."""

    index: int
    block: ToolCall


class BlockEvent(_Event, frozen=True, tag="block"):
    """A block that arrived whole: media, or something kept for its origin."""

    index: int
    block: Media | Opaque


class Done(_Event, frozen=True, tag="done"):
    """The answer ended well; `turn` is the whole of it."""

    turn: Turn

    @property
    def reason(self) -> str:
        return self.turn.stop_reason


class ErrorInfo(_Event, frozen=True):
    """What went wrong, as a value. `kind` is the kind of an exception class in `midstream.errors` (`truncated`, `empty`,
    `rate_limited`, `context_too_long`, `idle_timeout`, `aborted` …); `to_exception` makes that exception.

    `status` to `retry_after` are what the provider said. `attempts` are the errors behind `retries_exhausted`. `details`
    holds the other attributes of the exception, by name.
    """

    kind: str
    message: str
    status: int | None = None
    code: str | None = None
    type: str | None = None
    retryable: bool = False
    provider: str | None = None
    request_id: str | None = None
    retry_after: float | None = None
    attempts: tuple[ErrorInfo, ...] = ()
    details: dict[str, Any] | None = None

    @classmethod
    def of(cls, error: MidstreamError) -> ErrorInfo:
        """This exception as a value."""
        # The details of any class of error, also one that is added
        # later, without a case for it here: each class lists its fields.
        told = {name: getattr(error, name) for name in error.fields}
        attempts = tuple([cls.of(each) for each in told.pop("attempts", ())])
        named = {name: told.pop(name) for name in ProviderError.fields if name in told}
        return cls(
            error.kind, error.summary, retryable=error.retryable, attempts=attempts, details=told or None, **named
        )

    def to_exception(self) -> MidstreamError:
        """The exception this value tells of. A kind that this version does not know gives the nearest base class."""
        known = KINDS.get(self.kind)
        # A newer version may have stored a kind that this one lacks. A status or a code means that a provider said it.
        if known is None:
            known = MidstreamError if self.status is None and self.code is None else ProviderError
        told = {name: getattr(self, name) for name in ProviderError.fields} | (self.details or {})
        if issubclass(known, RetriesExhausted):
            told["attempts"] = tuple([each.to_exception() for each in self.attempts])
        error = known.restore(self.message, **told)
        # Only when it differs: the attribute is the class's otherwise, and stays so.
        if error.retryable != self.retryable:
            error.retryable = self.retryable
        return error


class ErrorEvent(_Event, frozen=True, tag="error"):
    """The stream did not end well; `turn` is what came before, with its `failure` set to the error's kind."""

    error: ErrorInfo
    turn: Turn

    def to_exception(self) -> MidstreamError:
        """The exception for this error, for callers who prefer to raise."""
        return self.error.to_exception()


Event: TypeAlias = (
    Start
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | TextStart
    | TextDelta
    | TextEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | BlockEvent
    | Done
    | ErrorEvent
)


class ToolStarted(_Event, frozen=True, tag="tool_started"):
    """The agent runs this call now."""

    call: ToolCall


class ToolFinished(_Event, frozen=True, tag="tool_finished"):
    """A call has its result."""

    response: ToolResponse


class CompactionStarted(_Event, frozen=True, tag="compaction_started"):
    """Earlier turns are about to be summarised by `model`. `reason`: `asked`, `near_limit`, `smaller_window` (the model was
    changed for one with a smaller window) or `too_long` (the host refused the conversation as too long).

    `tokens` is how much the conversation has now, `turns` how many turns the summary will stand for.
    """

    model: str
    reason: str
    turns: int
    tokens: int
    window: int | None = None


class CompactionFinished(_Event, frozen=True, tag="compaction_finished"):
    """The summary is stored, and models are sent it from now on: `turn`. If there is none, `error` says why, and the
    conversation is as it was."""

    turn: Turn | None = None
    error: ErrorInfo | None = None


CompactionEvent: TypeAlias = CompactionStarted | CompactionFinished


class Stopped(_Event, frozen=True, tag="stopped"):
    """Why the agent's run is over: the last event of every run that was not left.

    `text`: the model answered. `max_tokens`, `refusal`: the answer ended so, without calls. `rounds`, `tokens`, `cost`,
    `time`: a limit was reached. `failed`: the answer failed, and was asked for again as often as allowed. `detail` is for
    people.
    """

    reason: str
    detail: str = ""


AgentEvent: TypeAlias = Event | ToolStarted | ToolFinished | CompactionEvent | Stopped
"""What the agent's run tells: the events of every answer, and what it does between them."""
