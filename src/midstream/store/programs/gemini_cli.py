"""Gemini CLI: `~/.gemini/tmp/<project>/chats/session-<time>-<id>.jsonl` (before: one JSON document), Gemini's parts inside.

Records are messages, which later records with the same id replace; `$set`, which changes the head or all messages at once;
and `$rewindTo`, which takes back a message and all after it. A message holds its calls with their results; newer files
repeat the results as a message of the user, and after a resume once more. Signatures of thoughts are not in the file.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import count
from pathlib import Path

from ...core.blocks import Conversation
from ...wires.gemini.wire import DEFAULT
from ...wires.lenient_json import encode_json_lines
from .program import (
    PLAIN_NAME,
    Exported,
    Imported,
    Json,
    LeftOut,
    Place,
    Program,
    SessionFile,
    answering_model,
    decoded,
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

NAME = "gemini-cli"
_ROOT = ".project_root"
"""In the folder of a project, the path of the folder that it is about."""
_CONTEXT = "<session_context>"
"""How the message begins that Gemini CLI puts before the first question."""


def _folder(place: Place) -> Path:
    return place.folder("GEMINI_CLI_HOME", "") / ".gemini" / "tmp"


def find(place: Place) -> Iterator[SessionFile]:
    return session_files(NAME, files_below(_folder(place), "*/chats/session-*.json*"), _described)


def _described(path: Path) -> tuple[str, str, str]:
    lines = path.suffix == ".jsonl"
    records = list(head_records(path) if lines else _document(read_bytes(path)))
    head, _ = _replay(records, LeftOut())
    # The first question of all: what the head of a file comes to depends on where it was cut, and a resume begins by setting
    # all messages to none.
    asked = [
        message for record in records for message in (record, *objects_in(object_at(record, "$set").get("messages")))
    ]
    title = next((said for message in asked if (said := _question(message))), "")
    return text(head.get("sessionId")), _text_of(path.parent.parent / _ROOT), title


def _document(data: bytes) -> list[Json]:
    """A document of the older kind as one record that sets everything."""
    document = decoded(data)
    # Lines are documents too; only the older kind names its messages.
    return [{"$set": document}] if isinstance(document, dict) and "messages" in document else []


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _replay(records: Iterable[Json], left_out: LeftOut) -> tuple[Json, list[Json]]:
    """The head of a session and its messages, after all changes."""
    head: Json = {}
    messages: dict[str, Json] = {}
    models: dict[str, str] = {}
    for record in records:
        if isinstance(record.get("$rewindTo"), str):
            ids = list(messages)
            # As the program does: what it cannot find takes everything back.
            place = ids.index(record["$rewindTo"]) if record["$rewindTo"] in messages else 0
            if taken := ids[place:]:
                left_out.add("messages that were taken back", len(taken))
            for each in taken:
                del messages[each]
        elif isinstance(record.get("$set"), dict):
            change = record["$set"]
            if isinstance(change.get("messages"), list):
                # What has no id is replaced by nothing. A resume sets the messages again, without the models that wrote them.
                messages = {
                    (own := text(each.get("id")) or f"#{number}"): {"model": models.get(own, "")} | each
                    for number, each in enumerate(objects_in(change["messages"]))
                }
            head |= {name: value for name, value in change.items() if name != "messages"}
        elif isinstance(record.get("id"), str) and "type" in record:
            messages[record["id"]] = record
            models[record["id"]] = text(record.get("model"))
        else:
            head |= record
    return head, list(messages.values())


def _parts(message: Json) -> list[Json]:
    content = message.get("content")
    return [{"text": content}] if isinstance(content, str) and content else objects_in(content)


def _question(message: Json) -> str:
    said = " ".join([text(part.get("text")) for part in _parts(message)])
    return "" if message.get("type") != "user" or said.startswith(_CONTEXT) else shown_title(said)


def read(session: SessionFile) -> Imported:
    data = read_bytes(Path(session.path))
    left_out = LeftOut()
    head, messages = _replay(_document(data) or read_records(data, left_out), left_out)
    if PLAIN_NAME.fullmatch(own := text(head.get("sessionId"))):
        left_out.add_subagents(Path(session.path).parent.glob(f"{own}/*.jsonl"))
    contents: list[Json] = []
    models: list[str] = []
    repeated = {
        text(object_at(part, "functionResponse").get("id"))
        for message in messages
        if message.get("type") == "user"
        for part in _parts(message)
    }
    answered: set[str] = set()
    for message in messages:
        parts = _parts(message)
        match message.get("type"):
            case "user" if parts and text(parts[0].get("text")).startswith(_CONTEXT):
                left_out.add("message in which Gemini CLI describes where it runs")
            case "user":
                told = {text(object_at(part, "functionResponse").get("id")) for part in parts} - {""}
                # The same message under another id, with its images.
                if told and told <= answered:
                    continue
                answered |= told
                contents.append({"role": "user", "parts": parts})
            case "gemini":
                answered = set()
                calls = objects_in(message.get("toolCalls"))
                asked = [
                    {"functionCall": {name: call.get(name) for name in ("id", "name", "args") if name in call}}
                    for call in calls
                ]
                contents.append({"role": "model", "parts": [*_thoughts(message), *parts, *asked]})
                models.append(text(message.get("model")))
                results = [
                    part
                    for call in calls
                    if text(call.get("id")) not in repeated
                    for part in objects_in(call.get("result"))
                ]
                if results:
                    contents.append({"role": "user", "parts": results})
            case kind:
                left_out.add(f"messages of the kind {text(kind)!r}, which are for the screen")
    origins = [origin_for(DEFAULT.wire, DEFAULT.provider, model, "gemini") for model in models]
    return imported(session, DEFAULT.wire, {"contents": contents}, origins, data, left_out)


def _thoughts(message: Json) -> list[Json]:
    said = [
        f"**{text(thought.get('subject'))}**\n{text(thought.get('description'))}"
        if thought.get("subject")
        else text(thought.get("description"))
        for thought in objects_in(message.get("thoughts"))
    ]
    return [{"text": "\n".join(said), "thought": True}] if said else []


def write(conversation: Conversation, place: Place, folder: Path) -> Exported:
    model = answering_model(conversation, "")
    body, notes = encoded(conversation, DEFAULT, model)
    session, now = str(uuid.uuid4()), time.time()
    moment = stamp(now)
    head: Json = {
        "sessionId": session, "projectHash": sha256(str(folder).encode()).hexdigest(), "startTime": moment,
        "lastUpdated": moment, "kind": "main",
    }  # fmt: skip
    records = [head, *_written(objects_in(body["contents"]), model, moment)]
    name = f"session-{time.strftime('%Y-%m-%dT%H-%M', time.gmtime(now))}-{session[:8]}.jsonl"
    project = _project(place, folder)
    files = {project / "chats" / name: encode_json_lines(records)}
    if not (project / _ROOT).exists():
        # By it Gemini CLI knows the folder of a project, whatever its name.
        files[project / _ROOT] = str(folder).encode()
    return Exported(session, files, f"gemini --resume {session}", notes)


def _written(contents: list[Json], model: str, moment: str) -> Iterator[Json]:
    """The records of a conversation. A call holds its result, and both have an id: the wire pairs them by their order alone."""
    for number, content in enumerate(contents):
        parts = objects_in(content.get("parts"))
        record: Json = {"id": str(uuid.uuid4()), "timestamp": moment}
        if content.get("role") == "user":
            # The results are held by the calls. Written here too, they would be sent twice when the session is resumed.
            asked = [part for part in parts if "functionResponse" not in part]
            if asked:
                yield record | {"type": "user", "content": asked}
            continue
        after = objects_in(contents[number + 1].get("parts")) if number + 1 < len(contents) else []
        results = [part for part in _labelled(after, "functionResponse", number) if "functionResponse" in part]
        calls = [part["functionCall"] for part in _labelled(parts, "functionCall", number) if "functionCall" in part]
        said = [text(part.get("text")) for part in parts if "text" in part and not part.get("thought")]
        record |= {"type": "gemini", "content": "".join(said), "thoughts": [], "model": model}
        held = [
            call | {"args": object_at(call, "args"), "result": results[place : place + 1], "status": "success", "timestamp": moment}
            for place, call in enumerate(calls)
        ]  # fmt: skip
        yield record | ({"toolCalls": held} if held else {})


def _labelled(parts: list[Json], kind: str, number: int) -> list[Json]:
    """The parts, with an id for each of this kind that has none: by the answer it belongs to, and its place."""
    labelled: list[Json] = []
    place = 0
    for part in parts:
        inner = object_at(part, kind)
        if inner:
            part = {**part, kind: {"id": f"{text(inner.get('name'))}_{number}_{place}", **inner}}
            place += 1
        labelled.append(part)
    return labelled


def _project(place: Place, folder: Path) -> Path:
    """The folder of a project's chats, as Gemini CLI finds it: the one that names this folder as its root, else the first one
    by its name that belongs to nobody."""
    base = _folder(place)
    known = [root.parent for root in files_below(base, f"*/{_ROOT}") if _text_of(root) == str(folder)]
    if known:
        return known[0]
    slug = re.sub(r"[^a-z0-9]+", "-", folder.name.lower()).strip("-") or "project"
    names = (slug if number == 0 else f"{slug}-{number}" for number in count())
    return next(base / name for name in names if not (base / name / _ROOT).exists())


PROGRAM = Program(NAME, "Gemini CLI", _folder, find, read, write)
