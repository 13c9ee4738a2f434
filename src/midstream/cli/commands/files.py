"""Commands about files: what the agent changed, and what is attached to the next message."""

from __future__ import annotations

import asyncio
import glob
import os
from typing import TYPE_CHECKING

from ...agent.changes import FileChange
from ...core.errors import LocalError
from ..mention import split_paths
from ..slash import Words, command

if TYPE_CHECKING:
    from ..chat import Chat

ROWS = 1_000
ROWS_OF_A_FILE = 200
_REMOVE = "remove"


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


@command("/attach [FILE ...|remove NAME]", "attach files to the next message, list or remove them", paths=True)
async def _attach(chat: Chat, rest: str) -> None:
    attachments = chat.attachments
    words = split_paths(rest)
    if not words:
        items = attachments.items
        if not items:
            chat.view.notice("nothing is attached; /attach FILE attaches a file, and so does @FILE in a message")
        for number, each in enumerate(items, 1):
            chat.view.notice(f"{number}. {each.label}")
        attachments.warn(chat)
    elif words[0] == _REMOVE:
        if len(words) == 1:
            raise LocalError("what is to be removed? /attach remove NAME, its number, or all")
        for word in words[1:]:
            for gone in attachments.remove(word):
                chat.view.notice(f"removed: {gone.name}")
    else:
        await attachments.add(chat, *[path for word in words for path in _globbed(word)])


@command("/paste", "attach the image that is on the clipboard (also Ctrl-V)")
async def _paste(chat: Chat, _: str) -> None:
    chat.attachments.add_clipboard(chat)


def _globbed(word: str) -> list[str]:
    """There is no shell here to do it."""
    if not glob.has_magic(word) or "://" in word or os.path.lexists(word):
        return [word]
    return sorted(glob.glob(word)) or [word]  # noqa: PTH207  (Path.glob takes no absolute pattern)
