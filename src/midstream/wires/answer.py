"""What the answer rooms of all wires share: who asked, how the host writes, ids, stop words, usage and errors.

An answer room turns events into the bytes of its wire at once, one event at a time, and whole turns into bodies. It does
no I/O and keeps no time: the response's id and date are given. How one host differs from another on the same wire is
`Habits`, a value, so a double and the gateway speak through one writer. What a wire has no place for is left out, with a note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from ..core.blocks import Media, Opaque, ToolCall, Turn, Value
from ..core.errors import MidstreamError, ProviderError, RetriesExhausted
from ..core.events import BlockEvent, Event, TextDelta, ToolCallStart
from ..core.handoff import Note, NoteCode
from ..core.ids import STRATEGIES, IdScheme, ToolIdMapper
from ..core.reduce import has_output
from ..core.surrogates import mended
from ..core.tools import ToolSpec, parse_arguments
from .lenient_json import arguments_text, encode_json_lines, json_text, json_value
from .registry import get_wire
from .request import ParsedRequest
from .stop_reasons import settled_stop

AnswerIds: TypeAlias = IdScheme | Literal["", "own", "none"]
"""Which ids calls are written under: the wire's own scheme, one by name, the events' ids as they are, or none at all."""
UsagePlace: TypeAlias = Literal["chunk", "finish", "choice", "x_groq"]
"""Where a chat stream counts tokens: in a chunk of its own, beside the finish reason, inside the choice, or as Groq does."""


class Habits(Value, frozen=True):
    """How one host writes what its wire leaves open."""

    # Where a default is empty, the wire's own way is meant.
    ids: AnswerIds = ""
    whole_calls: bool = False
    """A call's arguments come in one piece, with its name."""
    calls_together: bool = False
    """On a chat stream: all calls of an answer come in its last chunk, beside the finish reason."""
    thinking_parts: bool = False
    """On a chat wire: reasoning stands among the parts of the content, not under a key of its own."""
    # A client that knows a host expects its field (field-guide/reasoning.md#fields).
    reasoning_field: str = ""
    """The key that reasoning stands under; empty for the wire's usual one."""
    usage: UsagePlace = "chunk"
    finish: dict[str, str] | None = None
    """The host's words for our stop reasons, where they are not the wire's."""
    completion: str = "openai"
    """On a raw completion: the flavour of its chunks."""
    text_format: str = "kimi"
    """On a raw completion: how the model writes calls."""
    starts_inside: bool = False
    """On a raw completion: the prompt has already opened the thinking."""
    pieces: int = 0
    """On a raw completion: how many characters of a call come at once; 0 for all of them."""


class AnswerContext(msgspec.Struct, frozen=True):
    """Everything an answer depends on beside its events. `model` is the name that the client knows it by."""

    model: str
    response_id: str = "answer"
    created: int = 0
    """Seconds since 1970."""
    request_id: str | None = None
    thinking: bool = True
    """Whether the client wants to see reasoning."""
    usage: bool = True
    """Whether the client wants token counts in a stream, where the wire leaves that to it."""
    include: tuple[str, ...] = ()
    """What the client asked to have included (`reasoning.encrypted_content`)."""
    array: bool = False
    """Gemini without `alt=sse`: the stream is one JSON array."""
    input_tokens: int = 0
    """About how many tokens the request holds, for wires that say so before the answer."""
    elapsed: int = 0
    """How long the answer took, in nanoseconds, for wires that tell; 0 if nobody measured it."""
    tools: Sequence[ToolSpec] = ()
    """The tools as the client declared them: a free-form tool is called in its own form."""
    echo: dict[str, Any] | None = None
    """Fields of the client's request, for wires whose answers repeat them."""
    # Kimi counts calls over the whole conversation, so the ids of the history have to be known.
    ids: ToolIdMapper | None = None
    """The ids of this conversation so far, for schemes that count; the answer's calls are added."""
    habits: Habits = Habits()


def answer_to(
    parsed: ParsedRequest,
    *,
    response_id: str,
    created: int,
    model: str | None = None,
    include: tuple[str, ...] | None = None,
    **fields: Any,
) -> AnswerContext:
    """The context of the answer to a client's request: what it asked for, and the fields that only the caller knows."""
    asked = parsed.requested
    return AnswerContext(
        parsed.model if model is None else model,
        response_id,
        created,
        thinking=asked.thinking is not False,
        usage=asked.usage,
        include=asked.include if include is None else include,
        tools=parsed.tools,
        echo=asked.echo,
        **fields,
    )


class AnswerWriter(Protocol):
    """Writes one answer. `notes` tells what the wire had no place for."""

    media_type: str
    notes: list[Note]

    def event(self, event: Event) -> bytes:
        """The bytes that this event adds to the stream; none for what the wire does not say by itself."""
        ...

    def body(self, turn: Turn) -> bytes:
        """The whole answer in one JSON body."""
        ...

    def error(self, error: MidstreamError, *, mid_stream: bool = False) -> tuple[int, bytes]:
        """The status and the body of a refusal; in mid-stream, the status it would have had and the last bytes of the stream."""
        ...

    def keep_alive(self) -> bytes:
        """Bytes that say nothing, between two events, and that the wire's clients pass over."""
        ...


# A gateway writes what it reads, thousands of events at a time: the frame around a text is the same for all of them.
def write_events(writer: AnswerWriter, events: Sequence[Event]) -> bytes:
    """What `writer.event` gives for each, together. Runs of text, which are nearly all of a stream, are framed in one go."""
    frame: Callable[[], tuple[bytes, bytes]] | None = getattr(writer, "text_frame", None)
    if frame is None or len(events) < _FEW:
        return b"".join([writer.event(event) for event in events])
    written: list[bytes] = []
    # No loop of ours over the events of a run: there are a hundred in one read of a quick host.
    for kind, run in groupby(events, type):
        # Only text: every other event may change the frame.
        if kind is TextDelta:
            written.append(_framed([*map(_DELTA, run)], *frame()))
        else:
            written += [writer.event(event) for event in run]
    return b"".join(written)


# Below this the frame costs more than it saves.
_FEW = 4
_DELTA = attrgetter("delta")


def _framed(texts: list[str], before: bytes, behind: bytes) -> bytes:
    try:
        lines = encode_json_lines(texts)
    except UnicodeEncodeError:  # half a surrogate pair
        lines = b"".join([json_text(text) + b"\n" for text in texts])
    # No text that is written as JSON holds a line break of its own.
    return before + lines[:-1].replace(b"\n", behind + before) + behind


def make_writer(wire: str, context: AnswerContext) -> AnswerWriter:
    """A writer for one answer on this wire."""
    make: Callable[[AnswerContext], AnswerWriter] = get_wire(wire).room("answer").make_writer
    return make(context)


class CallIds:
    """The ids of an answer's calls: ones that the client's wire accepts, and that lead back to the canonical ones."""

    __slots__ = ("_mapper", "_own")

    def __init__(self, context: AnswerContext, scheme: str) -> None:
        chosen = context.habits.ids or scheme
        self._own = chosen == "own"
        self._mapper: ToolIdMapper | None = None
        if chosen not in ("own", "none"):
            self._mapper = context.ids or STRATEGIES[chosen].create_mapper()

    def of(self, call: ToolCall | ToolCallStart) -> str | None:
        """None where the host gives no ids."""
        if self._own:
            return call.id
        # Only id and name matter to a mapper.
        return None if self._mapper is None else self._mapper.resolve_tool_call_id(ToolCall(call.id, call.name))


def answer_notes(turn: Turn) -> list[Note]:
    """What there is to say of an answer that goes on to a client as it came, though a Session would take it for a failure."""
    if turn.stop_reason in ("end_turn", "tool_use") and not has_output(turn.blocks):
        why = "the model ended its turn with neither text nor a tool call; its answer is passed on as it came"
        return [Note("kept", "answer", "empty_answer", why)]
    return []


class LeftOut:
    """The notes of what a wire has no place for."""

    __slots__ = ("notes", "wire")

    def __init__(self, wire: str) -> None:
        self.wire = wire
        self.notes: list[Note] = []

    def block(self, block: Media | Opaque) -> bytes:
        what = "media" if isinstance(block, Media) else block.kind
        return self.note(what, "foreign_block", f"an answer on the {self.wire} wire has no place for it")

    def note(self, what: str, code: NoteCode, why: str) -> bytes:
        self.notes.append(Note("dropped", what, code, why))
        return b""

    def stop_reason(self, reason: str, word: str) -> None:
        why = f"the answer ended with {reason[:100]!r}, which the {self.wire} wire has no word for: told as {word!r}"
        self.notes.append(Note("adapted", "stop_reason", "stop_reason_changed", why))


def own_block(event: BlockEvent, wire: str) -> Opaque | None:
    """The block, if it was made on this wire and can be said again as it was."""
    block = event.block
    return block if isinstance(block, Opaque) and block.origin is not None and block.origin.wire == wire else None


def json_arguments(call: ToolCall) -> msgspec.Raw:
    """The arguments as a JSON object, number for number; what is not one is told as such."""
    text = arguments_text(call.arguments)
    # Raw, not parsed and written again: long numbers would lose digits.
    return msgspec.Raw(mended(text).encode() if text is not None else json_value(parse_arguments(call)))


_NO_REASON = ("", "unknown", "stop_sequence")
"""Stop reasons that say no more than that the answer ended."""


def stop_word(
    turn: Turn,
    words: Mapping[str, str],
    habits: Habits,
    left_out: LeftOut,
    hosts: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The wire's word for how a turn ended.

    A host of this very wire said it already: its own word goes on if it is one that ours do not cover, or one of `hosts`, the
    wire's other words with what they mean to us. Elsewhere a reason without a word is a plain end, or calls, with a note.
    """
    calls = len(turn.tool_calls)
    # A double speaks like its host, a gateway like the wire.
    spoken = {**words, **habits.finish} if habits.finish else words
    reason = settled_stop(turn.stop_reason, calls)
    is_own = turn.origin is not None and turn.origin.wire == left_out.wire
    if is_own and turn.raw_stop is not None and hosts.get(turn.raw_stop) == reason:
        return turn.raw_stop
    word = spoken.get(reason)
    if word is not None:
        return word
    plain = spoken["tool_use" if calls else "end_turn"]
    if reason in _NO_REASON:
        return plain
    if is_own:
        return reason
    left_out.stop_reason(reason, plain)
    return plain


def sse(data: bytes, name: str = "", end: bytes = b"\n\n") -> bytes:
    """One server-sent event."""
    return b"event: %b\ndata: %b%b" % (name.encode(), data, end) if name else b"data: %b%b" % (data, end)


COMMENT = b": keep-alive\n\n"
"""A server-sent comment: parsers of event streams pass over it."""


class Refusal(Value, frozen=True):
    """An error in the words of the wires: HTTP status, OpenAI's type and code, Anthropic's type, Google's status."""

    status: int
    type: str
    code: str | None
    anthropic: str
    google: str
    message: str = ""
    own_code: str = ""
    """A code that we gave the error ourselves; another host's codes mean nothing to this client."""


# What a client's retry logic reads: status and type decide whether it waits, gives up or compacts
# (field-guide/names.md#errors-by-wire). One row for each kind, for all wires at once, so that an error means the same
# whichever wire a client speaks. 499 is nginx's word for a client that has gone.
_REFUSALS = {
    kind: Refusal(*words)
    for kind, words in {
        "bad_request": (400, "invalid_request_error", None, "invalid_request_error", "INVALID_ARGUMENT"),
        "context_too_long": (400, "invalid_request_error", "context_length_exceeded", "invalid_request_error", "INVALID_ARGUMENT"),
        "content_filtered": (400, "invalid_request_error", "content_filter", "invalid_request_error", "INVALID_ARGUMENT"),
        "unauthorized": (401, "authentication_error", "invalid_api_key", "authentication_error", "UNAUTHENTICATED"),
        "not_found": (404, "invalid_request_error", "model_not_found", "not_found_error", "NOT_FOUND"),
        "quota_exceeded": (429, "insufficient_quota", "insufficient_quota", "billing_error", "RESOURCE_EXHAUSTED"),
        "rate_limited": (429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"),
        "overloaded": (503, "server_error", "server_is_overloaded", "overloaded_error", "UNAVAILABLE"),
        "store_unavailable": (503, "server_error", "server_error", "api_error", "UNAVAILABLE"),
        "provider": (502, "server_error", "server_error", "api_error", "INTERNAL"),
        "remote": (502, "server_error", "server_error", "api_error", "INTERNAL"),
        "transport": (502, "server_error", "server_error", "api_error", "UNAVAILABLE"),
        "timed_out": (504, "server_error", "server_error", "timeout_error", "DEADLINE_EXCEEDED"),
        "aborted": (499, "server_error", "server_error", "api_error", "CANCELLED"),
        "midstream": (500, "server_error", "server_error", "api_error", "INTERNAL"),
    }.items()
}  # fmt: skip
# Kinds that a client cannot tell apart. What is not here or above is told as its base class is.
_SAME = {
    "local": "bad_request",
    "unknown_model": "not_found",
    "missing_key": "unauthorized",
    "idle_timeout": "timed_out",
    "config": "midstream",
    "store": "midstream",
}
# These two statuses have words of their own on two wires.
_BY_STATUS = {403: ("permission_error", "PERMISSION_DENIED"), 413: ("request_too_large", "INVALID_ARGUMENT")}


def refusal_of(error: MidstreamError) -> Refusal:
    """What a client is told of an error: the upstream's status and words, in terms that every wire has."""
    # The client is told of the last attempt: it says what stands in the way now.
    if isinstance(error, RetriesExhausted) and error.attempts:
        return refusal_of(error.attempts[-1])
    # Along the classes: a subclass without a row of its own is told as the nearest that has one.
    kinds = [each.kind for each in type(error).__mro__ if isinstance(each, type) and issubclass(each, MidstreamError)]
    row = next(_REFUSALS[name] for kind in kinds if (name := _SAME.get(kind, kind)) in _REFUSALS)
    changed: dict[str, Any] = {"message": mended(error.summary) or "the answer failed, and no reason was given"}
    status = error.status if isinstance(error, ProviderError) else None
    if isinstance(error, ProviderError) and error.code and error.provider is None:
        changed["code"] = error.code  # one of our own words, not a host's
    if status is not None and 400 <= status < 600:
        # The host's status is kept: a client that knows the host acts on it.
        changed["status"] = status
        if status in _BY_STATUS:
            changed["anthropic"], changed["google"] = _BY_STATUS[status]
    if isinstance(error, ProviderError) and error.provider is None and error.code:
        changed["code"] = changed["own_code"] = error.code
    return msgspec.structs.replace(row, **changed)


def openai_refusal(error: MidstreamError, *, mid_stream: bool) -> tuple[int, bytes]:
    """The status and the body of an error for a client of OpenAI's chat or completions; an event once a stream has begun."""
    refusal = refusal_of(error)
    body = openai_error(refusal)
    return refusal.status, sse(body) if mid_stream else body


def openai_error(refusal: Refusal) -> bytes:
    """OpenAI's error object, which many hosts share."""
    told = {"message": refusal.message, "type": refusal.type, "param": None, "code": refusal.code}
    return json_value({"error": told})
