"""Lawful turns -> input items, each encoded once.

What an item carried beside its block (id, phase, status, namespace) goes back only to its origin. A reasoning item goes
back only to the model that made it, only where the host can read it (encrypted, stored there, or plain and wanted), and
never without the item it led to; where it must stay behind, ids and built-in items that follow it stay behind too, for
OpenAI refuses an item whose stored reasoning is missing. Items of built-in tools go to their origin, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from ...core.blocks import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.dialect import Dialect, Options
from ...core.handoff import Action, Note
from ...core.ids import ToolIdMapper, scheme_for
from ..json_border import json_text, json_value
from ..reasoning import belongs_to, same_origin
from ..stand_ins import SEE_MEDIA, call_arguments, error_text, omitted
from ..tool_names import ToolNames
from .items import part_fields, reasoning_parts, replayed

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
