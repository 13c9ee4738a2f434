"""What kind of media base64 data is, by how it begins."""

from __future__ import annotations

from base64 import b64encode

import pytest

from midstream.wires.media import mime_of_data

BEGINNINGS = {
    "image/png": b"\x89PNG\r\n\x1a\n" + bytes(40),
    "image/jpeg": b"\xff\xd8\xff\xe0" + bytes(40),
    "image/gif": b"GIF89a" + bytes(40),
    "application/pdf": b"%PDF-1.7\n" + bytes(40),
}


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_it_is_known_however_much_of_it_there_is(kind: str) -> None:
    """Data that was cut anywhere behind its beginning, in the middle of a group of four too."""
    for more in (b"", bytes(5), bytes(100_000)):
        data = b64encode(BEGINNINGS[kind] + more).decode().rstrip("=")
        for length in (len(data), len(data) - 1, len(data) - 2, len(data) - 3, 33, 34, 35, 36):
            assert mime_of_data(data[:length]) == kind, length


@pytest.mark.parametrize("data", ["", "A", "AAAA", "é" * 8, "!" * 8])
def test_what_is_unknown_has_no_kind(data: str) -> None:
    assert mime_of_data(data) == ""
