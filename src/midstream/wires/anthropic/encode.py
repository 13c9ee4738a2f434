"""Conversation -> one Messages request, as exact as Anthropic wants it.

The history is written by MessagesWriter (and kept in the cache); this module adds what stands around it: system prompt,
tools, tool choice, thinking, sampling, cache breakpoints. What would be refused is left out or bent, and noted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, assert_never

from ...core.blocks import Block, Conversation, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.dialect import Dialect, Options
from ...core.errors import InvalidHistory, MissingReasoning
from ...core.handoff import Action, Note
from ...core.ids import ToolIdMapper, scheme_for
from ...core.tools import ToolSpec
from ..encode_context import EncodeContext
from ..lenient_json import decode_leniently, json_text, json_value
from ..placeholders import call_arguments, omitted
from ..reasoning import belongs_to, is_own, same_origin, thinking_on
from ..request import SAMPLING, Request, join_body
from ..tool_declarations import ToolNames, declare, within_limit
from .media import media_block
from .thinking import plan_thinking

VERSION = "2023-06-01"
MAX_MARKS = 4
"""Anthropic takes so many cache breakpoints in one request."""
_EPHEMERAL = {"type": "ephemeral"}
_TOOL_KEYS = ("type", "cache_control", "defer_loading", "allowed_callers", "input_examples", "eager_input_streaming")
_BUILTIN = re.compile(r".+_\d{8}\Z")


def encode_messages(asking: EncodeContext) -> Request:
    writer = asking.history(MessagesWriter, *_history_key(asking.dialect, asking.options))
    return _MessagesRequest(asking, writer).build()


def _history_key(dialect: Dialect, options: Options) -> tuple[Any, ...]:
    """What of the options changes how history is written."""
    return thinking_on(dialect, options), options.missing_reasoning, options.foreign_thinking, options.tool_format


class _MessagesRequest:
    def __init__(self, asking: EncodeContext, writer: MessagesWriter) -> None:
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


CACHE_MARK = b',"cache_control":{"type":"ephemeral"}}'
FIRST_WORDS = "(The conversation begins with the assistant.)"


def encode_text(text: str) -> bytes:
    return b'{"type":"text","text":%b}' % json_text(text)


def encode_message(role: str, blocks: Sequence[bytes]) -> bytes:
    content = blocks[0] if len(blocks) == 1 else b",".join(blocks)
    return b'{"role":"%b","content":[%b]}' % (role.encode(), content)


class MessagesWriter:
    """`closed` are finished messages; `role` and `blocks` are the open one. `marks` counts cache breakpoints in both."""

    def __init__(self, dialect: Dialect, options: Options, model: str) -> None:
        self.notes: list[Note] = []
        self.closed: list[bytes] = []
        self.role = ""
        self.blocks: list[bytes] = []
        self.marks = 0
        self.lacks_reasoning = False  # a stand-in for thinking had to be used
        self.loop_lacks_thinking = False  # the last message with calls does not open with thinking
        self.names = ToolNames(dialect.limits)
        self._opens_with_thinking = False
        self._dialect = dialect
        self._options = options
        self._model = model
        rules = dialect.reasoning
        self._demands = rules.required and rules.unsigned == "blank" and thinking_on(dialect, options)
        scheme = scheme_for(dialect.ids, options.tool_format)
        self._ids: ToolIdMapper = scheme.create_mapper()
        self._size = 0
        self._turn = 0

    @property
    def size(self) -> int:
        return self._size + sum(map(len, self.blocks))

    def write(self, turns: Sequence[Turn], offset: int) -> None:
        for number, turn in enumerate(turns, offset):
            self._turn = number
            if turn.speaker == "human":
                self._human(turn)
            elif turn.speaker == "ai":
                self._assistant(turn)
            else:
                self._results(turn.blocks)

    def _note(self, action: Action, what: str, why: str) -> None:
        self.notes.append(Note(action, what, why, self._turn))

    def _say(self, role: str, blocks: Sequence[bytes]) -> None:
        """Add blocks to the open message, or begin the next one."""
        if role != self.role:
            if self.role:
                message = encode_message(self.role, self.blocks)
                self.closed.append(message)
                self._size += len(message)
            elif role == "assistant" and self._dialect.first_speaker_user:
                self._note("adapted", "turn", "the first message must be the user's; a line of text stands in")
                self.closed.append(encode_message("user", [encode_text(FIRST_WORDS)]))
            self.role = role
            self.blocks = []
        self.blocks += blocks

    def _human(self, turn: Turn) -> None:
        role = "user"
        if turn.role in ("system", "developer"):
            if self._dialect.mid_system and (
                self.closed or self.blocks
            ):  # the first message is the user's all the same
                role = "system"
            else:
                self._note("adapted", "turn", f"a {turn.role} message inside the conversation is sent as the user's")
        said = turn.blocks
        if len(said) == 1 and type(said[0]) is Text and said[0].extra is None and not said[0].text.isspace():
            blocks = [encode_text(said[0].text)] if said[0].text else []
        else:
            blocks = self._content(said)
        if blocks:
            self._say(role, blocks)
        else:
            self._note("dropped", "turn", "it holds nothing but blank text")

    def _content(self, blocks: Sequence[Block]) -> list[bytes]:
        """The blocks of a user message or of a tool result."""
        out: list[bytes] = []
        for block in blocks:
            match block:
                case Text():
                    self._text(block, out, own=False)
                case Media():
                    out.append(self._media(block))
                case Opaque():
                    self._opaque(block, out)
                case Thinking() | ToolCall() | ToolResponse():
                    tag = str(block.__struct_config__.tag)
                    self._note("dropped", tag, "it cannot stand in a user message")
                case _:
                    assert_never(block)
        return out

    def _text(self, block: Text, out: list[bytes], *, own: bool) -> None:
        text = block.text
        if not text or text.isspace():
            if text:
                self._note("dropped", "text", "text of white space only is refused here")
            return
        extra = block.extra
        if not extra:
            out.append(encode_text(text))
            return
        fields: dict[str, Any] = {"type": "text", "text": text}
        if extra.get("citations"):
            if own:
                fields["citations"] = extra["citations"]
            else:
                self._note("dropped", "citations", "they belong to the host that made them")
        if extra.get("cache_control"):
            fields["cache_control"] = extra["cache_control"]
            self.marks += 1
        out.append(json_value(fields))

    def _media(self, media: Media) -> bytes:
        block = media_block(media, self._dialect.media)
        if block is None:
            self._note("dropped", "media", f"{media.mime or media.kind} is not read here; a line of text stands in")
            return encode_text(omitted(media))
        self.marks += "cache_control" in block
        return json_value(block)

    def _opaque(self, block: Opaque, out: list[bytes]) -> None:
        if block.origin is None or not same_origin(block.origin, self._dialect) or not isinstance(block.data, dict):
            self._note("dropped", "opaque", f"{block.kind} belongs to the host that made it")
            return
        self.marks += _is_marked(block)
        out.append(json_value(block.data))

    def _assistant(self, turn: Turn) -> None:
        own_host = turn.origin is not None and same_origin(turn.origin, self._dialect)
        said: list[bytes] = []
        calls: list[bytes] = []
        thinks = opens = behind = False
        for block in turn.blocks:
            before = len(said)
            match block:
                case Text():
                    self._text(block, said, own=own_host)
                case ToolCall():
                    calls.append(self._call(block))
                case Thinking():
                    if self._thinking(block, said):
                        thinks = True
                        opens = opens or before == 0
                case Opaque():
                    self._opaque(block, said)
                case Media():
                    self._note("dropped", "media", "an assistant message carries no media on this wire")
                case ToolResponse():
                    self._note("dropped", "tool_response", "it cannot stand in an assistant message")
                case _:
                    assert_never(block)
            behind = behind or (bool(calls) and len(said) > before)
        if calls and not thinks and self._demands:
            self._stand_in_thinking(said)
        if not said and not calls:
            self._note("dropped", "turn", "the answer holds nothing this wire can say")
            return
        if behind:
            # Refused else: "`tool_use` ids were found without `tool_result` blocks immediately after".
            self._note("adapted", "turn", "what stood behind tool calls moved before them")
        if self.role != "assistant":
            self._opens_with_thinking = opens
        self._say("assistant", said + calls)
        self.loop_lacks_thinking = bool(calls) and not self._opens_with_thinking

    def _thinking(self, block: Thinking, said: list[bytes]) -> bool:
        """Write thinking where it may go back; whether a thinking block was written."""
        rules = self._dialect.reasoning
        own = is_own(block, self._dialect, self._model)
        blank = rules.unsigned == "blank"
        if own and block.redacted and block.encrypted:
            said.append(b'{"type":"redacted_thinking","data":%b}' % json_text(block.encrypted))
            return True
        if (own and (block.signature or blank)) or (blank and block.text and self._options.foreign_thinking == "keep"):
            signature = block.signature or "" if own else ""
            text = block.text if block.text or signature else rules.placeholder
            said.append(b'{"type":"thinking","thinking":%b,"signature":%b}' % (json_text(text), json_text(signature)))
            return True
        if self._options.foreign_thinking == "text" and block.text.strip():
            self._note("adapted", "thinking", "thinking that cannot be proved here is sent as plain text")
            said.append(encode_text(block.text))
            return False
        self._note("dropped", "thinking", "it has no signature" if own else belongs_to(block))
        return False

    def _stand_in_thinking(self, said: list[bytes]) -> None:
        """A turn with calls and no thinking, for a reader that demands it of every such turn."""
        if self._options.missing_reasoning == "fail":
            raise MissingReasoning(
                f"turn {self._turn} calls a tool without thinking, which {self._dialect.name} demands while thinking is "
                "on: set missing_reasoning to placeholder or disable-thinking"
            )
        self.lacks_reasoning = True
        self._note("adapted", "thinking", "the thinking this reader demands is missing; a placeholder stands in")
        text = json_text(self._dialect.reasoning.placeholder)
        said.insert(0, b'{"type":"thinking","thinking":%b,"signature":""}' % text)

    def _call(self, call: ToolCall) -> bytes:
        arguments = call_arguments(call, self._note)
        tail = b"}"
        extra = call.extra if call.provider == self._dialect.provider else None
        if extra:
            self.marks += "cache_control" in extra
            tail = b"," + json_value(extra)[1:]
        return b'{"type":"tool_use","id":%b,"name":%b,"input":%b%b' % (
            json_text(self._ids.resolve_tool_call_id(call)),
            json_text(self.names.wire(call.name)),
            arguments.encode(),
            tail,
        )

    def _results(self, responses: Sequence[Block]) -> None:
        blocks: list[bytes] = []
        moved: list[bytes] = []
        for response in responses:
            assert isinstance(response, ToolResponse)
            blocks.append(self._result(response, moved))
        self._say("user", blocks + moved)

    def _result(self, response: ToolResponse, moved: list[bytes]) -> bytes:
        fields = [b'{"type":"tool_result","tool_use_id":' + json_text(self._ids.resolve_tool_response_id(response))]
        content = response.content
        if len(content) == 1 and type(content[0]) is Text and not content[0].extra:
            if content[0].text.strip():
                fields.append(b'"content":' + json_text(content[0].text))
        elif content:
            parts = self._content(self._error_content(response, moved) if response.is_error else content)
            if parts:
                fields.append(b'"content":[' + b",".join(parts) + b"]")
        if response.is_error:
            fields.append(b'"is_error":true')
        if _is_marked(response):
            assert response.extra is not None
            self.marks += 1
            fields.append(b'"cache_control":' + json_value(response.extra["cache_control"]))
        return b",".join(fields) + b"}"

    def _error_content(self, response: ToolResponse, moved: list[bytes]) -> list[Block]:
        """Only text may stand in a result marked as an error; images follow behind the results."""
        kept: list[Block] = []
        for part in response.content:
            if type(part) is Text:
                kept.append(part)
            else:
                self._note("adapted", "media", "only text may stand in an error result; the rest follows behind it")
                moved += self._content([part])
        return kept


def _is_marked(block: Block) -> bool:
    extra = block.data if type(block) is Opaque else getattr(block, "extra", None)
    return isinstance(extra, dict) and bool(extra.get("cache_control"))
