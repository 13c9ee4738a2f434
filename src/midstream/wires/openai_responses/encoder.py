"""Conversation -> one Responses request, as exact as the host wants it.

Stateless by default: `store: false`, and the encrypted reasoning asked for, so that the next request can carry it. With
`previous_response_id` only what follows that response is sent, if the history up to it stands as the host knows it; else
the whole history goes, and a Note says so. What a host would refuse is left out or bent, and noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from ...core.blocks import Conversation, Text, ToolCall, ToolResponse, Turn
from ...core.dialect import Dialect, Options
from ...core.errors import InvalidHistory
from ...core.handoff import Action, Note
from ...core.history import repair
from ...core.tools import ToolSpec
from ..asking import Asking
from ..body import join_body, merge_body
from ..declarations import declare, within_limit
from ..json_border import json_text, json_value
from ..reasoning import nearest_effort, thinking_on
from ..request import Request
from ..sampling import SAMPLING, sampling_fields, token_limit
from ..tool_names import ToolNames
from .formats import format_from_chat
from .writer import ResponsesWriter

CONTINUES = "previous_response_id"
"""The key in a conversation's `extra` that names the stored response before its first turn."""
_ENCRYPTED = "reasoning.encrypted_content"
_UNSEEN = Text("(only the host has this answer)")


def encode_responses(asking: Asking) -> Request:
    options = asking.options
    notes: list[Note] = []
    writer: ResponsesWriter | None = None
    if options.previous_response_id:
        writer = _continuation(asking.conversation, asking.dialect, asking.model, options)
        if writer is None:
            notes.append(
                Note("dropped", "option", "previous_response_id: the history up to it is not what it stands for")
            )
            options = replace(options, previous_response_id=None)
            asking = replace(asking, options=options)
    if writer is None:
        stored = _stored(options)
        make = partial(ResponsesWriter, stored=stored)
        writer = asking.history(make, options.foreign_thinking, options.tool_format, stored)
    return _ResponsesRequest(asking, writer, notes).build()


def _stored(options: Options) -> bool:
    """Whether the host will keep this response: only where the caller builds on that."""
    asked = (options.extra_body or {}).get("store")
    return asked if isinstance(asked, bool) else options.previous_response_id is not None


def _continuation(conversation: Conversation, dialect: Dialect, model: str, options: Options) -> ResponsesWriter | None:
    """A writer of what follows the stored response; None where the history up to it is not as the host has it."""
    response_id = options.previous_response_id
    turns = conversation.turns
    place = next((at for at in range(len(turns) - 1, -1, -1) if turns[at].response_id == response_id), None)
    offset = 0
    if place is None:
        if (conversation.extra or {}).get(CONTINUES) != response_id:
            return None
        turns = (_stored_turn(turns), *turns)
        place, offset = 0, -1
    repaired = repair(turns)
    lawful = repaired.turns[: place + 1]
    if len(lawful) <= place or any(kept is not turn for kept, turn in zip(lawful, turns, strict=False)):
        return None
    calls = turns[place].tool_calls
    raw_ids = {call.id: call.raw_id for call in calls if call.raw_id}
    writer = ResponsesWriter(dialect, options, model, stored=True, raw_ids=raw_ids)
    writer.note_calls(calls)
    writer.notes += repaired.notes
    writer.write(repaired.turns[place + 1 :], place + 1 + offset)
    return writer


def _stored_turn(turns: Sequence[Turn]) -> Turn:
    """What can be known of an answer that only the host has: the calls whose results come now."""
    made = {call.id for turn in turns for call in turn.tool_calls}
    calls = {
        response.call_id: ToolCall(response.call_id, response.name, raw_id=response.raw_id, extra=_call_kind(response))
        for turn in turns
        for response in turn.tool_responses
        if response.call_id not in made
    }
    return Turn("ai", tuple(calls.values()) or (_UNSEEN,), key="stored")


def _call_kind(response: ToolResponse) -> dict[str, Any] | None:
    return {"type": "custom"} if response.extra and response.extra.get("type") == "custom" else None


class _ResponsesRequest:
    def __init__(self, asking: Asking, writer: ResponsesWriter, notes: list[Note]) -> None:
        self.asking = asking
        self.dialect = asking.dialect
        self.options = asking.options
        self.writer = writer
        self.notes = notes

    def build(self) -> Request:
        conversation = self.asking.conversation
        items = self._input(conversation)
        fields: list[bytes] = []
        if self.dialect.system_role == "instructions" and conversation.system_text:
            fields.append(b'"instructions":' + json_text(conversation.system_text))
        tools = within_limit(self.asking.tools, self.dialect, self.notes)
        if tools:
            fields.append(b'"tools":' + encode_tools(tools, self.dialect, self.writer.names, self.notes))
        body = {**self._choice(tools), **self._sampling(), **self._reasoning(), **self._state()}
        if self.options.stream:
            body["stream"] = True
        merge_body(body, self.dialect.extra_body)
        merge_body(body, self.options.extra_body)
        fields.append(json_value(body)[1:-1])
        head = b'{"model":' + json_text(self.asking.model) + b',"input":['
        return self.asking.request(
            "/responses",
            join_body(head, items, b"]," + b",".join(fields) + b"}"),
            (*self.writer.notes, *self.notes),
            tool_names=self.writer.names.changed,
        )

    def _note(self, action: Action, what: str, why: str) -> None:
        self.notes.append(Note(action, what, why))

    def _input(self, conversation: Conversation) -> list[bytes]:
        items = self.writer.items.copy()
        role = self.dialect.system_role
        if role != "instructions" and conversation.system_text:
            system = b'{"type":"message","role":"%b","content":%b}' % (
                role.encode(), json_text(conversation.system_text),
            )  # fmt: skip
            items.insert(0, system)
        if self.options.prefill is not None:
            self._note("dropped", "option", "prefill: this wire has no way to begin the answer")
        if not items and not self.options.previous_response_id:
            raise InvalidHistory("the conversation is empty: add a human turn first")
        return items

    def _state(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"store": _stored(self.options)}
        if self.options.previous_response_id:
            fields["previous_response_id"] = self.options.previous_response_id
        if not fields["store"] and self.dialect.reasoning.signed:
            fields["include"] = [_ENCRYPTED]
        return fields

    def _choice(self, tools: Sequence[ToolSpec]) -> dict[str, Any]:
        options, dialect = self.options, self.dialect
        fields: dict[str, Any] = {}
        if not tools:
            return fields
        choice = options.tool_choice
        if choice in ("auto", "none"):
            fields["tool_choice"] = choice
        elif choice is not None:
            kind = "required" if choice == "required" else "named"
            thinking = thinking_on(dialect, options)
            if kind not in (dialect.forced_choice_thinking if thinking else dialect.forced_choice):
                self._note("adapted", "option", f"a {kind} tool choice is refused here; sent as auto")
                fields["tool_choice"] = "auto"
            elif kind == "required":
                fields["tool_choice"] = dialect.required_word
            else:
                fields["tool_choice"] = self._named(choice, tools)
        if options.parallel_tool_calls is not None:
            if dialect.parallel_option:
                fields["parallel_tool_calls"] = options.parallel_tool_calls
            else:
                self._note("dropped", "option", "parallel_tool_calls is not understood here")
        return fields

    def _named(self, choice: str, tools: Sequence[ToolSpec]) -> dict[str, Any]:
        for tool in tools:
            given = tool.extra.get("tool") if tool.extra else None
            if tool.name == choice and given:
                kind = given.get("type")
                return {"type": kind, "name": choice} if "name" in given else {"type": kind}
        return {"type": "function", "name": self.writer.names.wire(choice)}

    def _reasoning(self) -> dict[str, Any]:
        """`summary` is asked for only by who wants to see thinking: some accounts may not have it."""
        options, rules = self.options, self.dialect.reasoning
        asked = options.effort is not None or options.thinking is not None or options.thinking_budget is not None
        if not asked:
            return {}
        if rules.control == "none":
            self._note("dropped", "option", "how much to think cannot be said to this model")
            return {}
        fields: dict[str, Any] = {}
        if options.thinking == "off":
            fields["effort"] = nearest_effort("none", rules.efforts)
        else:
            if options.effort is not None:
                fields["effort"] = nearest_effort(options.effort, rules.efforts)
            if options.thinking == "on":
                fields["summary"] = "auto"
        return {"reasoning": fields} if fields else {}

    def _sampling(self) -> dict[str, Any]:
        options, dialect = self.options, self.dialect
        fields: dict[str, Any] = {}
        limit = token_limit(options, dialect, self.notes)
        if limit is not None:
            fields["max_output_tokens"] = limit
        fields |= sampling_fields(options, dialect, self.notes, (*SAMPLING, "stop"))
        if options.response_format is not None:
            fields["text"] = {"format": format_from_chat(options.response_format)}
        if options.user is not None:
            fields["user"] = options.user
        return fields


def encode_tools(tools: Sequence[ToolSpec], dialect: Dialect, names: ToolNames, notes: list[Note]) -> bytes:
    encoded: list[dict[str, Any]] = []
    for tool in tools:
        if tool.extra and "tool" in tool.extra:  # a kind of tool only its host knows
            encoded.append(tool.extra["tool"])
            continue
        if tool.builtin:
            notes.append(Note("dropped", "tool", f"{tool.builtin} is built into another host"))
            continue
        function = {"type": "function", **declare(tool, dialect, names, notes)}
        if dialect.strict_tools:
            # Left out, this wire makes a schema strict where it can, and optional parameters required with it.
            function["strict"] = bool(tool.strict)
        encoded.append({**function, **(tool.extra or {})})
    return json_value(encoded)
