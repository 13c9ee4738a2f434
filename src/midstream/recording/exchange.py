"""One exchange as it happened, and the file it is kept in.

A file is JSON lines, in the manner of asciicast: an object that says what this is, the request, the head of the answer, then a
line `[time, kind, data]` for each chunk as it was read, and how it ended. A chunk that is whole UTF-8 is `text`, any other is
`base64`: both give back the same bytes. Times are microseconds since the request was sent. docs/recording-format.md has an
example and every field.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..core.blocks import Value
from ..core.errors import KINDS, LocalError, MidstreamError
from ..transport.encoding import inflated
from ..transport.tap import Ending

VERSION = 1
# So much of a file is read to tell whether it is a recording; its first line begins with the words that say so.
_BEGINNING = 64
# So many chunks are encoded in one call: a call for each costs more than the encoding, and one for all holds the file in memory twice.
_AT_ONCE = 128
_STREAMS = frozenset(("text/event-stream", "application/x-ndjson", "application/stream+json"))
_KIND = "recording"


class Payload(Value, frozen=True):
    """The body of a request: one of three, or none. JSON is kept as the value it is, so that a difference can be shown."""

    json: Any = None
    text: str | None = None
    base64: str | None = None

    @classmethod
    def of(cls, body: bytes) -> Payload | None:
        if not body:
            return None
        try:
            value = msgspec.json.decode(body)
            # `null` is a body, but as the absence of a value it would be read back as none.
            if value is not None:
                return cls(json=value)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            pass
        try:
            return cls(text=body.decode())
        except UnicodeDecodeError:
            return cls(base64=binascii.b2a_base64(body, newline=False).decode())

    @property
    def data(self) -> bytes:
        if self.text is not None:
            return self.text.encode()
        if self.base64 is not None:
            return binascii.a2b_base64(self.base64)
        return b"" if self.json is None else encode_json(self.json)


class RecordedRequest(Value, frozen=True):
    """What was sent, without its secrets."""

    method: str
    url: str
    headers: dict[str, str]
    body: Payload | None = None


class RecordedHead(Value, frozen=True):
    """The status of an answer and those of its headers that say how to read it."""

    status: int
    headers: dict[str, str]
    at_us: int = 0


class Chunk(Value, frozen=True):
    """Bytes of a body as they were read, and when: microseconds since the request was sent."""

    at_us: int
    data: bytes


class RecordedError(Value, frozen=True):
    """Why an exchange ended so, in our own terms."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: MidstreamError) -> RecordedError:
        return cls(error.kind, str(error))

    def to_exception(self) -> MidstreamError:
        # A kind of a later version is still an error here.
        return KINDS.get(self.kind, MidstreamError).restore(self.message)


class RecordedExchange(Value, frozen=True):
    """A request and all that came of it. `head` is None where no answer began."""

    request: RecordedRequest
    head: RecordedHead | None = None
    chunks: tuple[Chunk, ...] = ()
    ending: Ending = "clean"
    error: RecordedError | None = None
    ended_us: int = 0
    model: str = ""
    """The model asked, as `provider/name`, where it is known."""
    wire: str = ""
    recorded: str = ""
    """When, as ISO 8601 in UTC."""
    note: str = ""
    """What the recording is of: for people."""

    @property
    def body(self) -> bytes:
        return b"".join([chunk.data for chunk in self.chunks])

    @property
    def status(self) -> int:
        """0 where no answer began."""
        return 0 if self.head is None else self.head.status

    @property
    def streamed(self) -> bool:
        """Whether the answer is a stream: its type says so, or the request asked for one in its body or its path."""
        kind = "" if self.head is None else self.head.headers.get("content-type", "")
        if kind.partition(";")[0].strip().lower() in _STREAMS:
            return True
        body = self.request.body
        asked = body.json.get("stream") if body is not None and isinstance(body.json, dict) else None
        # Gemini streams an array in the type of a whole body, and says so in the path alone.
        return bool(asked) or ":stream" in self.request.url.partition("?")[0]


# A recording may hold a bomb of zeros, like any compressed answer.
_MAX_UNPACKED = 64 * 1024 * 1024


def unpacked(exchange: RecordedExchange) -> Sequence[bytes]:
    """The chunks of the body, decompressed as far as they can be read and are not too many."""
    encoding = "" if exchange.head is None else exchange.head.headers.get("content-encoding", "")
    return inflated([chunk.data for chunk in exchange.chunks], encoding, _MAX_UNPACKED)


class BadRecording(LocalError):
    """A file that is not a recording, or not one that this version reads."""

    kind = "bad_recording"


class _First(Value, frozen=True):
    midstream: str = _KIND
    version: int = VERSION
    recorded: str = ""
    model: str = ""
    wire: str = ""
    note: str = ""


class _RequestLine(Value, frozen=True):
    request: RecordedRequest


class _HeadLine(Value, frozen=True):
    response: RecordedHead


class _EndLine(Value, frozen=True):
    end: Ending
    at_us: int = 0
    error: RecordedError | None = None


_sorted = msgspec.json.Encoder(order="deterministic")
_plain = msgspec.json.Encoder()


def encode_json(value: Any) -> bytes:
    """JSON in canonical order: sorted names, no blanks."""
    return _sorted.encode(value)


def encode_exchange(exchange: RecordedExchange) -> bytes:
    """The file of an exchange."""
    times, parts = [chunk.at_us for chunk in exchange.chunks], [chunk.data for chunk in exchange.chunks]
    return b"".join(_around(exchange, _chunk_lines(times, parts)))


def encode_heard(exchange: RecordedExchange, times: Sequence[int], parts: Sequence[bytes]) -> bytes:
    """The same, of an exchange whose chunks come as two lists: to make a value of each would cost as much as writing it."""
    return b"".join(_around(exchange, _chunk_lines(times, parts)))


def _around(exchange: RecordedExchange, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The file in pieces. Not in one: memory that was never used before costs more than what is written to it."""
    first = _First(recorded=exchange.recorded, model=exchange.model, wire=exchange.wire, note=exchange.note)
    # What names the file and its version is written although it never differs.
    begin = {"midstream": _KIND, "version": VERSION, **msgspec.to_builtins(first)}
    yield _plain.encode_lines([begin])
    yield _sorted.encode_lines([_RequestLine(exchange.request)])
    if exchange.head is not None:
        yield _sorted.encode_lines([_HeadLine(exchange.head)])
    yield from chunks
    yield _plain.encode_lines([_EndLine(exchange.ending, exchange.ended_us, exchange.error)])


def _chunk_lines(times: Sequence[int], parts: Sequence[bytes]) -> Iterator[bytes]:
    for at in range(0, len(parts), _AT_ONCE):
        some = list(zip(times[at : at + _AT_ONCE], parts[at : at + _AT_ONCE], strict=True))
        try:
            # Nearly every answer is text that is cut between characters, and each step here is paid at every chunk.
            lines = [(moment, "text", data.decode()) for moment, data in some]
        except UnicodeDecodeError:
            lines = [_chunk_line(moment, data) for moment, data in some]
        yield _plain.encode_lines(lines)


def _chunk_line(at: int, data: bytes) -> tuple[int, str, str]:
    try:
        return at, "text", data.decode()
    except UnicodeDecodeError:
        return at, "base64", binascii.b2a_base64(data, newline=False).decode()


_chunk_decoder = msgspec.json.Decoder(tuple[int, str, str])
_first_decoder = msgspec.json.Decoder(_First)
_request_decoder = msgspec.json.Decoder(_RequestLine)
_head_decoder = msgspec.json.Decoder(_HeadLine)
_end_decoder = msgspec.json.Decoder(_EndLine)


def decode_exchange(data: bytes, name: str = "the recording") -> RecordedExchange:
    """Read a file. BadRecording says which line is not as it should be; `name` is what the message calls it."""
    # Split at line feeds alone: a JSON text may hold other line ends (U+2028) as they are.
    lines = data.removesuffix(b"\n").split(b"\n")
    first = _first(lines[0], name)
    number = 1
    try:
        request = _request_decoder.decode(_line(lines, 1, name)).request
        number, head, chunks = 2, None, list[Chunk]()
        if _line(lines, 2, name).startswith(b'{"response"'):
            head = _head_decoder.decode(lines[2]).response
            number = 3
            decode = _chunk_decoder.decode
            while (line := _line(lines, number, name)).startswith(b"["):
                at, kind, text = decode(line)
                chunks.append(Chunk(at, text.encode() if kind == "text" else _binary(kind, text)))
                number += 1
        end = _end_decoder.decode(_line(lines, number, name))
    except (msgspec.DecodeError, ValueError) as error:
        raise BadRecording(f"{name}, line {number + 1}: {error}") from None
    if len(lines) > number + 1:
        raise BadRecording(f"{name}, line {number + 2}: expected nothing behind the end of the exchange")
    return RecordedExchange(
        request, head, tuple(chunks), end.end, end.error, end.at_us, first.model, first.wire, first.recorded, first.note
    )


def is_recording(path: Path) -> bool:
    """Whether a file says that it is a recording, of whatever version."""
    with path.open("rb") as file:
        return b'"midstream":"recording"' in file.read(_BEGINNING)


def _first(line: bytes, name: str) -> _First:
    try:
        first = _first_decoder.decode(line)
        # The field has a default, so any JSON object would pass by its value alone.
        known = first.midstream == _KIND and b'"midstream"' in line
    except (msgspec.DecodeError, UnicodeDecodeError):
        known = False
    if not known:
        raise BadRecording(
            f'{name} is not a recording: its first line must be {{"midstream":"recording","version":{VERSION}}}'
        )
    if first.version > VERSION:
        raise BadRecording(
            f"{name} was written in version {first.version} of the format, and this midstream reads up to {VERSION}: update it"
        )
    return first


def _line(lines: list[bytes], number: int, name: str) -> bytes:
    if number >= len(lines):
        raise BadRecording(f"{name} ends after line {len(lines)}, before the exchange does: the file was cut off")
    return lines[number]


def _binary(kind: str, text: str) -> bytes:
    if kind != "base64":
        raise ValueError(f"a chunk is 'text' or 'base64', not {kind!r}")
    return binascii.a2b_base64(text, strict_mode=True)


def plain_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """As text that JSON can hold: what is not UTF-8 is shown as a replacement character."""
    return {
        name: value.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for name, value in headers.items()
    }
