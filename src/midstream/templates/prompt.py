"""What a template is, and what it gives: the text to complete, where to stop, and whether the answer begins in thought."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from midstream.core.blocks import Conversation, Value
from midstream.core.dialect import Options
from midstream.core.handoff import Note
from midstream.core.ids import ToolIdMapper
from midstream.core.tools import ToolSpec

from .specials import Specials


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
