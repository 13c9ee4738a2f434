from __future__ import annotations

import gzip
import sys
import types
import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream.core.errors import LimitExceeded, MalformedStream, RemoteError, TruncatedStream
from midstream.transport import encoding
from midstream.transport.encoding import PIECE, Inflater, accept_encoding, inflater


def _raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKED = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "deflate without a header": _raw_deflate,
    "gzip of two members": lambda data: gzip.compress(data[:7]) + gzip.compress(data[7:]),
    "gzip with padding": lambda data: gzip.compress(data) + bytes(9),
}


def _inflate(name: str, parts: list[bytes]) -> bytes:
    found = inflater(name.split()[0])
    assert found is not None
    out = bytearray()
    for part in parts:
        found.feed(part)
        while piece := found.piece():
            assert len(piece) <= PIECE
            out += piece
    found.close()
    return bytes(out)


def _cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in pairwise(edges)]


@pytest.mark.parametrize("name", PACKED)
@settings(max_examples=60)
@given(data=st.binary(max_size=400), places=st.lists(st.integers(0, 500), max_size=6))
def test_any_split_gives_the_same_bytes(name: str, data: bytes, places: list[int]) -> None:
    assert _inflate(name, _cut(PACKED[name](data), places)) == data


@pytest.mark.parametrize("name", PACKED)
def test_byte_by_byte_and_large(name: str) -> None:
    data = b"".join(b"data: token %d\n\n" % n for n in range(8_000))
    packed = PACKED[name](data)
    assert _inflate(name, [packed]) == data
    assert _inflate(name, [packed[i : i + 1] for i in range(len(packed))]) == data


@pytest.mark.parametrize("name", ["gzip", "deflate"])
def test_a_cut_body_is_truncated(name: str) -> None:
    packed = PACKED[name](b"hello" * 100)
    for length in range(1, len(packed)):
        with pytest.raises(TruncatedStream):
            _inflate(name, [packed[:length]])
    assert _inflate(name, []) == b""


@settings(max_examples=200)
@given(name=st.sampled_from(["gzip", "deflate"]), data=st.binary(max_size=200))
def test_garbage_gives_bytes_or_a_remote_error(name: str, data: bytes) -> None:
    try:
        _inflate(name, [data])
    except RemoteError as error:
        assert error.__cause__ is None


@pytest.mark.parametrize("name", ["gzip", "deflate"])
def test_a_bomb_is_met_piece_by_piece(name: str) -> None:
    bomb = PACKED[name](bytes(64 << 20))
    found = inflater(name)
    assert found is not None
    found.feed(bomb)
    given = 0
    with pytest.raises(LimitExceeded, match="bomb"):
        while piece := found.piece():
            given += len(piece)
    assert given <= encoding.BOMB_FLOOR


def test_a_repetitive_stream_is_no_bomb() -> None:
    event = b'data: {"id":"c1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"%d"}}]}\n\n'
    data = b"".join(event % (n % 7) for n in range(120_000))
    assert len(data) > encoding.BOMB_FLOOR
    assert _inflate("gzip", [gzip.compress(data)]) == data


def test_nothing_to_undo_and_unknown() -> None:
    assert inflater("") is inflater("identity") is inflater(" Identity ") is None
    for name in ("compress", "gzip, gzip", "x" * 5000):
        with pytest.raises(MalformedStream) as caught:
            inflater(name)
        assert len(str(caught.value)) < 200


def test_streams_are_asked_for_plain() -> None:
    assert accept_encoding(stream=True) == "identity"
    assert accept_encoding(stream=False).split(", ")[0] == "gzip"


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Look for the libraries anew, within the test and after it."""
    monkeypatch.setattr(encoding, "_found", {})
    for name in ("brotli", "brotlicffi", "compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    yield monkeypatch


def test_what_cannot_be_read_is_not_asked_for(fresh: pytest.MonkeyPatch) -> None:
    assert accept_encoding(stream=False) == "gzip"
    for name in ("br", "zstd"):
        with pytest.raises(MalformedStream, match=name):
            inflater(name)


def test_a_brotli_that_cannot_bound_its_output_is_not_used(fresh: pytest.MonkeyPatch) -> None:
    old = types.ModuleType("brotli")
    old.Decompressor = type("Decompressor", (), {"process": lambda self, data: data})  # type: ignore[attr-defined]
    fresh.setitem(sys.modules, "brotli", old)
    assert "br" not in accept_encoding(stream=False)


class _BrotliLike:
    """The interface of brotli >= 1.2 over zlib."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj()

    def process(self, data: bytes, output_buffer_limit: int) -> bytes:
        assert not data or not self._inner.unconsumed_tail, "fed while output was pending"
        return self._inner.decompress(self._inner.unconsumed_tail + data, output_buffer_limit)

    def can_accept_more_data(self) -> bool:
        return not self._inner.unconsumed_tail

    def is_finished(self) -> bool:
        return self._inner.eof


class _ZstdLike:
    """The interface of compression.zstd over bz2-like semantics, frame by frame."""

    def __init__(self, options: dict[Any, int]) -> None:
        assert options == {"window_log_max": 23}
        self._inner = zlib.decompressobj()
        self._held = b""

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._held and not self.eof

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if self.eof:
            raise EOFError
        out = self._inner.decompress(self._held + data, max_length)
        self._held = self._inner.unconsumed_tail
        return out


@pytest.fixture
def libraries(fresh: pytest.MonkeyPatch) -> None:
    brotli = types.ModuleType("brotli")
    brotli.__dict__.update(Decompressor=_BrotliLike, error=zlib.error)
    zstd = types.ModuleType("backports.zstd")
    parameter = types.SimpleNamespace(window_log_max="window_log_max")
    zstd.__dict__.update(ZstdDecompressor=_ZstdLike, ZstdError=zlib.error, DecompressionParameter=parameter)
    fresh.setitem(sys.modules, "brotli", brotli)
    fresh.setitem(sys.modules, "backports", types.ModuleType("backports"))
    fresh.setitem(sys.modules, "backports.zstd", zstd)


def test_zstd_of_the_standard_library() -> None:
    zstd = pytest.importorskip("compression.zstd", reason="NOT TESTED: it came with Python 3.14")
    assert "zstd" in accept_encoding(stream=False)
    data = b"".join(b"data: token %d\n\n" % n for n in range(8_000))
    packed = zstd.compress(data[:50_000]) + zstd.compress(data[50_000:])  # frames may follow each other
    for size in (1, 1000, len(packed)):
        assert _inflate("zstd", [packed[i : i + size] for i in range(0, len(packed), size)]) == data
    with pytest.raises(TruncatedStream):
        _inflate("zstd", [packed[:-1]])
    with pytest.raises(MalformedStream):
        _inflate("zstd", [b"garbage"])
    with pytest.raises(LimitExceeded):
        _inflate("zstd", [zstd.compress(bytes(64 << 20))])


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("name", ["br", "zstd"])
def test_installed_libraries_are_asked_for_and_bounded(name: str) -> None:
    assert accept_encoding(stream=False) == "gzip, br, zstd"
    data = b"".join(b"data: token %d\n\n" % n for n in range(8_000))
    packed = zlib.compress(data)
    for size in (1, 1000, len(packed)):
        assert _inflate(name, [packed[i : i + size] for i in range(0, len(packed), size)]) == data
    with pytest.raises(TruncatedStream):
        _inflate(name, [packed[:-1]])
    with pytest.raises(MalformedStream):
        _inflate(name, [b"garbage"])
    with pytest.raises(LimitExceeded):
        _inflate(name, [zlib.compress(bytes(64 << 20))])


@pytest.mark.usefixtures("libraries")
def test_zstd_frames_follow_each_other() -> None:
    packed = zlib.compress(b"one ") + zlib.compress(b"two")
    for size in (1, 5, len(packed)):
        assert _inflate("zstd", [packed[i : i + size] for i in range(0, len(packed), size)]) == b"one two"


def test_the_ratio_is_of_all_that_came() -> None:
    class Echo:
        errors = ()
        done = True
        left = 0

        def feed(self, data: bytes) -> None:
            self.left += len(data) * 300

        def piece(self) -> bytes:
            out = min(self.left, PIECE)
            self.left -= out
            return bytes(out)

    found = Inflater(Echo(), "echo")
    with pytest.raises(LimitExceeded):
        while True:
            found.feed(b"x" * 100)
            while found.piece():
                pass
