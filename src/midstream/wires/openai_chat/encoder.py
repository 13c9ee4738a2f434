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
from ...core.handoff import Action, Note
from ...core.tools import ToolSpec
from ..asking import Asking
from ..body import join_body, merge_body
from ..declarations import declare, within_limit
from ..json_border import json_text, json_value
from ..reasoning import thinking_on
from ..request import Request
from ..sampling import SAMPLING, sampling_fields, token_limit
from ..tool_names import ToolNames
from .controls import CONTROLS
from .writer import ChatWriter


def encode_chat(asking: Asking) -> Request:
    return _ChatRequest(asking, asking.history(ChatWriter, *history_key(asking.options))).build()


def history_key(options: Options) -> tuple[Any, ...]:
    """What of the options changes how history is written."""
    return (
        options.thinking, options.effort is None, options.missing_reasoning, options.foreign_thinking, options.tool_format,
    )  # fmt: skip


class _ChatRequest:
    def __init__(self, asking: Asking, writer: ChatWriter) -> None:
        self.asking = asking
        self.dialect = asking.dialect
        self.options = asking.options
        self.writer = writer
        self.notes: list[Note] = []
        self.thinking = thinking_on(self.dialect, self.options)

    def build(self) -> Request:
        messages = self._messages(self.asking.conversation)
        if self.writer.lacks_reasoning and self.options.missing_reasoning == "disable-thinking":
            self._disable_thinking("a turn of the history lacks the reasoning it demands")
        choice, tools = self._choice(self.asking.tools)
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
        return self.asking.request(
            self.dialect.path or "/chat/completions",
            join_body(b'{"model":%b,"messages":[' % json_text(self.asking.model), messages, b",".join(tail) + b"}"),
            (*self.writer.notes, *self.notes),
            tool_names=self.writer.names.changed,
        )

    def _note(self, action: Action, what: str, why: str) -> None:
        self.notes.append(Note(action, what, why))

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
        tools = within_limit(tools, dialect, self.notes)
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
        limit = token_limit(options, dialect, self.notes)
        if limit is not None:
            fields[dialect.max_tokens_field] = limit
        fields |= sampling_fields(options, dialect, self.notes, (*SAMPLING, "stop"), {"seed": dialect.seed_field})
        if options.response_format is not None:
            fields["response_format"] = options.response_format
        if options.user is not None:
            fields["user"] = options.user
        return fields


def _system_part(part: Text) -> dict[str, Any]:
    kept = {"cache_control": part.extra["cache_control"]} if part.extra and "cache_control" in part.extra else {}
    return {"type": "text", "text": part.text, **kept}


def is_builtin(tool: ToolSpec, dialect: Dialect) -> bool:
    """Whether the host runs this tool itself."""
    prefix = dialect.builtin_prefix
    return bool(tool.builtin) or (bool(prefix) and tool.name.startswith(prefix))


def encode_tools(tools: Sequence[ToolSpec], dialect: Dialect, names: ToolNames, notes: list[Note]) -> bytes:
    encoded: list[dict[str, Any]] = []
    for tool in tools:
        if is_builtin(tool, dialect):
            encoded.append({"type": "builtin_function", "function": {"name": tool.builtin or tool.name}})
            continue
        if tool.extra and "tool" in tool.extra:  # a kind of tool only its host knows
            encoded.append(tool.extra["tool"])
            continue
        function = declare(tool, dialect, names, notes)
        if tool.strict is not None and dialect.strict_tools:
            function["strict"] = tool.strict
        encoded.append({"type": "function", "function": function})
    return json_value(encoded)
