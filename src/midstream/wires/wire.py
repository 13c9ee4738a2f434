"""What every wire can do, and the functions that work on any of them.

A wire is sans-IO: it encodes a request, and decodes the bytes of an answer into events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from ..core.blocks import Conversation, Turn
from ..core.dialect import Dialect, Options
from ..core.errors import InvalidHistory, MidstreamError
from ..core.events import Done, ErrorEvent, ErrorInfo, Event
from ..core.tools import ToolSpec
from .decode_context import DecodeContext
from .encode_context import EncodeContext
from .history_cache import HistoryCache
from .provider_errors import provider_error
from .request import Request


class Decoder(Protocol):
    """Bytes in, events out. `progress` counts data events (comments do not count); `ended` is set by the terminal event."""

    progress: int

    @property
    def ended(self) -> bool: ...

    def feed(self, data: bytes) -> list[Event]: ...

    def close(self) -> list[Event]: ...

    def read_body(self, body: bytes) -> list[Event]:
        """A whole body instead of a stream: all events at once."""
        ...

    def fail(self, error: ErrorInfo) -> list[Event]:
        """The transport lost the stream: keep what came and end with this error."""
        ...


class Encode(Protocol):
    def __call__(self, asking: EncodeContext, /) -> Request: ...


class MakeDecoder(Protocol):
    def __call__(self, dialect: Dialect, asked: DecodeContext) -> Decoder: ...


class ReadRequest(Protocol):
    """A request body, ours or a stranger's, as a conversation, tools and options."""

    def __call__(self, body: bytes, *, provider: str = "") -> ParsedRequest: ...


class ParsedRequest(msgspec.Struct, frozen=True):
    conversation: Conversation
    model: str = ""
    tools: tuple[ToolSpec, ...] = ()
    options: Options = Options()


def guarded(read: ReadRequest) -> ReadRequest:
    """A reader of strangers' requests that gives a request whose every value has its type, or InvalidHistory."""

    def read_request(body: bytes, *, provider: str = "") -> ParsedRequest:
        try:
            parsed = read(body, provider=provider)
            return msgspec.convert(msgspec.to_builtins(parsed), ParsedRequest)
        except MidstreamError:
            raise
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise InvalidHistory(f"this is no request of this wire: {error}") from None

    return read_request


class Wire(msgspec.Struct, frozen=True):
    """One protocol. `plain` is the dialect of a host that follows it to the letter."""

    name: str
    write: Encode
    decoder: MakeDecoder
    plain: Dialect
    read_request: ReadRequest | None = None

    def encode(
        self,
        conversation: Conversation,
        dialect: Dialect,
        model: str,
        *,
        tools: Sequence[ToolSpec] = (),
        options: Options = Options(),
        cache: HistoryCache | None = None,
    ) -> Request:
        return self.write(EncodeContext(conversation, dialect, model, tools, options, cache))


def decode_chunks(decoder: Decoder, chunks: Iterable[bytes]) -> Iterator[Event]:
    """All events of a stream; stops at the terminal one without reading on."""
    for data in chunks:
        yield from decoder.feed(data)
        if decoder.ended:
            return
    yield from decoder.close()


def decode_whole(decoder: Decoder, body: bytes, *, status: int = 200, provider: str = "") -> Turn:
    """A whole answer as a Turn. An error the provider sent is raised; an answer that is only thinking has `failure` set."""
    if status >= 400:
        raise provider_error(status, body, provider=provider or None)
    events = decoder.read_body(body)
    last = events[-1]
    if isinstance(last, ErrorEvent) and last.error.kind not in ("empty", "truncated"):
        raise last.to_exception()
    assert isinstance(last, (Done, ErrorEvent))
    return last.turn
