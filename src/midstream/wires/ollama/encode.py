"""Conversation -> one Ollama chat request.

The history is written by OllamaWriter (and kept in the cache); the rest adds what stands around it: system prompt, tools,
thinking, format, options. The wire knows no tool choice: `none` leaves the tools out, the others are noted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, assert_never

from ...core.blocks import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ..encode_context import SAMPLING, EncodeContext, result_text, write_turns
from ..lenient_json import json_text, json_value
from ..media import MEDIA_FOLLOWS
from ..reasoning import asked_off, is_own
from ..request import Request, RequestDraft, below_system, join_body, merge_body


def encode_request(draft: RequestDraft) -> Request:
    # The only option that changes how old turns are written.
    return _OllamaRequest(draft, draft.history(OllamaWriter, draft.options.foreign_thinking)).build()


class _OllamaRequest:
    def __init__(self, draft: RequestDraft, writer: OllamaWriter) -> None:
        self.draft, self.writer = draft, writer
        self.dialect, self.options = draft.dialect, draft.options
        self.context = writer.context.around(draft.options)

    def build(self) -> Request:
        body: dict[str, Any] = {"model": self.draft.model, "stream": self.options.stream}  # unsaid, it streams
        described = self._tools()
        if described:
            body["tools"] = described
        body.update(CONTROLS[self.dialect.reasoning.control](self.context))
        kind, schema = self.context.answer_schema()
        if kind:
            body["format"] = schema if schema is not None else "json"
        settings = self.context.sampling((*SAMPLING, "stop"))
        limit = self.context.token_limit()
        if limit is not None:
            settings = {self.dialect.max_tokens_field: limit, **settings}
        if settings:
            body["options"] = settings
        self.context.user()  # no place for it here: noted
        merge_body(body, self.dialect.extra_body, self.options.extra_body)
        return self.draft.request(
            "/api/chat",
            join_body(json_value(body)[:-1] + b',"messages":[', self._messages(), b"]}"),
            self.writer.context,
            self.context,
        )

    def _messages(self) -> list[bytes]:
        messages = below_system(self.draft.conversation, self.writer.messages)
        if self.options.prefill:
            # The host goes on with a message of the assistant's at the end.
            messages.append(b'{"role":"assistant","content":%b}' % json_text(self.options.prefill))
        return messages

    def _tools(self) -> list[dict[str, Any]]:
        tools, choice, context = self.draft.tools, self.options.tool_choice, self.context
        if not tools:
            return []
        # Leaving the tools out says the same, but only for this request: the history still has its calls.
        if choice == "none":
            why = "this wire has no tool choice; the tools are left out so that none is called"
            context.note("adapted", "option", "tool_choice_changed", why)
            return []
        if choice not in (None, "auto"):
            why = f"tool_choice {choice} is not supported here; the model is free to choose"
            context.note("dropped", "option", "tool_choice_changed", why)
        context.parallel_calls()  # no word for it here: noted
        described: list[dict[str, Any]] = []
        for tool in tools:
            if context.host_tool(tool) is not None:
                continue
            if tool.builtin is not None:
                context.foreign_builtin(tool)
            else:
                described.append({"type": "function", "function": context.declare(tool)})
        return described


def _none(context: EncodeContext) -> dict[str, Any]:
    return {}


def _think(context: EncodeContext) -> dict[str, Any]:
    """Said only when asked for: a model that cannot think refuses the word. Levels go only to models that know them."""
    options, rules = context.options, context.dialect.reasoning
    context.no_budget()
    if asked_off(options):
        if not rules.can_disable:
            context.always_thinks()
            return {}
        return {"think": False}
    if options.effort is not None and rules.efforts:
        return {"think": context.effort(options.effort)}
    # A level for a model without levels: at least it thinks.
    if options.thinking == "on" or options.effort is not None:
        if options.effort is not None:
            why = f"effort {options.effort} is sent as on: this model takes no levels"
            context.note("adapted", "option", "thinking_changed", why)
        return {"think": True}
    return {}


CONTROLS: dict[str, Callable[[EncodeContext], dict[str, Any]]] = {"none": _none, "think": _think}


class OllamaWriter:
    """`messages` are finished JSON objects."""

    def __init__(self, context: EncodeContext) -> None:
        self.context = context
        self.messages: list[bytes] = []
        # Results are matched by order and name (field-guide/ollama.md#tools), and stored ones may lack the name.
        self._called: dict[str, str] = {}  # the names of the last turn's calls, for results that lack theirs
        self._size = 0

    @property
    def size(self) -> int:
        return self._size

    def clone(self) -> OllamaWriter:
        twin = copy(self)
        twin.context = self.context.clone()
        twin.messages = self.messages.copy()
        return twin

    def write(self, turns: Sequence[Turn], offset: int) -> None:
        write_turns(self, turns, offset)

    def _add(self, role: str, content: str, *, images: Sequence[str] = (), rest: bytes = b"") -> None:
        fields = b'{"role":"%b","content":%b' % (role.encode(), json_text(content))
        if images:
            fields += b',"images":' + json_value(list(images))
        message = fields + rest + b"}"
        self.messages.append(message)
        self._size += len(message)

    def human(self, turn: Turn) -> None:
        self._said("user", turn.blocks)

    def system(self, turn: Turn) -> None:
        self._said("system", turn.blocks)

    def _said(self, role: str, blocks: Sequence[Block]) -> None:
        if len(blocks) == 1 and type(blocks[0]) is Text:
            self._add(role, blocks[0].text)
            return
        texts, images = self._content(blocks)
        if texts or images:
            self._add(role, "\n".join(texts), images=images)
        else:
            self.context.blank_turn()

    def _content(self, blocks: Sequence[Block]) -> tuple[list[str], list[str]]:
        """The texts and the images of blocks."""
        texts: list[str] = []
        images: list[str] = []
        for block in blocks:
            match block:
                case Text():
                    texts.append(block.text)
                case Media():
                    image = self._image(block)
                    if image is None:
                        texts.append(self.context.unreadable(block))
                    else:
                        images.append(image)
                case Opaque():
                    self.context.foreign_block(block)
                case Thinking() | ToolCall() | ToolResponse():
                    self.context.misplaced(block)
                case _:
                    assert_never(block)
        return texts, images

    def _image(self, media: Media) -> str | None:
        """The base64 of an image; an address is of no use to a host that fetches nothing."""
        found = self.context.readable(media)
        return found.data if found is not None and found.kind == "image" else None

    def answer(self, turn: Turn) -> None:
        texts: list[str] = []
        calls: list[ToolCall] = []
        thoughts: list[str] = []
        images: list[str] = []
        for block in turn.blocks:
            match block:
                case Text():
                    texts.append(block.text)
                case ToolCall():
                    calls.append(block)
                case Thinking():
                    self._thinking(block, thoughts, texts)
                case Media():
                    images += self._content([block])[1]
                case Opaque():
                    self.context.foreign_block(block)
                case ToolResponse():
                    self.context.misplaced(block, "an assistant message")
                case _:
                    assert_never(block)
        if not any(texts) and not calls and not images:
            self.context.blank_turn()
            return
        rest = b""
        if thoughts:
            rest += b',"%b":%b' % (self.context.dialect.reasoning.field.encode(), json_text("".join(thoughts)))
        if calls:
            rest += b',"tool_calls":[' + b",".join([self._call(call) for call in calls]) + b"]"
        self._called = {call.id: call.name for call in calls}
        self._add("assistant", "".join(texts), images=images, rest=rest)

    def _thinking(self, block: Thinking, thoughts: list[str], texts: list[str]) -> None:
        context = self.context
        fate = context.thinking_fate(block, own=is_own(block, context.dialect, context.model))
        if fate == "keep":
            thoughts.append(block.text)
        elif fate == "text":
            texts.append(block.text + "\n\n")

    def _call(self, call: ToolCall) -> bytes:
        arguments = self.context.arguments(call)
        # No id: no rule for one is known, and results are matched by order and name (field-guide/ollama.md#tools).
        return b'{"function":{"name":%b,"arguments":%b}}' % (
            json_text(self.context.names.wire(call.name)), arguments.encode(),
        )  # fmt: skip

    def results(self, blocks: Sequence[Block]) -> None:
        followers: list[str] = []
        for response in blocks:
            assert isinstance(response, ToolResponse)
            texts, images = self._content(response.content)
            text = result_text(response, texts, bool(images))
            if images and self.context.moves_media():
                followers += images
                images = []
            name = response.name or self._called.get(response.call_id, "")
            named = b',"tool_name":' + json_text(self.context.names.wire(name)) if name else b""
            self._add("tool", text, images=images, rest=named)
        if followers:
            self._add("user", MEDIA_FOLLOWS, images=followers)
