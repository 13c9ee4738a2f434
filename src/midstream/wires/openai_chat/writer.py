"""Lawful turns -> chat messages, each encoded once.

Ids come from the dialect's scheme; a turn's own reasoning goes back under the field it came in; content that would be blank
beside tool calls takes the form the host accepts; images of tool results stand where the host reads them.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, assert_never

from ...core.blocks import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.dialect import Dialect, Options
from ...core.errors import MissingReasoning
from ...core.handoff import Action, Note
from ...core.ids import ToolIdMapper, scheme_for
from ..json_border import json_text, json_value
from ..reasoning import belongs_to, is_own, same_origin, thinking_on
from ..stand_ins import MEDIA_FOLLOWS, SEE_MEDIA, call_arguments, error_text, omitted
from ..tool_names import ToolNames

_LOOSE = 1024
"""So many messages are joined into one piece: the body of a long history is then joined of few."""
_AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav"}
"""Media types whose name is not the wire's word for the format."""


class ChatWriter:
    """`messages` are finished JSON objects, of long histories many in one piece with commas between them; the first and the
    last stand alone. `lacks_reasoning` says that a stand-in had to be used."""

    def __init__(self, dialect: Dialect, options: Options, model: str) -> None:
        self.notes: list[Note] = []
        self.messages: list[bytes] = []
        self.lacks_reasoning = False
        self.names = ToolNames(dialect.limits)
        self._dialect = dialect
        self._options = options
        self._model = model
        self._thinking = thinking_on(dialect, options)
        scheme = scheme_for(dialect.ids, options.tool_format)
        self._ids: ToolIdMapper = scheme.create_mapper()
        self._size = 0
        self._loose = 1  # where the messages begin that stand alone
        self._turn = 0

    @property
    def size(self) -> int:
        return self._size

    def write(self, turns: Sequence[Turn], offset: int) -> None:
        messages = self.messages
        before = len(messages)
        for number, turn in enumerate(turns, offset):
            self._turn = number
            blocks = turn.blocks
            only = blocks[0] if len(blocks) == 1 else None
            if turn.speaker == "human":
                if type(only) is Text and only.extra is None and only.text and not only.text.isspace():
                    role = json_text(turn.role) if turn.role else b'"user"'
                    messages.append(b'{"role":%b,"content":%b}' % (role, json_text(only.text)))
                else:
                    self._human(turn.role or "user", blocks)
            elif turn.speaker == "ai":
                # The everyday answer: with one text and nothing of its host's, it is the same for every reader.
                if type(only) is Text and turn.extra is None and only.text and not only.text.isspace():
                    messages.append(b'{"role":"assistant","content":%b}' % json_text(only.text))
                else:
                    self._assistant(turn)
            else:
                self._results(blocks)
        self._size += sum(map(len, messages[before:]))
        if len(messages) - self._loose > _LOOSE:
            messages[self._loose : -1] = [b",".join(messages[self._loose : -1])]
            self._loose += 1

    def _note(self, action: Action, what: str, why: str) -> None:
        self.notes.append(Note(action, what, why, self._turn))

    def _human(self, role: str, blocks: Sequence[Block]) -> None:
        parts = self._content_parts(blocks)
        if not any(part.get("type") != "text" or part["text"].strip() for part in parts):
            self._note("dropped", "turn", f"the {role}'s turn is blank, which hosts refuse")
            return
        extra = blocks[0].extra if len(blocks) == 1 and type(blocks[0]) is Text else None
        name = extra.get("name") if extra else None
        message: dict[str, Any] = {"role": role, "content": self._compact(parts)}
        if name:
            message["name"] = name
        self.messages.append(json_value(message))

    @staticmethod
    def _compact(parts: list[dict[str, Any]]) -> Any:
        """One plain text part is a string; so is nothing else."""
        if len(parts) == 1 and parts[0].get("type") == "text" and len(parts[0]) == 2:
            return parts[0]["text"]
        return parts

    def _content_parts(self, blocks: Sequence[Block]) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for block in blocks:
            match block:
                case Text():
                    if block.text:
                        parts.append({"type": "text", "text": block.text, **_own_keys(block.extra)})
                case Media():
                    parts.append(self._media_part(block))
                case Opaque():
                    if block.kind == "part" and (block.origin is None or block.origin.wire == self._dialect.wire):
                        parts.append(block.data)
                    else:
                        self._note("dropped", "opaque", f"{block.kind} has no form on this wire")
                case Thinking() | ToolCall() | ToolResponse():
                    tag = block.__struct_config__.tag
                    self._note("dropped", str(tag), "it cannot stand in a user message")
                case _:
                    assert_never(block)
        return parts

    def _media_part(self, media: Media) -> dict[str, Any]:
        kind = media.kind
        if kind == "file":
            text = _file_text(media)
            if text is not None:  # hosts take PDFs as files at most; text any of them reads
                return {"type": "text", "text": text}
        if kind not in self._dialect.media or (kind in ("audio", "file") and _is_address(media)):
            self._note("dropped", "media", f"this model reads no such {kind}; a line of text stands in")
            return {"type": "text", "text": omitted(media)}
        extra = media.extra or {}
        if kind in ("image", "video"):
            url = media.url if media.data is None else f"data:{media.mime};base64,{media.data}"
            return {"type": f"{kind}_url", f"{kind}_url": {"url": url, **extra}}
        if kind == "audio" and media.data is not None:
            spelled = media.mime.partition("/")[2]
            spelled = _AUDIO_FORMATS.get(spelled, spelled)
            return {"type": "input_audio", "input_audio": {"data": media.data, "format": spelled, **extra}}
        file: dict[str, Any] = dict(extra)
        if media.name:
            file["filename"] = media.name
        elif media.mime == "application/pdf" and media.data is not None:
            file["filename"] = "document.pdf"  # data without a name is refused
        if media.data is not None:
            file["file_data"] = f"data:{media.mime};base64,{media.data}"
        elif media.url is not None:
            file["file_id"] = media.url
        return {"type": "file", "file": file}

    def _assistant(self, turn: Turn) -> None:
        texts: list[str] = []
        calls: list[ToolCall] = []
        own: list[Thinking] = []
        foreign: list[Thinking] = []
        for block in turn.blocks:
            match block:
                case Text():
                    texts.append(block.text)
                case ToolCall():
                    calls.append(block)
                case Thinking():
                    (own if is_own(block, self._dialect, self._model) else foreign).append(block)
                case Media():
                    self._note("dropped", "media", "an assistant message carries no media on this wire")
                case Opaque():
                    self._note("dropped", "opaque", f"{block.kind} has no way back on this wire")
                case ToolResponse():
                    self._note("dropped", "tool_response", "it cannot stand in an assistant message")
                case _:
                    assert_never(block)
        text = "".join(texts)
        if foreign:
            text = self._foreign_as_text(foreign) + text
        reasoning = self._reasoning(turn, own, foreign, bool(calls))
        blank = not text or text.isspace()
        if blank and not calls:
            self._note("dropped", "turn", "the answer holds nothing this wire can say")
            return
        pieces = [b'{"role":"assistant"']
        if not blank:
            pieces.append(b',"content":' + json_text(text))
        elif self._dialect.blank_content != "omit":
            pieces.append(b',"content":null' if self._dialect.blank_content == "null" else b',"content":""')
        if turn.extra and "name" in turn.extra:
            pieces.append(b',"name":' + json_value(turn.extra["name"]))
        pieces.append(reasoning)
        if calls:
            same_wire = turn.origin is None or turn.origin.wire == self._dialect.wire
            pieces.append(b',"tool_calls":[' + b",".join([self._call(call, same_wire) for call in calls]) + b"]")
        pieces.append(b"}")
        self.messages.append(b"".join(pieces))

    def _foreign_as_text(self, foreign: list[Thinking]) -> str:
        policy = self._options.foreign_thinking
        texts = [block.text for block in foreign if block.text]
        if policy == "text" and texts:
            self._note("adapted", "thinking", "another model's thinking is sent as plain text")
            return "\n".join(texts) + "\n\n"
        if policy == "drop" or not texts:
            for block in foreign:
                self._note("dropped", "thinking", belongs_to(block))
        return ""

    def _reasoning(self, turn: Turn, own: list[Thinking], foreign: list[Thinking], calls: bool) -> bytes:
        """The reasoning fields of an assistant message, with their leading comma."""
        rules = self._dialect.reasoning
        kept = own
        if self._options.foreign_thinking == "keep":
            kept = [*own, *[block for block in foreign if block.text]]
        if not self._thinking or rules.echo == "never" or (rules.echo == "calls" and not calls):
            for _ in kept[len(own) :]:
                self._note("dropped", "thinking", "this reader takes no reasoning here, its own or another's")
            return b""
        fields = b""
        details = turn.extra.get("reasoning_details") if turn.extra else None
        if details and rules.details and turn.origin and same_origin(turn.origin, self._dialect, self._model):
            fields += b',"reasoning_details":' + json_value(details)
        if kept:
            field = rules.field
            if own and not rules.fixed_field and own[0].field in rules.fields:
                field = own[0].field
            return fields + b',"%b":%b' % (field.encode(), json_text("".join([block.text for block in kept])))
        if calls and rules.required:
            if self._options.missing_reasoning == "fail":
                raise MissingReasoning(
                    f"turn {self._turn} calls a tool without reasoning, which {self._dialect.name} demands while thinking "
                    "is on: set missing_reasoning to placeholder or disable-thinking"
                )
            self.lacks_reasoning = True
            self._note("adapted", "thinking", "the reasoning this reader demands is missing; a placeholder stands in")
            fields += b',"%b":%b' % (rules.field.encode(), json_text(rules.placeholder))
        return fields

    def _call(self, call: ToolCall, same_wire: bool) -> bytes:
        own = call.extra is not None and call.provider == self._dialect.provider
        if own and call.extra is not None and call.extra.get("type") == "custom":
            return b'{"id":%b,"type":"custom","custom":{"name":%b,"input":%b}}' % (
                json_text(self._ids.resolve_tool_call_id(call)), json_text(call.name), json_text(call.arguments),
            )  # fmt: skip
        arguments = call_arguments(call, self._note)
        encoded = arguments.encode() if self._dialect.arguments_object else json_text(arguments)
        extra = b',"extra_content":' + json_value(call.extra) if own and same_wire else b""
        name = self.names.wire(call.name)
        # Some schemes spell the name in the id: it must be the one the reader knows.
        call_id = self._ids.resolve_tool_call_id(call if name == call.name else ToolCall(call.id, name))
        return b'{"id":%b,"type":"function","function":{"name":%b,"arguments":%b}%b}' % (
            json_text(call_id), json_text(name), encoded, extra,
        )  # fmt: skip

    def _results(self, blocks: Sequence[Block]) -> None:
        media: list[dict[str, Any]] = []
        for response in blocks:
            assert isinstance(response, ToolResponse)
            content = self._result_content(response, media)
            name = b""
            if self._dialect.tool_result_name and response.name:
                name = b',"name":' + json_text(self.names.wire(response.name))
            self.messages.append(
                b'{"role":"tool","tool_call_id":%b%b,"content":%b}'
                % (json_text(self._ids.resolve_tool_response_id(response)), name, content)
            )
        if media:
            self.messages.append(
                json_value({"role": "user", "content": [{"type": "text", "text": MEDIA_FOLLOWS}, *media]})
            )

    def _result_content(self, response: ToolResponse, media: list[dict[str, Any]]) -> bytes:
        content = response.content
        if len(content) == 1 and type(content[0]) is Text:
            return json_text(error_text(response, content[0].text))
        parts: list[dict[str, Any]] = []
        where = self._dialect.tool_result_media
        for part in content:
            if type(part) is not Media or where == "inline":
                parts += self._content_parts([part])
                continue
            spelled = self._media_part(part)
            if where == "user" and spelled["type"] != "text":
                media.append(spelled)
                self._note("adapted", "media", "an image of a tool result moved to a user message behind the results")
            else:
                parts.append(spelled)
        if all(part.get("type") == "text" for part in parts):
            text = "\n".join([part["text"] for part in parts])
            return json_text(error_text(response, text or (SEE_MEDIA if media else "")))
        return json_value(parts)


def _own_keys(extra: dict[str, Any] | None) -> dict[str, Any]:
    return {"cache_control": extra["cache_control"]} if extra and "cache_control" in extra else {}


def _file_text(media: Media) -> str | None:
    """The text of a text file; None for what is none, is empty, or is not here."""
    if media.data is None or not media.mime.startswith("text/"):
        return None
    try:
        return base64.b64decode(media.data, validate=True).decode() or None
    except ValueError:
        return None


def _is_address(media: Media) -> bool:
    """Whether the media lies elsewhere: sounds and files are sent whole or under a host's file id, not by address."""
    return media.data is None and media.url is not None and "://" in media.url
