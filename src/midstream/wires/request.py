"""Requests: the draft that a wire encodes, the HTTP request it becomes, and the one a client sent to us."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from ..core.blocks import Conversation, Opaque, Text, Turn, Value
from ..core.dialect import Dialect, Options, TextCalls, TextFormat
from ..core.errors import InvalidHistory, InvalidValue, LocalError, MidstreamError, RemoteError
from ..core.handoff import Note
from ..core.history import CallIdentity
from ..core.modules import late_module
from ..core.patterns import late_pattern
from ..core.tools import ToolSpec, declared_tools, join_tools
from .decode_context import DecodeContext
from .encode_context import EncodeContext
from .history_cache import HistoryCache, W, write_history
from .lenient_json import json_text
from .plain_tools import plain_dialect, spelled_choice
from .registry import get_wire
from .stream_decoder import StreamDecoder, decode_whole
from .tool_format import resolve_tool_format

if TYPE_CHECKING:
    from . import answer_schema, parsing, text_tools
    from .text_tools import TextTools
else:
    # Few requests ask for a schema, begin with instructions, or have their tools as text.
    answer_schema = late_module(".answer_schema", globals())
    parsing = late_module(".parsing", globals())
    text_tools = late_module(".text_tools", globals())


class Request(Value, frozen=True):
    """One HTTP request without its secrets, and the notes of what had to change.

    `path` is relative to the endpoint's base URL. `tool_names` maps a name on the wire back to the tool's own. `dialect` is
    the one that reads the answer: the path that was chosen, and how the prompt left off.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    notes: tuple[Note, ...] = ()
    tool_names: dict[str, str] | None = None
    stream: bool = True
    wire: str = ""
    model: str = ""
    # Not always the dialect of the draft: a prompt may have left off inside thinking.
    dialect: Dialect | None = None
    tools: Sequence[ToolSpec] = ()
    text_calls: TextCalls = "execute"
    text_format: TextFormat | None = None
    """The format in which tools were declared as plain text, and in which calls come back; None for the wire's own way."""
    answer_tool: str = ""
    """The tool whose call is the answer's text, where a schema is asked for so."""
    begins: tuple[tuple[int, int], ...] = ()
    """Of a raw prompt, which is one text: where the words of a turn begin in it, as (turn, characters before it)."""
    relay_to: str = ""
    """The wire of the client that judges the answer (see `Options.relay_to`)."""

    def decoder(self, turn_key: str) -> StreamDecoder:
        """A decoder for the answer to this request."""
        return self._decode_context(turn_key).decoder()

    def read_answer(self, body: bytes, turn_key: str, provider: str = "") -> Turn:
        """The whole answer to this request, in one body. An error the provider sent is raised; an answer that is only thinking
        has `failure` set."""
        context = self._decode_context(turn_key)
        return context.text_answer(body) or decode_whole(context.decoder(), body, provider=provider)

    def _decode_context(self, turn_key: str) -> DecodeContext:
        if self.dialect is None:
            raise LocalError("this request has no dialect; make requests with encode_request")
        return DecodeContext(
            self.dialect,
            turn_key,
            self.model,
            self.tools,
            self.tool_names or {},
            self.text_calls,
            self.text_format,
            self.answer_tool,
            relay_to=self.relay_to,
        )


class RequestDraft(msgspec.Struct, frozen=True):
    """What a request is made from."""

    conversation: Conversation
    dialect: Dialect
    model: str
    tools: Sequence[ToolSpec] = ()
    options: Options = Options()
    cache: HistoryCache | None = None
    known: Sequence[ToolSpec] = ()
    """All tools that the model can call, as they are to us: those of the request and those of the conversation."""
    text_tools: TextTools | None = None
    """Set where tools go over plain text: the wire's encoder then sees none."""
    notes: Sequence[Note] = ()
    """Of what had to change before the wire's encoder saw it."""
    words: tuple[Turn, ...] = ()
    """What is said behind the conversation in this request alone: no later one repeats it, so no cache keeps it."""
    answer_tool: str = ""

    def context(self) -> EncodeContext:
        return EncodeContext(self.dialect, self.options, self.model, self.lead)

    # Where instructions cannot stand in the conversation, those at its very beginning are part of the system prompt
    # without changing their meaning: nothing was said before them.
    @property
    def lead(self) -> int:
        """How many turns at the beginning go with the system prompt: system turns, where the reader takes none inside the
        conversation or none before the user's first."""
        dialect = self.dialect
        if dialect.mid_system and not dialect.first_speaker_user:
            return 0
        for number, turn in enumerate(self.conversation.turns):
            # An instruction with anything but text in it would lose the rest in a system prompt.
            if not turn.is_instruction or not all(type(block) is Text for block in turn.blocks):
                return number
        return len(self.conversation.turns)

    def history(self, make_writer: Callable[[EncodeContext], W], *key: Hashable) -> W:
        """The turns through a writer; `key` is what of the options changes how they are written.

        The dialect goes in by identity (two may share a name, and reasoning that belongs to one host must not reach the
        other); its writer keeps it alive, so no other can have its id.
        """
        # All that the bytes of the history depend on. Too much in it costs misses, too little sends wrong bytes.
        place = (self.dialect.wire, id(self.dialect), self.model, self.lead, *key)
        turns, text = self.conversation.turns, self.text_tools
        if text is None:
            writer = write_history(turns, lambda: make_writer(self.context()), place, self.cache)
        else:
            # The same turns as text are other bytes.
            place = (*place, text.name)
            writer = write_history(
                turns, lambda: text_tools.TextToolWriter(make_writer(self.context()), text.format), place, self.cache
            ).inner
        if self.words:
            # A clone, because these words belong to this request alone:
            # in the checkpoint, the next request would repeat them.
            writer = writer.clone()
            writer.write(self.words, len(turns))
        return writer

    def shown(self, context: EncodeContext) -> tuple[Conversation, Sequence[int]]:
        """The conversation for an encoder that writes no history, in the reader's terms, with its calls and results as text
        where they go so; and the place of each turn."""
        conversation = self.conversation.add(*self.words)
        if self.text_tools is not None:
            return self.text_tools.rewrite(conversation, context)
        turns, places = context.plain_turns(conversation.turns, 0)
        return replace(conversation, turns=tuple(turns)), places

    def request(
        self,
        path: str,
        body: bytes,
        history: EncodeContext,
        around: EncodeContext,
        *,
        headers: dict[str, str] | None = None,
        reader: Dialect | None = None,
        begins: tuple[tuple[int, int], ...] = (),
    ) -> Request:
        """The HTTP request, with the notes of both contexts; `reader` is the dialect of the answer, where it is another."""
        dialect, options = self.dialect, self.options
        around.kept_thinking()
        return Request(
            "POST",
            name_model(path, self.model),
            # The dialect's headers go last: a host's own words win over the wire's.
            {"content-type": "application/json", **(headers or {}), **(dialect.headers or {})},
            body,
            notes=(*history.notes, *around.notes, *self.notes),
            tool_names=around.names.changed,
            stream=options.stream,
            wire=dialect.wire,
            model=self.model,
            dialect=reader or dialect,
            tools=tuple(self.known or (self.tools if self.text_tools is None else self.text_tools.tools)),
            text_calls=options.text_calls,
            text_format=None if self.text_tools is None else self.text_tools.name,
            answer_tool=self.answer_tool,
            begins=begins,
            relay_to=options.relay_to,
        )

    def encode(self) -> Request:
        """The request, by the dialect's wire."""
        encode: Callable[[RequestDraft], Request] = get_wire(self.dialect.wire).room("encode").encode_request
        # The schema first: it may bring a tool of its own, whose format is settled next.
        asked = self.options.response_format
        needs_plan = self.options.schema is not None or (asked is not None and asked.get("type") == "json_object")
        draft = self._with_answer_plan() if needs_plan else self
        return encode(draft._settled())

    def _with_answer_plan(self) -> RequestDraft:
        """The draft with all that its reader is told about the form of the answer."""
        tools = join_tools(self.tools, [tool for _, tool in declared_tools(self.conversation.turns)])
        if self.options.schema is not None:
            plan = answer_schema.plan_answer(self.dialect, self.options, tools)
        else:
            turns = self.conversation.turns
            # An answer that has begun in the caller's own words cannot be told anything before it goes on.
            begun = bool(self.options.prefill) or bool(turns and turns[-1].speaker == "ai")
            found = None if begun else answer_schema.plan_json(self.dialect, self.options, tools)
            if found is None:
                return self
            plan = found
        return replace(
            self,
            options=plan.options,
            # With an answer tool, other tools are not offered (see `_by_tool`); with words or a mode, they stay.
            tools=plan.tools if plan.tool else self.tools,
            words=plan.words,
            answer_tool=plan.tool,
            notes=(*self.notes, *plan.notes),
        )

    def _settled(self) -> RequestDraft:
        """The draft in the tool format that this dialect and the caller agree on, and in terms that its reader knows."""
        choice = resolve_tool_format(self.dialect, self.options.tool_format)
        if choice.text is None:
            draft = self._in_own_terms()
            notes = (*draft.notes, choice.note) if choice.note is not None and draft.tools else draft.notes
            # Nothing changed: the draft itself, so that the everyday request costs no copy.
            if choice.ids == self.options.tool_format and notes is draft.notes:
                return draft
            return replace(draft, options=replace(draft.options, tool_format=choice.ids), notes=notes)
        # Over plain text no tool is freeform, has a namespace or is
        # declared in between: the dialect says so for all that follows.
        draft = replace(self, dialect=plain_dialect(self.dialect))._in_own_terms()
        text = text_tools.TextTools.of(choice.text, draft.tools)
        options, words, changes = text.option_words(draft.options)
        told = (choice.note,) if choice.note is not None and text.tools else ()
        return replace(
            draft,
            conversation=text.declared(draft.conversation, words),
            tools=(),
            options=options,
            text_tools=text,
            notes=(*draft.notes, *told, *text.notes, *changes),
        )

    def _in_own_terms(self) -> RequestDraft:
        """The draft as its reader can be told of it: with the tools that the conversation declares, all of them plain where
        it has nothing else, and with the system turns at the beginning in the system prompt where they can be nowhere else."""
        changed: dict[str, Any] = {}
        turns = self.conversation.turns
        declared = declared_tools(turns) if self.cache is None else self.cache.declared_tools(turns)
        # Most requests have neither.
        if declared or any(tool.namespace or tool.kind != "function" for tool in self.tools):
            changed = self._tools_in_own_terms(declared)
        lead = self.lead
        if lead:
            parts = self.conversation.system
            texts = (
                [Text(parts)] if isinstance(parts, str) and parts else list(parts) if not isinstance(parts, str) else []
            )
            for turn in self.conversation.turns[:lead]:
                texts += [block for block in turn.blocks if type(block) is Text and block.text.strip()]
            changed["conversation"] = replace(self.conversation, system=parsing.system_prompt(texts))
        return replace(self, **changed) if changed else self

    def _tools_in_own_terms(self, declared: Sequence[tuple[int, ToolSpec]]) -> dict[str, Any]:
        context = EncodeContext(self.dialect, self.options, self.model)
        known = join_tools(self.tools, [tool for _, tool in declared])
        offered: Sequence[ToolSpec] = self.tools
        if not self.dialect.mid_tools:
            turns = self.conversation.turns
            unsaid = [(number, tool) for number, tool in declared if not _goes_back(turns[number], context)]
            offered = join_tools(offered, [tool for _, tool in unsaid]) if unsaid else offered
            # A declaration in the conversation replaces an earlier one of the same name, and the note says so.
            before = {tool.qualified_name for tool in self.tools}
            for context.turn, tool in unsaid:
                why = f"{tool.qualified_name} is declared in the conversation; sent with the tools of the request"
                why += ", in place of the one before" if tool.qualified_name in before else ""
                before.add(tool.qualified_name)
                context.note("adapted", "tool", "tool_declared", why)
            context.turn = None
        # By the name that the host will be told.
        choice = spelled_choice(self.options.tool_choice, known, self.dialect)
        options = self.options if choice == self.options.tool_choice else replace(self.options, tool_choice=choice)
        plain = tuple([context.plain_tool(tool) for tool in offered])
        return {"tools": plain, "known": known, "notes": context.notes, "options": options}


def _goes_back(turn: Turn, context: EncodeContext) -> bool:
    """Whether the tools of a turn came in an item that only its own host reads, and this is it."""
    return any(type(block) is Opaque and context.made_here(block.origin) for block in turn.blocks)


class RequestedAnswer(Value, frozen=True):
    """What a client wants of its answer, beside what it asks of the model. Whether it wants a stream is in the options."""

    usage: bool = False
    """Token counts in the stream, where the wire leaves that to the client."""
    thinking: bool | None = None
    """Whether it wants to see the reasoning; None if it does not say."""
    store: bool | None = None
    include: tuple[str, ...] = ()
    betas: tuple[str, ...] = ()
    """Features it has turned on, by name. Those that nobody knows are kept, and mean nothing."""
    echo: dict[str, Any] | None = None
    """The fields of its request that this wire's answers repeat."""
    billing: str | None = None
    """A line that a client puts before its instructions for the host's accounts, and that no model should read."""


class ParsedRequest(msgspec.Struct, frozen=True):
    """A request body, ours or a stranger's, as a conversation, tools and options, and what it wants of the answer."""

    conversation: Conversation
    model: str = ""
    tools: tuple[ToolSpec, ...] = ()
    options: Options = Options()
    requested: RequestedAnswer = RequestedAnswer()


# Header names of two vendors for the same thing; names that nobody knows have to be passed over
# (field-guide/clients.md#what-breaks-gateways).
_BETA_HEADERS = ("anthropic-beta", "openai-beta")


def parse_request(
    wire: str,
    body: bytes,
    *,
    provider: str = "",
    headers: Mapping[str, str] | None = None,
    identity: CallIdentity | None = None,
    model: str = "",
    stream: bool = False,
) -> ParsedRequest:
    """A stranger's request by its wire's parser: every value has its type, or it is InvalidHistory.

    Of the headers, whose names may be in any case, those that turn features on are read. `model` and `stream` are for wires
    that say them in the path; on any other the body says them. `identity` is the rule for the ids of calls.
    """
    try:
        known = get_wire(wire)
        path = {"model": model, "stream": stream} if known.names_in_path else {}
        room = known.room("parse")
        # Most short requests are a few texts: typed at once, where the wire has such a way.
        # Escapes may spell half a character, which only the parser mends.
        short: Callable[[bytes, str], ParsedRequest | None] | None = getattr(room, "text_request", None)
        parsed = short(body, provider) if short is not None and b"\\u" not in body else None
        if parsed is None:
            parsed = room.parse_request(body, provider=provider, identity=identity, **path)
            # Written out and read in again: what a parser built from a
            # stranger's body is checked against the types once, here.
            parsed = msgspec.convert(msgspec.to_builtins(parsed), ParsedRequest)
        return _with_betas(parsed, headers) if headers else parsed
    # The peer is a client here, and its mistake is in the request.
    except (InvalidValue, RemoteError) as error:
        raise InvalidHistory(f"not a valid {wire} request: {error}") from None
    except MidstreamError:
        raise
    # Everything a parser of lenient shapes can trip over. A stranger's body must never be a crash of ours.
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise InvalidHistory(f"not a valid {wire} request: {error}") from None


def _with_betas(parsed: ParsedRequest, headers: Mapping[str, str]) -> ParsedRequest:
    said = [value for name, value in headers.items() if name.lower() in _BETA_HEADERS]
    names = [name.strip() for value in said for name in value.split(",")]
    betas = tuple(dict.fromkeys([*parsed.requested.betas, *[name for name in names if name]]))
    requested = msgspec.structs.replace(parsed.requested, betas=betas)
    return msgspec.structs.replace(parsed, requested=requested)


def below_system(conversation: Conversation, messages: Sequence[bytes]) -> list[bytes]:
    """The messages below the system prompt, for wires where that is a message with the role `system`."""
    system = conversation.system_text
    below = [b'{"role":"system","content":%b}' % json_text(system), *messages] if system else list(messages)
    if not below:
        raise empty_conversation()
    return below


def empty_conversation() -> InvalidHistory:
    return InvalidHistory("the conversation is empty: add a message from the user first")


# A model's name is a path segment, and hosts allow slashes and colons in it.
_UNSAFE = late_pattern(r"[^A-Za-z0-9._~/:@+-]")


def name_model(path: str, model: str) -> str:
    """A dialect's path with the model's name where it says `{model}`."""
    return path.replace("{model}", _UNSAFE.sub(_escaped, model)) if "{model}" in path else path


def _escaped(match: re.Match[str]) -> str:
    return "".join([f"%{byte:02X}" for byte in match[0].encode("utf-8", "replace")])


def merge_body(body: dict[str, Any], *extras: dict[str, Any] | None) -> None:
    """The caller's own fields go last; an object joins the object that is there (`thinking` gains `keep`)."""
    for extra in extras:
        for key, value in (extra or {}).items():
            # Joined one level deep: `thinking` and `keep` come from two places and belong together.
            known = body.get(key)
            body[key] = {**known, **value} if isinstance(known, dict) and isinstance(value, dict) else value


def join_body(head: bytes, items: list[bytes], tail: bytes) -> bytes:
    """Head, items with commas between them, and tail, in one copy, for a long history is most of a body. Uses `items` up."""
    if not items:
        return head + tail
    # Head and tail are put into the first and last item, so that the join is the only copy of a long body.
    items[0] = head + items[0]
    items[-1] += tail
    return b",".join(items)
