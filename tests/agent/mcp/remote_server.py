"""A remote MCP server that misbehaves on order, written against the protocol and ASGI alone."""

from __future__ import annotations

import asyncio
import json
import zlib
from typing import Any

_FOREVER = 3600.0
_NOISE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "y" * 900}}


def remote(how: str, detail: str = "") -> Any:
    """The application; `how` is a row of tests/data/mcp/bad_remote_servers.json, or one that `detail` says more of."""
    sessions: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await _Exchange(how, receive, send, detail, sessions).run(scope["method"])

    return app


class _Exchange:
    def __init__(self, how: str, receive: Any, send: Any, detail: str, sessions: list[str]) -> None:
        self._how = how
        self._detail = detail
        self._sessions = sessions
        self._receive = receive
        self._send = send

    async def run(self, method: str) -> None:
        body = b""
        while (part := await self._receive())["type"] == "http.request":
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        if method == "DELETE" and self._how == "hangs at the end":
            await asyncio.sleep(_FOREVER)
        if method == "DELETE" and self._how == "drips at the end":
            await self._head(200)
            while True:
                await self._body(b"x", more=True)
                await asyncio.sleep(0.2)
        if method != "POST":
            await self._json(None, 405)
            return
        message = json.loads(body)
        if self._how == "hangs at start":
            await asyncio.sleep(_FOREVER)
        elif self._how == "leads elsewhere":
            await self._head(307, (b"location", b"http://127.0.0.1:9/mcp"))
            await self._body(b"")
        elif self._how == "is a web page":
            await self._head(200, (b"content-type", b"text/html"))
            await self._body(b"<html>")
        elif self._how == "is broken":
            await self._json({}, 500)
        elif "id" not in message:
            await self._json(None, 202)
        else:
            await self._answer(message["id"], message["method"])

    async def _answer(self, number: Any, method: str) -> None:
        if method == "initialize":
            self._sessions.append(self._detail)
            result: dict[str, Any] = {
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "remote", "version": "1"},
            }  # fmt: skip
        elif method == "tools/list":
            result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        elif method == "tools/call":
            await self._call(number)
            return
        else:
            await self._json({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no such method"}})
            return
        await self._json({"jsonrpc": "2.0", "id": number, "result": result}, 200, (b"mcp-session-id", b"one"))

    async def _call(self, number: Any) -> None:
        events = (b"content-type", b"text/event-stream")
        if self._how == "hangs in a call":
            await asyncio.sleep(_FOREVER)
        elif self._how == "dies in a call":
            await self._head(200, events)
            await self._body(b'event: message\ndata: {"json')
        elif self._how == "breaks off":
            await self._head(200, (b"content-type", b"application/json"), (b"content-length", b"1000"))
            await self._body(b"{")
        elif self._how == "forgets the session":
            await self._json({}, 404)
        elif self._how == "forgets the session once" and len(self._sessions) == 1:
            await self._forget()
        elif self._how == "refuses":
            await self._refuse()
        elif self._how == "floods an answer":
            await self._flood(b'{"x": "', b"x" * (1 << 20), (b"content-type", b"application/json"))
        elif self._how == "floods an event":
            await self._flood(b"data: ", b"x" * (1 << 20), events)
        elif self._how == "floods with events":
            await self._flood(
                b"", f"event: message\ndata: {json.dumps(_NOISE)}\n\n".encode() * 1100, events, ends=False
            )
        else:
            await self._json(
                {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": "hello"}]}}
            )

    async def _forget(self) -> None:
        """As the official servers do, in TypeScript and Python, and as the protocol says."""
        error = {"code": -32001, "message": "Session not found"}
        if self._detail == "says it in words":
            await self._json({"jsonrpc": "2.0", "id": None, "error": error}, 404)
        elif self._detail == "says it as the protocol wants":
            await self._json(None, 404)
        else:
            error = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
            await self._json({"jsonrpc": "2.0", "id": None, "error": error}, 400)

    async def _refuse(self) -> None:
        if self._detail.isdigit():
            await self._json({"words": "of its own"}, int(self._detail))
        elif self._detail == "packed":
            # 100 MB in 100 KB.
            await self._head(200, (b"content-type", b"application/json"), (b"content-encoding", b"gzip"))
            packer = zlib.compressobj(wbits=31)
            for _ in range(100):
                await self._body(packer.compress(b" " * (1 << 20)), more=True)
            await self._body(packer.flush())
        else:
            await self._head(200, (b"content-type", b"application/json"))
            await self._body(b"{nonsense")

    async def _flood(self, begin: bytes, piece: bytes, kind: tuple[bytes, bytes], *, ends: bool = True) -> None:
        """100 MB."""
        await self._head(200, kind)
        await self._body(begin, more=True)
        for _ in range(100):
            await self._body(piece, more=True)
        if not ends:
            await asyncio.sleep(_FOREVER)
        await self._body(b"")

    async def _json(self, value: Any, status: int = 200, *headers: tuple[bytes, bytes]) -> None:
        await self._head(status, (b"content-type", b"application/json"), *headers)
        await self._body(b"" if value is None else json.dumps(value).encode())

    async def _head(self, status: int, *headers: tuple[bytes, bytes]) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers]})

    async def _body(self, data: bytes, *, more: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})
