"""What a remote server refuses, in words: an HTTP status becomes the error of the request that it answers.

The SDK says of every refusal that there was one, and takes a forgotten session for a bad request if the server explains it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import msgspec

from ...client.mcp_server import McpServer
from .messages import SESSION_LOST

_METHOD_NOT_FOUND = -32601
_INTERNAL_ERROR = -32603


class _Error(msgspec.Struct, frozen=True):
    code: int = _INTERNAL_ERROR
    message: str = ""
    data: Any = None


class _Message(msgspec.Struct, frozen=True):
    jsonrpc: str
    id: int | str | None = None
    error: _Error | None = None


def refusal(server: McpServer, request: bytes, status: int, body: bytes, in_session: bool) -> bytes | None:
    """The answer to give the SDK for a request that was refused; None if it is no request of the protocol."""
    try:
        asked = msgspec.json.decode(request, type=_Message)
    except (msgspec.DecodeError, ValueError):
        return None  # of OAuth, for example
    if asked.id is None:
        return None
    said = _error(body)
    if in_session and _is_forgotten(status, said):
        error = _Error(message=SESSION_LOST)
    elif status in (401, 403):
        error = _Error(message=refused_words(server, status))
    elif said is not None and said.message:
        error = said
    elif status == 404 and not in_session:
        error = _Error(_METHOD_NOT_FOUND, "Not Found")
    else:
        error = _Error(message=f"HTTP {status}{_phrase(status)}")
    return msgspec.json.encode({"jsonrpc": "2.0", "id": asked.id, "error": msgspec.to_builtins(error)})


def refused_words(server: McpServer, status: int) -> str:
    """What to do about a server that does not know us."""
    return f"it refuses us (HTTP {status}): set its headers, or log in with `midstream mcp login {server.name}`"


def _is_forgotten(status: int, said: _Error | None) -> bool:
    # The protocol says 404. Servers that keep sessions in a table of their own say 400 to one that is not in it.
    if status == 404:
        return said is None or said.code != _METHOD_NOT_FOUND
    words = "" if said is None else said.message.lower()
    return status == 400 and ("session" in words or "not initialized" in words)


def _error(body: bytes) -> _Error | None:
    try:
        return msgspec.json.decode(body, type=_Message).error
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


def _phrase(status: int) -> str:
    try:
        return f" ({HTTPStatus(status).phrase})"
    except ValueError:
        return ""
