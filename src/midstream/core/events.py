"""One stream, one lifecycle: start, blocks that never nest, then exactly one done or error.

Every event of a block carries the block's `index` in the turn. A delta's text is exactly what came; a `*_end` carries the
finished block; `done` and `error` carry the whole Turn. `block` is the one event for what arrives whole and has no deltas
(media, and what the core has no word for).
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from .blocks import Media, Opaque, Text, Thinking, ToolCall, Turn
from .errors import (
    ConnectFailed,
    EmptyAnswer,
    IdleTimeout,
    LimitExceeded,
    MalformedStream,
    MidstreamError,
    Overloaded,
    ProviderError,
    RateLimited,
    StoreError,
    TimedOut,
    TransportError,
    TruncatedStream,
)


class _Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    pass


class Start(_Event, frozen=True, tag="start"):
    turn_key: str = ""
    model: str = ""
    response_id: str | None = None


class ThinkingStart(_Event, frozen=True, tag="thinking_start"):
    index: int


class ThinkingDelta(_Event, frozen=True, tag="thinking_delta"):
    index: int
    delta: str


class ThinkingEnd(_Event, frozen=True, tag="thinking_end"):
    index: int
    block: Thinking


class TextStart(_Event, frozen=True, tag="text_start"):
    index: int


class TextDelta(_Event, frozen=True, tag="text_delta"):
    index: int
    delta: str


class TextEnd(_Event, frozen=True, tag="text_end"):
    index: int
    block: Text


class ToolCallStart(_Event, frozen=True, tag="toolcall_start"):
    index: int
    id: str
    name: str


class ToolCallDelta(_Event, frozen=True, tag="toolcall_delta"):
    index: int
    delta: str


class ToolCallEnd(_Event, frozen=True, tag="toolcall_end"):
    index: int
    block: ToolCall


class BlockEvent(_Event, frozen=True, tag="block"):
    """A block that arrived whole: media, or something kept for its origin."""

    index: int
    block: Media | Opaque


class Done(_Event, frozen=True, tag="done"):
    turn: Turn

    @property
    def reason(self) -> str:
        return self.turn.stop_reason


class ErrorInfo(_Event, frozen=True):
    """What went wrong, as a value. `kind`: truncated, empty, malformed, limit, provider, transport, store, aborted."""

    kind: str
    message: str
    status: int | None = None
    code: str | None = None
    type: str | None = None
    retryable: bool = False


class ErrorEvent(_Event, frozen=True, tag="error"):
    """The stream did not end well; `turn` is what came before, with its `failure` set."""

    error: ErrorInfo
    turn: Turn

    def to_exception(self) -> MidstreamError:
        """The exception a caller who wants exceptions would have got."""
        info = self.error
        by_code = {"idle_timeout": IdleTimeout, "timed_out": TimedOut, "connect_failed": ConnectFailed}
        if info.kind == "transport" and info.code in by_code:
            return by_code[info.code](info.message)
        plain = {
            "truncated": TruncatedStream,
            "empty": EmptyAnswer,
            "malformed": MalformedStream,
            "limit": LimitExceeded,
            "transport": TransportError,
            "store": StoreError,
        }.get(info.kind)
        if plain is not None:
            return plain(info.message)
        kind: type[ProviderError] = ProviderError
        if info.retryable:
            kind = RateLimited if info.status == 429 else Overloaded
        return kind(info.message, status=info.status, code=info.code, type=info.type)


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
