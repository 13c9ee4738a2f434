"""The conversation a template may show to this reader: its own thinking, the media it reads, errors said in words.

A raw prompt has no field for any of it, so this is a copy with the blocks changed; turns that need no change are the same
objects. Whether the template then shows the thinking is the template's rule.
"""

from __future__ import annotations

from msgspec.structs import replace

from ...core.blocks import Block, Conversation, Media, Opaque, Text, Thinking, ToolResponse, Turn
from ...core.dialect import Dialect, Options
from ...core.handoff import Action, Note
from ..reasoning import belongs_to, is_own
from ..stand_ins import omitted


def readable(
    conversation: Conversation, dialect: Dialect, model: str, options: Options
) -> tuple[Conversation, list[Note]]:
    """The conversation as this reader may see it, and notes of what was changed for it."""
    reader = _Reader(dialect, model, options)
    turns = tuple([reader.turn(number, turn) for number, turn in enumerate(conversation.turns)])
    return replace(conversation, turns=turns), reader.notes


class _Reader:
    def __init__(self, dialect: Dialect, model: str, options: Options) -> None:
        self.notes: list[Note] = []
        self._dialect = dialect
        self._model = model
        self._policy = options.foreign_thinking
        self._number = 0
        self._turn = Turn("human")

    def turn(self, number: int, turn: Turn) -> Turn:
        if all(type(block) is Text for block in turn.blocks):
            return turn
        self._number, self._turn = number, turn
        blocks: list[Block] = []
        for block in turn.blocks:
            if type(block) is Thinking:
                blocks += self._thinking(block)
            elif type(block) is Media:
                blocks.append(self._media(block))
            elif type(block) is ToolResponse:
                blocks.append(self._response(block))
            else:
                blocks.append(block)
        return turn if tuple(blocks) == turn.blocks else replace(turn, blocks=tuple(blocks))

    def _note(self, action: Action, what: str, why: str) -> None:
        self.notes.append(Note(action, what, why, self._number, self._turn.key))

    def _thinking(self, block: Thinking) -> list[Block]:
        if is_own(block, self._dialect, self._model):
            return [block]
        if self._policy == "keep" and block.text:
            return [block]
        if self._policy == "text" and block.text:
            self._note("adapted", "thinking", "another model's thinking is sent as plain text")
            return [Text(block.text + "\n\n")]
        self._note("dropped", "thinking", belongs_to(block))
        return []

    def _media(self, media: Media) -> Text | Media:
        if media.kind in self._dialect.media:
            return media
        self._note("dropped", "media", f"a prompt here carries no {media.kind}; a line of text stands in")
        return Text(omitted(media))

    def _response(self, response: ToolResponse) -> ToolResponse:
        content: list[Text | Media | Opaque] = [
            self._media(part) if type(part) is Media else part for part in response.content
        ]
        if response.is_error and "error" not in response.text[:40].lower():
            content.insert(0, Text("Error: "))  # a prompt has no flag for it
        return response if tuple(content) == response.content else replace(response, content=tuple(content))
