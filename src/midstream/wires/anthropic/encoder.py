"""Conversation -> one Messages request, as exact as Anthropic wants it.

The history is written by MessagesWriter (and kept in the cache); this module adds what stands around it: system prompt,
tools, tool choice, thinking, sampling, cache breakpoints. What would be refused is left out or bent, and noted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...core.blocks import Conversation
from ...core.dialect import Dialect, Options
from ...core.errors import InvalidHistory, MissingReasoning
from ...core.handoff import Action, Note
from ...core.tools import ToolSpec
from ..asking import Asking
from ..body import join_body
from ..declarations import declare, within_limit
from ..json_border import decode_leniently, json_value
from ..reasoning import thinking_on
from ..request import Request
from ..sampling import SAMPLING
from .thinking import plan_thinking
from .writer import CACHE_MARK, MessagesWriter, encode_message, encode_text

VERSION = "2023-06-01"
MAX_MARKS = 4
"""Anthropic takes so many cache breakpoints in one request."""
_EPHEMERAL = {"type": "ephemeral"}
_TOOL_KEYS = ("type", "cache_control", "defer_loading", "allowed_callers", "input_examples", "eager_input_streaming")
_BUILTIN = re.compile(r".+_\d{8}\Z")


def encode_messages(asking: Asking) -> Request:
    writer = asking.history(MessagesWriter, *_history_key(asking.dialect, asking.options))
    return _MessagesRequest(asking, writer).build()


def _history_key(dialect: Dialect, options: Options) -> tuple[Any, ...]:
    """What of the options changes how history is written."""
    return thinking_on(dialect, options), options.missing_reasoning, options.foreign_thinking, options.tool_format


class _MessagesRequest:
    def __init__(self, asking: Asking, writer: MessagesWriter) -> None:
        self.asking = asking
        self.dialect = asking.dialect
        self.options = asking.options
        self.writer = writer
        self.notes: list[Note] = []
        self.thinking = thinking_on(self.dialect, self.options) and self.dialect.reasoning.control != "none"

    def build(self) -> Request:
        self._check_thinking()
        described = self._tools(self.asking.tools)
        choice = self._choice() if described else {}
        plan = plan_thinking(self.thinking, self.options, self.dialect)
        body: dict[str, Any] = {"model": self.asking.model, "max_tokens": plan.max_tokens}
        system = self._system(self.asking.conversation)
        marked = self._marks(described, system)
        if system:
            body["system"] = system
        if described:
            body["tools"] = described
        body.update(choice)
        body.update(plan.fields)
        body.update(self._sampling())
        self._format(body)
        if self.options.user is not None:
            body["metadata"] = {"user_id": self.options.user}
        if self.options.stream:
            body["stream"] = True
        for extra in (self.dialect.extra_body, self.options.extra_body):
            _refine(body, extra or {})
        return self.asking.request(
            "/v1/messages",
            join_body(json_value(body)[:-1] + b',"messages":[', self._messages(marked), b"]}"),
            (*self.writer.notes, *plan.notes, *self.notes),
            tool_names=self.writer.names.changed,
            headers={"anthropic-version": VERSION},
        )

    def _note(self, action: Action, what: str, why: str) -> None:
        self.notes.append(Note(action, what, why))

    def _check_thinking(self) -> None:
        """Thinking goes off where the history or the request would make it refused."""
        rules, writer = self.dialect.reasoning, self.writer
        if not self.thinking:
            return
        if rules.required and rules.unsigned == "drop" and writer.loop_lacks_thinking and writer.role == "user":
            # "Expected `thinking` or `redacted_thinking`, but found `tool_use`"
            if self.options.missing_reasoning == "fail":
                raise MissingReasoning(
                    f"the last answer calls a tool and does not open with thinking, which {self.dialect.name} demands "
                    "while thinking is on: set missing_reasoning to disable-thinking"
                )
            self._disable_thinking("the tool calls it goes on from do not open with this model's thinking")
        elif writer.lacks_reasoning and self.options.missing_reasoning == "disable-thinking":
            self._disable_thinking("a turn of the history lacks the thinking it demands")
        if self.thinking and self.options.prefill is not None:
            self._disable_thinking("an answer cannot be prefilled while thinking")

    def _disable_thinking(self, why: str) -> None:
        if self.dialect.reasoning.can_disable:
            self.thinking = False
            self._note("adapted", "option", f"thinking is off in this request: {why}")

    def _marks(self, tools: list[dict[str, Any]], system: Any) -> bool:
        """Put the asked-for cache breakpoints on tools and system; whether the last user message gets one too."""
        if not self.options.cache:
            return False
        blocks = system if isinstance(system, list) else []
        room = MAX_MARKS - self.writer.marks - sum("cache_control" in block for block in (*tools, *blocks))
        loaded = [tool for tool in tools if not tool.get("defer_loading")]  # a deferred tool takes no mark
        for group in (loaded, blocks):
            if group and room > 0 and "cache_control" not in group[-1]:
                group[-1]["cache_control"] = _EPHEMERAL
                room -= 1
        return room > 0

    def _messages(self, marked: bool) -> list[bytes]:
        writer = self.writer
        messages = writer.closed.copy()
        role, blocks = writer.role, writer.blocks
        prefill = (self.options.prefill or "").rstrip()
        if role == "assistant":
            blocks = [*blocks, encode_text(prefill)] if prefill else [*blocks[:-1], _trimmed(blocks[-1])]
        elif role == "user" and marked and b'"cache_control":' not in blocks[-1]:
            blocks = [*blocks[:-1], blocks[-1][:-1] + CACHE_MARK]
        if role:
            messages.append(encode_message(role, blocks))
        if not messages:
            raise InvalidHistory("the conversation is empty: add a human turn first")
        if prefill and role != "assistant":
            messages.append(encode_message("assistant", [encode_text(prefill)]))
        return messages

    def _system(self, conversation: Conversation) -> str | list[dict[str, Any]]:
        system = conversation.system
        if isinstance(system, str):
            if not system.strip():
                return ""
            return [{"type": "text", "text": system}] if self.options.cache else system
        kept = ("cache_control", "citations")
        return [
            {"type": "text", "text": part.text, **{k: v for k, v in (part.extra or {}).items() if k in kept}}
            for part in system
            if part.text.strip()
        ]

    def _tools(self, tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
        described: list[dict[str, Any]] = []
        for tool in tools:
            if tool.builtin is None:
                described.append(self._tool(tool))
            elif _BUILTIN.match(tool.builtin):
                described.append({"type": tool.builtin, "name": tool.name, **(tool.extra or {})})
            else:
                self._note("dropped", "tool", f"{tool.builtin} is another host's built-in tool")
        return list(within_limit(described, self.dialect, self.notes))

    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        described = declare(tool, self.dialect, self.writer.names, self.notes, schema_field="input_schema")
        if tool.strict is not None and self.dialect.strict_tools:
            described["strict"] = tool.strict
        return {**described, **{key: value for key, value in (tool.extra or {}).items() if key in _TOOL_KEYS}}

    def _choice(self) -> dict[str, Any]:
        options, dialect = self.options, self.dialect
        asked = options.tool_choice
        choice: dict[str, Any] = {}
        if asked in ("auto", "none"):
            choice["type"] = asked
        elif asked is not None:
            kind = "required" if asked == "required" else "named"
            unasked = self.options.thinking is None and self.options.effort is None
            if self.thinking and unasked and kind in dialect.forced_choice:
                self._disable_thinking("a forced tool choice is refused while thinking, which nobody asked for")
            allowed = dialect.forced_choice_thinking if self.thinking else dialect.forced_choice
            if kind not in allowed:
                while_thinking = " while thinking" if self.thinking else ""
                self._note("adapted", "option", f"a {kind} tool choice is refused here{while_thinking}; sent as auto")
                choice["type"] = "auto"
            elif kind == "required":
                choice["type"] = "any"
            else:
                choice |= {"type": "tool", "name": self.writer.names.wire(asked)}
        parallel = options.parallel_tool_calls
        if parallel is not None and choice.get("type") != "none" and (choice or not parallel):
            choice.setdefault("type", "auto")
            choice["disable_parallel_tool_use"] = not parallel
        return {"tool_choice": choice} if choice else {}

    def _sampling(self) -> dict[str, Any]:
        options = self.options
        fields: dict[str, Any] = {}
        for name in SAMPLING:
            value = getattr(options, name)
            if value is None:
                continue
            if name == "top_p" and "temperature" in fields and self.dialect.exclusive_sampling:
                self._note("dropped", "option", "top_p is refused beside temperature")
            elif name not in self.dialect.sampling:
                self._note("dropped", "option", f"{name} is fixed or unknown for this model")
            elif self.thinking and not _fits_thinking(name, value):
                self._note("dropped", "option", f"{name} {value} is refused while thinking")
            elif name == "temperature" and value > 1:
                self._note("adapted", "option", f"temperature {value} is above 1, the most this wire takes")
                fields[name] = 1
            else:
                fields[name] = value
        if options.stop and "stop" in self.dialect.sampling:
            stops = [stop for stop in options.stop if stop.strip()]
            if len(stops) < len(options.stop):
                self._note("dropped", "option", "a stop sequence of white space only is refused here")
            if stops:
                fields["stop_sequences"] = stops
        return fields

    def _format(self, body: dict[str, Any]) -> None:
        """A JSON schema for the whole answer; the wire knows no schema-less JSON mode."""
        asked = self.options.response_format
        if asked is None or asked.get("type") == "text":
            return
        schema = asked.get("json_schema", asked).get("schema") if asked.get("type") == "json_schema" else None
        if schema is None or "response_format" not in self.dialect.sampling:
            self._note("dropped", "option", f"response_format {asked.get('type')} is not understood here")
            return
        shape = {"type": "json_schema", "schema": schema}
        body["output_config"] = {**body.get("output_config", {}), "format": shape}


def _trimmed(block: bytes) -> bytes:
    """Refused else: "final assistant content cannot end with trailing whitespace"."""
    if not block.startswith(b'{"type":"text"'):
        return block
    fields = decode_leniently(block)
    return json_value({**fields, "text": fields["text"].rstrip()})


def _fits_thinking(name: str, value: float) -> bool:
    """Thinking wants its own temperature, and a top_p between 0.95 and 1."""
    return value == 1 if name == "temperature" else value >= 0.95


def _refine(body: dict[str, Any], extra: dict[str, Any]) -> None:
    """Lay the caller's own fields over the body; objects are merged, so that `thinking.display` refines our `thinking`."""
    for name, value in extra.items():
        before = body.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            body[name] = {**before, **value}
        elif name != "thinking" or not isinstance(value, dict) or "type" in value:
            body[name] = value
