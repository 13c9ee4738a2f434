"""Answers as bytes, one for each seed: valid, odd and malformed ones, cut into pieces anywhere.

The same seed gives the same bytes on every run, so a seed is all that has to be kept of a case.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence

import msgspec

_WORDS = (
    b"alpha",
    b"beta",
    b"gamma",
    b"delta",
    b"data: {}\n\n",
    b"\r\n",
    b"0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n\r\n",
    b"\x00\xff",
)
_NAMES = (b"Content-Type", b"x-request-id", b"Server", b"x", b"X-Long-Name-Of-A-Header", b"date", b"Set-Cookie")
_VALUES = (
    b"text/event-stream",
    b"1",
    b"",
    b"a, b",
    b'"quoted; text"',
    b"gr\xc3\xbcn",
    b"\xff\xfe",
    b" padded \t",
    b"x" * 300,
)
_ODD_VALUES = (b"a\x01b", b"a\x00b", b"a\x7fb", b"a\rb", b"a\nb", b"folded\r\n more", b"folded\r\n\tmore")
_ODD_NAMES = (b"bad name", b"bad:", b"", b"\xff", b"(x)", b"x\t", b"Content-Length ")


class ByteStream(msgspec.Struct, frozen=True):
    """What a server sends before it closes the connection."""

    seed: int
    data: bytes
    pieces: tuple[bytes, ...]


def byte_stream(seed: int) -> ByteStream:
    dice = random.Random(seed)
    wild = dice.random()
    data = _answer(dice, odd=0.0 if wild < 0.4 else 0.12)
    if wild > 0.75:
        data = _mutated(dice, data)
    if dice.random() < 0.12:
        data = data[: dice.randrange(len(data) + 1)]
    return ByteStream(seed, data, _cut(dice, data))


def _answer(dice: random.Random, odd: float) -> bytes:
    def oddly() -> bool:
        return dice.random() < odd

    out = b""
    for _ in range(dice.choice((0, 0, 0, 0, 1, 3))):
        out += b"HTTP/1.1 %d Wait\r\n%s\r\n" % (dice.choice((100, 102, 103)), dice.choice((b"", b"link: x\r\n")))
    version = (
        dice.choice((b"HTTP/1.2", b"HTTP/2.0", b"http/1.1", b"HTTP/1.", b"HTTP/11.1", b" HTTP/1.1"))
        if oddly()
        else b"HTTP/1.1"
    )
    if dice.random() < 0.1:
        version = b"HTTP/1.0"
    status = dice.choice((b"101", b"20", b"2000", b"abc", b"199", b"000", b"999")) if oddly() else dice.choice(
        (b"200", b"200", b"200", b"404", b"500", b"204", b"304", b"201", b"299")
    )  # fmt: skip
    reason = dice.choice((b" OK", b" OK", b" Not Found At All", b" ", b"", b" gr\xc3\xbcn", b" \xff"))
    line = version + b" " + status + reason + _end(dice, oddly())
    body = b"".join(dice.choices(_WORDS, k=dice.randrange(8)))
    headers = [_header(dice, oddly) for _ in range(dice.randrange(5))]
    framing, content = _framed(dice, body, oddly)
    if status in (b"204", b"304") and dice.random() < 0.8:
        framing, content = [], b""
    headers += framing
    if dice.random() < 0.3:
        headers.append((b"Connection", dice.choice((b"close", b"keep-alive", b"Keep-Alive, x", b"upgrade"))))
    dice.shuffle(headers)
    head = b"".join(name + dice.choice((b": ", b":", b":  ")) + value + _end(dice, oddly()) for name, value in headers)
    out += line + head + _end(dice, oddly()) + content
    if dice.random() < 0.1:
        out += dice.choice(
            (b"\r\n", b"EVIL", b"H", b"\x00", b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nEVIL", b"0\r\n\r\n")
        )
    return out


def _header(dice: random.Random, oddly: Callable[[], bool]) -> tuple[bytes, bytes]:
    return (
        dice.choice(_ODD_NAMES if oddly() else _NAMES),
        dice.choice(_ODD_VALUES if oddly() else _VALUES),
    )


def _end(dice: random.Random, odd: bool) -> bytes:
    return dice.choice((b"\n", b"\r", b"\r\r\n", b" \r\n", b"\n\r")) if odd else b"\r\n"


def _framed(dice: random.Random, body: bytes, oddly: Callable[[], bool]) -> tuple[list[tuple[bytes, bytes]], bytes]:
    """Headers that say where the body ends, and the body as it is sent."""
    way = dice.randrange(10)
    if way < 4:
        length = b"%d" % len(body)
        if oddly():
            length = dice.choice((b"%d" % (len(body) + 3), b"%d" % max(0, len(body) - 2), b"+" + length, b"0" + length,
                                  b"-1", b"", b"1e3", b"0x5", b"9" * 25, length + b", " + length))  # fmt: skip
        headers = [(b"Content-Length", length)]
        if oddly():
            headers.append((b"content-length", dice.choice((length, b"7"))))
        return headers, body
    if way < 8:
        coding = dice.choice((b"gzip, chunked", b"chunked, gzip", b"identity", b"chunked, chunked", b"xchunked",
                              b"chunked;q=1", b"", b"CHUNKED ")) if oddly() else dice.choice((b"chunked", b"Chunked"))  # fmt: skip
        headers = [(b"Transfer-Encoding", coding)]
        if oddly():
            headers.append((b"Content-Length", b"%d" % len(body)))
        if oddly():
            headers.append((b"transfer-encoding", b"chunked"))
        return headers, _chunked(dice, body, oddly)
    return [], body


def _chunked(dice: random.Random, body: bytes, oddly: Callable[[], bool]) -> bytes:
    out, at = b"", 0
    while at < len(body):
        size = dice.randrange(1, 12)
        piece = body[at : at + size]
        at += size
        number = dice.choice((b"%x", b"%X", b"%04x")) % len(piece)
        if oddly():
            number = dice.choice((b" " + number, number + b" ", number + b"\t", b"0x" + number, b"-" + number, b"",
                                  b"f" * 17, number + b"g", b"+" + number))  # fmt: skip
        extra = dice.choice((b"", b"", b"", b";a=b", b";a", b';a="b;c"', b"; a = b", b";\x00", b";"))
        out += number + extra + _end(dice, oddly()) + piece + _end(dice, oddly())
    last = dice.choice((b"0", b"000", b"0;x=y"))
    trailers = dice.choice(
        (b"", b"", b"", b"x-sum: 1\r\n", b"Content-Length: 3\r\nTransfer-Encoding: x\r\n", b"bad trailer\r\n")
    )
    return out + last + b"\r\n" + trailers + _end(dice, oddly())


def _mutated(dice: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(out) + 1)
        way = dice.randrange(4)
        if way == 0 and out:
            out[at % len(out)] = dice.choice((0, 9, 10, 13, 32, 48, 58, 65, 255, dice.randrange(256)))
        elif way == 1:
            out[at:at] = bytes([dice.randrange(256)])
        elif way == 2:
            del out[at : at + dice.randrange(1, 4)]
        else:
            out[at:at] = out[at : at + dice.randrange(1, 20)]
    return bytes(out)


def _cut(dice: random.Random, data: bytes) -> tuple[bytes, ...]:
    if not data or dice.random() < 0.3:
        return (data,)
    if dice.random() < 0.1 and len(data) < 200:
        return tuple(data[at : at + 1] for at in range(len(data)))
    places: Sequence[int] = sorted(dice.randrange(len(data) + 1) for _ in range(dice.randrange(1, 5)))
    edges = [0, *places, len(data)]
    return tuple(data[a:b] for a, b in itertools.pairwise(edges) if a < b)
