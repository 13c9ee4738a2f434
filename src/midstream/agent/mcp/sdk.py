"""The one place where the official MCP SDK is imported: on first use, in a worker thread, because it takes most of a second.

Everything else in this package speaks of its objects by their attributes. `[mcp]` is an extra; without it the error says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from ...client.cancellation import in_daemon_thread
from ...client.mcp_server import McpServer
from ...core.errors import ConfigError
from .process import MAX_MESSAGE, ServerProcess

if TYPE_CHECKING:
    import httpx2
    from mcp import Client
    from mcp.client.session import MessageHandlerFnT

_QUEUE = 256
_GOODBYE = 2.0  # seconds that a remote server may take to hear of the end


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


def make_client(transport: AbstractAsyncContextManager[Any], on_message: MessageHandlerFnT) -> Client:
    """A client of the SDK, to be entered; `on_message` gets notifications and what could not be read."""
    from importlib.metadata import version

    from mcp import Client
    from mcp_types import Implementation

    return Client(
        transport,
        message_handler=on_message,
        client_info=Implementation(name="midstream", version=version("midstream")),
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
        return error.code == CONNECTION_CLOSED or "session terminated" in error.message.lower()
    return isinstance(error, httpx2.TransportError)


def message_of(error: BaseException) -> str:
    """What went wrong, in one line; of a group of errors the first that says something."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    faults = getattr(error, "errors", None)
    if (
        isinstance(error, ValueError)
        and callable(faults)
        and (listed := faults(include_url=False, include_input=False))
    ):
        # Of pydantic, whose own words take many lines.
        where = ".".join([str(step) for step in listed[0]["loc"]][-4:])
        return f"{where or 'message'}: {listed[0]['msg']}"[:500]
    lines = str(error).strip().splitlines()
    return lines[0][:500] if lines else type(error).__name__


class _Sifted:
    """A stream of messages whose lists of tools the SDK can read: it refuses a whole list for one bad tool."""

    def __init__(self, stream: Any, tell: Callable[[str], None]) -> None:
        self._stream = stream
        self._tell = tell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> _Sifted:
        return self

    async def __anext__(self) -> Any:
        return self._sift(await self._stream.__anext__())

    async def receive(self) -> Any:
        return self._sift(await self._stream.receive())

    async def __aenter__(self) -> _Sifted:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)

    def _sift(self, item: Any) -> Any:
        result = getattr(getattr(item, "message", None), "result", None)
        if isinstance(result, dict) and isinstance(result.get("tools"), list):
            result["tools"] = [tool for tool in result["tools"] if self._is_readable(tool)]
        return item

    def _is_readable(self, tool: Any) -> bool:
        if not isinstance(tool, dict):
            self._tell("it lists something that is no tool; that is left out")
            return False
        # What a tool promises of its results is not held against it: the model reads them as they come.
        tool.pop("outputSchema", None)
        schema = tool.setdefault("inputSchema", {})
        if isinstance(schema, dict):
            schema.setdefault("type", "object")
        name = str(tool.get("name"))[:80]
        fault = _tool_fault(tool)
        if fault and not _tool_fault({**tool, "inputSchema": {"type": "object"}}):
            self._tell(f"the schema of {name} cannot be used ({fault}); its arguments are not described")
            tool["inputSchema"] = {"type": "object"}
        elif fault:
            self._tell(f"the tool {name} is left out ({fault})")
            return False
        return True


def _tool_fault(tool: Any) -> str:
    """Why the SDK would refuse a list with this tool; or ""."""
    from pydantic import ValidationError

    try:
        _tool_list().validate_python({"tools": [tool]})
    except ValidationError as error:
        return message_of(error)
    return ""


@cache
def _tool_list() -> Any:
    from mcp_types.methods import SERVER_RESULTS
    from mcp_types.version import LATEST_HANDSHAKE_VERSION
    from pydantic import TypeAdapter

    kind: Any = SERVER_RESULTS["tools/list", LATEST_HANDSHAKE_VERSION]
    return TypeAdapter(kind)


@asynccontextmanager
async def stdio_transport(process: ServerProcess, tell: Callable[[str], None]) -> AsyncIterator[Any]:
    """The streams that the SDK wants, over a program of ours; the program is ended at the end. `tell` hears of bad tools."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    to_client, inbox = anyio.create_memory_object_stream[Any](0)
    # With room: a request that is given up must be able to say so to a program that does not read.
    outbox, from_client = anyio.create_memory_object_stream[Any](_QUEUE)

    async def read() -> None:
        async with to_client:
            async for line in process.lines():
                try:
                    item: Any = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
                except ValueError as error:
                    item = _unread(line, error)
                await to_client.send(item)

    async def write() -> None:
        async with from_client:
            async for message in from_client:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.write(text.encode() + b"\n")

    process.start()
    tasks = [asyncio.ensure_future(read()), asyncio.ensure_future(write())]
    # When either ends, the other side must hear of it.
    tasks[1].add_done_callback(lambda _: to_client.close())
    try:
        yield _Sifted(inbox, tell), outbox
    finally:
        try:
            await process.end()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for stream in (to_client, inbox, outbox, from_client):
                stream.close()


class _Envelope(msgspec.Struct, frozen=True):
    id: int | str | None = None
    method: str | None = None


def _unread(line: bytes, error: ValueError) -> Any:
    """What to make of a line that is no message: if it answers a request, that request has failed; else it is told."""
    from mcp.shared.message import SessionMessage
    from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError

    try:
        head = msgspec.json.decode(line, type=_Envelope)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return error
    if head.id is None or head.method is not None:
        return error
    # Without this the request would wait for its whole time.
    fault = ErrorData(code=PARSE_ERROR, message=f"its answer cannot be read: {message_of(error)}")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=head.id, error=fault))


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
        await _bounded(response, on_flood)

    async def hurry(request: httpx2.Request) -> None:
        # The end of a session is a courtesy: whoever does not answer it must not keep the chat from ending.
        if request.method == "DELETE":
            request.extensions["timeout"] = httpx2.Timeout(_GOODBYE).as_dict()

    timeout = httpx2.Timeout(server.start_timeout, read=None)
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(
            httpx2.AsyncClient(
                headers=dict(server.headers),
                timeout=timeout,
                auth=auth,
                event_hooks={"request": [hurry], "response": [watch]},
            )
        )
        inbox, outbox = await stack.enter_async_context(
            streamable_http_client(server.url, http_client=http, max_sse_event_size=MAX_MESSAGE)
        )
        yield _Sifted(inbox, tell), outbox


async def _bounded(response: Any, on_flood: Callable[[str], None]) -> None:
    """Cut off an answer that is larger than any message may be. A stream of events is bounded one by one by the SDK."""
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for chunk in self._inner:
                size += len(chunk)
                if size > MAX_MESSAGE:
                    on_flood(f"it sent an answer of more than {MAX_MESSAGE >> 20} MB")
                    raise httpx2.ReadError("too much")
                yield chunk

        async def aclose(self) -> None:
            await self._inner.aclose()

    if "text/event-stream" not in response.headers.get("content-type", ""):
        response.stream = Bounded(response.stream)
