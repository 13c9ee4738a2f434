"""What a template is, and the prompt it makes: the text to complete, where to stop, and whether the answer begins in thinking."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import accumulate

import msgspec

from ..core.blocks import Conversation, Value
from ..core.dialect import Options
from ..core.handoff import Note
from ..core.ids import ToolIdMapper, ToolIdStrategy, standard_strategy
from ..core.patterns import late_pattern
from ..core.tools import ToolSpec
from .transcript import Message, transcribe

# Zero width, so a person reads the token as before, but the tokenizer
# does not. A blank would be seen, deleting it would change what was said.
JOINER = "\u200d"

BARS = r"<\|[A-Za-z0-9_.-]{1,64}\|>"
"""Any `<|name|>`: vocabularies have hundreds of reserved ones beside those a template uses, and new ones are covered too."""


class Prompt(Value, frozen=True):
    """`stop` are the texts that end an answer; `starts_inside_thinking` means that the answer has no opening tag."""

    text: str
    stop: tuple[str, ...] = ()
    starts_inside_thinking: bool = False
    notes: tuple[Note, ...] = ()
    begins: tuple[tuple[int, int], ...] = ()
    """Where the words of a turn begin, as (turn, characters before it); a turn that is not told goes with the one before it."""


class Rendering(msgspec.Struct, frozen=True):
    """What a template writes a prompt from; `Template.render` explains the fields."""

    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    ids: ToolIdMapper
    thinking: bool | None
    preserve_thinking: bool
    add_generation_prompt: bool
    options: Options


# The one defence against forged turns. A tool's result that contains `<|im_end|><|im_user|>user…` would otherwise be a
# message from the user, since raw completion has no other frame than these tokens.
class Specials:
    """What a tokenizer reads as one token: fixed spellings, and patterns for families of them."""

    __slots__ = ("_pattern", "_spared")

    def __init__(self, *tokens: str, patterns: tuple[str, ...] = ()) -> None:
        self._pattern = late_pattern("|".join([*patterns, *[re.escape(token) for token in tokens]]))
        self._spared: frozenset[str] = frozenset()

    # Text formats on this path write their own call markers into what is otherwise foreign text.
    def sparing(self, *tokens: str) -> Specials:
        """The same without these, for a caller who took them out of foreign text and then wrote some of its own."""
        other = object.__new__(Specials)
        other._pattern, other._spared = self._pattern, frozenset(tokens)
        return other

    def neutralise(self, text: str) -> str:
        """`text` with every token in it broken."""
        return self._pattern.sub(self._broken, text)

    def _broken(self, match: re.Match[str]) -> str:
        token = match[0]
        return token if token in self._spared else token[0] + JOINER + token[1:]

    def find(self, text: str) -> list[str]:
        """The tokens in `text`, in order."""
        return [match[0] for match in self._pattern.finditer(text)]


class PromptWriter:
    """Collects a prompt; foreign text is neutralised as a whole, so that no token can be put together from two pieces."""

    __slots__ = ("_begins", "_foreign", "_opened", "_parts", "_specials")

    def __init__(self, specials: Specials) -> None:
        self._specials = specials
        self._parts: list[str] = []
        self._foreign: list[str] = []
        self._opened: int | None = None  # a turn of which nothing is written yet
        self._begins: list[tuple[int, int]] = []  # turn, and the number of parts before it

    def begin(self, turn: int) -> None:
        """What is added from now on belongs to this turn of the conversation."""
        self._opened = turn

    def own(self, literal: str) -> None:
        """Add the template's own text; never anything that came from outside."""
        if literal:
            self._settle()
            self._open()
            self._parts.append(literal)

    def foreign(self, text: str) -> None:
        """Add text that anyone else wrote."""
        if text:
            # Foreign text goes on: there is no place in it where it could be cut before it was searched as a whole.
            if self._foreign:
                self._opened = None
            self._open()
            self._foreign.append(text)

    def enclose(self, before: str, text: str, after: str = "") -> None:
        """Add foreign `text` between two texts of the template's own."""
        self.own(before)
        self.foreign(text)
        self.own(after)

    def text(self) -> str:
        self._settle()
        return "".join(self._parts)

    def begins(self) -> list[tuple[int, int]]:
        """Where each turn begins in the text; of a turn that is begun twice, the first time."""
        ends = [0, *accumulate(map(len, self._parts))]
        first: dict[int, int] = {}
        for turn, parts in self._begins:
            first.setdefault(turn, ends[parts])
        return list(first.items())

    def _open(self) -> None:
        if self._opened is not None:
            self._begins.append((self._opened, len(self._parts)))
            self._opened = None

    # Pieces are joined before they are searched: `<|im_` in one block and `end|>` in the next make a token together.
    def _settle(self) -> None:
        if self._foreign:
            self._parts.append(self._specials.neutralise("".join(self._foreign)))
            self._foreign.clear()


class Template(msgspec.Struct, frozen=True):
    """How a family of models was trained to read a conversation."""

    name: str
    specials: Specials
    stop: tuple[str, ...]
    write: Callable[[Rendering, PromptWriter], bool]
    """Writes the prompt and returns whether it ends inside thinking."""
    media: frozenset[str] = frozenset()
    """The kinds of media the prompt can show."""
    ids: ToolIdStrategy | None = None
    """The family's own scheme for the ids of calls; None if its prompts show none."""

    # Repair and transcription happen here, once for all templates: they only ever see lawful messages.
    def render(
        self,
        conversation: Conversation,
        *,
        tools: Sequence[ToolSpec] = (),
        ids: ToolIdMapper | None = None,
        thinking: bool | None = None,
        preserve_thinking: bool = False,
        add_generation_prompt: bool = True,
        options: Options | None = None,
    ) -> Prompt:
        """The prompt of a conversation.

        `ids` are the request's (None: the family's own scheme). `thinking` None leaves the choice to the model.
        `preserve_thinking` keeps the reasoning of finished turns if the family can. Of `options`, K3's template says the effort,
        the tool choice and the response format.
        """
        transcript = transcribe(conversation, tools, self.media)
        given = Rendering(
            transcript.messages,
            transcript.tools,
            ids or (self.ids or standard_strategy).create_mapper(),
            thinking,
            preserve_thinking,
            add_generation_prompt,
            options or Options(),
        )
        out = PromptWriter(self.specials)
        inside = self.write(given, out)
        return Prompt(out.text(), self.stop, inside, tuple(transcript.notes), tuple(out.begins()))
