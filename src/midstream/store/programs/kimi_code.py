"""Kimi Code: `~/.kimi-code/sessions/<folder>/<session>/agents/main/wire.jsonl`, a journal of the context, its own parts inside.

Of the journal's records those count that change the context: messages, the events of a step (parts of the answer, calls,
results), undo, clear and compaction. They are read as chat messages. Messages that the program injected say so. A medium of
more than 4 KiB is a file in `blobs` beside the journal, by its hash.
"""

from __future__ import annotations

import re
import time
import uuid
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from ...core.blocks import Conversation
from ...core.errors import StoreError
from ...wires.lenient_json import encode_json_lines
from .program import (
    FAILED,
    LARGEST,
    PLAIN_NAME,
    Exported,
    Imported,
    Json,
    LeftOut,
    Place,
    Program,
    SessionFile,
    answering_model,
    encoded_chat,
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
    text,
)

NAME = "kimi-code"
_WIRE = "openai-chat"
_MAIN = "agents/main/wire.jsonl"


def _folder(place: Place) -> Path:
    return place.folder("KIMI_CODE_HOME", ".kimi-code")


def find(place: Place) -> Iterator[SessionFile]:
    base = _folder(place)
    folders: dict[str, str] = {}
    with suppress(StoreError):  # a list that is not there names no folders
        folders = {text(record.get("sessionId")): text(record.get("workDir")) for record in read_records(read_bytes(base / "session_index.jsonl"), LeftOut())}  # fmt: skip

    def described(path: Path) -> tuple[str, str, str]:
        session = path.parent.parent.parent.name
        title = next((said for record in head_records(path) if (said := _question(record))), "")
        return session, folders.get(session, ""), title

    return session_files(NAME, files_below(base / "sessions", f"*/*/{_MAIN}"), described)


def _question(record: Json) -> str:
    message = object_at(record, "message")
    if record.get("type") != "context.append_message" or not _typed(message):
        return ""
    return shown_title(" ".join([text(part.get("text")) for part in objects_in(message.get("content"))]))


def _typed(message: Json) -> bool:
    """Whether the user wrote it; older files do not say who did."""
    kind = object_at(message, "origin").get("kind")
    return message.get("role") == "user" and kind in (None, "user")


_BLOB = "blobref:"
_NAMES = {"imageUrl": "image_url", "audioUrl": "audio_url", "videoUrl": "video_url"}
"""What Kimi Code calls the address of a medium in its own parts, and what the wire does."""


def _renamed(parts: object, names: dict[str, str]) -> list[Json]:
    return [{names.get(name, name): value for name, value in part.items()} for part in objects_in(parts)]


class _Context:
    """The context as the journal's records change it."""

    def __init__(self, blobs: Path, left_out: LeftOut) -> None:
        self.messages: list[Json] = []
        self.prompts: list[int] = []
        """Where the messages stand that the user wrote, for undo."""
        self.model = ""
        self._blobs = blobs
        self._room = LARGEST
        """How many bytes of blobs may still be read: they go through memory as the journal does."""
        self._left_out = left_out
        self._step: Json | None = None

    def add(self, record: Json) -> None:
        match record.get("type"):
            case "llm.request":
                self.model = text(record.get("model")) or self.model
                if self._step is not None and not self._step["model"]:
                    self._step["model"] = self.model
            case "context.append_message":
                self._append(object_at(record, "message"))
            case "context.append_loop_event":
                self._event(object_at(record, "event"))
            case "context.undo":
                self._undo(record.get("count"))
            case "context.clear":
                self._forget("messages from before the context was cleared")
            case "context.apply_compaction":
                self._compact(record)

    def _append(self, message: Json) -> None:
        # A summary of a compaction is the conversation itself; other injections are reminders.
        summary = object_at(message, "origin").get("kind") == "compaction_summary"
        if _typed(message):
            self.prompts.append(len(self.messages))
        elif message.get("role") == "user" and not summary:
            self._left_out.add("reminders that Kimi Code adds by itself")
            return
        self._step = None
        content = message.get("content")
        content = self._parts(content) if isinstance(content, list) else content or ""
        self.messages.append({"role": text(message.get("role")) or "user", "content": content})

    def _event(self, event: Json) -> None:
        match event.get("type"):
            case "step.begin":
                self._step = None
            case "content.part":
                part = object_at(event, "part")
                if part.get("type") == "think":
                    step = self._answer()
                    step["reasoning_content"] = text(step.get("reasoning_content")) + text(part.get("think"))
                else:
                    self._answer()["content"] += self._parts([part])
            case "tool.call":
                arguments = msgspec.json.encode(event.get("args") or {}).decode()
                call = {"name": text(event.get("name")), "arguments": arguments}
                answer = self._answer()
                answer.setdefault("tool_calls", []).append(
                    {"id": text(event.get("toolCallId")), "type": "function", "function": call}
                )
            case "tool.result":
                result = object_at(event, "result")
                output = result.get("output")
                content = output if isinstance(output, str) else self._parts(output)
                answered: Json = {"role": "tool", "tool_call_id": text(event.get("toolCallId")), "content": content}
                self.messages.append(answered | ({FAILED: True} if result.get("isError") is True else {}))

    def _parts(self, parts: object) -> list[Json]:
        """The parts as the wire has them, with the media that stand in files."""
        held: list[Json] = []
        for part in _renamed(parts, _NAMES):
            media = {name: text(object_at(part, name).get("url")) for name in _NAMES.values() if name in part}
            for name, url in media.items():
                if url.startswith(_BLOB):
                    part = part | {name: {"url": self._opened(url)}}
            if all(object_at(part, name).get("url") for name in media):
                held.append(part)
            else:
                self._left_out.add("images or other media whose file is gone or too large")
        return held

    def _opened(self, url: str) -> str:
        """A blob as a data URL; empty if it cannot be read."""
        mime, _, own = url.removeprefix(_BLOB).partition(";")
        path = self._blobs / own
        data = b""
        with suppress(StoreError, OSError):  # also where the folder is closed to us
            # A hash, never a path out of the folder; and a pipe would never end.
            if PLAIN_NAME.fullmatch(own) and path.is_file():
                data = read_bytes(path, self._room + 1)
        if not data or len(data) > self._room:
            return ""
        self._room -= len(data)
        return f"data:{mime};base64,{b64encode(data).decode()}"

    def _answer(self) -> Json:
        """The message of the step at hand."""
        if self._step is None:
            self._step = {"role": "assistant", "content": [], "model": self.model}
            self.messages.append(self._step)
        return self._step

    def _undo(self, count: object) -> None:
        places = self.prompts[-count:] if isinstance(count, int) and count > 0 else []
        if places:
            self._left_out.add("messages that were taken back", len(self.messages) - places[0])
            del self.messages[places[0] :]
            self.prompts = [place for place in self.prompts if place < places[0]]
        self._step = None

    def _forget(self, what: str) -> None:
        if self.messages:
            self._left_out.add(what, len(self.messages))
        self.messages, self.prompts, self._step = [], [], None

    def _compact(self, record: Json) -> None:
        kept = record.get("keptUserMessageCount")
        places = self.prompts[-kept:] if isinstance(kept, int) and kept > 0 else []
        questions = [self.messages[place] for place in places]
        self._forget("messages from before a compaction")
        self.messages = questions
        summary = record.get("contextSummary") or record.get("summary")
        said = summary if isinstance(summary, str) else _joined(object_at(record, "summary"))
        self.messages.append({"role": "user", "content": said})


def _joined(message: Json) -> str:
    return "\n".join([text(part.get("text")) for part in objects_in(message.get("content"))])


def read(session: SessionFile) -> Imported:
    data = read_bytes(Path(session.path))
    left_out = LeftOut()
    own = Path(session.path)
    context = _Context(own.parent / "blobs", left_out)
    for record in read_records(data, left_out):
        if record.get("type") == "profile.bind" and record.get("systemPrompt"):
            left_out.add("system prompt of Kimi Code")
        context.add(record)
    left_out.add_subagents(path for path in own.parent.parent.glob("*/wire.jsonl") if path.parent != own.parent)
    answers = [message for message in context.messages if message["role"] == "assistant"]
    origins = [origin_for(_WIRE, "moonshot", text(message.get("model")), "kimi") for message in answers]
    plain = [{name: value for name, value in message.items() if name != "model"} for message in context.messages]
    return imported(session, _WIRE, {"messages": plain}, origins, data, left_out)


def write(conversation: Conversation, place: Place, folder: Path) -> Exported:
    model = answering_model(conversation, "")
    body, notes = encoded_chat(conversation, model)
    now = int(time.time() * 1000)
    session = f"session_{uuid.uuid4()}"
    base = _folder(place) / "sessions" / _bucket(folder) / session
    head: Json = {"type": "metadata", "protocol_version": "1.5", "created_at": now}
    records = [head, *_records(objects_in(body["messages"]))]
    state = {
        "id": session, "version": 2, "cwd": str(folder), "createdAt": now, "updatedAt": now, "archived": False,
        "agents": {"main": {"homedir": str(base / "agents" / "main"), "type": "main"}}, "custom": {},
        "isCustomTitle": False,
    }  # fmt: skip
    wire = encode_json_lines([{"agentId": "main", **record, "time": now} for record in records])
    return Exported(
        session, {base / _MAIN: wire, base / "state.json": msgspec.json.encode(state)}, f"kimi -r {session}", notes
    )


def _bucket(folder: Path) -> str:
    """The name of the folder for all sessions about one folder, as Kimi Code makes it: it looks nowhere else."""
    slug = re.sub(r"[^a-z0-9._-]+", "-", folder.name.lower()).strip("-") or "root"
    return f"wd_{slug}_{sha256(str(folder).encode()).hexdigest()[:12]}"


def _records(messages: list[Json]) -> Iterator[Json]:
    """The journal of a conversation."""
    open_step: Json | None = None
    for number, message in enumerate(messages, 1):
        role = message.get("role")
        # A step ends when its results are there: what comes behind its end is taken for lost.
        if open_step is not None and role != "tool":
            yield _event(open_step | {"type": "step.end"})
            open_step = None
        if role == "assistant":
            open_step = {"uuid": f"step-{number}", "turnId": "0", "step": number}
            yield _event(open_step | {"type": "step.begin"})
            for event in _said(message):
                yield _event(event | {"stepUuid": open_step["uuid"]})
        elif role == "tool":
            output = "\n".join([text(part.get("text")) for part in _parts(message)])
            call = text(message.get("tool_call_id"))
            yield _event({"type": "tool.result", "parentUuid": call, "toolCallId": call, "result": {"output": output}})
        else:
            said = {"role": "user", "content": _parts(message), "toolCalls": [], "origin": {"kind": "user"}}
            yield {"type": "context.append_message", "message": said}
    if open_step is not None:
        yield _event(open_step | {"type": "step.end"})


def _event(event: Json) -> Json:
    return {"type": "context.append_loop_event", "event": event}


def _parts(message: Json) -> list[Json]:
    content = message.get("content")
    if isinstance(content, str) and content:
        return [{"type": "text", "text": content}]
    return _renamed(content, {of_wire: own for own, of_wire in _NAMES.items()})


def _said(message: Json) -> Iterator[Json]:
    """The events of an answer's parts and calls."""
    thought = text(message.get("reasoning_content")).strip()
    thinking = [{"type": "think", "think": thought, "reasoningKey": "reasoning_content"}] if thought else []
    for part in [*thinking, *_parts(message)]:
        yield {"type": "content.part", "part": part}
    for call in objects_in(message.get("tool_calls")):
        function = object_at(call, "function")
        name, own = text(function.get("name")), text(call.get("id"))
        arguments = msgspec.json.decode(text(function.get("arguments")) or "{}")
        yield {"type": "tool.call", "uuid": own, "toolCallId": own, "name": name, "args": arguments}


PROGRAM = Program(NAME, "Kimi Code", _folder, find, read, write)
