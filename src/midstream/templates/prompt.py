"""What a template is, and what it gives: the text to complete, where to stop, and whether the answer begins in thought."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

import msgspec

from ..core.blocks import Conversation, Value
from ..core.dialect import Options
from ..core.handoff import Note
from ..core.ids import ToolIdMapper
from ..core.tools import ToolSpec


class Prompt(Value, frozen=True):
    """`stop` are the texts that end an answer; `starts_inside_thinking` says that no opening tag will come."""

    text: str
    stop: tuple[str, ...] = ()
    starts_inside_thinking: bool = False
    notes: tuple[Note, ...] = ()


class Rendering(msgspec.Struct, frozen=True):
    """What to write a prompt of.

    `ids` are the request's (the family's own scheme if None); `thinking` None leaves it to the model; `preserve_thinking`
    keeps the reasoning of finished turns where the family can. Of `options` a template reads what its model takes in words:
    the effort, the tool choice and the response format (K3).
    """

    conversation: Conversation
    tools: Sequence[ToolSpec] = ()
    ids: ToolIdMapper | None = None
    thinking: bool | None = None
    preserve_thinking: bool = False
    add_generation_prompt: bool = True
    options: Options | None = None


class Family(Protocol):
    """How one family of models was taught to read a conversation."""

    @property
    def name(self) -> str: ...

    @property
    def specials(self) -> Specials: ...

    def write(self, given: Rendering) -> Prompt: ...


class Template(msgspec.Struct, frozen=True):
    """A family's prompts, to be asked for by keyword; see Rendering for the words."""

    family: Family

    @property
    def name(self) -> str:
        return self.family.name

    @property
    def specials(self) -> Specials:
        return self.family.specials

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
        return self.family.write(
            Rendering(conversation, tools, ids, thinking, preserve_thinking, add_generation_prompt, options)
        )


JOINER = "\u200d"

BARS = r"<\|[A-Za-z0-9_.-]{1,64}\|>"
"""Any `<|name|>`: vocabularies hold hundreds of reserved ones beside those a template uses, and a new one needs no edit."""


class Specials:
    """What a tokenizer reads as one token: fixed spellings, and patterns for whole families of them."""

    __slots__ = ("_pattern",)

    def __init__(self, *tokens: str, patterns: tuple[str, ...] = ()) -> None:
        self._pattern = re.compile("|".join([*patterns, *[re.escape(token) for token in tokens]]))

    def neutralise(self, text: str) -> str:
        """`text` without a single token in it."""
        return self._pattern.sub(_broken, text)

    def find(self, text: str) -> list[str]:
        """The tokens in `text`, in order."""
        return [match[0] for match in self._pattern.finditer(text)]


def _broken(match: re.Match[str]) -> str:
    token = match[0]
    return token[0] + JOINER + token[1:]


class PromptWriter:
    __slots__ = ("_foreign", "_parts", "_specials")

    def __init__(self, specials: Specials) -> None:
        self._specials = specials
        self._parts: list[str] = []
        self._foreign: list[str] = []

    def own(self, literal: str) -> None:
        """What the template itself says; never anything that came from outside."""
        if self._foreign:
            self._settle()
        self._parts.append(literal)

    def foreign(self, text: str) -> None:
        """What anyone else said."""
        if text:
            self._foreign.append(text)

    def text(self) -> str:
        if self._foreign:
            self._settle()
        return "".join(self._parts)

    def _settle(self) -> None:
        self._parts.append(self._specials.neutralise("".join(self._foreign)))
        self._foreign.clear()
