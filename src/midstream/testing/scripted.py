"""A model that says what the test tells it to, one answer a request, and complains when it is asked for more."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from ..core.blocks import Conversation
from ..core.errors import LocalError
from ..core.tools import ToolSpec
from ..sim.answer import Answer

Line: TypeAlias = str | Answer | Callable[[Conversation], str | Answer]


class Scripted:
    """A script for a Sim: texts, Answers, or functions of the conversation as the provider read it."""

    def __init__(self, *lines: Line) -> None:
        self._lines = deque(lines)
        self._given = 0
        self.heard: list[Conversation] = []

    def __call__(self, conversation: Conversation, tools: Sequence[ToolSpec], *, model: str, thinks: bool) -> Answer:
        self.heard.append(conversation)
        if not self._lines:
            raise LocalError(f"the script has {self._given} answers, and all of them were given")
        line = self._lines.popleft()
        self._given += 1
        said = line(conversation) if callable(line) else line
        return Answer(said) if isinstance(said, str) else said
