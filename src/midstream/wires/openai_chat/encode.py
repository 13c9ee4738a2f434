"""Conversation -> one chat request, as exact as the host wants it.

The history is written by ChatWriter (and kept in the cache); the rest adds what stands around it: system prompt, tools,
tool choice, thinking, sampling. What a host would refuse is left out or bent, and noted.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, assert_never

from msgspec import Raw
from msgspec.structs import replace

from ...core.blocks import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResponse, Turn
from ...core.dialect import Dialect
from ...core.tools import ToolSpec, freeform_input
from ..encode_context import SAMPLING, EncodeContext, result_text
from ..lenient_json import json_text, json_value
from ..media import MEDIA_FOLLOWS, audio_format, image_detail, is_address, text_of_file
from ..reasoning import is_own, thinking_on
from ..request import Request, RequestDraft, empty_conversation, join_body, merge_body
from .everyday import ChatLane
from .thinking import thinking_fields

_ANSWER = b'{"role":"assistant"'
TEXTS_AS_THEY_ARE = True
"""See `wires/request_stencil.py`: a text that is not blank is sent unchanged and affects nothing else in the request."""


def encode_request(draft: RequestDraft) -> Request:
    options = draft.options
    # All that changes how old turns are written. Sampling or tools are not here: they stand around the history, so a
    # caller may change them without losing the cache.
    key = (
        thinking_on(draft.dialect, options), options.missing_reasoning, options.foreign_thinking, options.tool_format,
        options.keep_thinking,
    )  # fmt: skip
    return _ChatRequest(draft, draft.history(ChatWriter, *key)).build()


class _ChatRequest:
    def __init__(self, draft: RequestDraft, writer: ChatWriter) -> None:
        self.draft, self.writer = draft, writer
        self.dialect, self.options = draft.dialect, draft.options
        self.context = writer.context.around(draft.options)

    def build(self) -> Request:
        messages = self._messages()
        # Only the history knows whether a placeholder was needed, so this comes after it.
        if self.context.lacks_reasoning and self.options.missing_reasoning == "disable-thinking":
            self._disable_thinking("a turn of the history lacks the reasoning that is required")
        choice, tools = self._choice(self.draft.tools)
        tail = [b"]"]
        # Tools that only another host has are dropped, and then nothing may be
        # left: an empty list is refused (field-guide/openai-chat.md#shape).
        declared = encode_tools(tools, self.context) if tools else b"[]"
        if declared != b"[]":
            tail.append(b'"tools":' + declared)
        sampling = self._sampling()
        body = {**choice, **sampling, **thinking_fields(self.context, sampling.get(self.dialect.max_tokens_field))}
        if self.options.stream:
            body["stream"] = True
            if self.dialect.stream_usage:
                body["stream_options"] = {"include_usage": True}
        # The caller's own fields last: whoever writes them knows the host.
        merge_body(body, self.dialect.extra_body, self.options.extra_body)
        if body:
            # The body is put together as bytes around the history, which is encoded already.
            tail.append(json_value(body)[1:-1])
        return self.draft.request(
            self.dialect.path or "/chat/completions",
            join_body(b'{"model":%b,"messages":[' % json_text(self.draft.model), messages, b",".join(tail) + b"}"),
            self.writer.context,
            self.context,
        )

    def _messages(self) -> list[bytes]:
        messages: list[bytes] = []
        system = self.draft.conversation.system
        role = self.dialect.system_role.encode()
        if isinstance(system, str):
            if system:
                messages.append(b'{"role":"%b","content":%b}' % (role, json_text(system)))
        elif system:
            parts = [_text_part(part) for part in system if part.text]
            # A list of one plain part is a string to every host, and some take nothing else.
            if len(parts) == 1 and len(parts[0]) == 2:
                messages.append(b'{"role":"%b","content":%b}' % (role, json_text(parts[0]["text"])))
            elif parts:
                messages.append(b'{"role":"%b","content":%b}' % (role, json_value(parts)))
        messages += self.writer.messages
        prefill = self.options.prefill
        if prefill and prefill.strip():
            beginning = {"role": "assistant", "content": prefill}
            if self.context.echo == "always" and self.context.requires_reasoning(False):
                beginning[self.dialect.reasoning.field] = self.context.missing_reasoning()
            messages.append(json_value({**beginning, **self._prefill_flag()}))
        elif prefill:
            # Blank messages are refused (field-guide/openai-chat.md#content-beside-calls).
            self.context.option_dropped("prefill", "prefill: an answer cannot begin with white space alone here")
        if not messages:
            raise empty_conversation()
        if self.dialect.marks_last_answer and not (prefill and prefill.strip()) and messages[-1].startswith(_ANSWER):
            # Other hosts go on with a conversation that ends so; this one wants to be told that it may.
            messages[-1] = b"%b,%b" % (messages[-1][:-1], json_value(self._prefill_flag())[1:])
        return messages

    # Moonshot and Mistral want the beginning of an answer marked as one (field-guide/openai-chat.md#roles).
    def _prefill_flag(self) -> dict[str, Any]:
        return {self.dialect.prefill_flag: True} if self.dialect.prefill_flag else {}

    def _disable_thinking(self, why: str) -> None:
        if self.context.disable_thinking(why):
            self.options = self.context.options = replace(self.options, thinking="off", effort=None)

    def _choice(self, tools: Sequence[ToolSpec]) -> tuple[dict[str, Any], Sequence[ToolSpec]]:
        """`tool_choice` in a form the host takes, and the tools left after bending it."""
        context, dialect = self.context, self.dialect
        fields: dict[str, Any] = {}
        if not tools:
            return fields, tools
        tools = context.within_limit(tools)
        # Kimi's `$web_search` works only without thinking (field-guide/kimi.md#tools).
        if context.thinking and dialect.builtin_stops_thinking and any(is_builtin(tool, dialect) for tool in tools):
            self._disable_thinking("built-in tools work only without it")
        choice = self.options.tool_choice
        if choice in ("auto", "none"):
            fields["tool_choice"] = choice
        elif choice is not None:
            tools = self._forced_choice(choice, tools, fields)
        return {**fields, **context.parallel_calls()}, tools

    def _forced_choice(self, choice: str, tools: Sequence[ToolSpec], fields: dict[str, Any]) -> Sequence[ToolSpec]:
        kind = "required" if choice == "required" else "named"
        context, dialect = self.context, self.dialect
        # What the caller forced matters more than that the model thinks.
        if context.thinking and kind not in dialect.forced_choice_thinking and kind in dialect.forced_choice:
            self._disable_thinking(f"a {kind} tool choice is refused while thinking")
        allowed = dialect.forced_choice_thinking if context.thinking else dialect.forced_choice
        only = [tool for tool in tools if tool.name == choice]
        # Where a name is refused, the same can be said by leaving only that tool.
        if kind not in allowed and "required" in allowed and only:
            why = f"a named tool choice is refused here; {choice} is sent as the only tool instead"
            context.note("adapted", "option", "tool_choice_changed", why)
            tools, choice = only, "required"
        kind = context.forced_choice(choice)
        if kind == "named":
            # The two kinds of tools have two words for the choice too.
            word = "custom" if any(tool.kind == "freeform" for tool in only) else "function"
            fields["tool_choice"] = {"type": word, word: {"name": context.names.wire(choice)}}
        else:
            fields["tool_choice"] = dialect.required_word if kind == "required" else kind
        return tools

    def _sampling(self) -> dict[str, Any]:
        options, context, dialect = self.options, self.context, self.dialect
        fields: dict[str, Any] = {}
        limit = context.token_limit()
        if limit is not None:
            fields[dialect.max_tokens_field] = limit
        fields |= context.sampling((*SAMPLING, "stop"), {"seed": dialect.seed_field})
        if options.response_format is not None and context.takes("response_format"):
            fields["response_format"] = options.response_format
        user = context.user()
        if user is not None:
            fields[dialect.user_field] = user
        return fields


def is_builtin(tool: ToolSpec, dialect: Dialect) -> bool:
    """Whether the host runs this tool itself."""
    prefix = dialect.builtin_prefix
    return bool(tool.builtin) or (bool(prefix) and tool.name.startswith(prefix))


def encode_tools(tools: Sequence[ToolSpec], context: EncodeContext) -> bytes:
    dialect = context.dialect
    encoded: list[dict[str, Any]] = []
    for tool in tools:
        # Without a schema: the host knows its own tools.
        if is_builtin(tool, dialect):
            encoded.append({"type": "builtin_function", "function": {"name": tool.builtin or tool.name}})
            continue
        given = context.host_tool(tool)
        if given is not None:
            encoded += [given] if given else []
            continue
        if tool.kind == "freeform":
            encoded.append({"type": "custom", "custom": _freeform(tool, context)})
            continue
        function = context.declare(tool)
        # Hosts that do not know the field refuse it (field-guide/hosts.md#small-switches-of-chat-hosts).
        if tool.strict is not None and dialect.strict_tools:
            function["strict"] = tool.strict
        encoded.append({"type": "function", "function": function})
    return json_value(encoded)


def _freeform(tool: ToolSpec, context: EncodeContext) -> dict[str, Any]:
    """A freeform tool; its grammar is an object inside the format's, which it is not on the Responses wire."""
    described: dict[str, Any] = {"name": context.declared_name(tool)}
    if tool.description:
        described["description"] = tool.description
    if tool.grammar is not None:
        grammar = {"syntax": tool.grammar.syntax, "definition": tool.grammar.definition}
        described["format"] = {"type": "grammar", "grammar": grammar}
    return described


# The bytes of a body are joined for each request; joining old messages once keeps that short. First and last stand
# alone because a request puts something before the one and behind the other.
_LOOSE = 1024
"""So many messages are joined into one piece: the body of a long history is then joined of few."""
_MEDIA_PARTS = frozenset({"image_url", "video_url", "input_audio", "file"})


class ChatWriter:
    """`messages` are finished JSON objects, of long histories many in one piece with commas between them; the first and the
    last stand alone."""

    def __init__(self, context: EncodeContext) -> None:
        self.context = context
        self.messages: list[bytes] = []
        self._size = 0
        self._loose = 1  # where the messages begin that stand alone

    @property
    def size(self) -> int:
        return self._size

    def clone(self) -> ChatWriter:
        twin = copy(self)
        twin.context = self.context.clone()
        twin.messages = self.messages.copy()
        return twin

    def lane(self) -> ChatLane:
        return ChatLane(self.context, self.messages, self._take)

    def write(self, turns: Sequence[Turn], offset: int) -> None:
        messages, context = self.messages, self.context
        before = len(messages)
        bare_texts = not context.requires_reasoning(False)
        for context.turn, turn in enumerate(turns, offset):
            blocks = turn.blocks
            only = blocks[0] if len(blocks) == 1 else None
            if turn.speaker == "human":
                if type(only) is Text and only.extra is None and only.text and not only.text.isspace():
                    role = json_text(turn.role) if turn.role else b'"user"'
                    messages.append(b'{"role":%b,"content":%b}' % (role, json_text(only.text)))
                else:
                    self._said(turn.role or "user", blocks)
            elif turn.speaker == "ai":
                # The everyday answer: with one text and nothing of its host's, it is the same for nearly every reader.
                if bare_texts and type(only) is Text and turn.extra is None and only.text and not only.text.isspace():
                    messages.append(b'{"role":"assistant","content":%b}' % json_text(only.text))
                else:
                    self._assistant(turn)
            elif turn.speaker == "tool":
                self._results(blocks)
            else:
                self._said(turn.role or "system", blocks, turn.tools)
        # Gathered and then taken, so that size and joining are seen to in one place.
        written = messages[before:]
        del messages[before:]
        self._take(written)

    def _take(self, written: Sequence[bytes]) -> None:
        messages = self.messages
        messages += written
        self._size += sum(map(len, written))
        if len(messages) - self._loose > _LOOSE:
            messages[self._loose : -1] = [b",".join(messages[self._loose : -1])]
            self._loose += 1

    def _said(self, role: str, blocks: Sequence[Block], tools: Sequence[ToolSpec] = ()) -> None:
        """A message of the user or the system; a system message may declare tools where the dialect says so."""
        parts = self._content_parts(blocks)
        # A blank message is refused by many hosts. One that declares tools may have no words.
        blank = not any(part.get("type") != "text" or part["text"].strip() for part in parts)
        declared = tools if self.context.dialect.mid_tools else ()
        if blank and not declared:
            self.context.blank_turn()
            return
        # A name on the only text is the speaker's.
        extra = blocks[0].extra if len(blocks) == 1 and type(blocks[0]) is Text else None
        name = extra.get("name") if extra else None
        message: dict[str, Any] = {"role": role}
        if declared:
            plain = [self.context.plain_tool(tool) for tool in declared]
            message["tools"] = Raw(encode_tools(plain, self.context))
        if not blank:
            message["content"] = self._compact(parts)
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
                        parts.append(_text_part(block))
                case Media():
                    parts.append(self._media_part(block))
                case Opaque():
                    if self.context.is_own_part(block):
                        parts.append(block.data)
                    else:
                        self.context.foreign_block(block)
                case Thinking() | ToolCall() | ToolResponse():
                    self.context.misplaced(block)
                case _:
                    assert_never(block)
        return parts

    def _media_part(self, media: Media) -> dict[str, Any]:
        kind = media.kind
        # Before it is asked whether the host takes files: plain text needs no file.
        if kind == "file":
            text = text_of_file(media)
            if text is not None:  # hosts take PDFs as files at most; text any of them reads
                return {"type": "text", "text": text}
        found = self.context.readable(media)
        # Images and videos are sent whole or by address; sounds and files whole or under a host's file id.
        if found is None or (found.data is None and is_address(found.url or "") != (found.kind in ("image", "video"))):
            return {"type": "text", "text": self.context.unreadable(media)}
        media, kind = found, found.kind
        if kind in ("image", "video"):
            url = media.url if media.data is None else f"data:{media.mime};base64,{media.data}"
            return {"type": f"{kind}_url", f"{kind}_url": {"url": url, **image_detail(media)}}
        if kind == "audio" and media.data is not None:
            return {"type": "input_audio", "input_audio": {"data": media.data, "format": audio_format(media)}}
        file: dict[str, Any] = {}
        if media.name:
            file["filename"] = media.name
        # Only PDFs, as the one kind of file that hosts take.
        elif media.mime == "application/pdf" and media.data is not None:
            file["filename"] = "document.pdf"  # data without a name is refused
        if media.data is not None:
            file["file_data"] = f"data:{media.mime};base64,{media.data}"
        elif media.url is not None:
            file["file_id"] = media.url
        return {"type": "file", "file": file}

    def _assistant(self, turn: Turn) -> None:
        context, dialect = self.context, self.context.dialect
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
                    (own if is_own(block, dialect, context.model) else foreign).append(block)
                case Opaque():
                    context.foreign_block(block)
                case Media() | ToolResponse():
                    context.misplaced(block, "an assistant message")
                case _:
                    assert_never(block)
        echo = context.echo
        # Reasoning goes back only while the model thinks: otherwise the field is refused or ignored.
        echoes = context.thinking and (echo == "always" or (echo == "calls" and bool(calls)))
        text = "".join(texts)
        kept = own
        if foreign:
            # The caller's policy may keep it, where the field is sent at all.
            fates = [(context.foreign_thinking(block, keeps=echoes), block) for block in foreign]
            kept = [*own, *[block for fate, block in fates if fate == "keep"]]
            said = [block.text for fate, block in fates if fate == "text"]
            text = "\n".join(said) + "\n\n" + text if said else text
        blank = not text or text.isspace()
        # Nothing to say, and reasoning alone is no message.
        if blank and not calls:
            context.blank_turn()
            return
        pieces = [_ANSWER]
        if not blank:
            pieces.append(b',"content":' + json_text(text))
        elif dialect.blank_content != "omit":
            pieces.append(b',"content":null' if dialect.blank_content == "null" else b',"content":""')
        if turn.extra and "name" in turn.extra:
            pieces.append(b',"name":' + json_value(turn.extra["name"]))
        if echoes:
            pieces.append(self._reasoning(turn, kept, own, bool(calls)))
        else:
            for block in own:
                context.not_echoed(block)
        if calls:
            # `extra_content` is this wire's; a turn of another wire has other things under `extra`.
            same_wire = turn.origin is None or turn.origin.wire == dialect.wire
            pieces.append(b',"tool_calls":[' + b",".join([self._call(call, same_wire) for call in calls]) + b"]")
        pieces.append(b"}")
        self.messages.append(b"".join(pieces))

    def _reasoning(self, turn: Turn, kept: list[Thinking], own: list[Thinking], calls: bool) -> bytes:
        """The reasoning fields of an assistant message, with their leading comma."""
        context, rules = self.context, self.context.dialect.reasoning
        fields = b""
        details = turn.extra.get("reasoning_details") if turn.extra else None
        # Details carry signatures, so they go to the very model only.
        if details and rules.details and context.made_here(turn.origin, same_model=True):
            fields += b',"reasoning_details":' + json_value(details)
        field = rules.field
        if kept:
            # Under the field that it came in, where the host reads more than one (field-guide/reasoning.md#fields).
            if own and not rules.fixed_field and own[0].field in rules.fields:
                field = own[0].field
            text = "".join([block.text for block in kept])
        elif context.requires_reasoning(calls):
            text = context.missing_reasoning()
        else:
            return fields
        return fields + b',"%b":%b' % (field.encode(), json_text(text))

    def _call(self, call: ToolCall, same_wire: bool) -> bytes:
        context = self.context
        own = call.extra is not None and call.provider == context.dialect.provider
        # A dialect without freeform tools has been sent a function instead; what gets here is understood.
        if call.kind == "freeform":
            return b'{"id":%b,"type":"custom","custom":{"name":%b,"input":%b}}' % (
                json_text(context.ids.resolve_tool_call_id(call)),
                json_text(context.names.wire(call.name)),
                json_text(freeform_input(call)),
            )
        arguments = context.arguments(call)
        # Text on this wire; an object where a host imitates another.
        encoded = arguments.encode() if context.dialect.arguments_object else json_text(arguments)
        extra = b',"extra_content":' + json_value(call.extra) if own and same_wire else b""
        name = context.names.wire(call.name)
        # Some schemes spell the name in the id: it must be the one the reader knows.
        call_id = context.ids.resolve_tool_call_id(call if name == call.name else ToolCall(call.id, name))
        return b'{"id":%b,"type":"function","function":{"name":%b,"arguments":%b}%b}' % (
            json_text(call_id), json_text(name), encoded, extra,
        )  # fmt: skip

    def _results(self, blocks: Sequence[Block]) -> None:
        context = self.context
        media: list[dict[str, Any]] = []
        for response in blocks:
            assert isinstance(response, ToolResponse)
            content = self._result_content(response, media)
            name = b""
            if context.dialect.tool_result_name and response.name:
                name = b',"name":' + json_text(context.names.wire(response.name))
            self.messages.append(
                b'{"role":"tool","tool_call_id":%b%b,"content":%b}'
                % (json_text(context.ids.resolve_tool_response_id(response)), name, content)
            )
        # After all results: a user message between them would part a
        # call from its result (field-guide/openai-chat.md#images).
        if media:
            self.messages.append(
                json_value({"role": "user", "content": [{"type": "text", "text": MEDIA_FOLLOWS}, *media]})
            )

    def _result_content(self, response: ToolResponse, media: list[dict[str, Any]]) -> bytes:
        content = response.content
        if len(content) == 1 and type(content[0]) is Text:
            return json_text(result_text(response, (content[0].text,)))
        parts: list[dict[str, Any]] = []
        for spelled in self._content_parts(self.context.result_parts(response)):
            if spelled.get("type") in _MEDIA_PARTS and self.context.moves_media():
                media.append(spelled)
            else:
                parts.append(spelled)
        # A plain string wherever there is nothing but text: many hosts take nothing else in a tool message.
        if all(part.get("type") == "text" for part in parts):
            return json_text(result_text(response, [part["text"] for part in parts], bool(media)))
        return json_value(parts)


def _text_part(text: Text) -> dict[str, Any]:
    mark = text.extra.get("cache_control") if text.extra else None
    return {"type": "text", "text": text.text, **({"cache_control": mark} if mark is not None else {})}
