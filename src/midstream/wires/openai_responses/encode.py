"""Conversation -> one Responses request, as exact as the host wants it.

Stateless by default: `store: false`, and the encrypted reasoning asked for, so that the next request can carry it. With
`previous_response_id` only what follows that response is sent, if the history up to it stands as the host knows it; else
the whole history goes, and a Note says so. What a host would refuse is left out or bent, and noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, assert_never

from msgspec.structs import replace

from ...core.blocks import Block, Conversation, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.dialect import Dialect, Options
from ...core.errors import InvalidHistory
from ...core.handoff import Action, Note
from ...core.history import repair
from ...core.ids import ToolIdMapper, scheme_for
from ...core.tools import ToolSpec
from ..encode_context import EncodeContext
from ..lenient_json import json_text, json_value
from ..placeholders import SEE_MEDIA, call_arguments, error_text, omitted
from ..reasoning import belongs_to, nearest_effort, same_origin, thinking_on
from ..request import SAMPLING, Request, join_body, merge_body, sampling_fields, token_limit
from ..tool_declarations import ToolNames, declare, within_limit
from .items import format_from_chat, part_fields, reasoning_parts, replayed

CONTINUES = "previous_response_id"
"""The key in a conversation's `extra` that names the stored response before its first turn."""
_ENCRYPTED = "reasoning.encrypted_content"
_UNSEEN = Text("(only the host has this answer)")


def encode_responses(asking: EncodeContext) -> Request:
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
    def __init__(self, asking: EncodeContext, writer: ResponsesWriter, notes: list[Note]) -> None:
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


_ROLES = ("user", "system", "developer")
_SHAPED = frozenset({"annotations", "part", "refusal"})
_STANDALONE = ("compaction", "part")


class ResponsesWriter:
    """`items` are finished JSON objects. `stored` says that the host keeps responses, so that ids alone name them.

    `raw_ids` are calls the host knows by the id it gave them itself, for they stand in a response it stored.
    """

    def __init__(
        self,
        dialect: Dialect,
        options: Options,
        model: str,
        *,
        stored: bool = False,
        raw_ids: dict[str, str] | None = None,
    ) -> None:
        self.notes: list[Note] = []
        self.items: list[bytes] = []
        self.names = ToolNames(dialect.limits)
        self.dialect = dialect
        self.policy = options.foreign_thinking
        self.bound_model = model if dialect.reasoning.signed else None
        self.stored = stored
        self._raw_ids = raw_ids or {}
        scheme = scheme_for(dialect.ids, options.tool_format)
        self.ids: ToolIdMapper = scheme.create_mapper()
        self.custom: set[str] = set()  # calls whose results are custom_tool_call_output
        self._size = 0
        self._turn = 0

    @property
    def size(self) -> int:
        return self._size

    def write(self, turns: Sequence[Turn], offset: int) -> None:
        for number, turn in enumerate(turns, offset):
            self._turn = number
            blocks = turn.blocks
            if turn.speaker == "human":
                role = turn.role if turn.role in _ROLES else "user"
                if len(blocks) == 1 and type(blocks[0]) is Text and blocks[0].extra is None:
                    self.add(
                        b'{"type":"message","role":"%b","content":%b}' % (role.encode(), json_text(blocks[0].text))
                    )
                else:
                    self._human(role, blocks)
            elif turn.speaker == "ai":
                _AnswerItems(self, turn).write()
            else:
                self._results(blocks)

    def note_calls(self, calls: Sequence[ToolCall]) -> None:
        """Calls that stand in a response the host stored: their results follow, they do not."""
        self.custom.update(call.id for call in calls if _is_custom(call))

    def add(self, item: bytes) -> None:
        self.items.append(item)
        self._size += len(item)

    def note(self, action: Action, what: str, why: str) -> None:
        self.notes.append(Note(action, what, why, self._turn))

    def owns(self, turn: Turn) -> bool:
        """Whether this reader made the turn, so that ids and fields of its items mean something to it."""
        return turn.origin is not None and same_origin(turn.origin, self.dialect, self.bound_model)

    def _human(self, role: str, blocks: Sequence[Block]) -> None:
        """One message for the parts, and an item of its own for each block that is one."""
        parts: list[dict[str, Any]] = []
        for block in blocks:
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

    def whole(self, block: Opaque) -> bool:
        """An item of a built-in tool, as it came; whether it may be sent."""
        if block.origin is None or not same_origin(block.origin, self.dialect):
            self.note("dropped", "opaque", f"{block.kind} belongs to the host that made it")
            return False
        self.add(json_value(block.data))
        return True

    def _parts(self, blocks: Sequence[Block]) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for block in blocks:
            match block:
                case Text():
                    if block.text:
                        parts.append({"type": "input_text", "text": block.text})
                case Media():
                    parts.append(self._media(block))
                case Opaque():
                    if block.origin is None or block.origin.wire != self.dialect.wire:
                        self.note("dropped", "opaque", f"{block.kind} has no form on this wire")
                    else:
                        parts.append(block.data)
                case Thinking() | ToolCall() | ToolResponse():
                    tag = block.__struct_config__.tag
                    self.note("dropped", str(tag), "it cannot stand in a user message")
                case _:
                    assert_never(block)
        return parts

    def _media(self, media: Media) -> dict[str, Any]:
        kind = media.kind
        if kind not in self.dialect.media:
            self.note("dropped", "media", f"this model reads no {kind}; a line of text stands in")
            return {"type": "input_text", "text": omitted(media)}
        extra = media.extra or {}
        data = None
        if media.data is not None:
            data = f"data:{media.mime};base64,{media.data}" if media.mime else media.data
        by_id = data is None and media.url is not None and not _is_address(media.url)
        if kind == "image":
            where = {"file_id": media.url} if by_id else {"image_url": data or media.url}
            return {"type": "input_image", **where, **extra}
        if kind == "audio" and media.data is not None:
            sound = {"data": media.data, "format": media.mime.partition("/")[2]}
            return {"type": "input_audio", "input_audio": sound, **extra}
        file: dict[str, Any] = {"type": "input_file"}
        if data is not None:
            # A file sent by value is refused without a name.
            file |= {"filename": media.name or "file", "file_data": data}
        else:
            file |= {"file_id": media.url} if by_id else {"file_url": media.url}
            if media.name:
                file["filename"] = media.name
        return {**file, **extra}

    def _results(self, blocks: Sequence[Block]) -> None:
        media: list[dict[str, Any]] = []
        for response in blocks:
            assert isinstance(response, ToolResponse)
            kind = "custom_tool_call_output" if response.call_id in self.custom else "function_call_output"
            call_id = self._raw_ids.get(response.call_id) or self.ids.resolve_tool_response_id(response)
            fields = b""
            if response.extra and (kept := replayed(kind, response.extra.get("item"))):
                fields = b"," + json_value(kept)[1:-1]
            self.add(
                b'{"type":"%b","call_id":%b,"output":%b%b}'
                % (kind.encode(), json_text(call_id), self._output(response, media), fields)
            )
        self._message("user", media)

    def _output(self, response: ToolResponse, media: list[dict[str, Any]]) -> bytes:
        """A string, for not every host takes a list; a list only where there is more than text in it."""
        content = response.content
        if len(content) == 1 and type(content[0]) is Text:
            return json_text(error_text(response, content[0].text))
        inline = self.dialect.tool_result_media == "inline"
        parts: list[dict[str, Any]] = []
        for part in content:
            if type(part) is Media and not inline and self.dialect.tool_result_media == "user":
                media += self._parts([part])
                self.note("adapted", "media", "an image of a tool result moved to a user message behind the results")
            else:
                parts += self._parts([part])
        if all(part.get("type") == "input_text" for part in parts):
            text = "\n".join([part["text"] for part in parts])
            return json_text(error_text(response, text or (SEE_MEDIA if media else "")))
        if response.is_error:
            parts.insert(0, {"type": "input_text", "text": "Error:"})
        return json_value(parts)


class _AnswerItems:
    """One ai turn as items, in the order of its blocks."""

    def __init__(self, writer: ResponsesWriter, turn: Turn) -> None:
        self._out = writer
        self._turn = turn
        self._own = writer.owns(turn)
        self._lost = False  # reasoning of this turn stays behind
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
                    while at < len(blocks) and self._continues(block, blocks[at]):
                        parts.append(blocks[at])  # type: ignore[arg-type]
                        at += 1
                    self._message(parts)
                case ToolCall():
                    self._call(block)
                case Thinking():
                    self._thinking(block)
                case Opaque():
                    self._opaque(block)
                case Media():
                    self._note("dropped", "media", "an assistant message carries no media on this wire")
                case ToolResponse():
                    self._note("dropped", "tool_response", "it cannot stand in an assistant message")
                case _:
                    assert_never(block)
        self._drop_waiting("nothing it led to follows")

    @property
    def _with_ids(self) -> bool:
        return self._own and not self._lost

    def _note(self, action: Action, what: str, why: str) -> None:
        self._out.note(action, what, why)

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
        out = self._out
        call_id = json_text(out.ids.resolve_tool_call_id(call))
        custom = _is_custom(call) and call.provider == out.dialect.provider
        kind = "custom_tool_call" if custom else "function_call"
        kept = replayed(kind, _fields(call.extra), with_id=self._with_ids) if self._own else {}
        fields = b"," + json_value(kept)[1:-1] if kept else b""
        if custom:
            out.custom.add(call.id)
            out.add(
                b'{"type":"custom_tool_call","call_id":%b,"name":%b,"input":%b%b}'
                % (call_id, json_text(call.name), json_text(call.arguments), fields)
            )
            return
        arguments = call_arguments(call, self._note)
        out.add(
            b'{"type":"function_call","call_id":%b,"name":%b,"arguments":%b%b}'
            % (call_id, json_text(out.names.wire(call.name)), json_text(arguments), fields)
        )

    def _opaque(self, block: Opaque) -> None:
        out = self._out
        if block.origin is None or not same_origin(block.origin, out.dialect):
            self._drop_waiting("the item it led to is not sent")
            out.whole(block)
        elif self._lost and block.kind not in _STANDALONE:
            self._note("dropped", "opaque", f"{block.kind} is refused without the reasoning that led to it")
        else:
            self._release()
            out.whole(block)

    def _thinking(self, block: Thinking) -> None:
        out = self._out
        origin = block.origin
        if origin is None or not same_origin(origin, out.dialect, out.bound_model):
            self._foreign(block)
        elif block.encrypted or out.stored or (block.text and out.dialect.reasoning.echo != "never"):
            self._waiting.append(block)
        else:
            self._lost = True
            self._note("dropped", "thinking", "it is neither encrypted nor stored, so its maker cannot read it again")

    def _foreign(self, block: Thinking) -> None:
        self._lost = True
        policy = self._out.policy
        if block.text and policy == "text":
            self._note("adapted", "thinking", "another model's thinking is sent as plain text")
            self._message([Text(block.text)])
        elif block.text and policy == "keep" and self._out.dialect.reasoning.echo != "never":
            self._waiting.append(Thinking(block.text, "content"))
        else:
            self._note("dropped", "thinking", belongs_to(block))

    def _drop_waiting(self, why: str) -> None:
        for _ in self._waiting:
            self._note("dropped", "thinking", f"a reasoning item may not stand alone: {why}")
            self._lost = True
        self._waiting = []

    def _release(self) -> None:
        """The item that the reasoning led to is about to be written: the reasoning goes first."""
        for block in self._waiting:
            summary, content = reasoning_parts(block)
            item: dict[str, Any] = {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": text} for text in summary],
                **replayed("reasoning", _fields(block.extra)),
            }
            if content:
                item["content"] = [{"type": "reasoning_text", "text": text} for text in content]
            if block.encrypted:
                item["encrypted_content"] = block.encrypted
            if len(item) == 2 and not summary:
                self._note("dropped", "thinking", "it holds nothing this wire can say")
                self._lost = True
            else:
                self._out.add(json_value(item))
        self._waiting = []


def _fields(extra: dict[str, Any] | None) -> dict[str, Any] | None:
    fields = extra.get("item") if extra else None
    return fields if isinstance(fields, dict) else None


def _is_custom(call: ToolCall) -> bool:
    return call.extra is not None and call.extra.get("type") == "custom"


def _is_address(url: str) -> bool:
    """A file id has no scheme."""
    return "://" in url[:32] or url.startswith("data:")
