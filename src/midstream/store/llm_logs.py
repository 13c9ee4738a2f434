"""The `logs.db` of Simon Willison's llm, in both its schemas. The file is opened read-only.

Up to 0.31: one row per response, with its prompt, tool calls and tool results. A response's `tool_results` are its input (the
results of the previous response's calls), its `tool_calls` its output. Columns and tables that an older file does not have
count as empty.
From 0.32: `threads` point at the last of a chain of `messages`, each made of `parts`; `turns` name the model. A thread that is
in both schemas is read from the newer one. An answer that came through our own plugin carries the whole turn.

An attachment that was a file is only named; it is read if it is still the file that was attached, which its id, a digest, says.
What cannot be read is kept as an Opaque block, which no model gets.
"""

from __future__ import annotations

import hashlib
import sqlite3
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from ..core.blocks import (
    Block,
    Conversation,
    Media,
    Opaque,
    Origin,
    Text,
    Thinking,
    ToolCall,
    ToolResponse,
    Turn,
    Usage,
)
from ..core.errors import LocalError, StoreError
from .database import open_untouched
from .protocol import Entry, Original

SQLITE_MAGIC = b"SQLite format 3\x00"

Row: TypeAlias = dict[str, Any]

MAX_ATTACHMENT = 64 << 20
"""Bytes of a file that is read: more than any host takes in a request."""
ATTACHMENT = "llm.attachment"
"""The kind of an Opaque block for an attachment whose bytes are not there."""
_OURS = "midstream"  # the key of our plugin's data in a part's metadata: adapters/llm_model.py

# What stands in tables of its own beside a response. A query
# is used only if its table is there: older files lack some.
_BESIDE = {
    "tool_calls": "SELECT * FROM tool_calls WHERE response_id = ? ORDER BY id",
    "tool_results": "SELECT * FROM tool_results WHERE response_id = ? ORDER BY id",
    "prompt_fragments": "SELECT f.content FROM prompt_fragments p JOIN fragments f ON f.id = p.fragment_id"
    ' WHERE p.response_id = ? ORDER BY p."order"',
    "prompt_attachments": "SELECT a.* FROM prompt_attachments p JOIN attachments a ON a.id = p.attachment_id"
    ' WHERE p.response_id = ? ORDER BY p."order"',
}
_FRAGMENTS = 'SELECT f.content FROM part_fragments p JOIN fragments f ON f.id = p.fragment_id WHERE p.part_id = ? ORDER BY p."order"'


def read_llm_logs(path: Path) -> Iterator[Entry]:
    """The conversations of a `logs.db`, one at a time, oldest first."""
    try:
        db = open_untouched(path)
    except (sqlite3.Error, OSError, ValueError) as error:
        raise StoreError(f"cannot open {str(path)!r}: {error}") from error
    try:
        yield from _conversations(db, path)
    except sqlite3.Error as error:
        raise StoreError(f"cannot read {str(path)!r} as a logs.db of llm: {error}") from error
    finally:
        db.close()


def _conversations(db: sqlite3.Connection, path: Path) -> Iterator[Entry]:
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    if not {"conversations", "responses"} <= tables:
        raise StoreError(f"{str(path)!r} is not a logs.db of llm: expected the tables conversations and responses")
    threads: set[str] = set()
    if {"threads", "messages", "parts", "turns", "part_fragments"} <= tables:
        for row in db.execute("SELECT * FROM threads ORDER BY datetime_utc, id"):
            thread = _row(row)
            threads.add(thread["id"])
            yield _thread(db, thread, path.name)
    beside = {table: query for table, query in _BESIDE.items() if table in tables}
    titles = {row["id"]: row["name"] for row in map(_row, db.execute("SELECT id, name FROM conversations"))}
    rows = db.execute(
        # A response without a conversation is one by itself. Conversations come in the order of their first
        # response, so `groupby` sees the rows of each side by side.
        "SELECT r.*, coalesce(r.conversation_id, r.id) AS _group FROM responses r"
        " ORDER BY min(r.datetime_utc) OVER (PARTITION BY coalesce(r.conversation_id, r.id)), _group, r.datetime_utc, r.id"
    )
    for group, members in groupby(map(_row, rows), key=lambda row: row.pop("_group")):
        # Already read from the newer schema, which a migrated file has beside the old one.
        if group in threads:
            continue
        responses = [
            row | {table: [_row(item) for item in db.execute(query, (row["id"],))] for table, query in beside.items()}
            for row in members
        ]
        yield _entry(group, titles.get(group), responses, path.name)


def _row(row: sqlite3.Row) -> Row:
    """A row whose texts are texts: SQLite keeps whatever was put into a column. Only attachments hold bytes."""
    return {
        name: value.decode("utf-8", "replace") if isinstance(value, bytes) and name != "content" else value
        for name, value in dict(row).items()
    }


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


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
    # Input before output: the results answer the calls of the response before this one.
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
        usage = Usage(_count(row.get("input_tokens")), _count(row.get("output_tokens")))
        yield Turn(
            "ai",
            tuple(answer),
            origin=origin,
            usage=usage if usage != Usage() else None,
            latency_ms=row["duration_ms"] if isinstance(row.get("duration_ms"), int | float) else None,
            answered_at=_seconds(row.get("datetime_utc")),
        )


def _result(row: Row) -> ToolResponse:
    raw = row["tool_call_id"] or ""
    content = (Text(row["output"]),) if row["output"] else ()
    return ToolResponse(raw, row["name"] or "", content, is_error=bool(row.get("exception")), raw_id=raw or None)


def _media(row: Row, origin: Origin | None = None) -> Media | Opaque:
    content = row.get("content") or _file(row.get("path"), row.get("id"))
    if content:
        return Media(row.get("type") or "", b64encode(content).decode(), row.get("url"))
    if row.get("url"):
        return Media(row.get("type") or "", url=row["url"])
    return Opaque(ATTACHMENT, {name: value for name, value in row.items() if name != "content"}, origin)


def _file(path: object, digest: object) -> bytes | None:
    """The file that was attached, if it is there and has not changed: a database may have come from anywhere."""
    if not isinstance(path, str) or not path:
        return None
    try:
        file = Path(path)
        if not file.is_file() or file.stat().st_size > MAX_ATTACHMENT:
            return None
        data = file.read_bytes()
    except (OSError, ValueError):
        return None
    return data if hashlib.sha256(data).hexdigest() == digest else None


def _thread(db: sqlite3.Connection, thread: Row, name: str) -> Entry:
    messages = _chain(db, thread["tip_message_hash"])
    calls = [_row(row) for row in db.execute("SELECT * FROM turns WHERE thread_id = ?", (thread["id"],))]
    models = {call["tip_message_hash"]: call["resolved_model"] or call["model"] or "" for call in calls}
    times = [when for call in calls if (when := _seconds(call.get("datetime_utc"))) is not None]
    system: list[Text] = []
    turns: list[Turn] = []
    for message in messages:
        origin = Origin(model=models.get(message["hash"], ""))
        blocks = tuple([_part(part, origin) for part in message["parts"]])
        if (whole := _whole(message, blocks)) is not None:
            turns.append(whole)
            continue
        # At the beginning it is the system prompt; in the middle it is a turn, and stays where it was said.
        if message["role"] == "system" and not turns:
            system += [block for block in blocks if type(block) is Text]
        elif blocks:
            turns.append(_message_turn(message["role"], blocks, origin))
    return Entry(
        Conversation(tuple(turns), "\n\n".join([text.text for text in system]), thread["id"]),
        {"title": thread["name"]} if thread["name"] else {},
        _seconds(thread["datetime_utc"]),
        max(times, default=None),
        parent=thread["forked_from"],
        original=Original("llm", msgspec.json.encode({"thread": thread, "messages": messages, "turns": calls}), name),
    )


def _chain(db: sqlite3.Connection, tip: str | None) -> list[Row]:
    """The messages of a thread, first to last, each with its parts."""
    chain: list[Row] = []
    seen: set[str] = set()
    # A damaged file may have a loop in its chain.
    while tip is not None and tip not in seen:
        seen.add(tip)
        row = db.execute("SELECT * FROM messages WHERE hash = ?", (tip,)).fetchone()
        if row is None:
            break
        parts = [
            _row(part)
            | {
                "payload": _payload(part["payload"]),
                "attachment": _attachment(db, part),
                "fragments": [item[0] for item in db.execute(_FRAGMENTS, (part["id"],))],
            }
            for part in db.execute("SELECT * FROM parts WHERE message_hash = ? ORDER BY position", (tip,))
        ]
        chain.append(_row(row) | {"parts": parts})
        tip = row["parent_hash"]
    return chain[::-1]


def _attachment(db: sqlite3.Connection, part: sqlite3.Row) -> Row | None:
    if part["type"] != "attachment":
        return None
    named = _payload(part["payload"]).get("attachment")
    if not isinstance(named, dict) or not isinstance(named.get("id"), str):
        return None
    row = db.execute("SELECT * FROM attachments WHERE id = ?", (named["id"],)).fetchone()
    return None if row is None else _row(row)


def _whole(message: Row, blocks: tuple[Block, ...]) -> Turn | None:
    """The turn as our plugin gave it, with ids, signatures and origins, if it says the same."""
    if message["role"] != "assistant":
        return None
    for part in reversed(message["parts"]):
        metadata = part["payload"].get("provider_metadata")
        carried = metadata.get(_OURS) if isinstance(metadata, dict) else None
        if carried is not None:
            try:
                turn = msgspec.convert(carried, Turn)
            except (LocalError, msgspec.ValidationError, RecursionError):
                return None  # stored elsewhere, and maybe changed there
            same = turn.speaker == "ai" and _words(turn.blocks) == _words(blocks)
            return turn if same else None
    return None


def _words(blocks: tuple[Block, ...]) -> tuple[str, list[str]]:
    said = "".join([block.text for block in blocks if isinstance(block, Text)])
    return said, [block.name for block in blocks if isinstance(block, ToolCall)]


def _payload(text: str | None) -> Row:
    try:
        value = msgspec.json.decode(text or "{}")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        value = None
    # Kept, so that the Opaque block made from it shows what was there.
    return value if isinstance(value, dict) else {"unreadable": text}


def _part(part: Row, origin: Origin) -> Block:
    """A part as a block; one that is not understood becomes an Opaque block."""
    payload = part["payload"]
    text = part["text"] if isinstance(part["text"], str) else _joined(payload, part["fragments"])
    raw = payload.get("tool_call_id")
    raw = raw if isinstance(raw, str) else ""
    match part["type"]:
        case "text" if text is not None:
            return Text(text)
        case "reasoning":
            return Thinking(text or "", redacted=payload.get("redacted") is True, origin=origin)
        case "tool_call" if isinstance(payload.get("arguments"), dict | str):
            given = payload["arguments"]
            arguments = given if isinstance(given, str) else msgspec.json.encode(given).decode()
            return ToolCall(raw, part["tool_name"] or "", arguments, raw or None)
        case "tool_result" if isinstance(payload.get("output"), str):
            failed = bool(payload.get("exception"))
            return ToolResponse(raw, part["tool_name"] or "", (Text(payload["output"]),), failed, raw or None)
        case "attachment" if part["attachment"] is not None:
            return _media(part["attachment"], origin)
    return Opaque(f"llm.{part['type']}", payload, origin)


def _joined(payload: Row, fragments: list[str]) -> str | None:
    """Text that was stored in pieces: each is a literal, or stands for the next of the part's fragments."""
    if isinstance(payload.get("text"), str):
        return str(payload["text"])
    pieces = payload.get("text_ref")
    if not isinstance(pieces, list) or not all(isinstance(piece, dict) for piece in pieces):
        return None
    rest = iter(fragments)
    return "".join([piece["literal"] if isinstance(piece.get("literal"), str) else next(rest, "") for piece in pieces])


def _message_turn(role: str, blocks: tuple[Block, ...], origin: Origin) -> Turn:
    match role:
        case "assistant":
            return Turn("ai", blocks, origin=origin)
        case "tool":
            return Turn("tool", blocks)
        case "user":
            return Turn("human", blocks)
        case _:
            return Turn("system", blocks, role="" if role == "system" else role)


def _seconds(text: str | None) -> float | None:
    try:
        when = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
