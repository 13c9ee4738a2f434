"""Gemini answers -> events: event streams, streamed JSON arrays and whole bodies through one reading of candidate 0.

A part with a thought signature stays a block of its own, for it goes back exactly as it came. What the core has no word for
(code execution, server-side tools) is kept whole. Calls come whole, or value by value. The end is a finish reason or a
blocked prompt, and is told when the bytes are over; EOF without either is `truncated`, unless the answer is one whole body.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...core.blocks import Media, Opaque, Usage
from ...core.errors import LimitExceeded, MalformedStream, TruncatedStream
from ...core.events import ErrorInfo
from ...core.reduce import MAX_TURN_CHARS, Piece
from ..decode_context import DecodeContext
from ..lenient_json import decode_leniently, token_count
from ..provider_errors import is_error, provider_error
from ..sse import SSEParser
from ..stop_reasons import settled_stop
from ..stream_decoder import StreamDecoder
from .json_array import ArrayFraming
from .partial_args import PartialArguments
from .shapes import Candidate, Chunk, FunctionCall, Part, decode_chunk, read_chunk

SIGNATURE = "thoughtSignature"

# Reasons with a filter behind them are refusals, whatever they are called.
STOP_REASONS = {"STOP": "end_turn", "MAX_TOKENS": "max_tokens"} | dict.fromkeys(
    (
        "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR",
    ),
    "refusal",
)  # fmt: skip
# The model's output could not be used; asking again may help.
FAILURES = frozenset({
    "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE",
    "MALFORMED_RESPONSE",
})  # fmt: skip
# Hosts that speak protobuf write the enum's number.
_NUMBERS = {
    1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION", 5: "OTHER", 6: "BLOCKLIST", 7: "PROHIBITED_CONTENT",
    8: "SPII", 9: "MALFORMED_FUNCTION_CALL",
}  # fmt: skip
# A word for "not finished yet", in three spellings.
_UNSAID = ("", 0, "FINISH_REASON_UNSPECIFIED")


def stop_reason(raw: str | int, calls: int) -> str:
    """The host's word in ours. Calls that end with a plain `STOP` are still calls."""
    word = _NUMBERS.get(raw, str(raw)) if isinstance(raw, int) else raw
    return settled_stop(STOP_REASONS.get(word, word), calls)


class _StreamedCall:
    """A call whose arguments come value by value."""

    __slots__ = ("arguments", "piece")

    def __init__(self, piece: Piece) -> None:
        self.piece = piece
        self.arguments = PartialArguments()


def make_decoder(context: DecodeContext) -> StreamDecoder:
    limit = context.limit
    # Without `alt=sse` the stream is one JSON array (field-guide/streams.md#framing).
    instead = {b"[": ArrayFraming(limit=limit), b"{": None, b"<": None}
    return StreamDecoder(GeminiStreamReader(context), SSEParser(limit=limit), limit=limit, instead=instead)


class GeminiStreamReader:
    """Reads chunks, or the one body that stands for them all."""

    __slots__ = (
        "_blocked", "_dialect", "_extra", "_finish", "_finish_message", "_for_own_client", "_held", "_is_whole", "_names", "_seen",
        "_streamed", "_usage", "builder",
    )  # fmt: skip

    def __init__(self, context: DecodeContext) -> None:
        self._dialect = context.dialect
        self._for_own_client = context.for_own_client
        self.builder = context.filtered_builder()
        self._names = context.tool_names
        self._seen = False  # a chunk has come
        self._is_whole = False
        self._streamed: _StreamedCall | None = None
        self._held = 0  # characters kept outside of text and arguments
        self._usage = UsageTally()
        self._extra: dict[str, Any] = {}
        self._finish: str | int | None = None
        self._finish_message: str | None = None
        self._blocked: str | None = None

    @property
    def end_was_said(self) -> bool:
        return self._finish is not None

    def event(self, data: bytes, name: str) -> None:
        try:
            chunk = decode_chunk(data)
        except (msgspec.DecodeError, RecursionError, ValueError):
            chunk = read_chunk(data)
            self.builder.split_surrogates = True
        self._chunk(chunk, data)

    def whole(self, body: bytes) -> None:
        self._is_whole = True
        # A body is read leniently from the start: it comes once, and is worth the time.
        self.builder.split_surrogates = True
        self._chunk(read_chunk(body), body)

    def _chunk(self, chunk: Chunk, data: bytes) -> None:
        if chunk.error is not None and is_error(chunk.error, beside=chunk.candidates):
            raise provider_error(None, {"error": chunk.error}, provider=self._dialect.provider)
        if not self._seen:
            self._seen = True
            self.builder.start(chunk.modelVersion or "", chunk.responseId)
        if chunk.usageMetadata:
            # Kept raw until the end, a count keeps its chunk alive: of large ones a copy is made at once.
            if len(data) > LARGE:
                self._hold(len(bytes(chunk.usageMetadata)))
            self._usage.add(chunk.usageMetadata, len(data))
        if chunk.promptFeedback is not None:
            self._feedback(chunk.promptFeedback)
        if chunk.candidates:
            for place, candidate in enumerate(chunk.candidates):
                # Candidate 0: others were not asked for.
                if not candidate.index:
                    self._candidate(candidate, place, data)
                    break

    def _feedback(self, feedback: dict[str, Any]) -> None:
        self._extra["promptFeedback"] = feedback
        if feedback.get("blockReason"):
            self._blocked = str(feedback["blockReason"])

    def _candidate(self, candidate: Candidate, place: int, data: bytes) -> None:
        content = candidate.content
        if content is not None and content.parts:
            raw_parts: list[Any] | None = None
            for number, part in enumerate(content.parts):
                # The everyday part, before anything else is looked at.
                if part.text and not part.thought and part.thoughtSignature is None and part.functionCall is None:
                    self.builder.text(part.text)  # the everyday case
                elif _is_known(part):
                    self._part(part)
                else:
                    # Parsed a second time only for a part whose keys our shapes do not know.
                    raw_parts = raw_parts if raw_parts is not None else _raw_parts(data, place)
                    self._other(part, raw_parts[number])
        if candidate.finishReason is not None and candidate.finishReason not in _UNSAID:
            if self._finish is None or stop_reason(self._finish, 0) == "end_turn":  # an answer that was cut stays cut
                self._finish = candidate.finishReason
            self._finish_message = candidate.finishMessage
            self._close_streamed()
        if candidate.groundingMetadata or candidate.citationMetadata or candidate.urlContextMetadata:
            self._keep_metadata(candidate)

    def _keep_metadata(self, candidate: Candidate) -> None:
        for name in ("groundingMetadata", "citationMetadata", "urlContextMetadata"):
            raw = getattr(candidate, name)
            if raw:
                self._hold(len(bytes(raw)))
                value = decode_leniently(bytes(raw))
                if isinstance(value, dict) and value:
                    # Metadata grows from chunk to chunk.
                    self._extra[name] = {**self._extra.get(name, {}), **value}

    def _part(self, part: Part) -> None:
        signature = part.thoughtSignature
        if signature:
            self._hold(len(signature))
        if part.functionCall is not None:
            self._call(part.functionCall, signature)
        elif part.text is not None:
            self._text(part.text, bool(part.thought), signature)
        else:
            self._media(part)

    def _text(self, text: str, thought: bool, signature: str | None) -> None:
        builder = self.builder
        if not text and not signature:
            return
        if signature:
            # A signed part stays apart from its neighbours, since the signature is about its very text.
            builder.end_block()
        if thought:
            piece = builder.thinking(text, "thought")
            if signature:
                piece.signature = signature
        else:
            builder.text(text, {SIGNATURE: signature} if signature else None)
        if signature:
            builder.end_block()

    def _media(self, part: Part) -> None:
        extra: dict[str, Any] = {SIGNATURE: part.thoughtSignature} if part.thoughtSignature else {}
        if part.thought:
            extra["thought"] = True
        if part.inlineData is not None:
            blob = part.inlineData
            media = Media(blob.mimeType or "", data=blob.data or "", extra=extra or None)
        else:
            assert part.fileData is not None
            media = Media(part.fileData.mimeType or "", url=part.fileData.fileUri, extra=extra or None)
        self._hold(len(media.data or media.url or ""))
        self.builder.whole(media)

    def _other(self, part: Part, raw: Any) -> None:
        self._hold(len(str(raw)))
        known = ("thought", SIGNATURE)
        kind = next((k for k in raw if k not in known and raw[k] is not None), "") if isinstance(raw, dict) else ""
        if kind:
            self.builder.whole(Opaque(kind, raw, self.builder.origin))
        else:
            self._text("", bool(part.thought), part.thoughtSignature)

    def _call(self, call: FunctionCall, signature: str | None) -> None:
        builder = self.builder
        arguments = _arguments(call.args)
        # Pieces of one call have its id or none. With another id, nobody can tell whose they are.
        if (
            not call.name
            and call.id
            and self._streamed is not None
            and self._streamed.piece.raw_id not in (None, call.id)
        ):
            raise MalformedStream(f"arguments came for the call {call.id!r} while those of another were coming")
        if call.name or self._streamed is None:
            self._close_streamed()
            # An empty call: the end of one that has already ended.
            if not call.name and not arguments and not call.partialArgs:
                return
            name = call.name or ""
            extra = {SIGNATURE: signature} if signature else None
            piece = builder.open_call(call.id or None, self._names.get(name, name), extra)
            # A call that comes whole, as nearly all do.
            if not call.willContinue and not call.partialArgs:
                builder.call_arguments(piece, arguments or "{}")
                builder.close_call(piece)
                return
            self._streamed = _StreamedCall(piece)
        streamed = self._streamed
        for value in call.partialArgs or ():
            self._hold(streamed.arguments.add(value))
        if signature and not streamed.piece.extra:
            streamed.piece.extra = {SIGNATURE: signature}
        if not call.willContinue:
            self._close_streamed(arguments)

    # `whole` wins: some hosts send the object at the end as well.
    def _close_streamed(self, whole: str = "") -> None:
        if self._streamed is not None:
            streamed, self._streamed = self._streamed, None
            self.builder.call_arguments(streamed.piece, whole or streamed.arguments.text())
            self.builder.close_call(streamed.piece)

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held > MAX_TURN_CHARS:
            raise LimitExceeded(f"the answer holds more than {MAX_TURN_CHARS} characters of media and signatures")

    def end(self) -> None:
        builder, raw = self.builder, self._finish
        if raw is None:
            self.settle()
            # A blocked prompt has no candidate and therefore no finish reason.
            if self._blocked is not None:
                builder.finish("refusal", self._blocked)
            elif self._seen and (self._is_whole or not self._dialect.sends_finish):
                self._close_streamed()
                builder.finish("tool_use" if builder.calls else "end_turn")
            else:
                what = "without a finish reason" if self._seen else "before anything came"
                raise TruncatedStream(f"the stream ended {what}")
            return
        self._close_streamed()
        self.settle()
        reason = stop_reason(raw, builder.calls)
        # Not an answer, and worth another try (field-guide/gemini.md#stream). The wire's own clients know that by the word.
        if reason in FAILURES and not self._for_own_client:
            message = self._finish_message or f"the model's answer could not be used ({reason})"
            builder.fail(ErrorInfo("provider", message, code=reason, retryable=True))
        else:
            builder.finish(reason, str(raw))

    def settle(self) -> None:
        self.builder.usage = self._usage.read()
        if self._extra:
            self.builder.extra = self._extra


def _arguments(raw: msgspec.Raw) -> str:
    """The arguments as compact JSON text, numbers untouched; empty where there are none."""
    data = bytes(raw)
    if not data or data == b"null":
        return ""
    try:
        # Formatted without being parsed: 1.0 stays 1.0, and large integers keep their digits.
        return msgspec.json.format(data, indent=-1).decode()
    except (msgspec.DecodeError, RecursionError, ValueError):
        return data.decode("utf-8", "replace")


def _is_known(part: Part) -> bool:
    return (
        part.text is not None
        or part.functionCall is not None
        or part.inlineData is not None
        or part.fileData is not None
    )


def _raw_parts(data: bytes, place: int) -> list[Any]:
    """The parts of a candidate as they came, with the keys our shapes do not know."""
    candidates = [each for each in decode_leniently(data)["candidates"] if isinstance(each, dict)]
    parts: list[Any] = candidates[place]["content"]["parts"]
    return parts


_COUNTS = (
    "promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "cachedContentTokenCount",
    "toolUsePromptTokenCount", "totalTokenCount",
)  # fmt: skip
# Each chunk counts anew and the last one is right (field-guide/gemini.md#stream),
# so they are only kept. Folding them now and then bounds how many.
_KEEP = 64
LARGE = 4096
"""A chunk of more bytes is let go at once: what is kept raw holds on to its chunk."""


class UsageTally:
    """Takes each chunk's `usageMetadata`; `read` gives the usage of the whole turn."""

    __slots__ = ("_merged", "_pending")

    def __init__(self) -> None:
        self._merged: dict[str, Any] = {}
        self._pending: list[msgspec.Raw] = []

    def add(self, raw: msgspec.Raw, chunk_size: int = 0) -> None:
        self._pending.append(raw)
        if len(self._pending) >= _KEEP or chunk_size > LARGE:
            self._fold()

    def read(self) -> Usage | None:
        self._fold()
        if not self._merged:
            return None
        thoughts = token_count(self._merged.get("thoughtsTokenCount"))
        return Usage(
            input=token_count(self._merged.get("promptTokenCount")),
            output=token_count(self._merged.get("candidatesTokenCount")) + thoughts,  # counted apart by the host
            cache_read=token_count(self._merged.get("cachedContentTokenCount")),
            reasoning=thoughts,
            raw=self._merged,
        )

    def _fold(self) -> None:
        if not self._pending:
            return
        *older, last = self._pending
        newest = _read(last)
        if older:
            together = b"".join(older)
            # Only where the last one lacks a count that an earlier one had.
            if any(name.encode() in together for name in _COUNTS if newest.get(name) is None):
                for raw in reversed(older):
                    newest = {**_read(raw), **newest}
        self._merged = {**self._merged, **newest}
        self._pending.clear()


def _read(raw: msgspec.Raw) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return {}
    return {name: count for name, count in value.items() if count is not None} if isinstance(value, dict) else {}
