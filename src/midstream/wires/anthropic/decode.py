"""Anthropic answers -> events: streams and whole bodies through one reading of their content blocks.

Blocks open and close as the host says. What the core has no word for (server-side tools and their results, compaction) is
gathered with its deltas and kept whole; citations stay with their text. Tool input comes at the block's start or by
deltas; deltas win, and go to the open block of their index; without one, to the newest. Arguments for a call that has ended are
malformed. The end is a stop reason or `message_stop`; EOF without either is `truncated`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ...core.blocks import Opaque, Turn, Usage
from ...core.errors import LimitExceeded, MalformedStream, ProviderError, TruncatedStream
from ...core.json_progress import object_text
from ...core.reduce import MAX_TURN_CHARS, Piece
from ..decode_context import DecodeContext
from ..lenient_json import decode_leniently, text_of, token_count
from ..provider_errors import provider_error
from ..sse import SSEParser
from ..stencil import Template
from ..stop_reasons import later_stop, settled_stop
from ..stream_decoder import StreamDecoder
from .shapes import (
    BlockDelta,
    BlockStart,
    BlockStop,
    CitationPiece,
    Failure,
    JsonPiece,
    MessageDelta,
    MessageStart,
    MessageStop,
    OtherDelta,
    Ping,
    SignaturePiece,
    StreamEvent,
    TextMessage,
    TextPiece,
    ThinkingPiece,
    decode_event,
    read_event,
)

# Words of this wire that ours do not have. The others are the same.
STOP_REASONS = {"stop_sequence": "end_turn", "model_context_window_exceeded": "max_tokens"}

# An error inside a stream has no HTTP status; its type says which one it would have been.
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
# Facts about the whole turn, kept beside its blocks.
_TURN_FIELDS = ("container", "stop_sequence", "stop_details")


def stop_reason(raw: str | None, calls: int) -> str:
    """The host's word in ours. Calls that end with a plain end are still calls; without a call nothing waits for one."""
    return settled_stop(STOP_REASONS.get(raw, raw) if raw else "end_turn", calls)


class _Held:
    """A block we have no word for, and the texts its deltas add to its fields."""

    __slots__ = ("block", "texts")

    def __init__(self, block: dict[str, Any]) -> None:
        self.block = block
        self.texts: dict[str, list[str]] = {}

    def add(self, delta: dict[str, Any]) -> int:
        """Take in a delta; the number of characters it brought."""
        size = 0
        for name, value in delta.items():
            if name == "type":
                continue
            before = self.block.get(name)
            # Text grows, anything else replaces: the two ways in which deltas of unknown kinds can be read.
            if isinstance(value, str) and (before is None or isinstance(before, str)):
                self.texts.setdefault(name, [before or ""]).append(value)
                size += len(value)
            else:
                self.block[name] = value
        return size

    def whole(self) -> dict[str, Any]:
        for name, parts in self.texts.items():
            self.block[name] = "".join(parts)
        # Server tools stream their input like any call; kept whole, it is an object.
        streamed = self.block.pop("partial_json", "")
        if streamed:
            try:
                self.block["input"] = decode_leniently(streamed)
            except MalformedStream:
                self.block["input"] = {"_raw": streamed}
        return self.block


def make_decoder(context: DecodeContext) -> StreamDecoder:
    reader = MessagesStreamReader(context)
    return StreamDecoder(reader, SSEParser(limit=context.limit), limit=context.limit, template=reader.template)


def text_answer(context: DecodeContext, body: bytes) -> Turn | None:
    """See DecodeContext.text_answer."""
    try:
        message = _decode_text_message(body)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    builder = context.builder()
    if message.usage:
        builder.usage = read_usage(message.usage)
    raw = message.stop_reason or None
    return builder.text_answer(message.content[0].text, stop_reason(raw, 0), raw, message.model, message.id or None)


_decode_text_message = msgspec.json.Decoder(TextMessage).decode


class MessagesStreamReader:
    """Reads the events of a message, or a whole one."""

    __slots__ = (
        "_calls", "_citations", "_dialect", "_ended_calls", "_extra", "_held", "_held_chars", "_names", "_newest",
        "_said_end", "_seen", "_stop_reason", "_stray", "_thought", "_usage", "builder",
    )  # fmt: skip

    def __init__(self, context: DecodeContext) -> None:
        self._dialect = context.dialect
        self.builder = context.filtered_builder()
        self._names = context.tool_names
        # By index, because blocks may overlap on imitators of this wire.
        self._calls: dict[int, tuple[Piece, Any]] = {}  # open calls by block index, with the input of their start
        self._ended_calls: set[int] = set()
        self._newest = -1  # the index of the block that began last
        self._stray: list[str] = []  # tool input under an index that no block began with
        self._held: dict[int, _Held] = {}
        self._held_chars = 0
        self._thought: Piece | None = None
        self._citations: list[Any] | None = None
        self._usage: dict[str, Any] | None = None
        self._extra: dict[str, Any] = {}
        self._stop_reason: str | None = None
        self._said_end = False
        self._seen = False

    @property
    def end_was_said(self) -> bool:
        return bool(self._stop_reason)

    def whole(self, body: bytes) -> None:
        message = decode_leniently(body)
        if not isinstance(message, dict):
            raise MalformedStream(f"expected a message object, got {type(message).__name__}")
        content = message.get("content")
        if message.get("type") == "error" or (content is None and "error" in message):
            raise self._refusal(message.get("error", message))
        if content is None:
            raise MalformedStream("expected a message with a list of content blocks")
        self._begin(message)
        blocks = content if isinstance(content, list) else [content]
        # Imitators send a string, or a list of strings, where blocks belong.
        if not any(isinstance(block, dict) and isinstance(block.get("type"), str) for block in blocks):
            blocks = [{"type": "text", "text": content}] if content else []
        for index, block in enumerate(blocks):
            self._start(block if isinstance(block, dict) else {"type": "text", "text": block}, index)
            self._stop(index)
        self._said_end = True

    def event(self, data: bytes, name: str) -> None:
        event: StreamEvent | OtherDelta
        try:
            event = decode_event(data)
        except (msgspec.DecodeError, RecursionError, ValueError):
            event = read_event(data, name)
            # Only the lenient reading lets half characters through.
            self.builder.split_surrogates = True
        # Nearly every event is a delta.
        if type(event) is BlockDelta:
            self._delta(event)
        else:
            self._other(event)

    def template(self, data: bytes, name: str) -> Template | None:
        """A delta of text, of thinking or of a tool's input."""
        try:
            event = decode_event(data)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return None
        if type(event) is not BlockDelta:
            return None
        delta, index = event.delta, event.index
        tell_all: Callable[[list[str]], bool]
        if type(delta) is TextPiece:
            field, tell_all = "text", self.builder.all_text
        elif type(delta) is ThinkingPiece:
            field, tell_all = "thinking", self._all_thinking
        elif type(delta) is JsonPiece:
            field, tell_all = "partial_json", lambda texts: self._all_json(texts, index)
        else:
            return None

        def tell(text: str) -> None:
            setattr(delta, field, text)
            self._delta(event)

        return Template(event, delta, field, tell, tell_all)

    def _all_thinking(self, texts: list[str]) -> bool:
        piece = self.builder.all_thinking(texts)
        if piece is not None:
            self._thought = piece
        return piece is not None

    def _all_json(self, texts: list[str], index: int | None) -> bool:
        call = self._calls.get(index) if index is not None else None
        return call is not None and self.builder.all_arguments(call[0], texts)

    def _delta(self, event: BlockDelta) -> None:
        delta = event.delta
        # Compared by type, since this runs for every delta; mypy does not narrow by it.
        kind = type(delta)
        if kind is TextPiece:
            if delta.text:  # type: ignore[union-attr]
                self.builder.text(delta.text)  # type: ignore[union-attr]
        elif kind is JsonPiece:
            if delta.partial_json:  # type: ignore[union-attr]
                self._json(delta.partial_json, event.index)  # type: ignore[union-attr]
        elif kind is ThinkingPiece:
            if delta.thinking:  # type: ignore[union-attr]
                self._thought = self.builder.thinking(delta.thinking, "thinking")  # type: ignore[union-attr]
        # The signature belongs to the block before it, and comes in one piece.
        elif isinstance(delta, SignaturePiece):
            if self._thought is not None and delta.signature:
                self._thought.signature = delta.signature
        elif isinstance(delta, CitationPiece):
            self._cite([delta.citation])

    def _other(self, event: StreamEvent | OtherDelta) -> None:
        match event:
            case BlockStart():
                self._start(event.content_block, event.index)
            case BlockStop():
                self._stop(event.index)
            case MessageStart():
                self._begin(event.message)
            case MessageDelta():
                self._revise(event)
            case MessageStop():
                self._said_end = True
                self.end()
            case Failure():
                raise self._refusal(event.error)
            case OtherDelta():
                # A delta of a kind we do not know belongs to a block of such a kind, or to nothing.
                held = self._held.get(self._newest if event.index is None else event.index)
                if held is not None:
                    self._hold(held.add(event.delta))
            case Ping() | BlockDelta():
                pass

    def _begin(self, message: dict[str, Any]) -> None:
        """The envelope of a message: at the start of a stream, or around a whole body."""
        self._seen = True
        model, name = message.get("model"), message.get("id")
        self.builder.start(model if isinstance(model, str) else "", name if isinstance(name, str) else None)
        self._usage = revise(self._usage, message.get("usage"))
        self._note_end(message, message.get("context_management"))

    def _revise(self, event: MessageDelta) -> None:
        self._usage = revise(self._usage, event.usage)
        self._note_end(event.delta or {}, event.context_management)
        # Imitators leave out `content_block_stop`.
        if self._stop_reason:  # it ends the calls, whether their blocks were stopped or not
            for index in sorted(self._calls):
                self._stop(index)

    def _note_end(self, fields: dict[str, Any], context_management: Any) -> None:
        reason = fields.get("stop_reason")
        if isinstance(reason, str) and reason:
            self._stop_reason = later_stop(self._stop_reason, reason, STOP_REASONS)
        for name in _TURN_FIELDS:
            if fields.get(name) is not None:
                self._extra[name] = fields[name]
        if context_management is not None:
            self._extra["context_management"] = context_management

    def _start(self, block: dict[str, Any], index: int | None) -> None:
        builder = self.builder
        if index is None:
            index = self._newest + 1
        self._newest = index
        # An index may be used again.
        self._ended_calls.discard(index)
        # A block that was never stopped ends where its index begins anew.
        if index in self._calls or index in self._held:
            self._stop(index)
        builder.end_block()
        self._thought = self._citations = None
        kind = block.get("type")
        if kind == "text":
            citations = block.get("citations")
            if isinstance(citations, list) and citations:
                self._cite(citations)
            text = text_of(block.get("text"))
            if text:
                builder.text(text)
        elif kind == "thinking":
            # Empty at first: with `display: "omitted"` a block has nothing but its signature, and has to be kept
            # (field-guide/anthropic-messages.md#thinking).
            self._thought = builder.thinking("", "thinking")
            self._thought.signature = _text(block.get("signature"))
            builder.thinking(text_of(block.get("thinking")))
        elif kind == "redacted_thinking":
            piece = builder.thinking("", "thinking")
            piece.redacted = True
            piece.encrypted = _text(block.get("data")) or ""
        elif kind == "tool_use":
            name = _text(block.get("name")) or ""
            # What else stands beside the call (a cache mark, who may call it) goes back with it.
            rest = ("type", "id", "name", "input")
            extra = {key: value for key, value in block.items() if key not in rest and value is not None}
            piece = builder.open_call(_text(block.get("id")), self._names.get(name, name), extra or None)
            self._calls[index] = (piece, block.get("input"))
        else:
            self._held[index] = _Held(block)

    def _json(self, text: str, index: int | None) -> None:
        if index is None:
            index = self._newest
            self._check_owner(index)
        call = self._calls.get(index)
        if call is not None:
            self.builder.call_arguments(call[0], text)
            return
        held = self._held.get(index)
        if held is not None:
            self._hold(held.add({"partial_json": text}))
        elif not text.isspace():
            # No guessing about what a tool is run with: see the table of wires/tool_deltas.py.
            if index in self._ended_calls:
                raise MalformedStream(f"tool input came for block {index} after its end")
            if len(self._calls) == 1:  # an index nobody opened: the open call may be meant, if it makes an object of it
                self._stray.append(text)
                self._hold(len(text))
            elif self._calls:
                raise MalformedStream(
                    f"tool input came for block {index}, which never began, while two calls were open"
                )

    def _check_owner(self, newest: int) -> None:
        """Input without an index is the newest call's, unless an older one waits for it or the newest has all of its own."""
        older = [piece for index, (piece, _) in self._calls.items() if index != newest and not piece.is_complete]
        if not older or newest not in self._calls:
            return
        if self._calls[newest][0].is_complete or any(not piece.progress().is_blank for piece in older):
            raise MalformedStream("tool input came without an index while two calls were unfinished")

    def _hold(self, size: int) -> None:
        self._held_chars += size
        if self._held_chars > MAX_TURN_CHARS:
            raise LimitExceeded(f"the answer is longer than {MAX_TURN_CHARS} characters")

    def _cite(self, citations: list[Any]) -> None:
        if self._citations is None:
            self._citations = list(citations)
            # The list is handed over once and then grows: the text holds the same object.
            self.builder.text("", {"citations": self._citations})
        else:
            self._citations += citations

    def _stop(self, index: int | None) -> None:
        builder = self.builder
        if index is None:
            index = self._newest
        call = self._calls.pop(index, None)
        if call is not None:
            self._ended_calls.add(index)
            piece, given = call
            if self._stray:
                self._claim_stray(piece)
            # Deltas win: a host that streams puts an empty object at
            # the start, one that does not puts the whole input there.
            if not piece.parts:
                builder.call_arguments(piece, text_of(given or {}))
            builder.close_call(piece)
            return
        held = self._held.pop(index, None)
        if held is not None:
            block = held.whole()
            builder.whole(Opaque(str(block.get("type") or "unknown"), block, builder.origin))
            return
        self._thought = self._citations = None
        builder.end_block()

    def _claim_stray(self, piece: Piece) -> None:
        text = "".join(self._stray)
        self._stray = []
        if object_text("".join([*piece.parts, text])) is None:
            raise MalformedStream("tool input came for a block that never began")
        self.builder.call_arguments(piece, text)

    def end(self) -> None:
        # In the order of the host's indexes, which is that of the answer.
        for index in sorted([*self._calls, *self._held]):
            self._stop(index)
        self.settle()
        builder = self.builder
        if self._stop_reason is None and not self._said_end and self._dialect.sends_finish:
            what = "without a stop reason" if self._seen else "before anything came"
            raise TruncatedStream(f"the stream ended {what}")
        raw = self._stop_reason
        # Nothing before a stop sequence is an answer too: asking again would give the same.
        reason = raw if raw == "stop_sequence" and not builder.has_output else stop_reason(raw, builder.calls)
        builder.finish(reason, raw)

    def settle(self) -> None:
        if self._usage:
            self.builder.usage = read_usage(self._usage)
        if self._extra:
            self.builder.extra = self._extra

    def _refusal(self, error: Any) -> ProviderError:
        kind = error.get("type") if isinstance(error, dict) else None
        # The status decides what kind of error it is, as it would over HTTP.
        return provider_error(_STATUSES.get(str(kind)), {"error": error}, provider=self._dialect.provider)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def revise(kept: dict[str, Any] | None, new: Any) -> dict[str, Any] | None:
    """`kept` with the fields that `new` really carries: null does not unsay a count."""
    if not isinstance(new, dict):
        return kept
    told = {name: value for name, value in new.items() if value is not None or not kept or name not in kept}
    return {**kept, **told} if kept else told


def read_usage(raw: dict[str, Any]) -> Usage:
    """`input_tokens` leaves out what the cache served or stored."""
    details = raw.get("output_tokens_details")
    return Usage(
        input=token_count(raw.get("input_tokens")),
        output=token_count(raw.get("output_tokens")),
        cache_read=token_count(raw.get("cache_read_input_tokens")),
        cache_write=token_count(raw.get("cache_creation_input_tokens")),
        reasoning=token_count(details.get("thinking_tokens")) if isinstance(details, dict) else 0,
        cache_in_input=False,
        raw=raw,
    )
