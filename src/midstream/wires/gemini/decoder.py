"""Gemini answers -> events: event streams, streamed JSON arrays and whole bodies through one reading of candidate 0.

A part with a thought signature stays a block of its own, for it goes back exactly as it came. What the core has no word for
(code execution, server-side tools) is kept whole. Calls come whole, or value by value. The end is a finish reason or a
blocked prompt, and is told when the bytes are over; EOF without either is `truncated`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ...core.blocks import Media, Opaque, Origin
from ...core.dialect import Dialect
from ...core.errors import LimitExceeded, MalformedStream
from ...core.events import ErrorInfo, Event
from ...core.reduce import MAX_TURN_CHARS, Piece, TurnBuilder
from ..json_array import JSONArrayParser
from ..json_border import decode_leniently
from ..provider_errors import error_info, provider_error
from ..sse import DEFAULT_LIMIT, SSEParser
from .partial_args import PartialArguments
from .shapes import Candidate, Chunk, FunctionCall, Part, decode_chunk, read_chunk
from .usage import LARGE, UsageTally

SIGNATURE = "thoughtSignature"

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
_UNSAID = ("", 0, "FINISH_REASON_UNSPECIFIED")
_SLICE = 64 * 1024


def stop_reason(raw: str | int, calls: int) -> str:
    """The host's word in ours. Calls that end with a plain `STOP` are still calls."""
    word = _NUMBERS.get(raw, str(raw)) if isinstance(raw, int) else raw
    reason = STOP_REASONS.get(word, word)
    return "tool_use" if calls and reason == "end_turn" else reason


class _StreamedCall:
    """A call whose arguments come value by value."""

    __slots__ = ("arguments", "piece")

    def __init__(self, piece: Piece) -> None:
        self.piece = piece
        self.arguments = PartialArguments()


class GeminiDecoder:
    """Feed it the bytes of one answer; it gives events, and exactly one terminal one."""

    __slots__ = (
        "_array", "_blocked", "_body", "_builder", "_dialect", "_extra", "_finish", "_finish_message", "_held", "_limit",
        "_names", "_seen", "_sniffed", "_sse", "_streamed", "_usage", "progress",
    )  # fmt: skip

    def __init__(
        self,
        dialect: Dialect,
        *,
        turn_key: str,
        model: str = "",
        tool_names: dict[str, str] | None = None,
        limit: int = DEFAULT_LIMIT,
    ) -> None:
        self._dialect = dialect
        self._builder = TurnBuilder(turn_key, Origin(dialect.provider, dialect.wire, model))
        self._sse = SSEParser(limit=limit)
        self._limit = limit
        self._names = tool_names or {}
        self._array: JSONArrayParser | None = None  # set when the answer turns out to be one JSON array
        self._body: bytearray | None = None  # set when it turns out to be no stream at all
        self._sniffed = False
        self._seen = False  # a chunk has come
        self._streamed: _StreamedCall | None = None
        self._held = 0  # characters kept outside of text and arguments
        self._usage = UsageTally()
        self._extra: dict[str, Any] = {}
        self._finish: str | int | None = None
        self._finish_message: str | None = None
        self._blocked: str | None = None
        self.progress = 0

    @property
    def ended(self) -> bool:
        return self._builder.ended

    def feed(self, data: bytes) -> list[Event]:
        builder = self._builder
        if builder.ended:
            return []
        try:
            if not self._sniffed:
                self._sniff(data)
            if self._body is not None:
                self._hold_body(data)
                return []
            small = len(data) <= _SLICE and self._array is None
            for payload in [event.data for event in self._sse.feed(data)] if small else self._payloads(data):
                if payload[:1] != b"{":
                    payload = payload.strip()
                    if payload == b"[DONE]":  # proxies say it
                        self._end()
                        break
                    if not payload:
                        continue
                self.progress += 1
                try:
                    chunk = decode_chunk(payload)
                except (msgspec.DecodeError, RecursionError, ValueError):
                    chunk = read_chunk(payload)
                self._chunk(chunk, payload)
                if self.ended:
                    break
            if self._array is not None and self._array.closed and not self.ended:
                self._end()
        except (MalformedStream, LimitExceeded) as error:
            self._fail(error)
        return builder.take()

    def close(self) -> list[Event]:
        """The bytes are over."""
        builder = self._builder
        if builder.ended:
            return []
        try:
            if self._body is not None:
                self._whole(bytes(self._body))
            elif self._array is None:
                for event in self._sse.close():
                    payload = event.data.strip()
                    if payload and payload != b"[DONE]" and not builder.ended:
                        self.progress += 1
                        self._chunk(read_chunk(payload), payload)
            if not builder.ended:
                self._end()
        except (MalformedStream, LimitExceeded) as error:
            self._fail(error)
        return builder.take()

    def read_body(self, body: bytes) -> list[Event]:
        """A whole body instead of a stream: one object, or the array of all chunks."""
        if body.lstrip()[:1] == b"[":
            return self.feed(body) + self.close()
        self._sniffed = True
        self._body = bytearray(body)
        return self.close()

    def fail(self, error: ErrorInfo) -> list[Event]:
        """The transport lost the stream: keep what came, end with this error."""
        if self._finish is not None and error.kind == "transport":
            self._end()  # the end was said before the connection broke
        self._settle()
        self._builder.fail(error)
        return self._builder.take()

    def _sniff(self, data: bytes) -> None:
        """Look at the first visible byte: `[` opens a streamed array, `{` and `<` no stream at all."""
        start = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        if not start:
            return
        self._sniffed = True
        if start == b"[":
            self._array = JSONArrayParser(limit=self._limit)
        elif start in b"{<":
            self._body = bytearray()

    def _payloads(self, data: bytes) -> Iterator[bytes]:
        """The chunks of an array, or of a large burst, which is read in slices so that the cost a byte stays the same."""
        for at in range(0, len(data), _SLICE):
            piece = data[at : at + _SLICE]
            if self._array is not None:
                yield from self._array.feed(piece)
            else:
                for event in self._sse.feed(piece):
                    yield event.data

    def _hold_body(self, data: bytes) -> None:
        assert self._body is not None
        self._body += data
        if len(self._body) > self._limit:
            raise LimitExceeded(f"the body is longer than {self._limit} bytes")

    def _whole(self, body: bytes) -> None:
        if body.lstrip()[:1] == b"<":
            raise MalformedStream("expected an event stream, got an HTML page")
        self._chunk(read_chunk(body), body)

    def _chunk(self, chunk: Chunk, data: bytes) -> None:
        if chunk.error is not None:
            self._settle()
            failure = provider_error(None, {"error": chunk.error}, provider=self._dialect.provider)
            self._builder.fail(error_info(failure))
            return
        if not self._seen:
            self._seen = True
            self._builder.start(chunk.modelVersion or "", chunk.responseId)
        if chunk.usageMetadata:
            if len(data) > LARGE:
                self._hold(len(bytes(chunk.usageMetadata)))
            self._usage.add(chunk.usageMetadata, len(data))
        if chunk.promptFeedback is not None:
            self._feedback(chunk.promptFeedback)
        if chunk.candidates:
            for place, candidate in enumerate(chunk.candidates):
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
                if part.text and not part.thought and part.thoughtSignature is None and part.functionCall is None:
                    self._builder.text(part.text)  # the everyday case
                elif _is_known(part):
                    self._part(part)
                else:
                    raw_parts = raw_parts if raw_parts is not None else _raw_parts(data, place)
                    self._other(part, raw_parts[number])
        if candidate.finishReason is not None and candidate.finishReason not in _UNSAID:
            self._finish = candidate.finishReason
            self._finish_message = candidate.finishMessage
        if candidate.groundingMetadata or candidate.citationMetadata or candidate.urlContextMetadata:
            self._keep_metadata(candidate)

    def _keep_metadata(self, candidate: Candidate) -> None:
        for name in ("groundingMetadata", "citationMetadata", "urlContextMetadata"):
            raw = getattr(candidate, name)
            if raw:
                self._hold(len(bytes(raw)))
                value = decode_leniently(bytes(raw))
                if isinstance(value, dict) and value:
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
        builder = self._builder
        if not text and not signature:
            return
        if signature:
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
        self._builder.whole(media)

    def _other(self, part: Part, raw: Any) -> None:
        self._hold(len(str(raw)))
        known = ("thought", SIGNATURE)
        kind = next((k for k in raw if k not in known and raw[k] is not None), "") if isinstance(raw, dict) else ""
        if kind:
            self._builder.whole(Opaque(kind, raw, self._builder.origin))
        else:
            self._text("", bool(part.thought), part.thoughtSignature)

    def _call(self, call: FunctionCall, signature: str | None) -> None:
        builder = self._builder
        arguments = _arguments(call.args)
        if call.name or self._streamed is None:
            self._close_streamed()
            if not call.name and not arguments and not call.partialArgs:
                return
            name = call.name or ""
            extra = {SIGNATURE: signature} if signature else None
            piece = builder.open_call(call.id or None, self._names.get(name, name), extra)
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

    def _close_streamed(self, whole: str = "") -> None:
        if self._streamed is not None:
            streamed, self._streamed = self._streamed, None
            self._builder.call_arguments(streamed.piece, whole or streamed.arguments.text())
            self._builder.close_call(streamed.piece)

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held > MAX_TURN_CHARS:
            raise LimitExceeded(f"the answer holds more than {MAX_TURN_CHARS} characters of media and signatures")

    def _end(self) -> None:
        builder, raw = self._builder, self._finish
        if raw is None:
            self._settle()
            if self._blocked is not None:
                builder.finish("refusal", self._blocked)
            elif self._seen and not self._dialect.sends_finish:
                builder.finish("tool_use" if builder.calls else "end_turn")
            else:
                what = "without a finish reason" if self._seen else "before anything came"
                builder.fail(ErrorInfo("truncated", f"the stream ended {what}", retryable=True))
            return
        self._close_streamed()
        self._settle()
        reason = stop_reason(raw, builder.calls)
        if reason in FAILURES:
            message = self._finish_message or f"the model's answer could not be used ({reason})"
            builder.fail(ErrorInfo("provider", message, code=reason, retryable=True))
        else:
            builder.finish(reason, str(raw))

    def _settle(self) -> None:
        self._builder.usage = self._usage.read()
        if self._extra:
            self._builder.extra = self._extra

    def _fail(self, error: MalformedStream | LimitExceeded) -> None:
        self._settle()
        kind = "limit" if isinstance(error, LimitExceeded) else "malformed"
        self._builder.fail(ErrorInfo(kind, str(error)))


def _arguments(raw: msgspec.Raw) -> str:
    """The arguments as compact JSON text, numbers untouched; empty where there are none."""
    data = bytes(raw)
    if not data or data == b"null":
        return ""
    try:
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
