"""Conversation -> one Ollama chat request.

The history is written by OllamaWriter (and kept in the cache); this module adds what stands around it: system prompt, tools,
thinking, format, options. The wire knows no tool choice: `none` leaves the tools out, the others are noted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, assert_never

from ...core.blocks import Block, Conversation, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.dialect import Dialect, Options
from ...core.errors import InvalidHistory
from ...core.handoff import Action, Note
from ...core.tools import ToolSpec
from ..encode_context import EncodeContext
from ..lenient_json import json_text, json_value
from ..placeholders import MEDIA_FOLLOWS, SEE_MEDIA, call_arguments, error_text, omitted
from ..reasoning import belongs_to, is_own, nearest_effort
from ..request import SAMPLING, Request, join_body, merge_body, sampling_fields, token_limit
from ..tool_declarations import ToolNames, declare


def encode_ollama(asking: EncodeContext) -> Request:
    return _OllamaRequest(asking, asking.history(OllamaWriter, asking.options.foreign_thinking)).build()


class _OllamaRequest:
    def __init__(self, asking: EncodeContext, writer: OllamaWriter) -> None:
        self.asking = asking
        self.dialect = asking.dialect
        self.options = asking.options
        self.writer = writer
        self.notes: list[Note] = []

    def build(self) -> Request:
        body: dict[str, Any] = {"model": self.asking.model, "stream": self.options.stream}  # unsaid, it streams
        described = self._tools(self.asking.tools)
        if described:
            body["tools"] = described
        body.update(CONTROLS[self.dialect.reasoning.control](self.options, self.dialect))
        self._format(body)
        settings = self._settings()
        if settings:
            body["options"] = settings
        for extra in (self.dialect.extra_body, self.options.extra_body):
            merge_body(body, extra)
        messages = self._messages(self.asking.conversation)
        return self.asking.request(
            "/api/chat",
            join_body(json_value(body)[:-1] + b',"messages":[', messages, b"]}"),
            (*self.writer.notes, *self.notes),
            tool_names=self.writer.names.changed,
        )

    def _note(self, action: Action, what: str, why: str) -> None:
        self.notes.append(Note(action, what, why))

    def _messages(self, conversation: Conversation) -> list[bytes]:
        messages: list[bytes] = []
        if conversation.system_text:
            messages.append(b'{"role":"system","content":%b}' % json_text(conversation.system_text))
        messages += self.writer.messages
        if not messages:
            raise InvalidHistory("the conversation is empty: add a human turn first")
        if self.options.prefill:
            messages.append(b'{"role":"assistant","content":%b}' % json_text(self.options.prefill))
        return messages

    def _tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        choice = self.options.tool_choice
        if not tools:
            return []
        if choice == "none":
            self._note("adapted", "option", "the tools are left out, for the wire cannot say that none may be called")
            return []
        if choice not in (None, "auto"):
            self._note("dropped", "option", f"a tool choice ({choice}) cannot be said here")
        if self.options.parallel_tool_calls is not None:
            self._note("dropped", "option", "parallel_tool_calls is not understood here")
        described: list[dict[str, Any]] = []
        for tool in tools:
            if tool.builtin is not None:
                self._note("dropped", "tool", f"{tool.builtin} is another host's built-in tool")
                continue
            function = declare(tool, self.dialect, self.writer.names, self.notes)
            described.append({"type": "function", "function": function})
        return described

    def _format(self, body: dict[str, Any]) -> None:
        asked = self.options.response_format
        if asked is None or asked.get("type") == "text":
            return
        inner = asked.get("json_schema", asked)
        schema = inner.get("schema") if asked.get("type") == "json_schema" and isinstance(inner, dict) else None
        body["format"] = schema if schema is not None else "json"

    def _settings(self) -> dict[str, Any]:
        options, dialect = self.options, self.dialect
        settings: dict[str, Any] = {}
        limit = token_limit(options, dialect, self.notes)
        if limit is not None:
            settings[dialect.max_tokens_field] = limit
        return settings | sampling_fields(options, dialect, self.notes, (*SAMPLING, "stop"))


def _none(options: Options, dialect: Dialect) -> dict[str, Any]:
    return {}


def _think(options: Options, dialect: Dialect) -> dict[str, Any]:
    """Said only when asked for: a model that cannot think refuses the word. Levels go only to models that know them."""
    if options.thinking == "off":
        return {"think": False} if dialect.reasoning.can_disable else {}
    if options.effort is not None and dialect.reasoning.efforts:
        return {"think": nearest_effort(options.effort, dialect.reasoning.efforts)}
    if options.thinking == "on" or options.effort is not None:
        return {"think": options.effort != "none"}
    return {}


CONTROLS: dict[str, Callable[[Options, Dialect], dict[str, Any]]] = {"none": _none, "think": _think}


_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^,]*)?;base64,", re.I)


class OllamaWriter:
    """`messages` are finished JSON objects."""

    def __init__(self, dialect: Dialect, options: Options, model: str) -> None:
        self.notes: list[Note] = []
        self.messages: list[bytes] = []
        self.names = ToolNames(dialect.limits)
        self._dialect = dialect
        self._options = options
        self._model = model
        self._called: dict[str, str] = {}  # the names of the last turn's calls, for results that lack theirs
        self._size = 0
        self._turn = 0

    @property
    def size(self) -> int:
        return self._size

    def write(self, turns: Sequence[Turn], offset: int) -> None:
        for number, turn in enumerate(turns, offset):
            self._turn = number
            if turn.speaker == "human":
                self._human(turn)
            elif turn.speaker == "ai":
                self._assistant(turn)
            else:
                self._results(turn.blocks)

    def _note(self, action: Action, what: str, why: str) -> None:
        self.notes.append(Note(action, what, why, self._turn))

    def _add(self, role: str, content: str, *, images: Sequence[str] = (), rest: bytes = b"") -> None:
        fields = b'{"role":"%b","content":%b' % (role.encode(), json_text(content))
        if images:
            fields += b',"images":' + json_value(list(images))
        message = fields + rest + b"}"
        self.messages.append(message)
        self._size += len(message)

    def _human(self, turn: Turn) -> None:
        # Ollama knows no `developer`: "invalid role".
        role = "system" if turn.role in ("system", "developer") else "user"
        blocks = turn.blocks
        if len(blocks) == 1 and type(blocks[0]) is Text:
            self._add(role, blocks[0].text)
            return
        texts, images = self._content(blocks)
        if texts or images:
            self._add(role, "\n".join(texts), images=images)
        else:
            self._note("dropped", "turn", "it holds nothing this wire can say")

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
                        what = block.mime or block.kind
                        self._note("dropped", "media", f"{what} is not read here; a line of text stands in")
                        texts.append(omitted(block))
                    else:
                        images.append(image)
                case Opaque():
                    self._note("dropped", "opaque", f"{block.kind} has no form on this wire")
                case Thinking() | ToolCall() | ToolResponse():
                    self._note("dropped", str(block.__struct_config__.tag), "it cannot stand in a user message")
                case _:
                    assert_never(block)
        return texts, images

    def _image(self, media: Media) -> str | None:
        """The base64 of an image; an address is of no use to a host that fetches nothing."""
        if media.kind != "image" or "image" not in self._dialect.media:
            return None
        if media.data is not None:
            return media.data
        match = _DATA_URL.match(media.url or "")
        return media.url[match.end() :] if match and media.url else None

    def _assistant(self, turn: Turn) -> None:
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
                    self._note("dropped", "opaque", f"{block.kind} belongs to the host that made it")
                case ToolResponse():
                    self._note("dropped", "tool_response", "it cannot stand in an assistant message")
                case _:
                    assert_never(block)
        if not any(texts) and not calls and not images:
            self._note("dropped", "turn", "the answer holds nothing this wire can say")
            return
        rest = b""
        if thoughts:
            rest += b',"%b":%b' % (self._dialect.reasoning.field.encode(), json_text("".join(thoughts)))
        if calls:
            rest += b',"tool_calls":[' + b",".join([self._call(call) for call in calls]) + b"]"
        self._called = {call.id: call.name for call in calls}
        self._add("assistant", "".join(texts), images=images, rest=rest)

    def _thinking(self, block: Thinking, thoughts: list[str], texts: list[str]) -> None:
        policy = self._options.foreign_thinking
        own = is_own(block, self._dialect, self._model) and self._dialect.reasoning.echo != "never"
        if own or (policy == "keep" and block.text):
            thoughts.append(block.text)
        elif policy == "text" and block.text.strip():
            self._note("adapted", "thinking", "another model's thinking is sent as plain text")
            texts.append(block.text + "\n\n")
        else:
            self._note("dropped", "thinking", belongs_to(block))

    def _call(self, call: ToolCall) -> bytes:
        arguments = call_arguments(call, self._note)
        return b'{"function":{"name":%b,"arguments":%b}}' % (
            json_text(self.names.wire(call.name)), arguments.encode(),
        )  # fmt: skip

    def _results(self, responses: Sequence[Block]) -> None:
        followers: list[str] = []
        for response in responses:
            assert isinstance(response, ToolResponse)
            texts, images = self._content(response.content)
            if images:
                self._note("adapted", "media", "an image of a tool result moved to a user message behind the results")
                followers += images
            text = "\n".join(texts) or (SEE_MEDIA if images else "")
            text = error_text(response, text)
            name = response.name or self._called.get(response.call_id, "")
            named = b',"tool_name":' + json_text(self.names.wire(name)) if name else b""
            self._add("tool", text, rest=named)
        if followers:
            self._add("user", MEDIA_FOLLOWS, images=followers)
