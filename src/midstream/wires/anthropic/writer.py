"""Lawful turns -> Anthropic messages: alternating roles, each block encoded once.

The last message stays open as a list of encoded blocks, so that a turn of the same role joins it and encoding stays
O(new turn). Tool results stand first in their user message; tool calls stand last in their assistant message; blank text is
never sent; thinking goes back only to who made it; blocks without a form here go, with a Note.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from ...core.blocks import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.dialect import Dialect, Options
from ...core.errors import MissingReasoning
from ...core.handoff import Action, Note
from ...core.ids import ToolIdMapper, scheme_for
from ..json_border import json_text, json_value
from ..reasoning import belongs_to, is_own, same_origin, thinking_on
from ..stand_ins import call_arguments, omitted
from ..tool_names import ToolNames
from .media import media_block

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
