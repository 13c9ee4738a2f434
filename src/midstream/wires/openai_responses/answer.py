"""Events -> the Responses stream: items that are added, take deltas and are done whole, under one running number.

Every text is a message item, every thinking a reasoning item with one summary (or content) part, every call an item with its
`call_id`. `output_item.done` carries each item whole: clients read calls there and nowhere else. `response.completed`,
`.incomplete` or `.failed` ends the stream, with all counts. Encrypted reasoning is sent where it was asked for. Signatures,
media and blocks of other wires have no place here.
"""

from __future__ import annotations

import re
from typing import Any

from ...core.blocks import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn, Usage
from ...core.errors import MidstreamError
from ...core.events import (
    BlockEvent,
    Done,
    ErrorEvent,
    Event,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ...core.tools import freeform_input
from ..answer import (
    COMMENT,
    AnswerContext,
    CallIds,
    Habits,
    LeftOut,
    openai_error,
    own_block,
    refusal_of,
    sse,
    stop_word,
)
from ..lenient_json import json_text, json_value
from .wire import DEFAULT

ENCRYPTED = "reasoning.encrypted_content"
"""What a client includes to get reasoning that it can send back."""
_INCOMPLETE = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}
_REASONS = {"end_turn": "completed", "tool_use": "completed", **_INCOMPLETE}
_UNSAFE = re.compile(r"[^A-Za-z0-9]")
# Clients with strict types expect every one of these.
_DEFAULTS: dict[str, Any] = {
    "background": False, "frequency_penalty": 0.0, "instructions": None, "max_output_tokens": None,
    "max_tool_calls": None, "metadata": {}, "parallel_tool_calls": True, "presence_penalty": 0.0,
    "previous_response_id": None, "prompt_cache_key": None, "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None, "service_tier": "default", "store": False, "temperature": 1.0,
    "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0,
    "truncation": "disabled",
}  # fmt: skip
"""What a response repeats of its request, and what it says where the request was silent."""


def make_writer(context: AnswerContext) -> ResponsesWriter:
    return ResponsesWriter(context)


class ResponsesWriter:
    media_type = "text/event-stream"

    __slots__ = (
        "_channel", "_context", "_echo", "_ids", "_item", "_items", "_left_out", "_number", "_open", "_stem",
        "notes",
    )  # fmt: skip

    def __init__(self, context: AnswerContext) -> None:
        self._context = context
        self._ids = CallIds(context, "standard")
        self._left_out = LeftOut(DEFAULT.wire)
        self.notes = self._left_out.notes
        self._number = -1
        # Item ids have a pattern and a limit of their own (field-guide/tool-ids.md#item-ids-of-responses), so the
        # response's id is cut down to what surely fits.
        self._stem = _UNSAFE.sub("", context.response_id)[-40:]
        self._items: list[dict[str, Any]] = []  # done
        self._item: dict[str, Any] = {}  # the one that streams
        # Reasoning is added when its first words come: whether there are any is not known before.
        self._open = False  # whether it has been added
        self._channel = "content" if context.habits.reasoning_field == "content" else "summary"
        self._echo = _echoed(context.echo or {})

    def event(self, event: Event) -> bytes:
        if type(event) is TextDelta:
            return self._delta("response.output_text.delta", event.delta, b',"content_index":0,"logprobs":[]')
        if type(event) is ToolCallDelta:
            if self._item["type"] == "custom_tool_call":
                return b""  # its text may be wrapped in JSON, and is known when that is whole
            return self._delta("response.function_call_arguments.delta", event.delta)
        match event:
            case ThinkingDelta():
                return self._thinking(event.delta)
            case ThinkingEnd():
                return self._end_thinking(event.block)
            case TextStart():
                # Each text is a message of its own, because a part can only be added to the item that is open.
                return self._add(_message(self._id("msg"), [], "in_progress")) + self._part("added", _text_part(""))
            case TextEnd():
                return self._end_text(event.block)
            case ToolCallStart():
                return self._add(self._call(event, self._id(_prefix(event, self._context)), "", "in_progress"))
            case ToolCallEnd():
                return self._end_call(event.block)
            case BlockEvent():
                own = own_block(event, DEFAULT.wire)
                if own is None or not isinstance(own.data, dict):
                    return self._left_out.block(event.block)
                return self._add(own.data) + self._done(own.data)
            case Start():
                created = self._response("in_progress", [])
                # Both, one after the other, as OpenAI sends them.
                return self._say("response.created", response=created) + self._say(
                    "response.in_progress", response=created
                )
            case Done():
                status, details = _status(event.turn, self._left_out)
                response = self._response(status, self._items, details, event.turn.usage)
                # A status that is not one of these two has no event of its own.
                return self._say("response.incomplete" if details else "response.completed", response=response)
            case ErrorEvent():
                return self._fail(event.to_exception(), event.turn.usage)
        return b""

    def body(self, turn: Turn) -> bytes:
        items: list[dict[str, Any]] = []
        for block in turn.blocks:
            item = self._whole_item(block, len(items))
            if item is not None:
                items.append(item)
        status, details = _status(turn, self._left_out)
        return json_value(self._response(status, items, details, turn.usage))

    def error(self, error: MidstreamError, *, mid_stream: bool = False) -> tuple[int, bytes]:
        refusal = refusal_of(error)
        return refusal.status, self._fail(error, None) if mid_stream else openai_error(refusal)

    def keep_alive(self) -> bytes:
        return COMMENT

    def _fail(self, error: MidstreamError, usage: Usage | None) -> bytes:
        refusal = refusal_of(error)
        response = self._response("failed", self._items, usage=usage)
        # Clients decide by the code (field-guide/openai-responses.md#stream).
        # This one stands for a request that was not understood.
        response["error"] = {"code": refusal.code or "invalid_prompt", "message": refusal.message}
        return self._say("response.failed", response=response)

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{self._stem}{len(self._items)}"

    def _say(self, kind: str, **fields: Any) -> bytes:
        # One running number over all events. A client that counts finds out whether it lost one.
        self._number += 1
        return sse(json_value({"type": kind, "sequence_number": self._number, **fields}), kind)

    def _delta(self, kind: str, delta: str, fields: bytes = b"") -> bytes:
        """What comes most: written without a dictionary."""
        self._number += 1
        name, item = kind.encode(), self._item["id"].encode()
        return (
            b'event: %b\ndata: {"type":"%b","sequence_number":%d,"item_id":"%b","output_index":%d%b,"delta":%b}\n\n'
            % (name, name, self._number, item, len(self._items), fields, json_text(delta))
        )

    def _about(self, kind: str, **fields: Any) -> bytes:
        """An event about the item that streams."""
        return self._say(kind, item_id=self._item["id"], output_index=len(self._items), **fields)

    def _add(self, item: dict[str, Any]) -> bytes:
        self._item = item
        return self._say("response.output_item.added", output_index=len(self._items), item=item)

    def _done(self, item: dict[str, Any]) -> bytes:
        said = self._say("response.output_item.done", output_index=len(self._items), item=item)
        self._items.append(item)
        return said

    def _part(self, what: str, part: dict[str, Any]) -> bytes:
        return self._about(f"response.content_part.{what}", content_index=0, part=part)

    def _thinking(self, delta: str) -> bytes:
        if not self._context.thinking:
            return b""
        start = self._open_thinking()
        if self._channel == "content":
            return start + self._delta("response.reasoning_text.delta", delta, b',"content_index":0')
        return start + self._delta("response.reasoning_summary_text.delta", delta, b',"summary_index":0')

    def _open_thinking(self) -> bytes:
        if self._open:
            return b""
        self._open = True
        part = {"type": "summary_text", "text": ""}
        start = self._add({"id": self._id("rs"), "type": "reasoning", "summary": []})
        if self._channel == "content":
            return start
        return start + self._about("response.reasoning_summary_part.added", summary_index=0, part=part)

    def _end_thinking(self, block: Thinking) -> bytes:
        item = self._reasoning(block, self._id("rs"))
        if not self._open:
            # A client that does not want to see thinking still needs the encrypted item, to send it back.
            if not self._context.thinking and "encrypted_content" not in item:
                return b""
            return self._add({"id": item["id"], "type": "reasoning", "summary": []}) + self._done(item)
        self._open = False
        part = item[self._channel][0]
        if self._channel == "content":
            end = self._about("response.reasoning_text.done", content_index=0, text=block.text)
        else:
            end = self._about("response.reasoning_summary_text.done", summary_index=0, text=block.text)
            end += self._about("response.reasoning_summary_part.done", summary_index=0, part=part)
        return end + self._done(item)

    def _reasoning(self, block: Thinking, item_id: str) -> dict[str, Any]:
        item: dict[str, Any] = {"id": item_id, "type": "reasoning", "summary": []}
        if block.text and self._context.thinking:
            kind = "reasoning_text" if self._channel == "content" else "summary_text"
            item[self._channel] = [{"type": kind, "text": block.text}]
        if block.encrypted and ENCRYPTED in self._context.include:
            item["encrypted_content"] = block.encrypted
        return item

    def _end_text(self, block: Text) -> bytes:
        part = _text_part(block.text, block)
        cited = [
            self._about(
                "response.output_text.annotation.added", content_index=0, annotation_index=place, annotation=each
            )
            for place, each in enumerate(part["annotations"])
        ]
        end = self._about("response.output_text.done", content_index=0, text=block.text, logprobs=[])
        item = _message(self._item["id"], [part], "completed")
        return b"".join(cited) + end + self._part("done", part) + self._done(item)

    def _call(self, call: ToolCall | ToolCallStart, item_id: str, text: str, status: str) -> dict[str, Any]:
        named = {"id": item_id, "call_id": self._ids.of(call), "name": call.name, "status": status}
        if namespace := call.namespace:
            named["namespace"] = namespace
        if call.kind == "freeform":
            return {"type": "custom_tool_call", **named, "input": text}
        return {"type": "function_call", **named, "arguments": text}

    def _end_call(self, block: ToolCall) -> bytes:
        item = self._whole_call(block, self._item["id"])
        if item["type"] == "custom_tool_call":
            # The text of a freeform call may have come as JSON, and is known only now: one delta with all of it.
            end = self._delta("response.custom_tool_call_input.delta", item["input"])
            end += self._about("response.custom_tool_call_input.done", input=item["input"])
        else:
            end = self._about("response.function_call_arguments.done", name=block.name, arguments=item["arguments"])
        return end + self._done(item)

    def _whole_call(self, call: ToolCall, item_id: str) -> dict[str, Any]:
        freeform = call.kind == "freeform"
        return self._call(call, item_id, freeform_input(call) if freeform else call.arguments or "{}", "completed")

    def _whole_item(self, block: Block, place: int) -> dict[str, Any] | None:
        match block:
            case Text():
                part = _text_part(block.text, block)
                if block.extra and block.extra.get("refusal"):
                    part = {"type": "refusal", "refusal": block.text}
                return _message(f"msg_{self._stem}{place}", [part], "completed")
            case Thinking():
                item = self._reasoning(block, f"rs_{self._stem}{place}")
                return item if self._context.thinking or "encrypted_content" in item else None
            case ToolCall():
                return self._whole_call(block, f"{_prefix(block, self._context)}_{self._stem}{place}")
            case Opaque() | Media():
                own = own_block(BlockEvent(0, block), DEFAULT.wire)
                if own is not None and isinstance(own.data, dict):
                    return own.data
                self._left_out.block(block)
            case ToolResponse():
                self._left_out.note("tool_response", "misplaced_block", "a result is not a part of an answer")
        return None

    def _response(
        self,
        status: str,
        output: list[dict[str, Any]],
        details: dict[str, Any] | None = None,
        usage: Usage | None = None,
    ) -> dict[str, Any]:
        context = self._context
        return {
            "id": context.response_id,
            "object": "response",
            "created_at": context.created,
            "completed_at": None,
            "status": status,
            "error": None,
            "incomplete_details": details,
            "model": context.model,
            "output": output,
            "usage": write_usage(usage),
            **self._echo,
        }


def write_usage(usage: Usage | None) -> dict[str, Any] | None:
    """All of it or nothing: clients refuse counts with a detail missing."""
    # Codex fails to parse counts with one missing (field-guide/openai-responses.md#stream).
    if usage is None:
        return None
    return {
        "input_tokens": usage.read,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


def _status(turn: Turn, left_out: LeftOut) -> tuple[str, dict[str, Any] | None]:
    """How a response ended, and why it is incomplete. Of a host of this wire, a reason without a word of ours goes on as it said it."""
    reason = stop_word(turn, _REASONS, Habits(), left_out)
    if reason == "completed":
        return reason, None
    if reason not in _INCOMPLETE.values() and turn.raw_stop == reason:
        return reason, None
    return "incomplete", {"reason": reason}


def _prefix(call: ToolCall | ToolCallStart, context: AnswerContext) -> str:
    return "ctc" if call.kind == "freeform" else "fc"


def _message(item_id: str, content: list[dict[str, Any]], status: str) -> dict[str, Any]:
    return {"id": item_id, "type": "message", "role": "assistant", "status": status, "content": content}


def _text_part(text: str, block: Text | None = None) -> dict[str, Any]:
    found = (block.extra or {}).get("annotations") if block is not None else None
    cited = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    return {"type": "output_text", "text": text, "annotations": cited, "logprobs": []}


def _echoed(request: dict[str, Any]) -> dict[str, Any]:
    """The request's fields as a response repeats them; one of another type than it should have is not repeated."""
    told = dict(_DEFAULTS)
    for name, usual in _DEFAULTS.items():
        value = request.get(name)
        # `True` is an int in Python: a bool where a number belongs is not repeated.
        if value is None or isinstance(value, bool) is not isinstance(usual, bool):
            continue
        if isinstance(usual, dict):
            if isinstance(value, dict):
                told[name] = {**usual, **value}
        elif (
            name == "tool_choice"
            or usual is None
            or isinstance(value, (int, float) if type(usual) in (int, float) else type(usual))
        ):
            told[name] = value
    told["tools"] = [_declared(tool) for tool in told["tools"] if isinstance(tool, dict)]
    if not isinstance(told["instructions"], str):
        told["instructions"] = None
    return told


def _declared(tool: dict[str, Any]) -> dict[str, Any]:
    if tool.get("type") != "function":
        return tool
    # The wire's answers name these even where the request did not.
    return {"description": None, "parameters": None, "strict": None, **tool}
