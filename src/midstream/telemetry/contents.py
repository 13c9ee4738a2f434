"""What was said, as the conventions write messages: only for whoever asks for it, without keys, and of bounded size.

Media are named by their kind; their data stay out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.blocks import Block, Conversation, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ..core.tools import parse_arguments
from ..transport.secrets import Secrets
from ..wires.lenient_json import json_value
from .conventions import FINISH_REASONS

LONGEST = 32_000
"""So many characters of what was said are on a span, the newest."""
_ROLES = {"human": "user", "ai": "assistant"}
_MODALITIES = {"file": "document"}


def written_messages(turns: Sequence[Turn], secrets: Secrets) -> str:
    """The newest turns, as far as there is room, in their order."""
    told: list[dict[str, Any]] = []
    left = LONGEST
    # From the end: of a long conversation the last turns say what was asked, and the spans before have the first ones.
    for turn in reversed(turns):
        parts = [_part(block, left) for block in turn.blocks]
        left -= sum([_length(block) for block in turn.blocks])
        message: dict[str, Any] = {"role": _ROLES.get(turn.speaker, turn.speaker), "parts": parts}
        if turn.speaker == "ai" and turn.stop_reason:
            message["finish_reason"] = FINISH_REASONS.get(turn.stop_reason, turn.stop_reason)
        told.append(message)
        if left <= 0:
            break
    return written(told[::-1], secrets)


def written_instructions(conversation: Conversation, secrets: Secrets) -> str | None:
    text = conversation.system_text
    return written([{"type": "text", "content": text[:LONGEST]}], secrets) if text else None


def written(value: Any, secrets: Secrets) -> str:
    """Any value as JSON, without the keys that are known."""
    return secrets.scrub_text(json_value(value).decode())


def _part(block: Block, room: int) -> dict[str, Any]:
    room = max(room, 0)
    match block:
        case Text():
            return {"type": "text", "content": block.text[:room]}
        case Thinking():
            return {"type": "reasoning", "content": block.text[:room]}
        case ToolCall():
            # Cut JSON is not JSON: what has no room is shown as text.
            arguments = parse_arguments(block) if len(block.arguments) <= room else block.arguments[:room]
            return {"type": "tool_call", "id": block.id, "name": block.name, "arguments": arguments}
        case ToolResponse():
            return {"type": "tool_call_response", "id": block.call_id, "response": block.text[:room]}
        case Media():
            return {"type": "media", "modality": _MODALITIES.get(block.kind, block.kind), "mime_type": block.mime}
        case Opaque():
            return {"type": block.kind}


def _length(block: Block) -> int:
    match block:
        case Text() | Thinking() | ToolResponse():
            return len(block.text)
        case ToolCall():
            return len(block.arguments)
    return 0
