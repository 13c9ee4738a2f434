"""Conversation -> one chat request, as exact as the host wants it.

The history is written by ChatWriter (and kept in the cache); this module adds what stands around it: system prompt, tools,
tool choice, thinking, sampling. What a host would refuse is left out or bent, and noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ...core.blocks import Conversation, Text
from ...core.dialect import Dialect, Options
from ...core.errors import InvalidHistory
from ...core.handoff import Note
from ...core.schemas import PASSES
from ...core.tools import ToolSpec
from ..json_border import json_text, json_value
from ..outgoing import HistoryCache, write_history
from ..reasoning import thinking_on
from ..request import Request
from ..tool_names import ToolNames
from .controls import CONTROLS
from .writer import ChatWriter


def encode_chat(
    conversation: Conversation,
    dialect: Dialect,
    model: str,
    *,
    tools: Sequence[ToolSpec] = (),
    options: Options = Options(),
    cache: HistoryCache | None = None,
) -> Request:
    key = ("chat", id(dialect), model, history_key(options))
    writer = write_history(conversation.turns, lambda: ChatWriter(dialect, options, model), key, cache)
    request = _ChatRequest(dialect, options, model, writer)
    return request.build(conversation, tools)


def history_key(options: Options) -> tuple[Any, ...]:
    """What of the options changes how history is written."""
    return (
        options.thinking, options.effort is None, options.missing_reasoning, options.foreign_thinking, options.tool_format,
    )  # fmt: skip


class _ChatRequest:
    def __init__(self, dialect: Dialect, options: Options, model: str, writer: ChatWriter) -> None:
        self.dialect = dialect
        self.options = options
        self.model = model
        self.writer = writer
        self.notes: list[Note] = []
        self.thinking = thinking_on(dialect, options)

    def build(self, conversation: Conversation, tools: Sequence[ToolSpec]) -> Request:
        messages = self._messages(conversation)
        if self.writer.lacks_reasoning and self.options.missing_reasoning == "disable-thinking":
            self._disable_thinking("a turn of the history lacks the reasoning it demands")
        choice, tools = self._choice(tools)
        tail = [b"]"]
        if tools:
            tail.append(b'"tools":' + encode_tools(tools, self.dialect, self.writer.names, self.notes))
        body = {**choice, **self._sampling(), **self._control()}
        if self.options.stream:
            body["stream"] = True
            if self.dialect.stream_usage:
                body["stream_options"] = {"include_usage": True}
        merge_body(body, self.dialect.extra_body)
        merge_body(body, self.options.extra_body)
        if body:
            tail.append(json_value(body)[1:-1])
        # One join for the whole body: fields and messages are both separated by commas.
        messages[0] = b'{"model":%b,"messages":[%b' % (json_text(self.model), messages[0])
        messages[-1] += b",".join(tail) + b"}"
        return Request(
            "POST",
            self.dialect.path or "/chat/completions",
            {"content-type": "application/json", **(self.dialect.headers or {})},
            b",".join(messages),
            notes=tuple(self.writer.notes) + tuple(self.notes),
            tool_names=self.writer.names.changed,
            stream=self.options.stream,
            wire=self.dialect.wire,
            model=self.model,
        )

    def _note(self, action: str, what: str, why: str) -> None:
        self.notes.append(Note(action, what, why))  # type: ignore[arg-type]

    def _messages(self, conversation: Conversation) -> list[bytes]:
        messages: list[bytes] = []
        system = conversation.system
        role = self.dialect.system_role.encode()
        if isinstance(system, str):
            if system:
                messages.append(b'{"role":"%b","content":%b}' % (role, json_text(system)))
        elif system:
            parts = [_system_part(part) for part in system if part.text]
            if len(parts) == 1 and len(parts[0]) == 2:
                messages.append(b'{"role":"%b","content":%b}' % (role, json_text(parts[0]["text"])))
            elif parts:
                messages.append(b'{"role":"%b","content":%b}' % (role, json_value(parts)))
        messages += self.writer.messages
        if self.options.prefill is not None:
            messages.append(json_value({"role": "assistant", "content": self.options.prefill, **self._prefill_flag()}))
        if not messages:
            raise InvalidHistory("the conversation is empty: add a human turn first")
        return messages

    def _prefill_flag(self) -> dict[str, Any]:
        return {self.dialect.prefill_flag: True} if self.dialect.prefill_flag else {}

    def _disable_thinking(self, why: str) -> None:
        if self.dialect.reasoning.can_disable:
            self.thinking = False
            self.options = msgspec.structs.replace(self.options, thinking="off", effort=None)
            self._note("adapted", "option", f"thinking is off in this request: {why}")

    def _choice(self, tools: Sequence[ToolSpec]) -> tuple[dict[str, Any], Sequence[ToolSpec]]:
        """`tool_choice` in a form the host takes, and the tools left after bending it."""
        dialect, options = self.dialect, self.options
        fields: dict[str, Any] = {}
        if not tools:
            return fields, tools
        limit = dialect.limits.max_tools
        if limit is not None and len(tools) > limit:
            self._note("dropped", "tool", f"this host takes {limit} tools; the last {len(tools) - limit} are left out")
            tools = tools[:limit]
        if self.thinking and dialect.builtin_stops_thinking and any(is_builtin(tool, dialect) for tool in tools):
            self._disable_thinking("its built-in tools work only without it")
        choice = options.tool_choice
        if choice in ("auto", "none"):
            fields["tool_choice"] = choice
        elif choice is not None:
            tools = self._forced_choice(choice, tools, fields)
        if options.parallel_tool_calls is not None:
            if dialect.parallel_option:
                fields["parallel_tool_calls"] = options.parallel_tool_calls
            else:
                self._note("dropped", "option", "parallel_tool_calls is not understood here")
        return fields, tools

    def _forced_choice(self, choice: str, tools: Sequence[ToolSpec], fields: dict[str, Any]) -> Sequence[ToolSpec]:
        kind = "required" if choice == "required" else "named"
        dialect = self.dialect
        if self.thinking and kind not in dialect.forced_choice_thinking and kind in dialect.forced_choice:
            self._disable_thinking(f"a {kind} tool choice is refused while thinking")
        allowed = dialect.forced_choice_thinking if self.thinking else dialect.forced_choice
        if kind == "named" and kind not in allowed and "required" in allowed:
            only = [tool for tool in tools if tool.name == choice]
            if only:
                self._note(
                    "adapted", "option", f"{choice} is the only tool offered, for a named choice is refused here"
                )
                tools, kind = only, "required"
        if kind not in allowed:
            self._note("adapted", "option", f"a {kind} tool choice is refused here; sent as auto")
            fields["tool_choice"] = "auto"
        elif kind == "required":
            fields["tool_choice"] = dialect.required_word
        else:
            fields["tool_choice"] = {"type": "function", "function": {"name": self.writer.names.wire(choice)}}
        return tools

    def _control(self) -> dict[str, Any]:
        return CONTROLS[self.dialect.reasoning.control](self.thinking, self.options, self.dialect)

    def _sampling(self) -> dict[str, Any]:
        options, dialect = self.options, self.dialect
        fields: dict[str, Any] = {}
        limit = options.max_tokens or dialect.default_max_tokens
        if limit is not None:
            most = dialect.limits.max_output
            if most is not None and limit > most:
                self._note("adapted", "option", f"max_tokens {limit} is above this host's {most}")
                limit = most
            fields[dialect.max_tokens_field] = limit
        for name in ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty", "stop"):
            value = getattr(options, name)
            if value is None or value == ():
                continue
            if name in dialect.sampling:
                fields[dialect.seed_field if name == "seed" else name] = value
            else:
                self._note("dropped", "option", f"{name} is fixed or unknown for this model")
        if options.response_format is not None:
            fields["response_format"] = options.response_format
        if options.user is not None:
            fields["user"] = options.user
        return fields


def merge_body(body: dict[str, Any], extra: dict[str, Any] | None) -> None:
    """The caller's own fields go last; an object joins the object that is there (`thinking` gains `keep`)."""
    for key, value in (extra or {}).items():
        known = body.get(key)
        body[key] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value


def _system_part(part: Text) -> dict[str, Any]:
    kept = {"cache_control": part.extra["cache_control"]} if part.extra and "cache_control" in part.extra else {}
    return {"type": "text", "text": part.text, **kept}


def is_builtin(tool: ToolSpec, dialect: Dialect) -> bool:
    """Whether the host runs this tool itself."""
    prefix = dialect.builtin_prefix
    return bool(tool.builtin) or (bool(prefix) and tool.name.startswith(prefix))


def encode_tools(tools: Sequence[ToolSpec], dialect: Dialect, names: ToolNames, notes: list[Note]) -> bytes:
    schema_pass = PASSES[dialect.schema]
    encoded: list[dict[str, Any]] = []
    for tool in tools:
        if is_builtin(tool, dialect):
            encoded.append({"type": "builtin_function", "function": {"name": tool.builtin or tool.name}})
            continue
        if tool.extra and "tool" in tool.extra:  # a kind of tool only its host knows
            encoded.append(tool.extra["tool"])
            continue
        function: dict[str, Any] = {"name": names.wire(tool.name)}
        if function["name"] != tool.name:
            notes.append(Note("adapted", "tool", f"{tool.name} is called {function['name']} here"))
        if tool.description:
            function["description"] = tool.description
        function["parameters"] = schema_pass(tool.parameters or {})
        if tool.strict is not None and dialect.strict_tools:
            function["strict"] = tool.strict
        encoded.append({"type": "function", "function": function})
    return json_value(encoded)
