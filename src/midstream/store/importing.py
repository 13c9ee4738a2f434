"""Histories made elsewhere: told apart, read, given canonical ids once, stored together with their original.

Formats: our own JSONL, OpenAI chat messages, Anthropic messages, Responses items (a request, a list, or one history a
line), kimi-cli's `context.jsonl`, and the `logs.db` of llm. Reading is lenient about what it does not know (kept as Opaque
blocks) and strict about what makes it a history at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from ..core.errors import StoreError
from ..core.history import canonicalize
from .errors import ConversationExists
from .export import read_jsonl
from .foreign_messages import READERS, looks_like
from .llm_logs import SQLITE_MAGIC, read_llm_logs
from .protocol import Entry, Original, Store

FORMATS = ("midstream", "llm", *READERS)
MAX_BYTES = 256 * 1024 * 1024


def import_file(store: Store, path: Path | str, format: str | None = None, *, provider: str | None = None) -> list[str]:
    """Store every conversation of a file; their ids. A conversation whose id is taken gets a new one."""
    return [_add(store, entry) for entry in read_file(path, format, provider=provider)]


def read_file(path: Path | str, format: str | None = None, *, provider: str | None = None) -> Iterator[Entry]:
    """The conversations of a file, one at a time."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            is_database = file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
            file.seek(0)
            data = b"" if is_database else file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot read {str(path)!r}: {error}") from error
    if is_database:
        for entry in read_llm_logs(path):
            yield _canonical(entry, provider or "")
    else:
        yield from read_history(data, format, provider=provider, name=path.name)


def read_history(
    data: bytes, format: str | None = None, *, provider: str | None = None, name: str = ""
) -> Iterator[Entry]:
    """The conversations in the bytes of a file. `provider` says who made them, where the format does not."""
    name = name or "the history"
    if len(data) > MAX_BYTES:
        raise StoreError(f"{name} is larger than {MAX_BYTES >> 20} MiB: split it first")
    if format is not None and format not in FORMATS:
        raise StoreError(f"no format {format!r}: choose one of {', '.join(FORMATS)}")
    if format == "llm":
        raise StoreError(f"{name} is not a logs.db: llm keeps an SQLite database; pass its path to import_file")
    if format == "midstream" or (format is None and data.lstrip().startswith(b'{"midstream":')):
        yield from read_jsonl(data.split(b"\n"))
        return
    for number, (document, raw) in enumerate(_documents(data, name), 1):
        where = f"{name}, history {number}"
        kind = format or looks_like(document)
        if kind is None:
            raise StoreError(f"{where}: of no format known here; say which with format= ({', '.join(FORMATS)})")
        reader = READERS[kind]
        maker = reader.provider if provider is None else provider
        yield Entry(reader.read(document, where, maker), original=Original(kind, raw, name))


def _documents(data: bytes, name: str) -> list[tuple[Any, bytes]]:
    """The histories in a file, each with its bytes: one JSON value, one history a line, or one message a line."""
    try:
        return [(msgspec.json.decode(data), data)]
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        lines = [line for line in data.split(b"\n") if line.strip()]
        if len(lines) < 2:
            raise StoreError(f"{name} is neither JSON nor JSON lines: {error}") from error
    values = []
    for number, line in enumerate(lines, 1):
        try:
            values.append(msgspec.json.decode(line))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise StoreError(f"{name} is neither JSON nor JSON lines (line {number}): {error}") from error
    if all(isinstance(value, dict) and ("role" in value or "type" in value) for value in values):
        return [(values, data)]
    return list(zip(values, lines, strict=True))


def _add(store: Store, entry: Entry) -> str:
    try:
        return store.add(entry)
    except ConversationExists:
        return store.add(replace(entry, conversation=replace(entry.conversation, id="")))


def _canonical(entry: Entry, provider: str) -> Entry:
    return replace(entry, conversation=canonicalize(entry.conversation, provider))
