"""Another library's messages as a conversation: said one after another, in the order in which they stand there.

Whatever ids its calls have become canonical, ours stay as they are, and each answer that this process gave, or that the
library carried along whole (`answer_memory.packed`), stands there as it was given.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..core.blocks import Block, Conversation, Media, Text, ToolResponse, Turn
from ..core.history import canonicalize
from ..wires.parsing import system_prompt
from .answer_memory import AnswerMemory, unpacked


class HistoryBuilder:
    """Takes messages in, and gives the conversation that they make."""

    def __init__(self, memory: AnswerMemory) -> None:
        self._memory = memory
        self._system: list[Text] = []
        self._turns: list[Turn] = []
        self._carried: dict[int, Turn] = {}

    def system(self, text: str, *, standing: bool = False) -> None:
        """An instruction: part of the system prompt at the beginning, or if it is `standing`, and a turn of its own later on."""
        if not text:
            return
        if self._turns and not standing:
            self._add(Turn("system", (Text(text),)))
        else:
            self._system.append(Text(text))

    def human(self, blocks: Iterable[Text | Media]) -> None:
        found = tuple(blocks)
        if found:
            self._add(Turn("human", found))

    def answer(self, blocks: Iterable[Block], data: object = None) -> None:
        """What a model said; `data` is what the library carried along for us, if it did."""
        kept = None if data is None else unpacked(data)
        if kept is not None and kept.speaker == "ai":
            self._carried[len(self._turns)] = kept
        self._add(Turn("ai", tuple(blocks)))

    def results(self, responses: Iterable[ToolResponse]) -> None:
        """Results of calls; those of one answer are one turn, however many messages they come in."""
        found = tuple(responses)
        if not found:
            return
        if self._turns and self._turns[-1].speaker == "tool":
            last = self._turns[-1]
            self._turns[-1] = Turn("tool", (*last.blocks, *found))
        else:
            self._add(Turn("tool", found))

    def conversation(self) -> Conversation:
        conversation = canonicalize(Conversation(tuple(self._turns), system_prompt(self._system)))
        return self._memory.recall(conversation, carried=self._carried)

    def _add(self, turn: Turn) -> None:
        self._turns.append(turn)
