"""Taps that see every request and answer, and sources that answer instead of the network: the ports of recordings.

A `Tap` receives each request that goes out, and its `ExchangeTap` the head, every chunk as it was read from the connection
(before it is decompressed), and the end. A `Source` may answer a request instead of the network. An answer that nobody
listens to runs through none of this code: a tap is a RawResponse around the connection's own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, Protocol, TypeAlias

from ..core.errors import IdleTimeout, MidstreamError, TimedOut, TruncatedStream
from .response import RawResponse
from .target import Target

Ending: TypeAlias = Literal["clean", "cut", "timeout", "error", "aborted"]
"""How an exchange ended. `clean`: the body ended, or everything needed had arrived. `cut`: the connection was lost. `timeout`: one
of our limits was reached. `error`: what came is not HTTP, or nothing came at all. `aborted`: the reader left."""


class ExchangeTap(Protocol):
    """Follows one exchange; the methods are called in this order. They run for every chunk and must not raise."""

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        """The status and the lower-case headers have come."""

    def chunk(self, data: bytes) -> None:
        """Bytes of the body, as they were read just now; the tap reads its own clock."""

    def end(self, ending: Ending, error: MidstreamError | None) -> None:
        """Nothing follows. Called once, even if no head came."""


class Tap(Protocol):
    def sent(self, target: Target) -> ExchangeTap | None:
        """A request goes out; what this returns follows its answer. The headers of `target` hold keys."""


class Source(Protocol):
    @property
    def offline(self) -> bool:
        """Whether it answers every request: then no key is needed."""

    @property
    def instant(self) -> bool:
        """Whether to skip the wait before another attempt."""

    async def send(self, target: Target) -> RawResponse | None:
        """The answer; None leaves the request to the network. An error is raised as the network's would be."""


class Everywhere:
    """A tap and a source for every transport of this process, as long as a `with` block lasts: tests do not make the clients of the
    code they test."""

    __slots__ = ("source", "tap")

    def __init__(self) -> None:
        self.tap: Tap | None = None
        self.source: Source | None = None


everywhere = Everywhere()


class Sender(Protocol):
    async def send(self, target: Target, due: float, limit: float) -> RawResponse:
        """The head of the answer; its body is `due` to begin by then, `limit` seconds after the attempt began."""


class TappedSender:
    """The network or its replacement; what the network carries goes to the tap."""

    __slots__ = ("_network", "_tap")

    def __init__(self, network: Sender, tap: Tap | None) -> None:
        self._network = network
        # Read when a transport sends, not when it is made: a client may be older than the `with` block.
        self._tap = tap or everywhere.tap

    async def send(self, target: Target, due: float, limit: float) -> RawResponse:
        if everywhere.source is not None and (answer := await everywhere.source.send(target)) is not None:
            return answer
        told = None if self._tap is None else self._tap.sent(target)
        if told is None:
            return await self._network.send(target, due, limit)
        try:
            response = await self._network.send(target, due, limit)
        # A cancelled request is an exchange as well: it is kept as aborted.
        except BaseException as error:
            reason = error if isinstance(error, MidstreamError) else None
            told.end(_ending(reason), reason)
            raise
        told.head(response.status, response.headers)
        return TappedResponse(response, told)


class TappedResponse:
    """A RawResponse that passes what it reads to a tap."""

    __slots__ = ("_inner", "_told", "first_byte_by", "headers", "ready", "status", "take")

    def __init__(self, inner: RawResponse, told: ExchangeTap) -> None:
        self._inner = inner
        self._told: ExchangeTap | None = told
        self.take = self._listening(inner.take, told.chunk)
        self.status: int = inner.status
        self.headers: Mapping[str, str] = inner.headers
        # The same functions, not others around them: `ready` is called at every chunk of a live stream.
        self.ready: Callable[[], Awaitable[None]] = inner.ready
        self.first_byte_by: Callable[[float], None] = inner.first_byte_by

    @property
    def done(self) -> bool:
        return self._inner.done

    def _listening(
        self, take: Callable[[], bytes | None], chunk: Callable[[bytes], None]
    ) -> Callable[[], bytes | None]:
        # A closure: it is called at every chunk of a live stream, and looking up attributes costs as much as the work.
        def listening() -> bytes | None:
            try:
                data = take()
            except MidstreamError as error:
                self._end(_ending(error), error)
                raise
            if data:
                chunk(data)
            elif data is not None:
                self._end("clean", None)
            return data

        return listening

    def close(self, reason: MidstreamError | None = None) -> None:
        self._end(_ending(reason), reason)
        self._inner.close(reason)

    def finish(self, grace: float) -> None:
        self._end("clean", None)
        self._inner.finish(grace)

    def _end(self, ending: Ending, error: MidstreamError | None) -> None:
        # Once only: a reader that has met the end may close the response afterwards.
        told, self._told = self._told, None
        if told is not None:
            told.end(ending, error)


def _ending(reason: MidstreamError | None) -> Ending:
    match reason:
        case None:
            return "aborted"
        case TruncatedStream():
            return "cut"
        case TimedOut() | IdleTimeout():
            return "timeout"
        case _:
            return "error"
