"""Where the official MCP SDK is imported and its transports are made: on first use, in a worker thread, because it
takes most of a second.

Everything else in this package speaks of its objects by their attributes. `[mcp]` is an extra; without it the error says so.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from ...client.cancellation import in_daemon_thread
from ...client.mcp_server import McpServer
from ...core.errors import ConfigError
from .http_refusal import refusal
from .messages import SESSION_LOST, Sifted, error_message, read_message
from .process import MAX_MESSAGE, ServerProcess

if TYPE_CHECKING:
    import httpx2
    from mcp import Client
    from mcp.client.session import MessageHandlerFnT

_QUEUE = 256
_GOODBYE = 2.0  # seconds that a remote server may take to hear of the end
_PROBE = 3.0  # seconds for the answer whether a program speaks the newest protocol; older ones may not answer at all
_MAX_REFUSAL = 64 * 1024


async def load() -> None:
    """Import the SDK without stopping the event loop; ConfigError if it is not installed."""
    await in_daemon_thread(_load, "import-mcp")


@cache
def _load() -> None:
    try:
        import httpx2  # noqa: F401
        import mcp.client
        import mcp.client.auth  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"MCP servers need {error.name}, which is not installed: pip install '.[mcp]' in midstream's checkout"
        ) from None
    # The SDK logs what a server sent, tokens included; without a handler of the program's own, nothing of it is shown.
    for name in ("mcp", "client", "httpx2"):
        logging.getLogger(name).addHandler(logging.NullHandler())


def make_client(
    transport: AbstractAsyncContextManager[Any], on_message: MessageHandlerFnT, *, handshake: bool = False
) -> Client:
    """A client of the SDK, to be entered; `on_message` gets notifications and what could not be read. `handshake`: begin as
    before protocol 2026-07-28, without asking first which of them the server speaks."""
    from importlib.metadata import version

    from mcp import Client
    from mcp_types import Implementation

    return Client(
        transport,
        message_handler=on_message,
        client_info=Implementation(name="midstream", version=version("midstream")),
        mode="legacy" if handshake else "auto",
        # Lists are kept by us, with what we made of them.
        cache=None,
    )


def is_modern(client: Client) -> bool:
    """Whether changes of lists have to be subscribed to (protocol 2026-07-28 and later)."""
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    return client.protocol_version in MODERN_PROTOCOL_VERSIONS


def is_closed(error: BaseException) -> bool:
    """Whether an error says that the connection is gone, rather than that a request failed."""
    import httpx2
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED

    if isinstance(error, MCPError):
        return error.code == CONNECTION_CLOSED or error.message == SESSION_LOST
    return isinstance(error, httpx2.TransportError)


def is_unknown_method(error: BaseException) -> bool:
    """Whether the server does not have what it was asked for at all."""
    from mcp import MCPError
    from mcp_types import METHOD_NOT_FOUND

    return isinstance(error, MCPError) and error.code == METHOD_NOT_FOUND


def is_forgotten(error: BaseException) -> bool:
    """Whether a remote server has forgotten the session, and so did nothing with the request."""
    return str(error) == SESSION_LOST


@asynccontextmanager
async def stdio_transport(process: ServerProcess, tell: Callable[[str], None], seconds: float) -> AsyncIterator[Any]:
    """The streams that the SDK wants, over a program of ours; the program is ended at the end. `tell` hears of bad tools;
    `seconds` is how long a start may take."""
    import anyio
    from mcp_types import METHOD_NOT_FOUND

    to_client, inbox = anyio.create_memory_object_stream[Any](0)
    # With room: a request that is given up must be able to say so to a program that does not read.
    outbox, from_client = anyio.create_memory_object_stream[Any](_QUEUE)

    probe: list[Any] = []

    async def read() -> None:
        async with to_client:
            async for line in process.lines():
                item = read_message(line)
                if probe and getattr(getattr(item, "message", None), "id", None) == probe[0]:
                    probe.clear()
                await to_client.send(item)

    async def write() -> None:
        async with from_client:
            async for message in from_client:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                if getattr(message.message, "method", "") == "server/discover":
                    probe.append(message.message.id)
                    tasks.append(asyncio.ensure_future(give_up_probe()))
                await process.write(text.encode() + b"\n")

    async def give_up_probe() -> None:
        await asyncio.sleep(min(_PROBE, seconds / 4))
        if probe:
            await to_client.send(error_message(probe.pop(), METHOD_NOT_FOUND, "not answered"))

    process.start()
    tasks = [asyncio.ensure_future(read()), asyncio.ensure_future(write())]
    # When either ends, the other side must hear of it.
    tasks[1].add_done_callback(lambda _: to_client.close())
    try:
        yield Sifted(inbox, tell), outbox
    finally:
        try:
            await process.end()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in (to_client, inbox, outbox, from_client):
                stream.close()


@asynccontextmanager
async def http_transport(
    server: McpServer,
    auth: httpx2.Auth | None,
    tell: Callable[[str], None],
    on_status: Callable[[int], None],
    on_flood: Callable[[str], None],
) -> AsyncIterator[Any]:
    """The SDK's own streamable HTTP, with the server's headers and a bound on what an answer may hold. `on_status` gets the
    status of every answer and `on_flood` hears of one that was cut off, neither of which the SDK passes on."""
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    async def watch(response: httpx2.Response) -> None:
        on_status(response.status_code)
        _bound(response, on_flood)
        await _word_refusal(response, server)

    class Hurried(httpx2.AsyncClient):
        async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
            if request.method != "DELETE":
                return await super().send(request, **options)
            # The end of a session is a courtesy: whoever does not answer it, or byte by byte, must not keep the chat from
            # ending. A timeout of the client would begin anew with each byte.
            async with asyncio.timeout(_GOODBYE):
                response = await super().send(request, **options)
                await response.aread()
                return response

    timeout = httpx2.Timeout(server.start_timeout, read=None)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(
            Hurried(
                # Not compressed, if they can help it: nobody sees from the outside how much is in it.
                headers={"accept-encoding": "identity", **server.headers},
                timeout=timeout,
                auth=auth,
                event_hooks={"response": [watch]},
            )
        )
        inbox, outbox = await stack.enter_async_context(
            streamable_http_client(server.url, http_client=http, max_sse_event_size=MAX_MESSAGE)
        )
        yield Sifted(inbox, tell), outbox


def _bound(response: Any, on_flood: Callable[[str], None]) -> None:
    """Cut off an answer that is larger than any message may be. A stream of events is bounded one by one by the SDK."""
    import httpx2

    encoding = response.headers.get("content-encoding", "identity").lower()

    class Bounded(httpx2.AsyncByteStream):
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            unpack = zlib.decompressobj(47) if encoding != "identity" else None  # 47: of gzip or zlib, whichever it is
            async for chunk in self._inner:
                # Unpacked here and not by the client: some kilobytes may hold some gigabytes.
                piece = chunk if unpack is None else unpack.decompress(chunk, MAX_MESSAGE + 1 - size)
                size += len(piece)
                if size > MAX_MESSAGE:
                    on_flood(f"it sent an answer of more than {MAX_MESSAGE >> 20} MB")
                    raise httpx2.ReadError("too much")
                yield piece

        async def aclose(self) -> None:
            await self._inner.aclose()

    if "text/event-stream" not in response.headers.get("content-type", ""):
        if encoding in ("gzip", "x-gzip", "deflate"):
            del response.headers["content-encoding"]
        else:
            encoding = "identity"
        response.stream = Bounded(response.stream)


async def _word_refusal(response: Any, server: McpServer) -> None:
    """Put words for the refusal of a request in the place of its body: the SDK does not pass on the status."""
    import httpx2

    if response.status_code < 400:
        return
    inner = response.stream
    body = b""
    async for chunk in inner:
        body += chunk
        if len(body) > _MAX_REFUSAL:
            break

    class Worded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield body if said is None else said

        async def aclose(self) -> None:
            await inner.aclose()

    said = refusal(
        server, response.request.content, response.status_code, body, "mcp-session-id" in response.request.headers
    )
    if said is not None:
        response.headers["content-type"] = "application/json"
        response.headers.pop("content-length", None)
    response.stream = Worded()
