"""Conversation -> one raw completion request: the model's template writes the prompt, the flavour says where it goes.

Tools are declared, calls and results written by the template; what only a chat could be asked is left out, and noted.
Rendering is linear in the conversation and nothing is cached: a prompt is one text, made anew for every request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from ...core.blocks import Block, Conversation, Media, Opaque, Text, Thinking, ToolResponse, Turn
from ...core.dialect import Dialect, Options
from ...core.errors import ConfigError, InvalidHistory
from ...core.handoff import Action, Note
from ...core.tools import ToolSpec
from ...templates.prompt import Prompt, Template
from ...templates.registry import get_template
from ..encode_context import EncodeContext
from ..lenient_json import json_text, json_value
from ..placeholders import omitted
from ..reasoning import belongs_to, is_own, thinking_on
from ..request import Request, sampling_fields, token_limit
from .flavours import FLAVOURS, Flavour

_UNSAFE = re.compile(r"[^A-Za-z0-9._~/:@+-]")


def encode_completion(asking: EncodeContext) -> Request:
    dialect = asking.dialect
    if dialect.template is None:
        raise ConfigError(f"{dialect.name} names no chat template, and a raw completion needs one")
    return _CompletionRequest(asking, get_template(dialect.template)).build()


class _CompletionRequest:
    def __init__(self, asking: EncodeContext, template: Template) -> None:
        self.asking = asking
        self.dialect = asking.dialect
        self.options = asking.options
        self.template = template
        self.flavour: Flavour = FLAVOURS[self.dialect.completion]
        self.notes: list[Note] = []

    def build(self) -> Request:
        conversation, model = self.asking.conversation, self.asking.model
        if not conversation.turns and not conversation.system_text and not self.options.prefill:
            raise InvalidHistory("the conversation is empty: add a human turn first")
        shown, notes = readable(conversation, self.dialect, model, self.options)
        prompt = self._prompt(shown, self._offered(self.asking.tools))
        flavour = self.flavour
        fields = [b'"%b":%b' % (flavour.prompt_field.encode(), json_text(prompt.text))]
        body: dict[str, Any] = {"model": model} if flavour.names_model else {}
        body |= {"stop": self._stops(prompt)} if prompt.stop or self.options.stop else {}
        body |= self._sampling()
        if self.options.stream:
            body["stream"] = True
            if flavour.usage_option and self.dialect.stream_usage:
                body["stream_options"] = {"include_usage": True}
        body |= self.dialect.extra_body or {}
        body |= self.options.extra_body or {}
        if body:
            fields.append(json_value(body)[1:-1])
        return self.asking.request(
            (self.dialect.path or flavour.path).replace("{model}", _UNSAFE.sub(_escaped, model)),
            b"{" + b",".join(fields) + b"}",
            (*sorted([*notes, *prompt.notes], key=_place), *self.notes),
            reader=self._reader(prompt),
        )

    def _note(self, action: Action, what: str, why: str) -> None:
        self.notes.append(Note(action, what, why))

    def _reader(self, prompt: Prompt) -> Dialect:
        """The dialect for the answer to this prompt."""
        dialect = self.dialect
        if dialect.reasoning.starts_inside != prompt.starts_inside_thinking:
            reasoning = replace(dialect.reasoning, starts_inside=prompt.starts_inside_thinking)
            dialect = replace(dialect, reasoning=reasoning)
        if not set(prompt.stop) <= set(dialect.stop):
            dialect = replace(dialect, stop=tuple(dict.fromkeys((*dialect.stop, *prompt.stop))))
        return dialect

    def _prompt(self, conversation: Conversation, tools: Sequence[ToolSpec]) -> Prompt:
        prompt = self._rendered(conversation, tools, thinking_on(self.dialect, self.options))
        why = self._no_thought_first()
        if prompt.starts_inside_thinking and why:
            prompt = self._rendered(conversation, tools, False)
            if not prompt.starts_inside_thinking:
                self._note("adapted", "option", f"thinking is off in this request: {why}")
        prefill = self.options.prefill
        if not prefill:
            return prompt
        if prompt.starts_inside_thinking:
            self._note("dropped", "option", "prefill cannot stand before the thinking this model always begins with")
            return prompt
        return replace(prompt, text=prompt.text + self.template.specials.neutralise(prefill))

    def _no_thought_first(self) -> str:
        """Why the answer must not begin with thinking, if it must not."""
        if self.options.prefill:
            return "the answer begins with the given text"
        if self.options.response_format is not None:
            return "the response format binds the answer from its first token on"
        return ""

    def _rendered(self, conversation: Conversation, tools: Sequence[ToolSpec], thinking: bool) -> Prompt:
        return self.template.render(conversation, tools=tools, thinking=thinking, options=self.options)

    def _offered(self, tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        """The tools to declare: a choice cannot be forced on a prompt, but tools can be left out of it."""
        choice = self.options.tool_choice
        if not tools or choice in (None, "auto"):
            return tools
        if choice == "none":
            return ()
        named = [tool for tool in tools if tool.name == choice]
        self._note("adapted", "option", f"a tool choice of {choice} cannot be forced on a raw completion")
        return named or tools

    def _stops(self, prompt: Prompt) -> list[str]:
        stops = list(dict.fromkeys((*prompt.stop, *self.options.stop)))
        most = self.flavour.max_stops
        if most is not None and len(stops) > most:
            self._note(
                "dropped", "option", f"this host takes {most} stop texts; the last {len(stops) - most} are left out"
            )
            stops = stops[:most]
        return stops

    def _sampling(self) -> dict[str, Any]:
        options, dialect, flavour = self.options, self.dialect, self.flavour
        fields: dict[str, Any] = {}
        limit = token_limit(options, dialect, self.notes)
        if limit is not None:
            fields[flavour.max_tokens_field] = limit
        fields |= sampling_fields(options, dialect, self.notes)
        if options.response_format is not None:
            fields |= flavour.response_format(options.response_format)
        if options.user is not None and flavour.names_user:
            fields["user"] = options.user
        return fields


def _place(note: Note) -> int:
    return -1 if note.turn is None else note.turn


def _escaped(match: re.Match[str]) -> str:
    return "".join([f"%{byte:02X}" for byte in match[0].encode("utf-8", "replace")])


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
