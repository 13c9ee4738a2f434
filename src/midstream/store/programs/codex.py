"""Codex: `~/.codex/sessions/YYYY/MM/DD/rollout-<time>-<session>.jsonl`, records of events, Responses items inside.

Records of the type `response_item` are the conversation; all others are for the screen, the bill and the log. A message
says in its metadata who wrote each part (older files do not, there the tags that Codex puts around its own words tell). A
compaction replaces what was said before it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ...core.blocks import Conversation
from ...wires.lenient_json import encode_json_lines
from ...wires.openai_responses.wire import DEFAULT
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

NAME = "codex"
_PROVIDER = "openai"
# The wire's default belongs to nobody; what Codex stored is OpenAI's, which takes its own reasoning back.
_WRITTEN = replace(DEFAULT, provider=_PROVIDER)
_METADATA = "internal_chat_message_metadata_passthrough"
_OWN_TAGS = (
    "<environment_context>", "<user_instructions>", "<permissions instructions>", "<skills_instructions>",
    "<collaboration_mode>", "# AGENTS.md instructions", "<turn_aborted>", "<model_switch>", "<personality_spec>",
)  # fmt: skip
_ANSWERED = (
    "reasoning",
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "web_search_call",
    "tool_search_call",
)


def _folder(place: Place) -> Path:
    return place.folder("CODEX_HOME", ".codex") / "sessions"


def find(place: Place) -> Iterator[SessionFile]:
    return session_files(NAME, files_below(_folder(place), "*/*/*/rollout-*.jsonl"), _described)


def _described(path: Path) -> tuple[str, str, str]:
    session, folder = "", ""
    for record in head_records(path):
        payload = object_at(record, "payload")
        if record.get("type") == "session_meta":
            if "subagent" in object_at(payload, "source"):
                break
            # A fork copies records of its parent. Should a head be among them, the first one is still its own.
            session, folder = session or text(payload.get("id")), folder or text(payload.get("cwd"))
        elif record.get("type") == "response_item" and payload.get("role") == "user":
            own = [text(part.get("text")) for part, of_codex in _own_parts(payload) if not of_codex]
            if title := shown_title(" ".join(own)):
                return session, folder, title
    return session, folder, ""


def read(session: SessionFile) -> Imported:
    data = read_bytes(Path(session.path))
    left_out = LeftOut()
    items: list[Json] = []
    model = ""
    for record in read_records(data, left_out):
        payload = object_at(record, "payload")
        match record.get("type"):
            case "session_meta" if payload.get("base_instructions") or payload.get("instructions"):
                left_out.add("system prompt of Codex")
            case "turn_context":
                model = text(payload.get("model")) or model
            case "response_item":
                items += _item(payload, model, left_out)
            case "compacted":
                left_out.add("items from before a compaction", len(items))
                replaced = objects_in(payload.get("replacement_history"))
                items = [item for each in replaced for item in _item(each, model, left_out)]
                if summary := text(payload.get("message")):
                    items.append({"type": "message", "role": "user", "content": summary})
            case "event_msg" if payload.get("type") == "thread_rolled_back":
                _roll_back(items, payload.get("num_turns"), left_out)
    origins = [origin_for(DEFAULT.wire, _PROVIDER, model, "gpt") for model in _models(items)]
    plain = [{name: value for name, value in item.items() if name != _MODEL} for item in items]
    return imported(session, DEFAULT.wire, {"input": plain}, origins, data, left_out)


def _roll_back(items: list[Json], count: object, left_out: LeftOut) -> None:
    """Take back this many questions and what came after each."""
    asked = [place for place, item in enumerate(items) if item.get("role") == "user"]
    places = asked[-count:] if isinstance(count, int) and count > 0 else []
    if places:
        left_out.add("items that were taken back", len(items) - places[0])
        del items[places[0] :]


_MODEL = "midstream_model"
"""Beside an item until it is parsed: the model of its turn, which Codex writes down in a record of its own."""


def _item(payload: Json, model: str, left_out: LeftOut) -> list[Json]:
    """An item of the wire without what Codex adds for itself; nothing if the whole of it is Codex's."""
    item = {name: value for name, value in payload.items() if name not in (_METADATA, "metadata") and value is not None}
    for name in ("content", "output"):
        if isinstance(item.get(name), list):
            sound = [part for part in objects_in(item[name]) if _is_sound(part)]
            if len(sound) < len(item[name]):
                left_out.add("parts that are damaged", len(item[name]) - len(sound))
            item[name] = sound
    if payload.get("type") != "message" or payload.get("role") == "assistant":
        return [item | {_MODEL: model}]
    parts = _own_parts({**payload, "content": item.get("content")})
    kept = [part for part, of_codex in parts if not of_codex]
    if len(kept) < len(parts):
        left_out.add("instructions and notes that Codex adds by itself", len(parts) - len(kept))
    return [item | {"content": kept}] if kept or not parts else []


def _is_sound(part: Json) -> bool:
    """Whether a part is one: what nobody understands would go back as it is to the host that it came from."""
    kind = part.get("type")
    return isinstance(kind, str) and (not kind.endswith("text") or isinstance(part.get("text"), str))


def _own_parts(payload: Json) -> list[tuple[Json, bool]]:
    """The parts of a message, and whether Codex wrote each."""
    parts: Any = payload.get("content")
    if isinstance(parts, str):
        parts = [{"type": "input_text", "text": parts}]
    kinds = object_at(payload, _METADATA).get("content_item_kinds")
    parts = objects_in(parts)
    if payload.get("role") != "user":
        return [(part, True) for part in parts]
    if isinstance(kinds, list) and len(kinds) == len(parts):
        return [(part, not text(kind).startswith("user")) for part, kind in zip(parts, kinds, strict=True)]
    return [(part, text(part.get("text")).lstrip().startswith(_OWN_TAGS)) for part in parts]


def _models(items: list[Json]) -> list[str]:
    """The model of each answer: items in a row without a word of anybody else are one."""
    models: list[str] = []
    inside = False
    for item in items:
        answered = item.get("type") in _ANSWERED or item.get("role") == "assistant"
        if answered and not inside:
            models.append(text(item.get(_MODEL)))
        inside = answered
    return models


def write(conversation: Conversation, place: Place, folder: Path) -> Exported:
    model = answering_model(conversation, "")
    body, notes = encoded(conversation, _WRITTEN, model)
    # Version 7, as Codex has them: it finds a session by its id, and sorts by the time in it.
    now = time.time()
    session = str(_time_ordered_id(now))
    moment = stamp(now)
    meta: Json = {
        "id": session, "timestamp": moment, "cwd": str(folder), "originator": "midstream", "cli_version": "0.0.0",
        "source": "cli", "model_provider": None,
    }  # fmt: skip
    records = [{"timestamp": moment, "type": "session_meta", "payload": meta}]
    for item in objects_in(body["input"]):
        if isinstance(item.get("content"), str):
            # The wire takes a plain text too. Codex passes over a message whose content is no list, without a word.
            kind = "output_text" if item.get("role") == "assistant" else "input_text"
            item["content"] = [{"type": kind, "text": item["content"]}]
        records.append({"timestamp": moment, "type": "response_item", "payload": {"type": "message", **item}})
        if item.get("role") == "user":
            # The screen is made of events, the model's context of items.
            said = "\n".join([text(part.get("text")) for part in objects_in(item.get("content"))])
            event = {"type": "user_message", "message": said}
            records.append({"timestamp": moment, "type": "event_msg", "payload": event})
    day = time.strftime("%Y/%m/%d", time.gmtime(now))
    name = f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S', time.gmtime(now))}-{session}.jsonl"
    data = encode_json_lines(records)
    return Exported(session, {_folder(place) / day / name: data}, f"codex resume {session}", notes)


def _time_ordered_id(now: float) -> uuid.UUID:
    random = uuid.uuid4().int & ((1 << 62) - 1)
    return uuid.UUID(int=(int(now * 1000) << 80) | (7 << 76) | ((random >> 50) << 64) | (2 << 62) | random)


PROGRAM = Program(NAME, "Codex", _folder, find, read, write)
