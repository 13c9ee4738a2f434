"""Conversation -> one chat request, as exact as the host wants it.

The history is written by ChatWriter (and kept in the cache); this module adds what stands around it: system prompt, tools,
tool choice, thinking, sampling. What a host would refuse is left out or bent, and noted.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from ...core.blocks import Block, Conversation, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.dialect import Dialect, Options
from ...core.errors import InvalidHistory, MissingReasoning
from ...core.handoff import Action, Note
from ...core.ids import ToolIdMapper, scheme_for
from ...core.tools import ToolSpec
from ..encode_context import EncodeContext
from ..lenient_json import json_text, json_value
from ..placeholders import MEDIA_FOLLOWS, SEE_MEDIA, call_arguments, error_text, omitted
from ..reasoning import belongs_to, is_own, same_origin, thinking_on
from ..request import SAMPLING, Request, join_body, merge_body, sampling_fields, token_limit
from ..tool_declarations import ToolNames, declare, within_limit
from .thinking import CONTROLS


def encode_chat(asking: EncodeContext) -> Request:
    return _ChatRequest(asking, asking.history(ChatWriter, *history_key(asking.options))).build()


def history_key(options: Options) -> tuple[Any, ...]:
    """What of the options changes how history is written."""
    return (
        options.thinking, options.effort is None, options.missing_reasoning, options.foreign_thinking, options.tool_format,
    )  # fmt: skip


class _ChatRequest:
    def __init__(self, asking: EncodeContext, writer: ChatWriter) -> None:
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
