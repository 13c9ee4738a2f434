"""The `logs.db` of Simon Willison's llm: one row a response, with its prompt, tool calls and tool results beside it.

A response's `tool_results` are what it was given (the answers to the calls of the response before); its `tool_calls` are
what it asked for. Columns and tables came over the years, so whatever an old file lacks counts as empty. The file is
opened read-only.
"""

from __future__ import annotations

import sqlite3
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from ..core.blocks import Block, Conversation, Media, Origin, Text, Thinking, ToolCall, ToolResponse, Turn, Usage
from ..core.errors import StoreError
from .protocol import Entry, Original

SQLITE_MAGIC = b"SQLite format 3\x00"

Row: TypeAlias = dict[str, Any]

_BESIDE = {
    "tool_calls": "SELECT * FROM tool_calls WHERE response_id = ? ORDER BY id",
    "tool_results": "SELECT * FROM tool_results WHERE response_id = ? ORDER BY id",
    "prompt_fragments": "SELECT f.content FROM prompt_fragments p JOIN fragments f ON f.id = p.fragment_id"
    ' WHERE p.response_id = ? ORDER BY p."order"',
    "prompt_attachments": "SELECT a.* FROM prompt_attachments p JOIN attachments a ON a.id = p.attachment_id"
    ' WHERE p.response_id = ? ORDER BY p."order"',
}


def read_llm_logs(path: Path) -> Iterator[Entry]:
    """The conversations of a `logs.db`, one at a time, oldest first."""
    try:
        db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    except (sqlite3.Error, ValueError) as error:
        raise StoreError(f"cannot open {str(path)!r}: {error}") from error
    try:
        db.row_factory = sqlite3.Row
        yield from _conversations(db, path)
    except sqlite3.Error as error:
        raise StoreError(f"{str(path)!r} cannot be read as llm's logs: {error}") from error
    finally:
        db.close()


def _conversations(db: sqlite3.Connection, path: Path) -> Iterator[Entry]:
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not {"conversations", "responses"} <= tables:
        raise StoreError(f"{str(path)!r} is not llm's logs: it has no table of conversations and responses")
    beside = {table: query for table, query in _BESIDE.items() if table in tables}
    titles = dict(db.execute("SELECT id, name FROM conversations").fetchall())
    rows = db.execute(
        "SELECT r.*, coalesce(r.conversation_id, r.id) AS _group FROM responses r"
        " ORDER BY min(r.datetime_utc) OVER (PARTITION BY coalesce(r.conversation_id, r.id)), _group, r.datetime_utc, r.id"
    )
    for group, members in groupby(map(dict, rows), key=lambda row: row.pop("_group")):
        responses = [
            row | {table: [dict(item) for item in db.execute(query, (row["id"],))] for table, query in beside.items()}
            for row in members
        ]
        yield _entry(group, titles.get(group), responses, path.name)


def _entry(group: str, title: str | None, responses: list[Row], name: str) -> Entry:
    turns: list[Turn] = []
    for row in responses:
        turns += _turns(row)
    system = next((row["system"] for row in responses if row.get("system")), "")
    original = Original(
        "llm", msgspec.json.encode({"conversation": group, "name": title, "responses": responses}), name
    )
    times = [_seconds(row.get("datetime_utc")) for row in responses]
    return Entry(
        Conversation(tuple(turns), system, group),
        {"title": title} if title else {},
        times[0],
        times[-1],
        original=original,
    )


def _turns(row: Row) -> Iterator[Turn]:
    if results := row.get("tool_results"):
        yield Turn("tool", tuple([_result(result) for result in results]))
    asked: list[Block] = [Text(fragment["content"] or "") for fragment in row.get("prompt_fragments", ())]
    if row.get("prompt"):
        asked.append(Text(row["prompt"]))
    asked += [_media(attachment) for attachment in row.get("prompt_attachments", ())]
    if asked:
        yield Turn("human", tuple(asked))
    origin = Origin(model=row.get("resolved_model") or row.get("model") or "")
    answer: list[Block] = []
    if row.get("reasoning"):
        answer.append(Thinking(row["reasoning"], origin=origin))
    if row.get("response"):
        answer.append(Text(row["response"]))
    for call in row.get("tool_calls", ()):
        raw = call["tool_call_id"] or ""
        answer.append(ToolCall(raw, call["name"] or "", call["arguments"] or "{}", raw or None))
    if answer:
        usage = Usage(row.get("input_tokens") or 0, row.get("output_tokens") or 0)
        yield Turn(
            "ai",
            tuple(answer),
            origin=origin,
            usage=usage if usage != Usage() else None,
            latency_ms=row.get("duration_ms"),
        )


def _result(row: Row) -> ToolResponse:
    raw = row["tool_call_id"] or ""
    content = (Text(row["output"]),) if row["output"] else ()
    return ToolResponse(raw, row["name"] or "", content, is_error=bool(row.get("exception")), raw_id=raw or None)


def _media(row: Row) -> Media:
    data = b64encode(row["content"]).decode() if row["content"] else None
    return Media(row["type"] or "", data, row["url"] or (None if data else row["path"]))


def _seconds(text: str | None) -> float | None:
    try:
        when = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
