"""Conversation -> one Ollama chat request.

The history is written by OllamaWriter (and kept in the cache); this module adds what stands around it: system prompt, tools,
thinking, format, options. The wire knows no tool choice: `none` leaves the tools out, the others are noted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.blocks import Conversation
from ...core.dialect import Dialect, Options
from ...core.errors import InvalidHistory
from ...core.handoff import Action, Note
from ...core.tools import ToolSpec
from ..asking import Asking
from ..body import join_body, merge_body
from ..declarations import declare
from ..json_border import json_text, json_value
from ..reasoning import nearest_effort
from ..request import Request
from ..sampling import SAMPLING, sampling_fields, token_limit
from .writer import OllamaWriter


def encode_ollama(asking: Asking) -> Request:
    return _OllamaRequest(asking, asking.history(OllamaWriter, asking.options.foreign_thinking)).build()


class _OllamaRequest:
    def __init__(self, asking: Asking, writer: OllamaWriter) -> None:
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
