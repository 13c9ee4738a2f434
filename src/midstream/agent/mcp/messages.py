"""What a server sends, made readable for the SDK, which refuses a whole list or a whole result for one part it cannot read.

A tool, prompt or resource that cannot be read is left out and told; a block of a result is replaced by words. An answer that
is no message at all fails its request at once, which would wait for its whole time otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from ...core.patterns import late_pattern

SESSION_LOST = "it has forgotten the session"
_QUOTED = late_pattern(r": \d+ validation errors? for ")
_LISTS = {"prompts": "prompts/list", "resources": "resources/list"}


def message_of(error: BaseException) -> str:
    """What went wrong, in one line; of a group of errors the first that says something."""
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    if is_invalid(error):
        # Of pydantic, whose own words take many lines.
        first = error.errors(include_url=False, include_input=False)[0]  # type: ignore[attr-defined]
        where = ".".join([str(step) for step in first["loc"] if not str(step).startswith("JSONRPC")][-4:])
        return f"{where or 'message'}: {first['msg']}"[:500]
    lines = str(error).strip().splitlines()
    said = lines[0][:500] if lines else type(error).__name__
    # The SDK quotes pydantic, which names the types of the SDK.
    return _QUOTED.split(said)[0]


def is_invalid(error: BaseException) -> bool:
    """Whether an error says that something does not have the form of the protocol."""
    return isinstance(error, ValueError) and callable(getattr(error, "errors", None))


def read_message(line: bytes) -> Any:
    """The message in a line; an error in its place if there is none."""
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        failed = error
    try:
        mended = _mended(line)
    except (ValueError, RecursionError):
        return _failed(line, failed)
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(mended, by_name=False))
    except ValueError as error:
        return _failed(mended, error)


def error_message(number: int | str, code: int, text: str) -> Any:
    """The message that a request has failed."""
    from mcp.shared.message import SessionMessage
    from mcp_types import ErrorData, JSONRPCError

    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=text)))


class Sifted:
    """A stream of messages that the SDK can read; `tell` hears of what was left out."""

    def __init__(self, stream: Any, tell: Callable[[str], None]) -> None:
        self._stream = stream
        self._tell = tell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> Sifted:
        return self

    async def __anext__(self) -> Any:
        return self._sift(await self._stream.__anext__())

    async def receive(self) -> Any:
        return self._sift(await self._stream.receive())

    async def __aenter__(self) -> Sifted:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)

    def _sift(self, item: Any) -> Any:
        message = getattr(item, "message", None)
        if (error := getattr(message, "error", None)) is not None:
            _keep_from_closing(error)
        result = getattr(message, "result", None)
        if not isinstance(result, dict):
            return item
        if isinstance(result.get("tools"), list):
            result["tools"] = [tool for tool in result["tools"] if self._is_tool(tool)]
        for what, method in _LISTS.items():
            if isinstance(items := result.get(what), list) and _fault(method, what, *items):
                result[what] = [each for each in items if self._is_listed(method, what, each)]
        if "structuredContent" in result:
            result.setdefault("content", [])
        if isinstance(blocks := result.get("content"), list) and _fault("tools/call", "content", *blocks):
            result["content"] = [_block(each) for each in blocks]
        return item

    def _is_tool(self, tool: Any) -> bool:
        if not isinstance(tool, dict):
            self._tell("it lists something that is no tool; that is left out")
            return False
        # What a tool promises of its results is not held against it: the model reads them as they come.
        tool.pop("outputSchema", None)
        schema = tool.setdefault("inputSchema", {})
        if isinstance(schema, dict):
            schema.setdefault("type", "object")
        name = str(tool.get("name"))[:80]
        fault = _fault("tools/list", "tools", tool)
        if fault and not _fault("tools/list", "tools", {**tool, "inputSchema": {"type": "object"}}):
            self._tell(f"the schema of {name} cannot be used ({fault}); its arguments are not described")
            tool["inputSchema"] = {"type": "object"}
        elif fault:
            self._tell(f"the tool {name} is left out ({fault})")
            return False
        return True

    def _is_listed(self, method: str, what: str, item: Any) -> bool:
        fault = _fault(method, what, item)
        if fault:
            name = item.get("name") if isinstance(item, dict) else item
            self._tell(f"the {what.removesuffix('s')} {str(name)[:80]} is left out ({fault})")
        return not fault


def _block(block: Any) -> Any:
    """A block of a result, or words in its place."""
    if not _fault("tools/call", "content", block):
        return block
    if isinstance(block, dict):
        # For whom a block is meant says nothing about what it is.
        bare = {key: value for key, value in block.items() if key not in ("annotations", "_meta")}
        if not (fault := _fault("tools/call", "content", bare)):
            return bare
        if block.get("type") not in ("text", "image", "audio", "resource", "resource_link"):
            fault = "of an unknown kind"
        return {"type": "text", "text": f"[a block was left out: {str(block.get('type'))[:80]}, {fault}]"}
    return {"type": "text", "text": "[a block was left out: it is no object]"}


def _keep_from_closing(error: Any) -> None:
    """The SDK says by a code of its own that a connection has closed; servers use the same code for whatever they like."""
    from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR

    if error.code == CONNECTION_CLOSED and not error.message.startswith("SSE stream "):
        error.code = INTERNAL_ERROR


def _mended(line: bytes) -> bytes:
    """The same JSON without what only strict readers refuse: half of a character that was cut in two, bytes that are no UTF-8,
    endless numbers."""
    text = line.decode("utf-8", "replace")
    whole = json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 20 else float(digits))
    return json.dumps(whole, ensure_ascii=False).encode("utf-8", "replace")


class _Envelope(msgspec.Struct, frozen=True):
    id: int | str | None = None
    method: str | None = None


def _failed(line: bytes, error: ValueError) -> Any:
    """What to make of a line that is no message: if it answers a request, that request has failed; else it is told."""
    from mcp_types import PARSE_ERROR

    try:
        head = msgspec.json.decode(line, type=_Envelope)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return error
    if head.id is None or head.method is not None:
        return error
    return error_message(head.id, PARSE_ERROR, f"its answer cannot be read: {_why(error)}")


def _why(error: ValueError) -> str:
    # A message may be of four kinds, and pydantic says of each why it is none; what matters is the one that was meant.
    faults = error.errors(include_url=False, include_input=False) if is_invalid(error) else []  # type: ignore[attr-defined]
    meant = [each for each in faults if len(each["loc"]) > 1 and each["loc"][1] in ("result", "error")]
    told = [each for each in meant if each["type"] != "missing"]
    return f"{'.'.join(map(str, told[0]['loc'][1:]))}: {told[0]['msg']}" if told else message_of(error)


def _fault(method: str, what: str, *items: Any) -> str:
    """Why the SDK would refuse a result with these items; or ""."""
    from pydantic import ValidationError

    try:
        _kind(method).validate_python({what: items})
    except ValidationError as error:
        return message_of(error)
    return ""


@cache
def _kind(method: str) -> Any:
    from mcp_types.methods import SERVER_RESULTS
    from mcp_types.version import LATEST_HANDSHAKE_VERSION
    from pydantic import TypeAdapter

    kind: Any = SERVER_RESULTS[method, LATEST_HANDSHAKE_VERSION]
    return TypeAdapter(kind)
