"""What two requests of one client share: the conversation without the marks that change while it grows.

Clients send the same message in other shapes from one request to the next: a text as a string or in a list, a cache mark that
moves on to the newest block, an effort beside a message, an object's keys in another order. A digest of a history is taken
over this form.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from ..core.blocks import Block, Conversation, Media, Text, ToolCall, ToolResponse, Turn
from ..core.json_progress import object_text

# A mark for caching and the effort move from message to message
# while the conversation grows (field-guide/clients.md#claude-code).
_MARKS = frozenset({"cache_control", "output_config"})


def canonical_form(conversation: Conversation) -> Conversation:
    """The same conversation, whichever of the shapes it came in."""
    system = conversation.system
    # A string and a list of one text are the same system prompt.
    texts = (Text(system),) if isinstance(system, str) and system else system if isinstance(system, tuple) else ()
    plain = tuple([replace(text, extra=_unmarked(text.extra)) for text in texts])
    return replace(conversation, system=plain, turns=tuple([_turn(turn) for turn in conversation.turns]))


def _turn(turn: Turn) -> Turn:
    return replace(turn, blocks=tuple([_block(block) for block in turn.blocks]), extra=_unmarked(turn.extra))


def _block(block: Block) -> Block:
    if isinstance(block, ToolCall):
        # Clients write arguments anew, so their bytes say nothing (field-guide/clients.md#what-they-give-back).
        return replace(block, arguments=_sorted(block.arguments), extra=_unmarked(block.extra))
    if isinstance(block, ToolResponse):
        parts = tuple(
            [
                replace(part, extra=_unmarked(part.extra)) if isinstance(part, (Text, Media)) else part
                for part in block.content
            ]
        )
        return replace(block, content=parts, extra=_unmarked(block.extra))
    return replace(block, extra=_unmarked(block.extra)) if isinstance(block, (Text, Media)) else block


def _unmarked(extra: dict[str, Any] | None) -> dict[str, Any] | None:
    return {key: value for key, value in extra.items() if key not in _MARKS} or None if extra else None


def _sorted(arguments: str) -> str:
    """An object with its keys in order; what is no object stays as it is."""
    if object_text(arguments) is None:
        return arguments
    try:
        # The standard library's writer, because keys have to be sorted at every level.
        return json.dumps(json.loads(arguments), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError):
        return arguments
