"""Claude Code: `~/.claude/projects/<folder>/<session>.jsonl`, a tree of records, the Messages wire inside
(field-guide/clients.md#where-they-keep-sessions).

Each content block of an answer is a record of its own; blocks of one answer share `message.id`. A record names its parent.
Results of parallel calls hang on different blocks of the answer, so the path from the last record to the root misses
some of them, and the rest is found by the ids of the calls. After a compaction the path begins with its summary, and the
messages that it kept stand behind that, though they were written before. Subagents have files of their own.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ...core.blocks import Conversation
from ...wires.anthropic.wire import DEFAULT
from .program import (
    Exported,
    Imported,
    Json,
    LeftOut,
    Place,
    Program,
    SessionFile,
    answering_model,
    encoded,
    files_below,
    head_records,
    imported,
    object_at,
    objects_in,
    origin_for,
    read_bytes,
    read_records,
    session_files,
    shown_title,
    stamp,
    text,
)

NAME = "claude-code"
_SPOKEN = ("user", "assistant")
_VERSION = "2.1.0"
"""Written into a session of ours. Claude Code shows it and decides nothing by it."""


def _folder(place: Place) -> Path:
    return place.folder("CLAUDE_CONFIG_DIR", ".claude") / "projects"


def find(place: Place) -> Iterator[SessionFile]:
    return session_files(NAME, files_below(_folder(place), "*/*.jsonl"), _described)


def _described(path: Path) -> tuple[str, str, str]:
    title, folder = "", ""
    for record in head_records(path):
        folder = folder or text(record.get("cwd"))
        title = title or _title(record)
        if title and folder:
            break
    return path.stem, folder, title


def _title(record: Json) -> str:
    """The question that a record asks, if the user typed it."""
    if record.get("type") != "user" or record.get("isMeta") or record.get("isSidechain"):
        return ""
    content = object_at(record, "message").get("content")
    said = content if isinstance(content, str) else " ".join([text(part.get("text")) for part in objects_in(content)])
    # What begins with a tag is the program's: a slash command, its output, a reminder.
    return "" if said.startswith("<") else shown_title(said)


def read(session: SessionFile) -> Imported:
    data = read_bytes(Path(session.path))
    left_out = LeftOut()
    records = read_records(data, left_out)
    left_out.add_subagents(Path(session.path).with_suffix("").glob("subagents/*.jsonl"))
    messages, models = _messages(_spoken(records, left_out), left_out)
    origins = [origin_for(DEFAULT.wire, DEFAULT.provider, model, "claude") for model in models]
    titles = [text(record.get("customTitle")) or text(record.get("aiTitle")) for record in records]
    title = next((shown_title(each) for each in reversed(titles) if each), "")
    return imported(session, DEFAULT.wire, {"messages": messages}, origins, data, left_out, title=title)


def _spoken(records: list[Json], left_out: LeftOut) -> list[Json]:
    """The records of the conversation as it stands, in the order in which they were written."""
    records = [_typed_meanwhile(record) or record for record in records]
    current = _since_compaction(records)
    spoken = _said_here(current)
    # Each block of an answer is a record of its own, and calls that run side by side hang their results on different
    # ones of them. Going from parent to parent finds only one such branch, so the rest is found by the ids of the
    # answer and of its calls.
    path = _path(current, spoken)
    answers = {_answer_id(record) for record in spoken if text(record.get("uuid")) in path} - {""}
    on_path = [record for record in spoken if text(record.get("uuid")) in path or _answer_id(record) in answers]
    calls = {
        text(block.get("id")) for record in on_path for block in _blocks(record) if block.get("type") == "tool_use"
    }
    kept = [
        record
        for record in spoken
        if text(record.get("uuid")) in path
        or _answer_id(record) in answers
        or any(text(block.get("tool_use_id")) in calls for block in _blocks(record))
    ]
    others = sum(1 for record in records if record.get("type") in _SPOKEN) - len(kept)
    left_out.add("messages of other branches, of subagents or from before a compaction", others)
    attached = sum(1 for record in records if record.get("type") == "attachment")
    left_out.add("reminders and attachments that Claude Code adds by itself, its system prompt among them", attached)
    return kept


def _said_here(records: list[Json]) -> list[Json]:
    return [record for record in records if record.get("type") in _SPOKEN and not record.get("isSidechain")]


def _since_compaction(records: list[Json]) -> list[Json]:
    """The records from the last compaction of this branch on, and behind its summary the older ones that it kept: so Claude
    Code arranges them when it resumes."""
    path = _path(records, _said_here(records))
    places = [
        place
        for place, record in enumerate(records)
        if record.get("subtype") == "compact_boundary" and text(record.get("uuid")) in path
    ]
    if not places:
        return records
    known = {text(record.get("uuid")): record for record in records}
    anchor, ids = _kept_by(object_at(records[places[-1]], "compactMetadata"), known)
    if anchor in ids or any(each not in known for each in ids):
        ids = []
    moved = [known[each] | {"parentUuid": before} for each, before in zip(ids, [anchor, *ids], strict=False)]
    arranged: list[Json] = []
    for record in records[places[-1] :]:
        # What was said after the compaction goes on from what it kept.
        goes_on = moved and record.get("parentUuid") == anchor
        arranged.append(record | {"parentUuid": ids[-1]} if goes_on else record)
        if text(record.get("uuid")) == anchor:
            arranged += moved
    return arranged


def _kept_by(metadata: Json, known: dict[str, Json]) -> tuple[str, list[str]]:
    """Behind which record a compaction put what it kept, and what that is, by their ids. Older files name only its two ends."""
    listed = object_at(metadata, "preservedMessages")
    if listed:
        ids = listed.get("uuids")
        return text(listed.get("anchorUuid")), [text(each) for each in ids] if isinstance(ids, list) else []
    segment = object_at(metadata, "preservedSegment")
    head, place = text(segment.get("headUuid")), text(segment.get("tailUuid"))
    walked: dict[str, None] = {}
    while place in known and place not in walked and head not in walked:
        walked[place] = None
        place = text(known[place].get("parentUuid"))
    return text(segment.get("anchorUuid")), list(reversed(walked)) if head in walked else []


def _path(records: list[Json], spoken: list[Json]) -> set[str]:
    """The ids of the records from the last that was spoken to the root."""
    by_id = {text(record.get("uuid")): record for record in records}
    by_id.pop("", None)
    main = [text(record.get("uuid")) for record in records if not record.get("isSidechain")]
    before = dict(zip(main[1:], main, strict=False))
    path: set[str] = set()
    place = next((own for record in reversed(spoken) if (own := text(record.get("uuid")))), "")
    # A damaged file may have a loop in it.
    while place and place not in path:
        path.add(place)
        parent = text(by_id[place].get("parentUuid"))
        # A parent whose line is lost: what stands before in the file is the best guess, and better than nothing.
        place = parent if not parent or parent in by_id else before.get(place, "")
    return path


def _typed_meanwhile(record: Json) -> Json | None:
    """What the user typed while the model worked, which is stored as an attachment, as a record of the user."""
    queued = object_at(record, "attachment")
    by_user = object_at(queued, "origin").get("kind") in (None, "human") and queued.get("commandMode") in (
        None,
        "prompt",
    )
    if queued.get("type") != "queued_command" or queued.get("isMeta") or not by_user or not queued.get("prompt"):
        return None
    return record | {"type": "user", "message": {"role": "user", "content": queued["prompt"]}}


def _answer_id(record: Json) -> str:
    return text(object_at(record, "message").get("id")) if record.get("type") == "assistant" else ""


def _blocks(record: Json) -> list[Json]:
    return objects_in(object_at(record, "message").get("content"))


def _messages(spoken: list[Json], left_out: LeftOut) -> tuple[list[Json], list[str]]:
    """The messages of the wire, and the model of each answer."""
    messages: list[Json] = []
    models: list[str] = []
    answers: dict[str, list[Json]] = {}
    for record in spoken:
        message = object_at(record, "message")
        content = message.get("content")
        if record.get("isApiErrorMessage"):
            left_out.add("failed requests")
        elif record["type"] == "assistant":
            answer = text(message.get("id")) or text(record.get("uuid"))
            # A result may stand between two blocks of one answer: calls run while the rest is still streaming.
            if answer not in answers:
                answers[answer] = []
                messages.append({"role": "assistant", "content": answers[answer]})
                models.append(text(message.get("model")))
            answers[answer] += _blocks(record) or [{"type": "text", "text": text(content)}]
        elif _are_results(content) and messages and _are_results(messages[-1]["content"]):
            messages[-1]["content"] += content
        else:
            messages.append({"role": "user", "content": content if isinstance(content, str) else objects_in(content)})
    return messages, models


def _are_results(content: object) -> bool:
    blocks = objects_in(content)
    return bool(blocks) and all(block.get("type") == "tool_result" for block in blocks)


def write(conversation: Conversation, place: Place, folder: Path) -> Exported:
    model = answering_model(conversation, "")
    body, notes = encoded(conversation, DEFAULT, model)
    session, now = str(uuid.uuid4()), time.time()
    lines: list[bytes] = []
    parent: str | None = None
    for number, message in enumerate(body["messages"]):
        own = str(uuid.uuid4())
        # A millisecond apart, so that a list by time has them in order.
        record: Json = {
            "parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": str(folder), "sessionId": session,
            "version": _VERSION, "type": message["role"], "uuid": own, "timestamp": stamp(now + number / 1000),
            "message": message,
        }  # fmt: skip
        if message["role"] == "assistant":
            usage = {"input_tokens": 0, "output_tokens": 0}
            record["message"] = {
                "id": f"msg_{number}", "type": "message", "model": model, "stop_reason": None, "stop_sequence": None,
                "usage": usage, **message,
            }  # fmt: skip
        lines.append(msgspec.json.encode(record))
        parent = own
    slug = re.sub(r"[^A-Za-z0-9]", "-", str(folder))
    path = _folder(place) / slug / f"{session}.jsonl"
    return Exported(session, {path: b"\n".join(lines) + b"\n"}, f"claude --resume {session}", notes)


PROGRAM = Program(NAME, "Claude Code", _folder, find, read, write)
