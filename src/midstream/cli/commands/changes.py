"""The command that shows what the agent changed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ...agent.changes import FileChange
from ...core.errors import LocalError
from ..slash import Words, command

if TYPE_CHECKING:
    from ..chat import Chat

ROWS = 1_000
ROWS_OF_A_FILE = 200


def _changed_files(chat: Chat) -> Words:
    return [(change.path, change.summary) for change in chat.changes.files()]


@command("/diff [PATH]", "show what the tools changed in this folder since the chat was started", _changed_files)
async def _diff(chat: Chat, wanted: str) -> None:
    changes = await asyncio.to_thread(chat.changes.files)
    if wanted:
        changes = [change for change in changes if change.path == wanted or change.path.startswith(f"{wanted}/")]
        if not changes:
            raise LocalError(f"no tool changed {wanted} in this chat; /diff alone shows all changes")
    room = ROWS
    for change in changes:
        limit = room if wanted else min(room, ROWS_OF_A_FILE)
        chat.view.diff([f"@@ {change.path}: {change.summary}", *_bounded(change, limit)])
        room = max(0, room - len(change.rows))
    if chat.changes.blind:
        chat.view.notice(f"(what commands changed is not known: {chat.changes.blind})")
    if not changes:
        chat.view.notice("no tool has changed a file in this chat")


def _bounded(change: FileChange, limit: int) -> list[str]:
    left = len(change.rows) - limit
    if left <= 0:
        return list(change.rows)
    return [*change.rows[:limit], f"@@ {left:,} more rows; /diff {change.path} shows more"]
