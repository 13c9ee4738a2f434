"""An HTTP client for the `openai` package that reaches no network: its requests are answered by `OpenAIWires`.

The package brings httpx or, in newer versions, httpx2; whichever it is, this is a transport of that library.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator, Sequence
from typing import Any

import msgspec
import openai  # type: ignore[import-not-found, unused-ignore]

from ..core.errors import MidstreamError, NotFound, ProviderError
from ..core.handoff import Note
from ..wires.answer import AnswerContext, make_writer
from .openai_wires import CHAT, RESPONSES, OpenAIWires

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
        codes = dict.fromkeys([note.code for note in self.notes if note.action != "kept"])
        if codes:
            headers[NOTES] = ", ".join(codes)
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
                f"{method} {path} is not answered here: chat.completions.create and responses.create are", status=404
            )
        reading = wires.read(wire, body)
        if not reading.parsed.options.stream:
            return Answered(200, await wires.whole(reading), notes=reading.notes)
        pieces = wires.stream(reading)
        # A host that refuses does so before the first piece, and a refusal needs a status.
        return Answered(200, await anext(pieces), pieces, notes=reading.notes)
    except MidstreamError as error:
        status, told = make_writer(wire or CHAT, AnswerContext("")).error(error)
        return Answered(status, told, retry_after=error.retry_after if isinstance(error, ProviderError) else None)


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
        work = answer(self._wires, request.method, request.url.path, request.read())
        answered = backend.run(_in_time(work, request))
        if answered.rest is None:
            return httpx.Response(answered.status, headers=answered.headers, content=answered.body, request=request)
        stream = _SyncPieces(answered.body, backend.iterate(answered.rest))
        return httpx.Response(answered.status, headers=answered.headers, stream=stream, request=request)

    def close(self) -> None:
        self._wires.backend.close()


class _AsyncTransport(httpx.AsyncBaseTransport):  # type: ignore[misc]
    def __init__(self, wires: OpenAIWires) -> None:
        self._wires = wires

    async def handle_async_request(self, request: Any) -> Any:
        work = answer(self._wires, request.method, request.url.path, await request.aread())
        answered = await _in_time(work, request)
        if answered.rest is None:
            return httpx.Response(answered.status, headers=answered.headers, content=answered.body, request=request)
        stream = _AsyncPieces(answered.body, answered.rest)
        return httpx.Response(answered.status, headers=answered.headers, stream=stream, request=request)

    async def aclose(self) -> None:
        await self._wires.backend.aclose()


async def _in_time(work: Any, request: Any) -> Answered:
    """The answer within the time that the caller gave (`timeout=`), or the error that the package expects."""
    limit = (request.extensions.get("timeout") or {}).get("read")
    try:
        async with asyncio.timeout(limit):
            answered: Answered = await work
            return answered
    except TimeoutError:
        raise httpx.ReadTimeout(f"no answer within {limit} s", request=request) from None


class _SyncPieces(httpx.SyncByteStream):  # type: ignore[misc]
    def __init__(self, first: bytes, rest: Generator[bytes, None, None]) -> None:
        self._first = first
        self._rest = rest

    def __iter__(self) -> Iterator[bytes]:
        yield self._first
        yield from self._rest

    def close(self) -> None:
        self._rest.close()


class _AsyncPieces(httpx.AsyncByteStream):  # type: ignore[misc]
    def __init__(self, first: bytes, rest: AsyncGenerator[bytes, None]) -> None:
        self._first = first
        self._rest = rest

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._first
        async for piece in self._rest:
            yield piece

    async def aclose(self) -> None:
        await self._rest.aclose()
