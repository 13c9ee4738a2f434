"""opencode: `~/.local/share/opencode/opencode.db`, SQLite; its own parts inside, whatever the wire was.

A session's messages and parts are JSON in two tables, in the order of their ids. A call and its result are one part. A
session that was reverted shows nothing from the message on that it names; a compacted one goes on from its last summary.
Written as the document that `opencode import` reads.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from ...core.blocks import Conversation, Origin
from ...core.errors import StoreError
from ...wires.openai_chat.wire import DEFAULT
from ..database import open_untouched
from .program import (
    FAILED,
    Exported,
    Imported,
    Json,
    LeftOut,
    Place,
    Program,
    SessionFile,
    answering_model,
    decoded,
    encoded_chat,
    files_below,
    first_words,
    imported,
    object_at,
    objects_in,
    shown_title,
    text,
)

NAME = "opencode"
# Who reads its own reasoning again without a signature, which the database does not keep in a form that its host would take.
_MAKERS = {"kimi": "moonshot", "deepseek": "deepseek", "minimax": "minimax", "glm": "zai"}
_FOR_THE_SCREEN = ("step-start", "step-finish", "snapshot", "patch", "agent", "retry", "compaction")
_UNFINISHED = ("pending", "running")


def _folder(place: Place) -> Path:
    return place.folder("XDG_DATA_HOME", ".local/share") / "opencode"


def find(place: Place) -> Iterator[SessionFile]:
    found: list[SessionFile] = []
    for path in sorted(files_below(_folder(place), "opencode*.db")):
        # Another version's database is no reason not to find the others.
        with suppress(StoreError):
            found += find_in(path)
    # Each database has its own latest session; the user means the latest of all.
    yield from sorted(found, key=lambda session: -session.updated)


def find_in(path: Path) -> Iterator[SessionFile]:
    """The sessions of one database, the latest first."""
    try:
        with closing(open_untouched(path)) as db:
            # Subagents have sessions of their own, with a parent.
            rows = db.execute(
                "SELECT id, directory, title, time_updated FROM session s WHERE parent_id IS NULL"
                " AND EXISTS (SELECT 1 FROM message WHERE session_id = s.id) ORDER BY time_updated DESC"
            ).fetchall()
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot read {str(path)!r} as a database of opencode: {error}") from error
    for row in rows:
        moment = row["time_updated"]
        updated = moment / 1000 if isinstance(moment, int | float) else 0.0
        title = shown_title(text(row["title"]))
        yield SessionFile(NAME, text(row["id"]), str(path), text(row["directory"]), title, updated)


def read(session: SessionFile) -> Imported:
    try:
        with closing(open_untouched(Path(session.path))) as db:
            row = db.execute("SELECT * FROM session WHERE id = ?", (session.id,)).fetchone()
            stored = db.execute(
                "SELECT id, data FROM message WHERE session_id = ? ORDER BY id", (session.id,)
            ).fetchall()
            pieces = db.execute(
                "SELECT message_id, data FROM part WHERE session_id = ? ORDER BY id", (session.id,)
            ).fetchall()
            subagents = db.execute("SELECT id FROM session WHERE parent_id = ?", (session.id,)).fetchall()
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot read {session.path!r} as a database of opencode: {error}") from error
    if row is None:
        raise StoreError(f"{session.path} has no session {session.id}")
    left_out = LeftOut()
    left_out.add_subagents(subagents)
    messages = [_decoded(each["data"]) | {"id": text(each["id"])} for each in stored]
    parts: dict[str, list[Json]] = {}
    for each in pieces:
        parts.setdefault(text(each["message_id"]), []).append(_decoded(each["data"]))
    shown = _current(messages, text(_decoded(dict(row).get("revert")).get("messageID")), left_out)
    plain: list[Json] = []
    origins: list[Origin] = []
    for message in shown:
        written = _messages(message, parts.get(message["id"], []), left_out)
        plain += written
        if message.get("role") == "assistant" and written:
            model = text(message.get("modelID"))
            maker = next((maker for family, maker in _MAKERS.items() if model.lower().startswith(family)), "")
            origins.append(Origin(maker, DEFAULT.wire, model))
    data = msgspec.json.encode(
        {"info": dict(row), "messages": [{"info": m, "parts": parts.get(m["id"], [])} for m in messages]}
    )
    return imported(session, DEFAULT.wire, {"messages": plain}, origins, data, left_out)


def _decoded(value: Any) -> Json:
    decoded_value = decoded(value) if isinstance(value, str | bytes) else None
    return decoded_value if isinstance(decoded_value, dict) else {}


def _current(messages: list[Json], reverted: str, left_out: LeftOut) -> list[Json]:
    """The messages that count: before the one that was reverted to, and after the last compaction."""
    kept = [message for message in messages if not reverted or message["id"] < reverted]
    if len(kept) < len(messages):
        left_out.add("messages that were reverted", len(messages) - len(kept))
    summaries = [message for message in kept if message.get("summary") is True]
    if not summaries:
        return kept
    # The question that asked for the summary comes before it, and is part of what the model reads.
    first = text(summaries[-1].get("parentID")) or summaries[-1]["id"]
    rest = [message for message in kept if message["id"] >= first]
    left_out.add("messages from before a compaction", len(kept) - len(rest))
    return rest


def _messages(message: Json, parts: list[Json], left_out: LeftOut) -> list[Json]:
    """A message as the chat wire has it, and the results of its calls."""
    content: list[Json] = []
    thoughts: list[str] = []
    calls: list[Json] = []
    results: list[Json] = []
    for part in parts:
        kind = part.get("type")
        if part.get("ignored") or (kind in _FOR_THE_SCREEN and not part.get("text")):
            continue
        if kind == "text":
            content.append({"type": "text", "text": text(part.get("text"))})
        elif kind == "reasoning":
            thoughts.append(text(part.get("text")))
        elif kind == "file":
            content += _images([part], left_out)
        elif kind == "tool":
            state = object_at(part, "state")
            arguments = msgspec.json.encode(object_at(state, "input")).decode()
            call = {"name": text(part.get("tool")), "arguments": arguments}
            calls.append({"id": text(part.get("callID")), "type": "function", "function": call})
            failed = state.get("status") == "error"
            said = text(state.get("error") if failed else state.get("output"))
            shown = _images(objects_in(state.get("attachments")), left_out)
            # A call that was interrupted has no result; whoever encodes it says so to the model.
            if state.get("status") not in _UNFINISHED:
                answered: Any = [{"type": "text", "text": said}, *shown] if shown else said
                result: Json = {"role": "tool", "tool_call_id": text(part.get("callID")), "content": answered}
                results.append(result | ({FAILED: True} if failed else {}))
        else:
            left_out.add(f"parts of the kind {text(kind)!r}")
    if message.get("role") != "assistant":
        return [{"role": "user", "content": content}] if content else []
    if not content and not calls:
        return []
    answer: Json = {"role": "assistant", "content": content}
    if thoughts:
        answer["reasoning_content"] = "".join(thoughts)
    if calls:
        answer["tool_calls"] = calls
    return [answer, *results]


def _images(files: list[Json], left_out: LeftOut) -> list[Json]:
    """The files whose bytes are in the database, as the chat wire has them."""
    held = [url for file in files if (url := text(file.get("url"))).startswith("data:")]
    if len(held) < len(files):
        left_out.add("parts of the kind 'file' that only name a file", len(files) - len(held))
    return [{"type": "image_url", "image_url": {"url": url}} for url in held]


class _Ids:
    """Ids that sort in the order in which they are made, and before those that opencode makes later."""

    def __init__(self, now: float) -> None:
        self._next = int(now * 1000) * 0x1000

    def make(self, prefix: str) -> str:
        self._next += 1
        return f"{prefix}_{self._next & 0xFFFFFFFFFFFF:012x}{os.urandom(7).hex()}"


def write(conversation: Conversation, place: Place, folder: Path) -> Exported:
    model = answering_model(conversation, "")
    body, notes = encoded_chat(conversation, model)
    now = time.time()
    ids = _Ids(now)
    moment = int(now * 1000)
    session = ids.make("ses")
    results = {text(each.get("tool_call_id")): each for each in body["messages"] if each.get("role") == "tool"}
    named = {"providerID": "midstream", "modelID": model}
    asked = ""
    written: list[Json] = []
    for message in objects_in(body["messages"]):
        own = ids.make("msg")
        common: Json = {"id": own, "sessionID": session, "agent": "build"}
        match message.get("role"):
            case "assistant":
                info = common | named | {
                    "role": "assistant", "parentID": asked, "mode": "build", "path": {"cwd": str(folder), "root": str(folder)},
                    "cost": 0, "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
                    "time": {"created": moment, "completed": moment},
                }  # fmt: skip
                parts = [*_thought_parts(message, moment), *_said_parts(message), *[_call_part(call, results, moment) for call in objects_in(message.get("tool_calls"))]]  # fmt: skip
            case "user":
                asked = own
                info = common | {"role": "user", "time": {"created": moment}, "model": named}
                parts = _said_parts(message)
            case _:
                continue
        labelled = [{"id": ids.make("prt"), "messageID": own, "sessionID": session} | part for part in parts]
        written.append({"info": info, "parts": labelled})
    info = {
        "id": session, "slug": session, "projectID": "global", "directory": str(folder), "version": "1.0.0",
        "title": first_words(conversation.turns) or "midstream", "time": {"created": moment, "updated": moment},
    }  # fmt: skip
    path = _folder(place) / "import" / f"{session}.json"
    command = f"opencode import '{path}' && opencode --session {session}"
    return Exported(session, {path: msgspec.json.encode({"info": info, "messages": written})}, command, notes)


def _text_parts(message: Json) -> list[Json]:
    content = message.get("content")
    texts = [content] if isinstance(content, str) else [text(part.get("text")) for part in objects_in(content)]
    return [{"type": "text", "text": said} for said in texts if said]


def _said_parts(message: Json) -> list[Json]:
    """The texts of a message, and behind them its images."""
    urls = [text(object_at(part, "image_url").get("url")) for part in objects_in(message.get("content"))]
    files = [{"type": "file", "mime": url[5:].partition(";")[0], "url": url} for url in urls if url.startswith("data:")]
    return [*_text_parts(message), *files]


def _thought_parts(message: Json, moment: int) -> list[Json]:
    thought = text(message.get("reasoning_content"))
    return [{"type": "reasoning", "text": thought, "time": {"start": moment, "end": moment}}] if thought.strip() else []


def _call_part(call: Json, results: dict[str, Json], moment: int) -> Json:
    function = object_at(call, "function")
    result = results.get(text(call.get("id")), {})
    output = "\n".join([part["text"] for part in _text_parts(result)])
    state = {
        "status": "completed", "input": _decoded(function.get("arguments")), "output": output, "metadata": {},
        "title": text(function.get("name")), "time": {"start": moment, "end": moment},
    }  # fmt: skip
    return {"type": "tool", "tool": text(function.get("name")), "callID": text(call.get("id")), "state": state}


PROGRAM = Program(NAME, "opencode", _folder, find, read, write, find_in)
