"""Commands about what goes with the next message."""

from __future__ import annotations

import glob
import os
from typing import TYPE_CHECKING

from ...core.errors import LocalError
from ..mention import split_paths
from ..slash import command

if TYPE_CHECKING:
    from ..chat import Chat

_REMOVE = "remove"


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
