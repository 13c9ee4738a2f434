"""Conversation -> one Responses request, as exact as the host wants it.

Stateless by default: `store: false`, and the encrypted reasoning asked for, so that the next request can carry it. With
`previous_response_id` only what follows that response is sent, if the history up to it stands as the host knows it; else
the whole history goes, and a Note says so. What a host would refuse is left out or bent, and noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import partial
from typing import Any, assert_never

from msgspec.structs import replace

from ...core.blocks import Block, Media, Opaque, Origin, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.tools import ToolSpec, freeform_input, modern_call
from ..encode_context import SAMPLING, EncodeContext, result_text, write_turns
from ..lenient_json import json_text, json_value
from ..reasoning import effort_for
from ..request import Request, RequestDraft, empty_conversation, join_body, merge_body
from .items import (
    NAMESPACE,
    foreign_reasoning,
    format_from_chat,
    media_part,
    part_fields,
    reasoning_item,
    replayed,
)
from .stored_response import Continuation, find_continuation, is_stored

_ENCRYPTED = "reasoning.encrypted_content"


def encode_request(draft: RequestDraft) -> Request:
    options = draft.options
    response_id = options.previous_response_id
    if response_id:
        # Cheapest if it works: the host has the history, and only what is new is sent.
        continuation = find_continuation(draft.conversation, response_id)
        if continuation is not None:
            writer = ResponsesWriter(draft.context(), stored=True)
            writer.go_on(continuation)
            writer.write(draft.words, len(draft.conversation.turns))
            return _ResponsesRequest(draft, writer).build()
        # Otherwise the whole history goes, which always works.
        draft = replace(draft, options=replace(options, previous_response_id=None))
    stored = is_stored(draft.options)
    make = partial(ResponsesWriter, stored=stored)
    # What changes the bytes of old items.
    request = _ResponsesRequest(draft, draft.history(make, options.foreign_thinking, options.tool_format, stored))
    if response_id:
        why = "previous_response_id: the history before it is not the stored one; the whole history is sent"
        request.context.note("dropped", "option", "response_not_continued", why)
    return request.build()


class _ResponsesRequest:
    def __init__(self, draft: RequestDraft, writer: ResponsesWriter) -> None:
        self.draft, self.writer = draft, writer
        self.dialect, self.options = draft.dialect, draft.options
        self.context = writer.context.around(draft.options)

    def build(self) -> Request:
        conversation, context = self.draft.conversation, self.context
        items = self._input()
        fields: list[bytes] = []
        # Outside the input, so that a continued response can be given other instructions.
        if self.dialect.system_role == "instructions" and conversation.system_text:
            fields.append(b'"instructions":' + json_text(conversation.system_text))
        tools = context.within_limit(self.draft.tools)
        declared = encode_tools(tools, context) if tools else b"[]"
        if declared != b"[]":
            fields.append(b'"tools":' + declared)
        body = {**self._choice(tools), **self._sampling(), **self._reasoning(), **self._state()}
        if self.options.stream:
            body["stream"] = True
        merge_body(body, self.dialect.extra_body, self.options.extra_body)
        fields.append(json_value(body)[1:-1])
        head = b'{"model":' + json_text(self.draft.model) + b',"input":['
        body_bytes = join_body(head, items, b"]," + b",".join(fields) + b"}")
        return self.draft.request(self.dialect.path or "/responses", body_bytes, self.writer.context, context)

    def _input(self) -> list[bytes]:
        items = self.writer.items.copy()
        role, system = self.dialect.system_role, self.draft.conversation.system_text
        if role != "instructions" and system:
            items.insert(0, b'{"type":"message","role":"%b","content":%b}' % (role.encode(), json_text(system)))
        if self.options.prefill is not None:
            self.context.option_dropped("prefill", "prefill is not supported here: this wire cannot begin the answer")
        if not items and not self.options.previous_response_id:
            raise empty_conversation()
        return items

    def _state(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"store": is_stored(self.options)}
        if self.options.previous_response_id:
            fields["previous_response_id"] = self.options.previous_response_id
        # Without storage the only way to keep reasoning is to carry it (field-guide/openai-responses.md#shape).
        if not fields["store"] and self.dialect.reasoning.signed:
            fields["include"] = [_ENCRYPTED]
        return fields

    def _choice(self, tools: Sequence[ToolSpec]) -> dict[str, Any]:
        if not tools:
            return {}
        fields: dict[str, Any] = {}
        choice = self.options.tool_choice
        if choice in ("auto", "none"):
            fields["tool_choice"] = choice
        elif choice is not None:
            kind = self.context.forced_choice(choice)
            words: dict[str, Any] = {"auto": "auto", "required": self.dialect.required_word}
            fields["tool_choice"] = words[kind] if kind in words else self._named(choice, tools)
        return fields | self.context.parallel_calls()

    def _named(self, choice: str, tools: Sequence[ToolSpec]) -> dict[str, Any]:
        for tool in tools:
            # A choice of a tool that the host runs has that tool's own shape.
            given = tool.extra.get("tool") if tool.extra else None
            if tool.name == choice and given:
                kind = given.get("type")
                return {"type": kind, "name": choice} if "name" in given else {"type": kind}
            if tool.name == choice and tool.kind == "freeform":
                return {"type": "custom", "name": self.context.names.wire(choice)}
        return {"type": "function", "name": self.context.names.wire(choice)}

    def _reasoning(self) -> dict[str, Any]:
        """`summary` is asked for only by who wants to see thinking: some accounts may not have it."""
        options, rules = self.options, self.dialect.reasoning
        asked = options.effort is not None or options.thinking is not None or options.thinking_budget is not None
        if not asked:
            return {}
        if rules.control == "none":
            self.context.option_dropped("thinking", "this model does not let thinking be set")
            return {}
        self.context.no_budget()
        fields: dict[str, Any] = {}
        if options.thinking == "off":
            fields["effort"] = effort_for("none", rules)
            if fields["effort"] != "none":
                self.context.always_thinks(fields["effort"])
        else:
            if options.effort is not None:
                fields["effort"] = self.context.effort(options.effort)
            if options.thinking == "on":
                fields["summary"] = "auto"
        return {"reasoning": fields} if fields else {}

    def _sampling(self) -> dict[str, Any]:
        options = self.options
        fields: dict[str, Any] = {}
        limit = self.context.token_limit()
        if limit is not None:
            fields["max_output_tokens"] = limit
        fields |= self.context.sampling((*SAMPLING, "stop"))
        if options.response_format is not None and self.context.takes("response_format"):
            fields["text"] = {"format": format_from_chat(options.response_format)}
        user = self.context.user()
        if user is not None:
            fields[self.dialect.user_field] = user
        return fields


def encode_tools(tools: Sequence[ToolSpec], context: EncodeContext) -> bytes:
    encoded: list[dict[str, Any]] = []
    # A namespace is one entry with its tools inside (field-guide/openai-responses.md#tools).
    spaces: dict[str, dict[str, Any]] = {}  # one tool that holds those of a namespace stands where its first one is
    searched = any(((tool.extra or {}).get("tool") or {}).get("type") == "tool_search" for tool in tools)
    for tool in tools:
        described = _tool(tool, context, searched)
        if tool.namespace and described:
            if tool.namespace not in spaces:
                shared = (tool.extra or {}).get(NAMESPACE) or {}
                about = {"description": f"Tools of {tool.namespace}.", **shared}  # required by OpenAI's types
                spaces[tool.namespace] = {"type": "namespace", "name": tool.namespace, **about, "tools": []}
                encoded.append(spaces[tool.namespace])
            spaces[tool.namespace]["tools"].append(described)
        elif described:
            encoded.append(described)
    return json_value(encoded)


def _tool(tool: ToolSpec, context: EncodeContext, searched: bool) -> dict[str, Any]:
    """One tool; nothing for one that this host does not have."""
    given = context.host_tool(tool)
    if given is not None:
        return given
    if tool.builtin:
        context.foreign_builtin(tool)
        return {}
    extra = _own_fields(tool.extra or {}, searched)
    if tool.kind == "freeform":
        freeform: dict[str, Any] = {"type": "custom", "name": context.declared_name(tool)}
        if tool.description:
            freeform["description"] = tool.description
        if tool.grammar is not None:
            grammar = {"syntax": tool.grammar.syntax, "definition": tool.grammar.definition}
            freeform["format"] = {"type": "grammar", **grammar}
        return {**freeform, **extra}
    function = {"type": "function", **context.declare(tool)}
    if context.dialect.strict_tools:
        # Left out, this wire makes a schema strict where it can, and optional parameters required with it.
        function["strict"] = bool(tool.strict)
    return {**function, **extra}


def _own_fields(extra: dict[str, Any], searched: bool) -> dict[str, Any]:
    """The fields beside a tool that this wire has; a tool that was declared on another one may bring others, and OpenAI
    answers 400 `Unknown parameter: 'tools[0].…'`. Two have a name that Messages has too, with another meaning."""
    own = {key: value for key, value in extra.items() if key in _TOOL_KEYS}
    if not searched:
        own.pop("defer_loading", None)  # here, only a tool search can load it
    callers = own.get("allowed_callers")
    if isinstance(callers, list) and not _CALLERS.issuperset([str(each) for each in callers]):
        del own["allowed_callers"]
    return own


_TOOL_KEYS = ("allowed_callers", "async", "defer_loading", "output_schema", "strict")
_CALLERS = frozenset({"direct", "programmatic"})
# Any other role of a human turn is another wire's word.
_ROLES = ("user", "system", "developer")
# Keys of a text's `extra` that need a part of their own to stand in.
_SHAPED = frozenset({"annotations", "part", "refusal"})
# Kinds that make sense without the reasoning before them.
_STANDALONE = ("compaction", "part")


class ResponsesWriter:
    """`items` are finished JSON objects. `stored` says that the host keeps responses, so that ids alone name them."""

    def __init__(self, context: EncodeContext, *, stored: bool = False) -> None:
        self.context = context
        self.items: list[bytes] = []
        self.stored = stored
        self.custom: set[str] = set()  # calls whose results are custom_tool_call_output
        # A stored response knows its calls by the host's ids, not by ours.
        self._raw_ids: dict[str, str] = {}  # of calls in a stored response: the ids their host gave them
        self._size = 0

    @property
    def size(self) -> int:
        return self._size

    def clone(self) -> ResponsesWriter:
        twin = copy(self)
        twin.context = self.context.clone()
        twin.items, twin.custom = self.items.copy(), self.custom.copy()
        return twin

    def write(self, turns: Sequence[Turn], offset: int) -> None:
        write_turns(self, turns, offset)

    def answer(self, turn: Turn) -> None:
        _AnswerItems(self, turn).write()

    def go_on(self, continuation: Continuation) -> None:
        """Write what follows a stored response: the results of its calls, which themselves are not sent."""
        if self.context.dialect.freeform:
            self.custom.update(call.id for call in continuation.calls if modern_call(call).kind == "freeform")
        self._raw_ids = {call.id: call.raw_id for call in continuation.calls if call.raw_id}
        self.context.notes += continuation.notes
        self.write(self.context.plain_turns(continuation.turns, continuation.offset)[0], continuation.offset)

    def add(self, item: bytes) -> None:
        self.items.append(item)
        self._size += len(item)

    def made_here(self, origin: Origin | None) -> bool:
        """Whether this reader made it, so that ids and fields of its items mean something to it."""
        # Item ids and encrypted reasoning are bound to the model (field-guide/openai-responses.md#reasoning).
        return self.context.made_here(origin, same_model=self.context.dialect.reasoning.signed)

    def human(self, turn: Turn) -> None:
        self._said(turn.role if turn.role in _ROLES else "user", turn.blocks)

    def system(self, turn: Turn) -> None:
        self._said(turn.role or "system", turn.blocks)

    def _said(self, role: str, blocks: Sequence[Block]) -> None:
        """One message for the parts, and an item of its own for each block that is one."""
        # The everyday message.
        if len(blocks) == 1 and type(blocks[0]) is Text and blocks[0].extra is None:
            self.add(b'{"type":"message","role":"%b","content":%b}' % (role.encode(), json_text(blocks[0].text)))
            return
        parts: list[dict[str, Any]] = []
        for block in blocks:
            # An item cannot stand inside a message, so the message ends before it.
            if type(block) is Opaque and block.kind != "part":
                self._message(role, parts)
                parts = []
                self.whole(block)
            else:
                parts += self._parts([block])
        self._message(role, parts)

    def _message(self, role: str, parts: list[dict[str, Any]]) -> None:
        if parts:
            plain = len(parts) == 1 and parts[0].keys() == {"type", "text"}
            content = parts[0]["text"] if plain else parts
            self.add(json_value({"type": "message", "role": role, "content": content}))

    def whole(self, block: Opaque) -> None:
        """An item of a built-in tool, as it came."""
        # Whatever else an importer left there is no item.
        if self.context.made_here(block.origin) and isinstance(block.data, dict):
            self.add(json_value(block.data))
        else:
            self.context.foreign_block(block)

    def _parts(self, blocks: Sequence[Block]) -> list[dict[str, Any]]:
        context = self.context
        parts: list[dict[str, Any]] = []
        for block in blocks:
            match block:
                case Text():
                    if block.text:
                        parts.append({"type": "input_text", "text": block.text})
                case Media():
                    found = context.readable(block)
                    if found is not None:
                        parts.append(media_part(found))
                    else:
                        parts.append({"type": "input_text", "text": context.unreadable(block)})
                case Opaque():
                    # A part of any host of this wire: parts mean the same on all of them.
                    if block.origin is not None and context.is_own_part(block) and isinstance(block.data, dict):
                        parts.append(block.data)
                    else:
                        context.foreign_block(block)
                case Thinking() | ToolCall() | ToolResponse():
                    context.misplaced(block)
                case _:
                    assert_never(block)
        return parts

    def results(self, blocks: Sequence[Block]) -> None:
        media: list[dict[str, Any]] = []
        for response in blocks:
            assert isinstance(response, ToolResponse)
            kind = "custom_tool_call_output" if response.call_id in self.custom else "function_call_output"
            call_id = self._raw_ids.get(response.call_id) or self.context.ids.resolve_tool_response_id(response)
            fields = b""
            if response.extra and (kept := replayed(kind, response.extra.get("item"))):
                fields = b"," + json_value(kept)[1:-1]
            self.add(
                b'{"type":"%b","call_id":%b,"output":%b%b}'
                % (kind.encode(), json_text(call_id), self._output(response, media), fields)
            )
        # Media behind all results, in one message.
        self._message("user", media)

    def _output(self, response: ToolResponse, media: list[dict[str, Any]]) -> bytes:
        """A string, for not every host takes a list; a list only where there is more than text in it."""
        content = response.content
        if len(content) == 1 and type(content[0]) is Text:
            return json_text(result_text(response, (content[0].text,)))
        parts: list[dict[str, Any]] = []
        for part in self.context.result_parts(response):
            spelled = self._parts([part])
            if type(part) is Media and spelled[0]["type"] != "input_text" and self.context.moves_media():
                media += spelled
            else:
                parts += spelled
        if all(part.get("type") == "input_text" for part in parts):
            return json_text(result_text(response, [part["text"] for part in parts], bool(media)))
        if response.is_error:
            parts.insert(0, {"type": "input_text", "text": "Error:"})
        return json_value(parts)


class _AnswerItems:
    """One ai turn as items, in the order of its blocks."""

    def __init__(self, writer: ResponsesWriter, turn: Turn) -> None:
        self._out = writer
        self._context = writer.context
        self._turn = turn
        self._own = writer.made_here(turn.origin)
        self._lost = False  # reasoning of this turn stays behind
        # Reasoning is refused unless what it led to follows
        # (field-guide/openai-responses.md#reasoning): so it waits until that is certain to be written.
        self._waiting: list[Thinking] = []  # reasoning whose item has not come yet

    def write(self) -> None:
        blocks = self._turn.blocks
        at = 0
        while at < len(blocks):
            block = blocks[at]
            at += 1
            match block:
                case Text():
                    parts = [block]
                    # Texts of one message go back as the parts of one message, if they go back under its id.
                    while at < len(blocks) and self._continues(block, blocks[at]):
                        parts.append(blocks[at])  # type: ignore[arg-type]  # `_continues` has checked that it is a Text
                        at += 1
                    self._message(parts)
                case ToolCall():
                    self._call(block)
                case Thinking():
                    self._thinking(block)
                case Opaque():
                    self._opaque(block)
                case Media() | ToolResponse():
                    self._context.misplaced(block, "an assistant message")
                case _:
                    assert_never(block)
        self._drop_waiting("nothing it led to follows")

    @property
    def _with_ids(self) -> bool:
        # With reasoning missing, ids would point at items that the
        # host links to it: they are left out for the whole turn.
        return self._own and not self._lost

    def _continues(self, first: Text, then: Block) -> bool:
        """Whether two texts are parts of one message: one that goes back under its id."""
        fields = _fields(first.extra) if self._with_ids else None
        return "id" in replayed("message", fields) and type(then) is Text and _fields(then.extra) == fields

    def _message(self, texts: list[Text]) -> None:
        texts = [text for text in texts if text.text]
        if not texts:
            return
        self._release()
        fields = replayed("message", _fields(texts[0].extra), with_id=self._with_ids) if self._own else {}
        if not fields and len(texts) == 1 and not (self._own and _SHAPED.intersection(texts[0].extra or ())):
            self._out.add(b'{"type":"message","role":"assistant","content":%b}' % json_text(texts[0].text))
            return
        content = [self._part(text) for text in texts]
        self._out.add(json_value({"type": "message", "role": "assistant", "content": content, **fields}))

    def _part(self, text: Text) -> dict[str, Any]:
        extra = text.extra if self._own and text.extra else {}
        if extra.get("refusal"):
            return {"type": "refusal", "refusal": text.text}
        return {**part_fields(extra), "type": "output_text", "text": text.text}

    def _call(self, call: ToolCall) -> None:
        self._release()
        out, context = self._out, self._context
        call_id = json_text(context.ids.resolve_tool_call_id(call))
        custom = call.kind == "freeform"
        kind = "custom_tool_call" if custom else "function_call"
        kept = replayed(kind, _fields(call.extra), with_id=self._with_ids) if self._own else {}
        if call.namespace:
            kept = {"namespace": call.namespace, **kept}
        fields = b"," + json_value(kept)[1:-1] if kept else b""
        name = json_text(context.names.wire(call.name))
        if custom:
            out.custom.add(call.id)
            out.add(
                b'{"type":"custom_tool_call","call_id":%b,"name":%b,"input":%b%b}'
                % (call_id, name, json_text(freeform_input(call)), fields)
            )
            return
        arguments = context.arguments(call)
        out.add(
            b'{"type":"function_call","call_id":%b,"name":%b,"arguments":%b%b}'
            % (call_id, name, json_text(arguments), fields)
        )

    def _opaque(self, block: Opaque) -> None:
        if not self._context.made_here(block.origin):
            self._drop_waiting("the item it led to is not sent")
            self._out.whole(block)
        # The host checks that its own items stand behind the reasoning that made them.
        elif self._lost and block.kind not in _STANDALONE:
            why = f"{block.kind} is refused without the reasoning that led to it"
            self._context.note("dropped", "opaque", "lone_reasoning", why)
        else:
            self._release()
            self._out.whole(block)

    def _thinking(self, block: Thinking) -> None:
        out, context = self._out, self._context
        echoes = context.dialect.reasoning.echo != "never"
        if not out.made_here(block.origin):
            self._lost = True
            fate = context.foreign_thinking(block, keeps=echoes)
            if fate == "keep":
                self._waiting.append(foreign_reasoning(block.text))
            elif fate == "text":
                self._message([Text(block.text)])
        # Encrypted, known to the host by id, or in clear on a host that takes it so.
        elif block.encrypted or out.stored or (block.text and echoes):
            self._waiting.append(block)
        else:
            self._lost = True
            why = "the reasoning is neither encrypted nor stored, so the model cannot read it again"
            context.note("dropped", "thinking", "unreadable_reasoning", why)

    def _drop_waiting(self, why: str) -> None:
        for _ in self._waiting:
            self._context.note("dropped", "thinking", "lone_reasoning", f"a reasoning item cannot be sent alone: {why}")
            self._lost = True
        self._waiting = []

    def _release(self) -> None:
        """The item that the reasoning led to is about to be written: the reasoning goes first."""
        for block in self._waiting:
            item = reasoning_item(block)
            if item is not None:
                self._out.add(json_value(item))
            else:
                # The rest of the turn loses its ids too.
                self._lost = True
                self._context.note(
                    "dropped", "thinking", "unreadable_reasoning", "the reasoning has no content to send"
                )
        self._waiting = []


def _fields(extra: dict[str, Any] | None) -> dict[str, Any] | None:
    fields = extra.get("item") if extra else None
    return fields if isinstance(fields, dict) else None
