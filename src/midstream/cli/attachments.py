"""What goes with the next message of a chat: attached beforehand, or named in the message itself.

Files are read only for somebody at a terminal: lines that come through a pipe may be anybody's text, and an `@name` in them
stays what it is. A file that looks like keys or passwords is asked about. What the model will not read is told first.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.blocks import Media
from ..core.errors import LocalError
from .attachment import (
    MAX_MESSAGE,
    Attachment,
    attach,
    content_of,
    fenced,
    from_bytes,
    read_attachment,
    shown_size,
    unread,
)
from .clipboard import clipboard_image
from .folder_contents import read_folder
from .mention import Mention, dropped_paths, mentions, resource_mentions

if TYPE_CHECKING:
    from .chat import Chat


class Attachments:
    """The attachments of the next message, in the order in which they were added."""

    def __init__(self) -> None:
        self.items: tuple[Attachment, ...] = ()
        self._pasted = 0

    async def add(self, chat: Chat, *paths: str) -> None:
        """Attach files (or folders, with their slash) and say so; nothing is attached if one of them cannot be."""
        read = [await asyncio.to_thread(_read, path) for path in paths]
        # All are read before one is kept: a name that is wrong must not leave half of them attached.
        self._keep([each for each in read if await chat.may_send(each)])
        self.tell(chat, *[each for each in read if each in self.items])

    def add_clipboard(self, chat: Chat) -> None:
        """Attach the image on the clipboard."""
        data = clipboard_image()
        pasted = from_bytes(data, f"pasted-{self._pasted + 1}", "the image on the clipboard")
        if pasted.media is None or pasted.media.kind != "image":
            raise LocalError("there is no image on the clipboard")
        self._pasted += 1
        suffix = pasted.media.mime.partition("/")[2]
        item = from_bytes(data, f"pasted-{self._pasted}.{suffix}", f"pasted-{self._pasted}.{suffix}")
        self._keep([item])
        self.tell(chat, item)

    def remove(self, which: str) -> list[Attachment]:
        """Take attachments off again: by number, by name, or all."""
        if which == "all":
            gone = list(self.items)
        elif which.isdecimal() and 0 < int(which) <= len(self.items):
            gone = [self.items[int(which) - 1]]
        else:
            gone = [each for each in self.items if which in (each.name, Path(each.name).name)]
        if not gone:
            there = ", ".join([each.name for each in self.items]) or "nothing"
            raise LocalError(f"{which!r} is not attached (attached: {there}); give its name, its number, or all")
        self.items = tuple([each for each in self.items if each not in gone])
        return gone

    async def compose(self, chat: Chat, text: str) -> tuple[str | Media, ...] | None:
        """The content of a message: its text, what it names with @, and what was attached. None if there is nothing to send
        yet: the text was the path of a dropped file, or the user had second thoughts. What was attached stays so until the
        message is part of the conversation."""
        dropped = dropped_paths(text) if chat.interactive else None
        if dropped is not None:
            await self.add(chat, *dropped)
            return None
        named = await self._named(chat, text)
        if named is None:
            return None
        content = content_of(text, (*self.items, *named))
        if named:
            chat.view.notice(*[f"attached: {each.label}" for each in named])
            self.warn(chat, *named)
        return content

    def tell(self, chat: Chat, *added: Attachment) -> None:
        for each in added:
            chat.view.notice(f"attached: {each.label}; it goes with your next message")
        self.warn(chat, *added)

    def warn(self, chat: Chat, *some: Attachment) -> None:
        """Say what the current model will not read; without arguments, of all that is attached."""
        media = [each.media for each in some or self.items if each.media is not None]
        chat.view.notice(*unread(chat.session, media))

    async def _named(self, chat: Chat, text: str) -> list[Attachment] | None:
        found = mentions(text) if chat.interactive and "@" in text else []
        try:
            named = [await asyncio.to_thread(_mentioned, each) for each in found]
        except LocalError as error:
            raise LocalError(f"not sent: {error} (a name in backticks, `@name`, is not looked up)") from None
        named += await self._resources(chat, text)
        for each in named:
            if not await chat.may_send(each):
                chat.view.notice("not sent")
                return None
        return named

    async def _resources(self, chat: Chat, text: str) -> list[Attachment]:
        """What a message names of MCP servers."""
        servers = chat.workspace.mcp
        if servers is None or not chat.interactive or "@" not in text:
            return []
        found: list[Attachment] = []
        for server, uri in resource_mentions(text, servers.running.connections):
            name = f"{server}:{uri}"
            for part in await servers.running.read(server, uri):
                if isinstance(part, Media):
                    found.append(Attachment(name, len(part.data or ""), media=part))
                else:
                    found.append(Attachment(name, len(part.text), fenced("resource", name, part.text)))
        return found

    def _keep(self, more: list[Attachment]) -> None:
        known = {each.name for each in more}
        items = (*[each for each in self.items if each.name not in known], *more)
        size = sum(each.size for each in items)
        if size > MAX_MESSAGE:
            raise LocalError(f"{shown_size(size)} are more than {shown_size(MAX_MESSAGE)} in one message; attach fewer")
        self.items = items


def _read(path: str) -> Attachment:
    if path.endswith("/") and Path(path).expanduser().is_dir():
        return read_folder(Path(path).expanduser(), path)
    return attach(path)


def _mentioned(mention: Mention) -> Attachment:
    read = read_folder if mention.is_folder else read_attachment
    return read(mention.path, mention.shown)
