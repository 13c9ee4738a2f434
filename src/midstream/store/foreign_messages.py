"""Histories of other programs to Conversations: OpenAI chat, Anthropic, Responses items, kimi-cli's context.

The wires read them, as they read requests. Here is what a saved history wants beside that: telling the formats apart,
refusing what a lenient reader would pass over in silence (a lost message is no import), and kimi-cli's own records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from ..core.blocks import Block, Conversation, Media, Opaque, Thinking, Turn
from ..core.errors import MidstreamError, StoreError
from ..wires.registry import get_wire

Json: TypeAlias = dict[str, Any]

_ROLES = {"system", "developer", "user", "assistant", "tool", "function"}
_ANTHROPIC_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"}
_RESPONSES_ITEMS = {"message", "function_call", "function_call_output", "reasoning", "item_reference"}
_RESPONSES_PARTS = {"input_text", "output_text", "input_image", "input_file"}


class Reader(NamedTuple):
    """How a format is read, and whose it is unless the caller knows better."""

    read: Callable[[Any, str, str], Conversation]
    provider: str


def looks_like(document: Any) -> str | None:
    """The format of a decoded history, told by what only it has; None if nothing tells."""
    if isinstance(document, dict) and ("input" in document or "output" in document or "instructions" in document):
        return "responses"
    messages = _listed(document)
    if not messages or not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return None
    roles = {_text(message.get("role")) for message in messages}
    types = {_text(message.get("type")) for message in messages}
    parts = {
        _text(part.get("type"))
        for message in messages
        if isinstance(message.get("content"), list)
        for part in message["content"]
        if isinstance(part, dict)
    }
    if types & (_RESPONSES_ITEMS - {"message"}) or parts & _RESPONSES_PARTS:
        return "responses"
    if any(role.startswith("_") for role in roles) or "think" in parts:
        return "kimi"
    if (isinstance(document, dict) and "system" in document) or parts & _ANTHROPIC_BLOCKS:
        return "anthropic"
    return "openai" if roles <= _ROLES else None


def read_openai(document: Any, where: str, provider: str) -> Conversation:
    return _read("openai-chat", {"messages": _messages(document, where)}, document, where, provider)


def read_anthropic(document: Any, where: str, provider: str) -> Conversation:
    body: Json = {"messages": _messages(document, where)}
    if isinstance(document, dict):
        _check_content(document.get("system"), f"{where}, system")
        body["system"] = document.get("system")
    return _read("anthropic", body, document, where, provider)


def read_responses(document: Any, where: str, provider: str) -> Conversation:
    """A request's `input`, an answer's `output`, or the bare list of items."""
    items = document.get("input", document.get("output")) if isinstance(document, dict) else document
    for number, item in enumerate([] if isinstance(items, str) else _objects(items or [], where)):
        if not isinstance(item.get("role"), str) and not isinstance(item.get("type"), str):
            raise StoreError(f"{where}, item {number}: neither a role nor a type")
        if item.get("type", "message") == "message":
            _check_content(item.get("content"), f"{where}, item {number}, content")
    body: Json = {"input": items or []}
    if isinstance(document, dict):
        body["instructions"] = document.get("instructions")
    return _read("openai-responses", body, document, where, provider)


def read_kimi(document: Any, where: str, provider: str) -> Conversation:
    """kimi-cli's context: OpenAI's messages, and among them `_…` records and parts of its own."""
    messages = [
        {**message, "role": "system"} if message.get("role") == "_system_prompt" else message
        for message in _objects(_listed(document), where)
    ]
    kept = [message for message in messages if not _text(message.get("role")).startswith("_")]
    read = read_openai(kept, where, provider)
    return replace(read, turns=tuple([_with_kimi_parts(turn) for turn in read.turns]))


def _with_kimi_parts(turn: Turn) -> Turn:
    return replace(turn, blocks=tuple([_kimi_part(block) for block in turn.blocks]))


def _kimi_part(block: Block) -> Block:
    match block:
        case Opaque(data={"type": "think", "think": str(text)}):
            sealed = _text(block.data.get("encrypted")) or None
            return Thinking(text, "reasoning_content", sealed, origin=block.origin)
        case Opaque(data={"type": "audio_url", "audio_url": {"url": str(url)}}):
            return Media("audio/*", url=url)
    return block


def _read(wire: str, body: Json, document: Any, where: str, provider: str) -> Conversation:
    """The history in a request body, by the wire's own reader."""
    if isinstance(document, dict):
        body["model"] = _text(document.get("model"))
    reader = get_wire(wire).read_request
    assert reader is not None
    try:
        return reader(msgspec.json.encode(body), provider=provider).conversation
    except (MidstreamError, RecursionError) as error:
        raise StoreError(f"{where}: {error}") from error


def _messages(document: Any, where: str) -> list[Json]:
    messages = _objects(_listed(document), where)
    for number, message in enumerate(messages):
        place = f"{where}, message {number}"
        if _text(message.get("role")) not in _ROLES:
            raise StoreError(f"{place}: no such role: {message.get('role')!r}")
        _check_content(message.get("content"), f"{place}, content")
        for call in _objects(message.get("tool_calls") or [], f"{place}, tool_calls"):
            if not isinstance(call.get("function", call.get("custom")), dict):
                raise StoreError(f"{place}, tool call: expected an object under `function`")
    return messages


def _listed(document: Any) -> Any:
    if isinstance(document, dict):
        return document.get("messages", [document] if "role" in document else None)
    return document


def _check_content(content: Any, where: str) -> None:
    if content is not None and not isinstance(content, str):
        _objects(content, where)


def _objects(value: Any, where: str) -> list[Json]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise StoreError(f"{where}: expected a list of objects, got {type(value).__name__}")
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


READERS: dict[str, Reader] = {
    "openai": Reader(read_openai, ""),
    "anthropic": Reader(read_anthropic, "anthropic"),
    "responses": Reader(read_responses, "openai"),
    "kimi": Reader(read_kimi, "moonshot"),
}
