"""The slash commands of the chat that make sense in an editor, which has its own screen: what they say is collected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from ..client.session import Session
from ..core.blocks import Media, Text
from . import commands  # noqa: F401  (registers the slash commands)
from .slash import COMMANDS as ALL
from .slash import Command, dispatch

if TYPE_CHECKING:
    from .attachment import Attachment
    from .chat import Chat
    from .workspace import Workspace

_OFFERED = ("model", "provider", "thinking", "toolformat", "reasoning", "usage", "tools", "mcp", "skills")
COMMANDS: list[Command] = [each for each in ALL if each.name in _OFFERED]
_PROMPT = "mcp__"


class _Lines:
    """A view that only collects lines."""

    unfolded = False
    width = 100

    def __init__(self) -> None:
        self.lines: list[str] = []

    def notice(self, *lines: str) -> None:
        self.lines += lines


class _NothingAttached:
    items: tuple[Attachment, ...] = ()

    def warn(self, *_: object) -> None:
        """The editor shows what it attaches itself."""


class EditorChat:
    """What those commands need of a chat."""

    interactive = False
    picks = False

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.view = _Lines()
        self.attachments = _NothingAttached()
        self.unsent: list[Text] = []
        self._sent: list[str | Media] = []

    @property
    def session(self) -> Session:
        return self.workspace.session

    def knows(self, line: str) -> bool:
        """Whether a line begins with one of these commands, or a prompt of an MCP server; anything else is for the model."""
        name = line[1:].split(maxsplit=1)[0] if len(line) > 1 else ""
        return name.startswith(_PROMPT) or any(name == each.name for each in COMMANDS)

    async def run(self, line: str) -> tuple[Sequence[str | Media], list[str]]:
        """Run a command: what is to be sent to the model, if anything, and what it said."""
        self.view.lines, self._sent = [], []
        await dispatch(cast("Chat", self), line)
        return self._sent, self.view.lines

    async def send(self, *content: Any) -> None:
        self._sent = list(content)
