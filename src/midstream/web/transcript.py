"""A conversation as the page shows it: turns by windows, calls with their results beside them, and seams where the model changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from ..core.blocks import Block, Conversation, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ..core.compaction import sent_turns
from ..core.handoff import SwitchReport, switch_report
from ..core.tools import freeform_input
from .archive import Archive

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""What the page shows as an image. Not SVG, which is a document that can hold scripts."""
_MOST_MEDIA = 8 * 1024 * 1024  # characters of base64


def window(archive: Archive, conversation: Conversation, start: int, end: int) -> list[dict[str, Any]]:
    """The turns from `start` to `end`."""
    turns = conversation.turns
    start, end = max(0, start), min(end, len(turns))
    before = _maker_before(turns, start)
    rows: list[dict[str, Any]] = []
    for index in range(start, end):
        turn = turns[index]
        row = _turn_row(archive, turns, index)
        if turn.speaker == "ai" and turn.origin is not None and turn.compacted is None:
            if before and before != turn.origin.name:
                row["seam"] = {"from": before, "to": turn.origin.name}
            before = turn.origin.name
        rows.append(row)
    return rows


def report_rows(report: SwitchReport) -> list[dict[str, str]]:
    """A switch report, line by line."""
    return [{"label": label, "text": text} for label, text in report.rows()]


def report_of(model: str, conversation: Conversation, notes: Sequence[Any]) -> SwitchReport:
    """The report of a hand-over to `model`, by the notes that its request left."""
    sent = sent_turns(conversation.turns)
    return switch_report(model, sent.turns, notes, sent.places)


def _maker_before(turns: Sequence[Turn], start: int) -> str:
    """The model of the last answer before a turn."""
    for turn in reversed(turns[:start]):
        if turn.speaker == "ai" and turn.origin is not None and turn.compacted is None:
            return turn.origin.name
    return ""


def _turn_row(archive: Archive, turns: Sequence[Turn], index: int) -> dict[str, Any]:
    turn = turns[index]
    answered = _answered_by(turns, index - 1) if turn.speaker == "tool" else set()
    row: dict[str, Any] = {
        "index": index,
        "speaker": turn.speaker,
        # A result stands beside its call; here only those that belong to none.
        "blocks": [
            _block_row(block, turns, index)
            for block in turn.blocks
            if not (type(block) is ToolResponse and block.call_id in answered)
        ],
    }
    if turn.origin is not None:
        row["model"] = turn.origin.name
        row["wire"] = turn.origin.wire
    if turn.response_model:
        row["answered_as"] = turn.response_model
    if turn.usage is not None:
        row["tokens"] = {
            "read": turn.usage.read,
            "output": turn.usage.output,
            "cached": turn.usage.cache_read,
            "reasoning": turn.usage.reasoning,
        }
        row["cost"] = archive.cost(turn)
    if turn.latency_ms is not None:
        row["ms"] = turn.latency_ms
    if turn.ttft_ms is not None:
        row["ttft"] = turn.ttft_ms
    if turn.answered_at is not None:
        row["at"] = turn.answered_at
    for name in ("role", "failure", "stop_reason"):
        if getattr(turn, name):
            row[name] = getattr(turn, name)
    if turn.compacted is not None:
        row["compacted"] = {"action": turn.compacted.action, "until": turn.compacted.until}
    if turn.tools:
        row["tools"] = [tool.qualified_name for tool in turn.tools]
    return row


def _answered_by(turns: Sequence[Turn], index: int) -> set[str]:
    """The ids of the calls that results at this place may answer: those of the last answer before them."""
    while index >= 0 and turns[index].speaker == "tool":
        index -= 1
    return {call.id for call in turns[index].tool_calls} if index >= 0 else set()


def _result_of(call: ToolCall, turns: Sequence[Turn], index: int) -> ToolResponse | None:
    for turn in turns[index + 1 :]:
        if turn.speaker != "tool":
            return None
        for response in turn.tool_responses:
            if response.call_id == call.id:
                return response
    return None


def _block_row(block: Block, turns: Sequence[Turn], index: int) -> dict[str, Any]:
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Thinking():
            hidden = "encrypted" if block.encrypted else "redacted" if block.redacted else ""
            return {"type": "thinking", "text": block.text, "hidden": hidden, "signed": bool(block.signature)}
        case ToolCall():
            freeform = block.kind == "freeform"
            result = _result_of(block, turns, index)
            return {
                "type": "call",
                "id": block.id,
                "raw_id": block.raw_id,
                "name": block.qualified_name,
                "arguments": freeform_input(block) if freeform else block.arguments,
                "freeform": freeform,
                "result": None if result is None else _result_row(result),
            }
        case ToolResponse():
            return {"type": "result", **_result_row(block)}
        case Media():
            return _media_row(block)
        case Opaque():
            return {"type": "opaque", "kind": block.kind, "json": _pretty(block.data)}
        case _:
            assert_never(block)


def _result_row(response: ToolResponse) -> dict[str, Any]:
    parts = [
        {"type": "text", "text": part.text} if type(part) is Text else _other_part(part) for part in response.content
    ]
    return {"id": response.call_id, "name": response.name, "failed": response.failed, "parts": parts}


def _other_part(part: Any) -> dict[str, Any]:
    return (
        _media_row(part) if type(part) is Media else {"type": "opaque", "kind": part.kind, "json": _pretty(part.data)}
    )


def _media_row(media: Media) -> dict[str, Any]:
    row: dict[str, Any] = {"type": "media", "kind": media.kind, "mime": media.mime, "name": media.name or ""}
    if media.data is not None:
        row["bytes"] = len(media.data) * 3 // 4
        # A browser decides by the bytes what it does with an image; the type here is only a label of these four.
        if media.mime in IMAGES and len(media.data) <= _MOST_MEDIA:
            row["data"] = media.data
    elif media.url:
        row["url"] = media.url
    return row


def _pretty(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8", "replace")
