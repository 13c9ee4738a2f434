"""An HTTP client for the `openai` package that reaches no network: its requests are answered by `OpenAIWires`.

The package brings httpx or, in newer versions, httpx2; whichever it is, this is a transport of that library.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
import openai  # type: ignore[import-not-found, unused-ignore]

from ..core.errors import MidstreamError, NotFound, ProviderError
from ..core.handoff import Note, summarize_notes
from ..wires.answer import AnswerContext, make_writer
from .backend import last_attempt
from .open_stream import OpenStream, SyncOpenStream
from .openai_wires import CHAT, RESPONSES, OpenAIWires

T = TypeVar("T")
# The library that the package was built on: where its own HTTP client comes from.
_ROOTS = [parent.__module__.partition(".")[0] for parent in openai.DefaultHttpxClient.__mro__]
httpx: Any = sys.modules[next(root for root in _ROOTS if root.startswith("httpx"))]

_WIRES = {"/v1/chat/completions": CHAT, "/v1/responses": RESPONSES}
_MODEL = "/v1/models/"
NOTES = "x-midstream-notes"
"""The header of an answer that names what was changed or left out on the way to the model, as the gateway's does."""
_JSON, _SSE = "application/json", "text/event-stream"


class Answered(msgspec.Struct):
    """How a request was answered: a whole body, or a stream whose first piece has come."""

    status: int
    body: bytes
    rest: AsyncGenerator[bytes, None] | None = None
    retry_after: float | None = None
    notes: Sequence[Note] = ()

    @property
    def headers(self) -> dict[str, str]:
        headers = {"content-type": _JSON if self.rest is None else _SSE}
        if self.retry_after is not None:
            headers["retry-after"] = f"{self.retry_after:g}"
        if summary := summarize_notes(self.notes):
            headers[NOTES] = summary
        return headers


async def answer(wires: OpenAIWires, method: str, path: str, body: bytes) -> Answered:
    """The answer to one request, or how it was refused, in the words of its wire."""
    wire = _WIRES.get(path, "")
    try:
        if (method, path) == ("GET", "/v1/models"):
            return Answered(200, wires.models())
        if method == "GET" and path.startswith(_MODEL):
            return Answered(200, wires.model(path.removeprefix(_MODEL)))
        if not wire or method != "POST":
            raise NotFound(
                f"{method} {path} is not answered here: chat.completions.create and responses.create are",
                status=404,
                code="unknown_url",
            )
        reading = wires.read(wire, body)
        if not reading.parsed.options.stream:
            return Answered(200, await wires.whole(reading), notes=reading.notes)
        pieces = wires.stream(reading)
        # A host that refuses does so before the first piece, and a refusal needs a status.
        return Answered(200, await anext(pieces), pieces, notes=reading.notes)
    except MidstreamError as error:
        status, told = make_writer(wire or CHAT, AnswerContext("")).error(error)
        last = last_attempt(error)
        return Answered(status, told, retry_after=last.retry_after if isinstance(last, ProviderError) else None)


def sync_http_client(wires: OpenAIWires) -> Any:
    # `trust_env` off: a proxy of the environment would take the place of the transport.
    return openai.DefaultHttpxClient(transport=_SyncTransport(wires), trust_env=False)


def async_http_client(wires: OpenAIWires) -> Any:
    return openai.DefaultAsyncHttpxClient(transport=_AsyncTransport(wires), trust_env=False)


class _SyncTransport(httpx.BaseTransport):  # type: ignore[misc]
    def __init__(self, wires: OpenAIWires) -> None:
        self._wires = wires

    def handle_request(self, request: Any) -> Any:
        backend = self._wires.backend
        answered = backend.run(_answered(self._wires, request, request.read()))
        return _response(answered, request, lambda pieces: _SyncPieces(backend.iterate(pieces)))

    def close(self) -> None:
        self._wires.backend.close()


class _AsyncTransport(httpx.AsyncBaseTransport):  # type: ignore[misc]
    def __init__(self, wires: OpenAIWires) -> None:
        self._wires = wires

    async def handle_async_request(self, request: Any) -> Any:
        answered = await _answered(self._wires, request, await request.aread())
        return _response(answered, request, _AsyncPieces)

    async def aclose(self) -> None:
        await self._wires.backend.aclose()


async def _answered(wires: OpenAIWires, request: Any, body: bytes) -> Answered:
    """The answer within the caller's time; the first piece of a stream is among the rest."""
    answered = await _in_time(answer(wires, request.method, request.url.path, body), request)
    if answered.rest is not None:
        answered.rest = _pieces(answered.body, answered.rest, request)
        await anext(answered.rest)
    return answered


def _response(answered: Answered, request: Any, streamed: Callable[[AsyncGenerator[bytes, None]], Any]) -> Any:
    # Not as `content`: the library takes the time of a request (`elapsed`) when a stream has been read.
    stream = httpx.ByteStream(answered.body) if answered.rest is None else streamed(answered.rest)
    return httpx.Response(answered.status, headers=answered.headers, stream=stream, request=request)


async def _in_time(work: Awaitable[T], request: Any) -> T:
    """What is awaited within the time that the caller gave (`timeout=`), or the error that the package expects."""
    limit = (request.extensions.get("timeout") or {}).get("read")
    try:
        async with asyncio.timeout(limit):
            return await work
    except TimeoutError:
        raise httpx.ReadTimeout(f"nothing came within {limit} s", request=request) from None


async def _pieces(first: bytes, rest: AsyncGenerator[bytes, None], request: Any) -> AsyncGenerator[bytes, None]:
    """Nothing, then the pieces of a stream. The caller's time is for each of them, as it is for each read of a connection."""
    async with aclosing(rest):
        yield b""  # so that it has begun, for who closes a stream unread: until then, closing this would leave `rest` open
        piece: bytes | None = first
        while piece is not None:
            yield piece
            piece = await _in_time(anext(rest, None), request)


class _SyncPieces(httpx.SyncByteStream):  # type: ignore[misc]
    def __init__(self, pieces: SyncOpenStream[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pieces)

    def close(self) -> None:
        self._pieces.close()


class _AsyncPieces(httpx.AsyncByteStream):  # type: ignore[misc]
    def __init__(self, pieces: AsyncGenerator[bytes, None]) -> None:
        self._pieces = OpenStream(pieces)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def aclose(self) -> None:
        await self._pieces.aclose()
