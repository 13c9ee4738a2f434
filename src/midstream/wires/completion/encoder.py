"""Conversation -> one raw completion request: the model's template writes the prompt, the flavour says where it goes.

Tools are declared, calls and results written by the template; what only a chat could be asked is left out, and noted.
Rendering is linear in the conversation and nothing is cached: a prompt is one text, made anew for every request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from ...core.blocks import Conversation
from ...core.dialect import Dialect
from ...core.errors import ConfigError, InvalidHistory
from ...core.handoff import Action, Note
from ...core.tools import ToolSpec
from ...templates.prompt import Prompt, Template
from ...templates.registry import get_template
from ..asking import Asking
from ..json_border import json_text, json_value
from ..reasoning import thinking_on
from ..request import Request
from ..sampling import sampling_fields, token_limit
from .flavours import FLAVOURS, Flavour
from .history import readable

_UNSAFE = re.compile(r"[^A-Za-z0-9._~/:@+-]")


def encode_completion(asking: Asking) -> Request:
    dialect = asking.dialect
    if dialect.template is None:
        raise ConfigError(f"{dialect.name} names no chat template, and a raw completion needs one")
    return _CompletionRequest(asking, get_template(dialect.template)).build()


class _CompletionRequest:
    def __init__(self, asking: Asking, template: Template) -> None:
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
