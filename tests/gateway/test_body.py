"""A request's body: whole, in pieces, compressed, too large, a bomb, cut off."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.core.errors import Aborted, BadRequest
from midstream.gateway.body import Receive, inflated, read_body


def receiving(parts: Iterable[bytes], *, cut: bool = False) -> Receive:
    pieces = list(parts) or [b""]
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": part, "more_body": True} for part in pieces]
    if cut:
        messages.append({"type": "http.disconnect"})
    else:
        messages[-1]["more_body"] = False

    async def receive() -> dict[str, Any]:
        return messages.pop(0)

    return receive


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_any_pieces_are_one_body(parts: list[bytes]) -> None:
    assert asyncio.run(read_body(receiving(parts), b"", 1000)) == b"".join(parts)


@pytest.mark.parametrize("parts", [[b"x" * 11], [b"x" * 6, b"y" * 5], [b"x"] * 11], ids=["whole", "two", "many"])
def test_too_large(parts: list[bytes]) -> None:
    with pytest.raises(BadRequest) as caught:
        asyncio.run(read_body(receiving(parts), b"", 10))
    assert caught.value.status == 413


@pytest.mark.parametrize("parts", [[b""], [b"{", b'"a"']], ids=["at once", "later"])
def test_a_client_that_leaves(parts: list[bytes]) -> None:
    with pytest.raises(Aborted):
        asyncio.run(read_body(receiving(parts, cut=True), b"", 10))


PLAIN = b'{"a": "' + b"b" * 500 + b'"}'


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("gzip", gzip.compress(PLAIN)),
        ("deflate", zlib.compress(PLAIN)),
        ("identity", PLAIN),
        ("GZIP", gzip.compress(PLAIN)),
    ],
    ids=["gzip", "deflate", "identity", "upper case"],
)
def test_compressed(name: str, data: bytes) -> None:
    assert inflated(data, name.encode(), 1000) == PLAIN


@pytest.mark.parametrize(
    ("name", "data", "status"),
    [
        ("gzip", gzip.compress(b"x" * 1001), 413),
        ("gzip", gzip.compress(b"\0" * 50_000_000), 413),
        ("gzip", gzip.compress(PLAIN)[:-9], 400),
        ("gzip", b"no gzip at all", 400),
        ("compress", b"x", 415),
        ("gzip, gzip", b"x", 415),
        ("\xff", b"x", 415),
    ],
    ids=["long", "bomb", "cut", "garbage", "unknown", "twice", "strange"],
)
def test_refused(name: str, data: bytes, status: int) -> None:
    with pytest.raises(BadRequest) as caught:
        inflated(data, name.encode("latin-1"), 1000)
    assert caught.value.status == status
