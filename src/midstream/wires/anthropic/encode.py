"""Conversation -> one Messages request, as exact as Anthropic wants it.

The history is written by MessagesWriter (and kept in the cache); the rest adds what stands around it: system prompt,
tools, tool choice, thinking, sampling, cache breakpoints. What would be refused is left out or bent, and noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, assert_never

from ...core.blocks import Block, Media, Opaque, Origin, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.errors import MissingReasoning
from ...core.patterns import late_pattern
from ...core.tools import ToolSpec
from ..encode_context import SAMPLING, EncodeContext, write_turns
from ..lenient_json import decode_leniently, json_text, json_value
from ..merged_messages import MergedMessages
from ..reasoning import is_own, thinking_on
from ..request import Request, RequestDraft, join_body
from .cache_marks import is_marked, mark, mark_head
from .everyday import MessagesLane
from .media import media_block
from .thinking import leaves_no_room, plan_thinking

# The newest version there is: what came later is turned on by betas.
VERSION = "2023-06-01"
# A model's words first are refused (field-guide/anthropic-messages.md#shape).
FIRST_WORDS = "(The conversation begins with the assistant.)"
# What a client may have said about a tool beside its schema. Anything else may be another host's, and would be refused.
_TOOL_KEYS = ("type", "cache_control", "defer_loading", "allowed_callers", "input_examples", "eager_input_streaming")
# Tools that this host runs are named with a date: `web_search_20250305`.
_BUILTIN = late_pattern(r".+_\d{8}\Z")


TEXTS_AS_THEY_ARE = True
"""See `wires/request_stencil.py`: a text that is not blank is sent unchanged and affects nothing else in the request."""


def encode_request(draft: RequestDraft) -> Request:
    options = draft.options
    # What changes the bytes of old turns; everything else stands before or behind them.
    key = (
        thinking_on(draft.dialect, options),
        options.missing_reasoning,
        options.foreign_thinking,
        options.tool_format,
    )
    return _MessagesRequest(draft, draft.history(MessagesWriter, *key)).build()


class _MessagesRequest:
    def __init__(self, draft: RequestDraft, writer: MessagesWriter) -> None:
        self.draft, self.writer = draft, writer
        self.dialect, self.options = draft.dialect, draft.options
        self.context = context = writer.context.around(draft.options)
        # A model without a control cannot be asked, so its rules for thinking do not apply.
        context.thinking = context.thinking and self.dialect.reasoning.control != "none"

    def build(self) -> Request:
        self._check_thinking()
        described = self._tools()
        # A choice without tools is refused.
        choice = self._choice() if described else {}
        plan = plan_thinking(self.context)
        body: dict[str, Any] = {"model": self.draft.model, "max_tokens": plan.max_tokens}
        system = self._system()
        # After system and tools are known: a mark goes on the last block of each.
        marked = self.options.cache and mark_head(described, system, self.writer.marks)
        if system:
            body["system"] = system
        if described:
            body["tools"] = described
        body.update(choice)
        body.update(plan.fields)
        body.update(self._sampling())
        self._format(body)
        user = self.context.user()
        if user is not None:
            body["metadata"] = {self.dialect.user_field: user}
        if self.options.stream:
            body["stream"] = True
        for extra in (self.dialect.extra_body, self.options.extra_body):
            _refine(body, extra or {})
        return self.draft.request(
            "/v1/messages",
            # `messages` comes last in the body, so that the history is one piece behind everything that may change.
            join_body(json_value(body)[:-1] + b',"messages":[', self._messages(marked), b"]}"),
            self.writer.context,
            self.context,
            headers={"anthropic-version": VERSION, **self._betas()},
        )

    def _betas(self) -> dict[str, str]:
        """Features asked for by name, where the host is the one that has them."""
        named = self.options.betas if "betas" in self.dialect.extras else ()
        return {"anthropic-beta": ",".join(named)} if named else {}

    def _check_thinking(self) -> None:
        """Thinking goes off where the history or the request would make it refused."""
        rules, writer, context = self.dialect.reasoning, self.writer, self.context
        if not context.thinking:
            return
        if (
            # Where blank signatures are taken, a placeholder has been written and nothing is missing.
            rules.required
            and rules.unsigned == "drop"
            and writer.loop_lacks_thinking
            # The tool loop is still running: the last message is the user's, with results.
            and writer.messages.role in ("user", "system")
        ):
            # "Expected `thinking` or `redacted_thinking`, but found `tool_use`"
            if self.options.missing_reasoning == "fail":
                raise MissingReasoning(
                    f"the last answer calls a tool and does not begin with thinking, which {self.dialect.name} requires "
                    "while thinking is on: set missing_reasoning to disable-thinking"
                )
            context.disable_thinking("the tool calls it continues from do not begin with this model's thinking")
        elif context.lacks_reasoning and self.options.missing_reasoning == "disable-thinking":
            context.disable_thinking("a turn of the history lacks the thinking that is required")
        if context.thinking and self.options.prefill is not None:
            context.disable_thinking("an answer cannot be prefilled while thinking")
        if context.thinking and leaves_no_room(context):
            context.disable_thinking(f"max_tokens {self.options.max_tokens} leaves no room for the least budget")

    def _messages(self, marked: bool) -> list[bytes]:
        messages = self.writer.messages
        last = messages.parts.copy()
        # A prefill that ends with white space is refused (field-guide/anthropic-messages.md#content).
        prefill = (self.options.prefill or "").rstrip()
        if messages.role == "assistant" and not prefill:
            # The same for a history that ends with the model's words.
            last[-1] = _trimmed(last[-1])
        elif messages.role in ("user", "system") and marked:
            last[-1] = mark(last[-1])
        return messages.all(last, encode_text(prefill) if prefill else None)

    def _system(self) -> str | list[dict[str, Any]]:
        system = self.draft.conversation.system
        if isinstance(system, str):
            if not system.strip():
                return ""
            # A mark can only stand on a block.
            return [{"type": "text", "text": system}] if self.options.cache else system
        kept = ("cache_control", "citations")
        return [
            {"type": "text", "text": part.text, **{k: v for k, v in (part.extra or {}).items() if k in kept}}
            for part in system
            if part.text.strip()
        ]

    def _tools(self) -> list[dict[str, Any]]:
        described: list[dict[str, Any]] = []
        for tool in self.draft.tools:
            if self.context.host_tool(tool) is not None:
                continue
            if tool.builtin is None:
                described.append(self._tool(tool))
            elif _BUILTIN.match(tool.builtin):
                described.append({"type": tool.builtin, "name": tool.name, **(tool.extra or {})})
            else:
                self.context.foreign_builtin(tool)
        return list(self.context.within_limit(described))

    def _tool(self, tool: ToolSpec) -> dict[str, Any]:
        described = self.context.declare(tool, schema_field="input_schema")
        if tool.strict is not None and self.dialect.strict_tools:
            described["strict"] = tool.strict
        return {**described, **{key: value for key, value in (tool.extra or {}).items() if key in _TOOL_KEYS}}

    def _choice(self) -> dict[str, Any]:
        options, dialect, context = self.options, self.dialect, self.context
        asked = options.tool_choice
        choice: dict[str, Any] = {}
        if asked in ("auto", "none"):
            choice["type"] = asked
        elif asked is not None:
            # Whoever asked for thinking keeps it, and the choice gives way; where nobody did, the choice counts.
            unasked = options.thinking is None and options.effort is None
            if (
                context.thinking
                and unasked
                and ("required" if asked == "required" else "named") in dialect.forced_choice
            ):
                context.disable_thinking(
                    "a forced tool choice is refused while thinking, and nobody asked for thinking"
                )
            kind = context.forced_choice(asked)
            choice["type"] = {"required": "any", "named": "tool"}.get(kind, kind)
            if kind == "named":
                choice["name"] = context.names.wire(asked)
        parallel = options.parallel_tool_calls
        # A choice of `none` takes no further fields, and `disable_parallel_tool_use: false` alone says nothing.
        if parallel is not None and choice.get("type") != "none" and (choice or not parallel):
            choice.setdefault("type", "auto")
            choice["disable_parallel_tool_use"] = not parallel
        return {"tool_choice": choice} if choice else {}

    def _sampling(self) -> dict[str, Any]:
        options, context = self.options, self.context
        fields: dict[str, Any] = {}
        for name in SAMPLING:
            value = getattr(options, name)
            if value is None:
                continue
            # Newer models take one of the two.
            if name == "top_p" and "temperature" in fields and self.dialect.exclusive_sampling:
                context.option_dropped("top_p", "top_p is refused beside temperature")
            # `takes` has told the caller.
            elif not context.takes(name):
                continue
            elif context.thinking and not _fits_thinking(name, value):
                context.option_dropped(name, f"{name} {value} is refused while thinking")
            elif name == "temperature" and value > 1:
                context.option_changed("temperature", f"temperature {value} is sent as 1, the most allowed")
                fields[name] = 1
            else:
                fields[name] = value
        if options.stop and context.takes("stop"):
            # Refused like any blank text.
            stops = [stop for stop in options.stop if stop.strip()]
            if len(stops) < len(options.stop):
                context.option_dropped("stop", "a stop sequence of white space only is refused")
            if stops:
                fields["stop_sequences"] = stops
        return fields

    def _format(self, body: dict[str, Any]) -> None:
        """A JSON schema for the whole answer; the wire knows no schema-less JSON mode."""
        kind, schema = self.context.answer_schema()
        if not kind:
            return
        if schema is None:
            self.context.option_dropped("response_format", f"response_format {kind} is not supported here")
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
        # `thinking` without a type would be refused, so a refinement of it goes only where thinking is asked for.
        elif name != "thinking" or not isinstance(value, dict) or "type" in value:
            body[name] = value


def encode_text(text: str) -> bytes:
    return b'{"type":"text","text":%b}' % json_text(text)


def encode_message(role: str, blocks: Sequence[bytes]) -> bytes:
    content = blocks[0] if len(blocks) == 1 else b",".join(blocks)
    return b'{"role":"%b","content":[%b]}' % (role.encode(), content)


def _encode_thinking(text: str, signature: str) -> bytes:
    return b'{"type":"thinking","thinking":%b,"signature":%b}' % (json_text(text), json_text(signature))


class MessagesWriter:
    """`marks` counts the cache breakpoints in the messages."""

    def __init__(self, context: EncodeContext) -> None:
        self.context = context
        self.messages = MergedMessages(context, encode_message, "assistant", encode_text(FIRST_WORDS))
        self.marks = 0
        # Whether the running tool loop begins with thinking is checked by the host for the first block of the message.
        self.loop_lacks_thinking = False  # the last message with calls does not open with thinking
        self._opens_with_thinking = False
        self._systems: list[tuple[int, Turn]] = []  # the turns of an open system message

    @property
    def size(self) -> int:
        return self.messages.size

    def clone(self) -> MessagesWriter:
        twin = copy(self)
        twin.context = self.context.clone()
        twin.messages = self.messages.clone(twin.context)
        return twin

    def lane(self) -> MessagesLane:
        bare_texts, bare_calls = not self._requires_thinking(False), not self._requires_thinking(True)
        return MessagesLane(self.context, self.messages, self._answered, bare_texts=bare_texts, bare_calls=bare_calls)

    def _requires_thinking(self, calls: bool) -> bool:
        """Whether an answer without thinking is given a blank block: where the reader requires one and takes it unsigned."""
        return self.context.dialect.reasoning.unsigned == "blank" and self.context.requires_reasoning(calls)

    def write(self, turns: Sequence[Turn], offset: int) -> None:
        write_turns(self, turns, offset)

    def human(self, turn: Turn) -> None:
        # A system message may only stand before an answer, so one that the user speaks
        # behind is taken back: it was written while nobody knew what comes next.
        self._withdraw_system()
        blocks = self._said(turn)
        if blocks:
            self.messages.say("user", blocks)
        else:
            self.context.blank_turn()

    def system(self, turn: Turn) -> None:
        """A system message stands between the user's and the assistant's, or last; anywhere else it goes in the user's name
        ("role 'system' must precede an 'assistant' message or end the array")."""
        if self.messages.role not in ("user", "system"):
            self.human(self.context.folded(turn))
            return
        blocks = self._said(turn)
        if blocks:
            effort = (turn.extra or {}).get("output_config")
            assert self.context.turn is not None
            self._systems = [*(self._systems if self.messages.role == "system" else ()), (self.context.turn, turn)]
            # Still open: whether it may stand here is known when the next turn comes.
            self.messages.say("system", blocks)
            self.messages.tail = b',"output_config":' + json_value(effort) if effort else b""
        else:
            self.context.blank_turn()

    def _withdraw_system(self) -> None:
        """The user speaks again after a system message: it becomes part of what the user says."""
        if self.messages.role != "system":
            return
        self.messages.reopen()
        context, marks = self.context, self.marks
        now = context.turn
        for context.turn, turn in self._systems:
            self.messages.say("user", self._said(context.folded(turn)))
        context.turn, self.marks = now, marks

    def _said(self, turn: Turn) -> list[bytes]:
        said = turn.blocks
        # The everyday message, before anything is looked at.
        if len(said) == 1 and type(said[0]) is Text and said[0].extra is None and not said[0].text.isspace():
            return [encode_text(said[0].text)] if said[0].text else []
        return self._content(said)

    def _content(self, blocks: Sequence[Block]) -> list[bytes]:
        """The blocks of a user message or of a tool result."""
        out: list[bytes] = []
        for block in blocks:
            match block:
                case Text():
                    self._text(block, out, None)
                case Media():
                    out.append(self._media(block))
                case Opaque():
                    self._opaque(block, out)
                case Thinking() | ToolCall() | ToolResponse():
                    self.context.misplaced(block)
                case _:
                    assert_never(block)
        return out

    # Blank text is refused here (field-guide/anthropic-messages.md#content), so it is left out and told.
    def _text(self, block: Text, out: list[bytes], origin: Origin | None) -> None:
        text = block.text
        if not text or text.isspace():
            if text:
                self.context.note("dropped", "text", "blank_text", "text of white space only is refused")
            return
        extra = block.extra
        if not extra:
            out.append(encode_text(text))
            return
        fields: dict[str, Any] = {"type": "text", "text": text}
        if extra.get("citations"):
            # A citation points into documents of its own request and host.
            if self.context.made_here(origin):
                fields["citations"] = extra["citations"]
            else:
                why = "citations can be sent only to the host that made them"
                self.context.note("dropped", "citations", "foreign_citations", why)
        if extra.get("cache_control"):
            fields["cache_control"] = extra["cache_control"]
            self.marks += 1
        out.append(json_value(fields))

    def _media(self, media: Media) -> bytes:
        found = self.context.readable(media)
        block = media_block(found) if found is not None else None
        if block is None:
            return encode_text(self.context.unreadable(media))
        self.marks += "cache_control" in block
        return json_value(block)

    def _opaque(self, block: Opaque, out: list[bytes]) -> None:
        if not self.context.made_here(block.origin) or not isinstance(block.data, dict):
            self.context.foreign_block(block)
            return
        self.marks += is_marked(block)
        out.append(json_value(block.data))

    def answer(self, turn: Turn) -> None:
        context, blocks = self.context, turn.blocks
        only = blocks[0] if len(blocks) == 1 else None
        everyday = not self._requires_thinking(False)
        if everyday and type(only) is Text and only.extra is None and only.text and not only.text.isspace():
            self._answered(opens=False, first=self.messages.role != "assistant", calls=False)
            self.messages.say("assistant", [encode_text(only.text)])
            return
        said: list[bytes] = []
        calls: list[bytes] = []
        # `opens`: the first block is thinking. `behind`: something followed a call.
        thinks = opens = behind = False
        for block in turn.blocks:
            before = len(said)
            match block:
                case Text():
                    self._text(block, said, turn.origin)
                # Gathered apart: calls go last in the message, since their results must follow at once.
                case ToolCall():
                    calls.append(self._call(block))
                case Thinking():
                    if self._thinking(block, said):
                        thinks = True
                        opens = opens or before == 0
                case Opaque():
                    self._opaque(block, said)
                case Media() | ToolResponse():
                    context.misplaced(block, "an assistant message")
                case _:
                    assert_never(block)
            behind = behind or (bool(calls) and len(said) > before)
        if (said or calls) and not thinks and self._requires_thinking(bool(calls)):
            said.insert(0, _encode_thinking(context.missing_reasoning(), ""))
        if not said and not calls:
            context.blank_turn()
            return
        if behind:
            # Refused else: "`tool_use` ids were found without `tool_result` blocks immediately after".
            context.note("adapted", "turn", "reordered_blocks", "what followed the tool calls moved before them")
        self._answered(opens=opens, first=self.messages.role != "assistant", calls=bool(calls))
        self.messages.say("assistant", said + calls)

    def _answered(self, *, opens: bool, first: bool, calls: bool) -> None:
        """Take in whether an answer opens with thinking, if it is the first of its message, and whether it calls."""
        if first:
            self._opens_with_thinking = opens
        self.loop_lacks_thinking = calls and not self._opens_with_thinking

    def _thinking(self, block: Thinking, said: list[bytes]) -> bool:
        """Write thinking where it may go back; whether a thinking block was written."""
        context = self.context
        rules = context.dialect.reasoning
        own = is_own(block, context.dialect, context.model)
        blank = rules.unsigned == "blank"
        # As it came, whatever is in it.
        if own and block.redacted and block.encrypted:
            said.append(b'{"type":"redacted_thinking","data":%b}' % json_text(block.encrypted))
            return True
        # Signed, or on a host that takes a blank signature (field-guide/hosts.md#kimi-host-by-host).
        if own and (block.signature or blank):
            signature = block.signature or ""
            said.append(_encode_thinking(block.text if block.text or signature else rules.placeholder, signature))
            return True
        fate = context.foreign_thinking(block, keeps=blank, unsigned=own)
        if fate == "keep":
            said.append(_encode_thinking(block.text, ""))
        elif fate == "text":
            said.append(encode_text(block.text))
        return fate == "keep"

    def _call(self, call: ToolCall) -> bytes:
        context = self.context
        arguments = context.arguments(call)
        tail = b"}"
        extra = call.extra if call.provider == context.dialect.provider else None
        if extra:
            self.marks += "cache_control" in extra
            tail = b"," + json_value(extra)[1:]
        return b'{"type":"tool_use","id":%b,"name":%b,"input":%b%b' % (
            json_text(context.ids.resolve_tool_call_id(call)),
            json_text(context.names.wire(call.name)),
            # Not encoded again: the arguments are the text of an object already.
            arguments.encode(),
            tail,
        )

    def results(self, blocks: Sequence[Block]) -> None:
        results: list[bytes] = []
        moved: list[bytes] = []
        for response in blocks:
            assert isinstance(response, ToolResponse)
            results.append(self._result(response, moved))
        self._withdraw_system()
        # Results first in their message, then whatever had to move behind them
        # (field-guide/anthropic-messages.md#pairing).
        self.messages.say("user", results + moved)

    def _result(self, response: ToolResponse, moved: list[bytes]) -> bytes:
        call_id = self.context.ids.resolve_tool_response_id(response)
        fields = [b'{"type":"tool_result","tool_use_id":' + json_text(call_id)]
        content = response.content
        if len(content) == 1 and type(content[0]) is Text and not content[0].extra:
            # A result may have no content at all, but not blank text.
            if content[0].text.strip():
                fields.append(b'"content":' + json_text(content[0].text))
        elif content:
            parts = self._content(self._error_content(response, moved) if response.is_error else content)
            if parts:
                fields.append(b'"content":[' + b",".join(parts) + b"]")
        if response.is_error:
            fields.append(b'"is_error":true')
        if response.extra is not None and is_marked(response):
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
                why = "only text may be sent in an error result; the rest follows after it"
                self.context.note("adapted", "media", "moved_media", why)
                moved += self._content([part])
        return kept
