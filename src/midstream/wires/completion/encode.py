"""Conversation -> one raw completion request: the model's template writes the prompt, the flavour says where it goes.

Tools are declared, calls and results written by the template, unless another text format was asked for; what only a chat could be asked is left out, and noted.
Rendering is linear in the conversation and nothing is cached: a prompt is one text, made anew for every request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from ...core.blocks import Block, Conversation, Media, Opaque, Text, Thinking, ToolResponse, Turn
from ...core.dialect import Dialect
from ...core.errors import ConfigError
from ...core.handoff import Note
from ...core.tools import ToolSpec
from ...templates.prompt import Prompt, Template
from ...templates.registry import get_template
from ..encode_context import EncodeContext
from ..lenient_json import json_text, json_value
from ..reasoning import asked_off, is_own, keeps_thinking
from ..request import Request, RequestDraft, empty_conversation
from .flavours import FLAVOURS, Flavour


def encode_request(draft: RequestDraft) -> Request:
    dialect = draft.dialect
    if dialect.template is None:
        raise ConfigError(f"{dialect.name} names no chat template, and a raw completion needs one")
    template = get_template(dialect.template)
    if draft.text_tools is not None:
        # These markers have been taken out of foreign text already; what is left of them was written by us.
        template = replace(template, specials=template.specials.sparing(*draft.text_tools.format.markers))
    return _CompletionRequest(draft, template).build()


class _CompletionRequest:
    def __init__(self, draft: RequestDraft, template: Template) -> None:
        self.draft = draft
        self.dialect = draft.dialect
        self.options = draft.options
        self.template = template
        self.flavour: Flavour = FLAVOURS[self.dialect.completion]
        self.history = draft.context()
        self.context = self.history.around(draft.options)

    def build(self) -> Request:
        conversation, model = self.draft.conversation, self.draft.model
        if not conversation.turns and not conversation.system_text and not self.options.prefill:
            raise empty_conversation()
        shown, places = self.draft.shown(self.history)
        shown = readable(shown, self.history)
        prompt = self._prompt(shown, self._offered(self.draft.tools))
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
        # Templates and contexts count turns of what was shown; a caller counts those of the conversation.
        self.history.notes = sorted([_moved(note, places) for note in (*self.history.notes, *prompt.notes)], key=_place)
        return self.draft.request(
            self.dialect.path or flavour.path,
            b"{" + b",".join(fields) + b"}",
            self.history,
            self.context,
            reader=self._reader(prompt),
            begins=tuple([(places[turn], at) for turn, at in prompt.begins if 0 <= turn < len(places)]),
        )

    # How the prompt left off decides how the answer has to be read.
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
        self._effort()
        prompt = self._rendered(conversation, tools, self.context.thinking)
        # A prefill or a grammar binds the first token of the answer, so the prompt must not end inside thinking.
        why = self._no_thought_first()
        if prompt.starts_inside_thinking and why:
            prompt = self._rendered(conversation, tools, False)
            if not prompt.starts_inside_thinking:
                self.context.note("adapted", "option", "thinking_disabled", f"thinking is off in this request: {why}")
        prefill = self.options.prefill
        if not prefill:
            return prompt
        if prompt.starts_inside_thinking:
            self.context.option_dropped(
                "prefill", "prefill cannot be sent before the thinking this model always begins with"
            )
            return prompt
        # Foreign text like any other: a marker in it is broken.
        return replace(prompt, text=prompt.text + self.template.specials.neutralise(prefill))

    def _no_thought_first(self) -> str:
        """Why the answer must not begin with thinking, if it must not."""
        if self.options.prefill:
            return "the answer begins with the given text"
        if self.options.response_format is not None:
            return "the response format binds the answer from its first token on"
        return ""

    def _effort(self) -> None:
        """Efforts are for the templates that have a place for one; none has one for a budget."""
        self.context.no_budget()
        asked = self.options.effort
        if asked_off(self.options):
            if self.context.thinking:
                self.context.always_thinks()
        elif asked is not None and self.dialect.reasoning.efforts:
            self.options = replace(self.options, effort=self.context.effort(asked))
        else:
            self.context.no_effort()

    def _rendered(self, conversation: Conversation, tools: Sequence[ToolSpec], thinking: bool) -> Prompt:
        keep = thinking and keeps_thinking(self.dialect, self.options)
        return self.template.render(
            conversation, tools=tools, thinking=thinking, preserve_thinking=keep, options=self.options
        )

    def _offered(self, tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        """The tools to declare: a choice cannot be forced on a prompt, but tools can be left out of it."""
        # Leaving tools out is the one thing that a prompt can enforce.
        choice = self.options.tool_choice
        tools = [tool for tool in tools if self.context.host_tool(tool) is None]
        if tools:
            self.context.parallel_calls()  # no word for it here: noted
        if not tools or choice in (None, "auto"):
            return tools
        if choice == "none":
            return ()
        named = [tool for tool in tools if tool.name == choice]
        why = f"tool_choice {choice} cannot be forced on a raw completion" + (
            "; it is the only tool sent" if named else ""
        )
        self.context.note("adapted", "option", "tool_choice_changed", why)
        return named or tools

    def _stops(self, prompt: Prompt) -> list[str]:
        # The template's own first: without them the answer would not end.
        stops = list(dict.fromkeys((*prompt.stop, *self.options.stop)))
        most = self.flavour.max_stops
        if most is not None and len(stops) > most:
            self.context.option_dropped("stop", f"stop: only the first {most} texts are sent, the most allowed")
            stops = stops[:most]
        return stops

    def _sampling(self) -> dict[str, Any]:
        options, context, flavour = self.options, self.context, self.flavour
        fields: dict[str, Any] = {}
        limit = context.token_limit()
        if limit is not None:
            fields[flavour.max_tokens_field] = limit
        fields |= context.sampling()
        if options.response_format is not None and context.takes("response_format"):
            fields |= flavour.response_format(options.response_format)
        user = context.user()
        if user is not None:
            fields[self.dialect.user_field] = user
        return fields


def _place(note: Note) -> int:
    return -1 if note.turn is None else note.turn


def _moved(note: Note, places: Sequence[int]) -> Note:
    """A note on a turn that was read, about its place in the conversation."""
    known = note.turn is not None and note.turn < len(places)
    return replace(note, turn=places[note.turn]) if known and note.turn is not None else note


def readable(conversation: Conversation, context: EncodeContext) -> Conversation:
    """The conversation as this reader may see it; what was changed for it is noted."""
    turns: list[Turn] = []
    for context.turn, turn in enumerate(conversation.turns):
        turns.append(_readable_turn(turn, context))
    return replace(conversation, turns=tuple(turns))


def _readable_turn(turn: Turn, context: EncodeContext) -> Turn:
    if turn.tools:
        turn = replace(turn, tools=tuple([context.plain_tool(tool) for tool in turn.tools]))
    if all(type(block) is Text for block in turn.blocks):
        return turn
    blocks: list[Block] = []
    for block in turn.blocks:
        if type(block) is Thinking:
            fate = "keep" if is_own(block, context.dialect, context.model) else context.foreign_thinking(block)
            if fate != "drop":
                blocks.append(block if fate == "keep" else Text(block.text + "\n\n"))
        elif type(block) is Media:
            blocks.append(_readable_media(block, context))
        elif type(block) is ToolResponse:
            blocks.append(_readable_response(block, context))
        else:
            blocks.append(block)
    return turn if tuple(blocks) == turn.blocks else replace(turn, blocks=tuple(blocks))


def _readable_media(media: Media, context: EncodeContext) -> Text | Media:
    return media if media.kind in context.dialect.media else Text(context.unreadable(media))


def _readable_response(response: ToolResponse, context: EncodeContext) -> ToolResponse:
    content: list[Text | Media | Opaque] = [
        _readable_media(part, context) if type(part) is Media else part for part in response.content
    ]
    # As `result_text` does on the other wires; here the parts stay parts.
    if response.is_error and "error" not in response.text[:40].lower():
        content.insert(0, Text("Error: "))  # a prompt has no flag for it
    return response if tuple(content) == response.content else replace(response, content=tuple(content))
