"""Content-Encoding decoded in bounded pieces.

A decoder never gives more than `PIECE` bytes at once, whatever it was fed, so a bomb is met piece by piece and stopped by
the reader's limits. gzip and deflate come from the standard library; br and zstd only where a library that can bound its
output is installed, and only then are they asked for.
"""

from __future__ import annotations

import importlib
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ..core.errors import LimitExceeded, MalformedStream, MidstreamError, TruncatedStream

# Bounds against decompression bombs. A limit on the output alone would refuse a long honest answer; a limit
# on the ratio alone would refuse a short one that is all blanks. Only both together mark a bomb: much
# output, out of almost nothing.
PIECE = 64 * 1024
BOMB_FLOOR = 8 * 1024 * 1024
BOMB_RATIO = 256
"""Past the floor, an answer that grew by more than this is a bomb. Token streams, repetitive as they are, stay far below;
deflate reaches 1032."""
_SIP = 16 * 1024  # input is taken in sips, so that the ratio is of what was truly read
_ZSTD_WINDOW_LOG = 23  # 8 MiB, what RFC 8878 §3.1.1.1.2 asks a decoder to support at least; the default allows 128 MiB


class Codec(Protocol):
    """One compressed format: `feed` input, then `piece` until it gives nothing; `done` says that its end was seen."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What `piece` raises for input that is not of this format."""

    def feed(self, data: bytes) -> None: ...
    def piece(self) -> bytes: ...
    @property
    def done(self) -> bool: ...


class Inflater:
    """Decodes one Content-Encoding and watches how far it expands."""

    def __init__(self, codec: Codec, name: str) -> None:
        self._codec = codec
        self._name = name
        self._input: deque[bytes] = deque()
        self._taken = 0
        self._given = 0

    def feed(self, data: bytes) -> None:
        self._input.extend(data[start : start + _SIP] for start in range(0, len(data), _SIP))

    def piece(self) -> bytes:
        """The next piece of what was fed, at most PIECE bytes; empty when more input is needed."""
        try:
            while not (out := self._codec.piece()) and self._input:
                sip = self._input.popleft()
                self._taken += len(sip)
                self._codec.feed(sip)
        except self._codec.errors as error:
            # `from None`: the message has the library's words, and its own traceback tells a reader nothing more.
            raise MalformedStream(f"the body is not valid {self._name}: {error}") from None
        self._given += len(out)
        if self._given > BOMB_FLOOR and self._given > self._taken * BOMB_RATIO:
            raise LimitExceeded(
                f"a {self._name} body of {self._taken} bytes expanded to over {self._given}; refused as a decompression bomb"
            )
        return out

    def close(self) -> None:
        """The input is over."""
        # An empty body with a Content-Encoding happens (204-like answers) and is not cut: nothing was begun.
        if self._taken and not self._codec.done:
            raise TruncatedStream(f"the {self._name} body is incomplete")


def inflater(content_encoding: str) -> Inflater | None:
    """The decoder for this Content-Encoding; None where there is nothing to undo."""
    name = content_encoding.strip().lower()
    if name in ("", "identity"):
        return None
    make = _codecs().get(name)
    if make is None:
        raise MalformedStream(f"unsupported Content-Encoding {name[:40]!r}; the request did not ask for it")
    return Inflater(make(), name)


def inflated(chunks: Sequence[bytes], content_encoding: str, most: int) -> Sequence[bytes]:
    """Chunks of a body that somebody wants to look at, decoded as far as they can be read, up to about `most` bytes."""
    pieces, size = list[bytes](), 0
    try:
        codec = inflater(content_encoding)
        if codec is None:
            return chunks
        for data in chunks:
            codec.feed(data)
            while size < most and (piece := codec.piece()):
                pieces.append(piece)
                size += len(piece)
    except MidstreamError:
        pass  # broken, or in a code that nobody here reads: what came before it counts
    return pieces


def accept_encoding(stream: bool) -> str:
    """What to ask for. A compressor between a model and its reader holds tokens back, so streams ask for none."""
    if stream:
        return "identity"
    # Read if a server sends them, but not asked for: `x-gzip`
    # is an old name, and servers disagree on what `deflate` is.
    return ", ".join(name for name in _codecs() if name not in ("x-gzip", "deflate"))


class _Zlib:
    """gzip (also of several members) and deflate (with or without the zlib header, as servers disagree)."""

    errors = (zlib.error,)

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._inner: Any = None
        self._input = b""
        # zlib's convention: 16 added to the window bits means a gzip
        # wrapper. Only gzip may have several members (RFC 1952 §2.2).
        self._many = wbits > zlib.MAX_WBITS

    def feed(self, data: bytes) -> None:
        self._input += data

    def piece(self) -> bytes:
        while self._input:
            if self._inner is None or self._inner.eof:
                # After a member there may be another, which begins with
                # 0x1f, or padding, which is thrown away as gzip tools do.
                if self._inner is not None and not (self._many and self._input[:1] == b"\x1f"):
                    self._input = b""  # padding behind the end
                    break
                self._inner = zlib.decompressobj(self._wbits_for(self._input[0]))
            out: bytes = self._inner.decompress(self._input, PIECE)
            self._input = self._inner.unused_data if self._inner.eof else self._inner.unconsumed_tail
            if out:
                return out
        return b""

    def _wbits_for(self, first: int) -> int:
        # The low half of a zlib header's first byte is the method, always 8. Anything else is raw deflate,
        # which some servers send under the same name; negative window bits tell zlib so.
        if not self._many and first & 0x0F != 8:
            return -zlib.MAX_WBITS
        return self._wbits

    @property
    def done(self) -> bool:
        return self._inner is not None and bool(self._inner.eof)


class _Brotli:
    def __init__(self, module: Any) -> None:
        self.errors = (module.error,)
        self._inner = module.Decompressor()
        self._input = b""

    def feed(self, data: bytes) -> None:
        self._input += data

    def piece(self) -> bytes:
        while True:
            # It still holds output from before, and takes input only
            # after that was fetched; b"" asks for the next piece.
            if not self._inner.can_accept_more_data():
                out: bytes = self._inner.process(b"", output_buffer_limit=PIECE)
            elif self._input and not self.done:
                data, self._input = self._input, b""
                out = self._inner.process(data, output_buffer_limit=PIECE)
            else:
                return b""
            if out:
                return out

    @property
    def done(self) -> bool:
        return bool(self._inner.is_finished())


class _Zstd:
    def __init__(self, module: Any) -> None:
        self.errors = (module.ZstdError,)
        self._module = module
        self._inner = self._new()
        self._input = b""
        self._fed = False

    def _new(self) -> Any:
        limit = {self._module.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
        return self._module.ZstdDecompressor(options=limit)

    def feed(self, data: bytes) -> None:
        self._input += data

    def piece(self) -> bytes:
        while True:
            if self._inner.eof:
                self._input = self._inner.unused_data + self._input
                if not self._input:
                    return b""
                self._inner = self._new()  # the next frame
            elif self._inner.needs_input and not self._input:
                return b""
            data, self._input = self._input, b""
            out: bytes = self._inner.decompress(data, PIECE)
            if out:
                return out

    @property
    def done(self) -> bool:
        return bool(self._inner.eof)


_found: dict[str, Callable[[], Codec]] = {}


def _codecs() -> dict[str, Callable[[], Codec]]:
    """Every format that can be read here, looked for once."""
    if not _found:
        _found.update({"gzip": _gzip, "x-gzip": _gzip, "deflate": _deflate})
        brotli = _module("brotli", "brotlicffi")
        # Older releases cannot bound their output: one call could
        # expand a bomb in full, so they count as not installed.
        if brotli is not None and hasattr(brotli.Decompressor, "can_accept_more_data"):
            _found["br"] = lambda: _Brotli(brotli)
        zstd = _module("compression.zstd", "backports.zstd")
        if zstd is not None:
            _found["zstd"] = lambda: _Zstd(zstd)
    return _found


def _gzip() -> Codec:
    return _Zlib(16 + zlib.MAX_WBITS)


def _deflate() -> Codec:
    return _Zlib(zlib.MAX_WBITS)


def _module(*names: str) -> Any:
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None
