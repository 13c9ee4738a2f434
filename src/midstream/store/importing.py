"""Import histories of other programs: recognize the format, read it, assign canonical ids, store it with its original.

Formats: our own JSONL, OpenAI chat messages, Anthropic messages, Responses items, Gemini contents (a request, a list, or one
history per line), kimi-cli's `context.jsonl`, and the `logs.db` of llm. Unknown parts of a message are kept as Opaque blocks; a document
that is not a history is refused.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from ..core.blocks import Block, Conversation, Media, Opaque, Thinking, Turn
from ..core.errors import MidstreamError, StoreError
from ..core.history import canonicalize
from ..wires.lenient_json import decode_leniently
from ..wires.request import parse_request
from .export import read_jsonl
from .llm_logs import SQLITE_MAGIC, read_llm_logs
from .protocol import ConversationExists, Entry, Original, Store

Json: TypeAlias = dict[str, Any]

# Marks of each format: words that it has and the others do not. Plain text messages look the same in
# OpenAI's and Anthropic's shape, and are read as OpenAI's, which gives the same turns.
_ROLES = {"system", "developer", "user", "assistant", "tool", "function"}
_ANTHROPIC_BLOCKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use"}
_RESPONSES_ITEMS = {"message", "function_call", "function_call_output", "reasoning", "item_reference"}
_RESPONSES_PARTS = {"input_text", "output_text", "input_image", "input_file"}


class Reader(NamedTuple):
    """How to read a format, and its provider unless the caller names another."""

    read: Callable[[Any, str, str], Conversation]
    provider: str


def looks_like(document: Any) -> str | None:
    """The format of a decoded history, recognized by what only that format has; None if it is not clear."""
    # The order goes from the most telling to the least: keys of a Responses body, its items, kimi-cli's own
    # roles, Anthropic's blocks, and OpenAI for what has only common roles.
    if isinstance(document, dict) and ("input" in document or "output" in document or "instructions" in document):
        return "responses"
    if isinstance(document, dict) and "contents" in document:
        return "gemini"
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
    # Parts without a type, where others have `content`.
    if all(isinstance(message.get("parts"), list) and "content" not in message for message in messages) and not any(
        isinstance(part, dict) and "type" in part for message in messages for part in message["parts"]
    ):
        return "gemini"
    # kimi-cli's records of itself (`_system_prompt`, `_usage` and so on), and its part for reasoning.
    if any(role.startswith("_") for role in roles) or "think" in parts:
        return "kimi"
    if (isinstance(document, dict) and "system" in document) or parts & _ANTHROPIC_BLOCKS:
        return "anthropic"
    return "openai" if roles <= _ROLES else None


def read_openai(document: Any, where: str, provider: str) -> Conversation:
    return _read("openai-chat", {"messages": _messages(document, where)}, document, where, provider)


def read_anthropic(document: Any, where: str, provider: str) -> Conversation:
    # Only the history is handed to the parser. A whole request
    # would bring tools and options that an import has no use for.
    body: Json = {"messages": _messages(document, where)}
    if isinstance(document, dict):
        _check_content(document.get("system"), f"{where}, system")
        body["system"] = document.get("system")
    return _read("anthropic", body, document, where, provider)


def read_responses(document: Any, where: str, provider: str) -> Conversation:
    """A request's `input`, a response's `output`, or a plain list of items."""
    items = document.get("input", document.get("output")) if isinstance(document, dict) else document
    for number, item in enumerate([] if isinstance(items, str) else _objects(items or [], where)):
        if not isinstance(item.get("role"), str) and not isinstance(item.get("type"), str):
            raise StoreError(f"{where}, item {number}: expected a role or a type")
        if item.get("type", "message") == "message":
            _check_content(item.get("content"), f"{where}, item {number}, content")
    body: Json = {"input": items or []}
    if isinstance(document, dict):
        body["instructions"] = document.get("instructions")
    return _read("openai-responses", body, document, where, provider)


def read_gemini(document: Any, where: str, provider: str) -> Conversation:
    """A request's `contents`, or a plain list of them."""
    contents = document.get("contents") if isinstance(document, dict) else document
    for number, content in enumerate(_objects(contents, where)):
        if _text(content.get("role")) not in ("", "user", "model", "function"):
            raise StoreError(
                f"{where}, content {number}: unknown role {content.get('role')!r}; expected user, model or function"
            )
        _objects(content.get("parts") or [], f"{where}, content {number}, parts")
    body: Json = {"contents": contents}
    if isinstance(document, dict):
        body["systemInstruction"] = document.get("systemInstruction") or document.get("system_instruction")
    return _read("gemini", body, document, where, provider)


def read_kimi(document: Any, where: str, provider: str) -> Conversation:
    """kimi-cli's context: OpenAI's messages with its own parts, and records whose role begins with `_`."""
    messages = [
        {**message, "role": "system"} if message.get("role") == "_system_prompt" else message
        for message in _objects(_listed(document), where)
    ]
    # Bookkeeping of kimi-cli; it stays in the original that is stored beside the conversation.
    kept = [message for message in messages if not _text(message.get("role")).startswith("_")]
    read = read_openai(kept, where, provider)
    return replace(read, turns=tuple([_with_kimi_parts(turn) for turn in read.turns]))


def _with_kimi_parts(turn: Turn) -> Turn:
    return replace(turn, blocks=tuple([_kimi_part(block) for block in turn.blocks]))


def _kimi_part(block: Block) -> Block:
    match block:
        case Opaque(data={"type": "think", "think": str(text)}):
            signature = _text(block.data.get("encrypted")) or None
            return Thinking(text, "reasoning_content", signature, origin=block.origin)
        case Opaque(data={"type": "audio_url", "audio_url": {"url": str(url)}}):
            return Media("audio/*", url=url)
    return block


def _read(wire: str, body: Json, document: Any, where: str, provider: str) -> Conversation:
    """The history in a request body, read by its wire."""
    if isinstance(document, dict):
        body["model"] = _text(document.get("model"))
    try:
        return parse_request(wire, msgspec.json.encode(body), provider=provider).conversation
    except (MidstreamError, RecursionError) as error:
        raise StoreError(f"{where}: {error}") from error


def _messages(document: Any, where: str) -> list[Json]:
    messages = _objects(_listed(document), where)
    for number, message in enumerate(messages):
        place = f"{where}, message {number}"
        if _text(message.get("role")) not in _ROLES:
            raise StoreError(
                f"{place}: unknown role {message.get('role')!r}; expected one of {', '.join(sorted(_ROLES))}"
            )
        _check_content(message.get("content"), f"{place}, content")
        for call in _objects(message.get("tool_calls") or [], f"{place}, tool_calls"):
            if not isinstance(call.get("function", call.get("custom")), dict):
                raise StoreError(f"{place}, tool call: expected an object under `function`")
    return messages


def _listed(document: Any) -> Any:
    if isinstance(document, dict):
        return document.get("messages", [document] if "role" in document else document)
    return document


def _check_content(content: Any, where: str) -> None:
    if content is not None and not isinstance(content, str):
        _objects(content, where)


def _objects(value: Any, where: str) -> list[Json]:
    if not isinstance(value, list):
        raise StoreError(f"{where}: expected a list of objects, got {type(value).__name__}")
    for number, item in enumerate(value):
        if not isinstance(item, dict):
            raise StoreError(f"{where}, number {number}: expected an object, got {type(item).__name__}")
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# The provider is who made the calls and the reasoning, where a format belongs to one vendor. OpenAI's chat
# shape belongs to everybody, so there it stays unknown unless the caller names it.
READERS: dict[str, Reader] = {
    "openai": Reader(read_openai, ""),
    "anthropic": Reader(read_anthropic, "anthropic"),
    "responses": Reader(read_responses, "openai"),
    "gemini": Reader(read_gemini, "gemini"),
    "kimi": Reader(read_kimi, "moonshot"),
}


FORMATS = ("midstream", "llm", *READERS)
# Read into memory as a whole, since JSON cannot be told apart by
# its beginning. One byte more is read, to know that it is larger.
MAX_BYTES = 256 * 1024 * 1024
_NO_JSON = (msgspec.MsgspecError, ValueError, RecursionError, MidstreamError)


def import_file(store: Store, path: Path | str, format: str | None = None, *, provider: str | None = None) -> list[str]:
    """Store every conversation of a file and return their ids. An id that is already in the store is replaced by a new one."""
    return [_add(store, entry) for entry in read_file(path, format, provider=provider)]


def read_file(path: Path | str, format: str | None = None, *, provider: str | None = None) -> Iterator[Entry]:
    """The conversations of a file, one at a time."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            # By the content, not by the name: people copy a logs.db under names of their own.
            is_database = file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
            file.seek(0)
            data = b"" if is_database else file.read(MAX_BYTES + 1)
    except FileNotFoundError as error:
        raise StoreError(f"no such file: {str(path)!r}") from error
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot read {str(path)!r}: {getattr(error, 'strerror', None) or error}") from error
    if is_database:
        for entry in read_llm_logs(path):
            yield _canonical(entry, provider or "")
    else:
        yield from read_history(data, format, provider=provider, name=path.name)


def read_history(
    data: bytes, format: str | None = None, *, provider: str | None = None, name: str = ""
) -> Iterator[Entry]:
    """The conversations in the bytes of a file. `provider` says who made them, where the format does not."""
    empty = f"{name} is an empty file" if name else "the history is empty"
    name = name or "the history"
    if len(data) > MAX_BYTES:
        raise StoreError(f"{name} is larger than {MAX_BYTES >> 20} MiB; split it first")
    if format is not None and format not in FORMATS:
        raise StoreError(f"unknown format {format!r}; expected one of {', '.join(FORMATS)}")
    if format == "llm":
        raise StoreError(f"{name} is not a logs.db, which is an SQLite database; pass its path to import_file")
    data = _as_utf8(data)
    if not data.strip():
        raise StoreError(f"{empty}; expected a history in one of the formats {', '.join(FORMATS)}")
    if format == "midstream" or (format is None and data.lstrip().startswith(b'{"midstream":')):
        yield from read_jsonl(data.split(b"\n"))
        return
    for number, (document, raw) in enumerate(documents(data, name), 1):
        where = f"{name}, history {number}"
        kind = format or looks_like(document)
        if kind is None:
            raise StoreError(
                f"{where}: cannot tell the format; name it with format= (--format on the command line), one of {', '.join(FORMATS)}"
            )
        reader = READERS[kind]
        maker = reader.provider if provider is None else provider
        yield Entry(reader.read(document, where, maker), original=Original(kind, raw, name))


def _as_utf8(data: bytes) -> bytes:
    """The same without a byte order mark, which editors and shells on Windows put in front, and in UTF-8, where those write UTF-16."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode()
    return data.removeprefix(codecs.BOM_UTF8)


def documents(data: bytes, name: str) -> list[tuple[Any, bytes]]:
    """The histories in a file, each with its bytes: one JSON value, one history per line, or one message per line."""
    try:
        return _decoded(data, name, msgspec.json.decode)
    except StoreError:
        # What is no JSON to the letter (half an emoji, NaN, a raw line break in a text) is still somebody's history.
        return _decoded(data, name, decode_leniently)


def _decoded(data: bytes, name: str, decode: Callable[[bytes], Any]) -> list[tuple[Any, bytes]]:
    try:
        # One JSON value first, since a pretty-printed document also has many lines.
        return [(decode(data), data)]
    except _NO_JSON as error:
        lines = [line for line in data.split(b"\n") if line.strip()]
        if len(lines) < 2:
            raise StoreError(f"{name} is neither JSON nor JSON lines: {error}") from error
    values = []
    for number, line in enumerate(lines, 1):
        try:
            values.append(decode(line))
        except _NO_JSON as error:
            raise StoreError(f"{name} is neither JSON nor JSON lines (line {number}): {error}") from error
    # Every line is a message or an item, so all lines are one history; else each line is a history.
    if all(isinstance(value, dict) and ("role" in value or "type" in value) for value in values):
        return [(values, data)]
    return list(zip(values, lines, strict=True))


def _add(store: Store, entry: Entry) -> str:
    try:
        return store.add(entry)
    except ConversationExists:
        # Never overwrite: the same file imported twice gives two
        # conversations, and the user may have gone on in the first.
        return store.add(replace(entry, conversation=replace(entry.conversation, id="")))


def _canonical(entry: Entry, provider: str) -> Entry:
    return replace(entry, conversation=canonicalize(entry.conversation, provider))
