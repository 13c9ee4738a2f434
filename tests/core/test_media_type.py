"""The media type of a file: content first, then its name; and media made of files and bytes."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.core.blocks import Media, ToolCall, Turn, human, system, tool_result
from midstream.core.errors import LocalError
from midstream.core.media_type import HEAD, is_media_type, media_type
from midstream.wires.media import mime_of_data

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00\x00\x00\rIHDR" + bytes(16)
ZIP = b"PK\x03\x04\x14\x00" + bytes(20)

# first bytes, name, media type
CASES = [
    (PNG, "", "image/png"),
    (PNG, "photo.jpg", "image/png"),
    (b"\xff\xd8\xff\xe0\x00\x10JFIF\x00", "x.png", "image/jpeg"),
    (b"GIF87a\x01\x00\x01\x00\x80", "", "image/gif"),
    (b"GIF89a\x01\x00\x01\x00\x80", "", "image/gif"),
    (b"RIFF\x24\x00\x00\x00WEBPVP8 ", "", "image/webp"),
    (b"RIFF\x24\x00\x00\x00WAVEfmt ", "x.webp", "audio/wav"),
    (b"RIFF\x24\x00\x00\x00AVI LIST", "", "video/x-msvideo"),
    (b"BM\x8a\x00\x00\x00\x00\x00", "", "image/bmp"),
    (b"BMW is a car", "", "text/plain"),
    (b"II*\x00\x08\x00", "", "image/tiff"),
    (b"MM\x00*\x00\x00", "", "image/tiff"),
    (b"\x00\x00\x00\x1cftypavif\x00\x00", "", "image/avif"),
    (b"\x00\x00\x00\x1cftypheic\x00\x00", "", "image/heic"),
    (b"%PDF-1.7\n%\xe2\xe3", "notes", "application/pdf"),
    (b"ID3\x04\x00\x00\x00", "", "audio/mpeg"),
    (b"\xff\xfb\x90\x64\x00", "", "audio/mpeg"),
    (b"\xff\xf3\x40\xc0\x00", "", "audio/mpeg"),
    (b"\xff\xf1\x50\x80\x00", "", "audio/aac"),
    (b"\xff\xfeh\x00i\x00", "letter.txt", "application/octet-stream"),
    (b"\xff\xff\xff\xff", "", "application/octet-stream"),
    (b"fLaC\x00\x00\x00\x22", "", "audio/flac"),
    (b"OggS\x00\x02" + bytes(22) + b"\x01\x13OpusHead", "", "audio/ogg"),
    (b"OggS\x00\x02" + bytes(22) + b"\x01\x2a\x80theora", "", "video/ogg"),
    (b"FORM\x00\x00\x10\x00AIFFCOMM", "", "audio/aiff"),
    (b"\x00\x00\x00\x20ftypM4A \x00\x00", "x.mp4", "audio/mp4"),
    (b"\x00\x00\x00\x20ftypisom\x00\x00", "", "video/mp4"),
    (b"\x00\x00\x00\x20ftypmp42\x00\x00", "", "video/mp4"),
    (b"\x00\x00\x00\x14ftypqt  \x00\x00", "", "video/quicktime"),
    (b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08B\x82\x84webm", "", "video/webm"),
    (b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08B\x82\x88matroska", "", "video/x-matroska"),
    (ZIP, "", "application/zip"),
    (ZIP, "t.docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    (ZIP, "t.png", "application/zip"),
    (b"\x1f\x8b\x08\x00", "", "application/gzip"),
    (b"# Title\n", "README.MD", "text/markdown"),
    (b"a,b\n1,2\n", "t.csv", "text/csv"),
    (b"{}", "t.json", "application/json"),
    (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "t.svg", "image/svg+xml"),
    (b"just text", "photo.png", "text/plain"),
    ("日本語".encode(), "", "text/plain"),
    (b"a" * (HEAD - 1) + "é".encode()[:1], "", "text/plain"),
    (b"\xe9t\xe9", "t.txt", "application/octet-stream"),
    (b"\x00\x01\x02", "sound.mp3", "audio/mpeg"),
    (b"\x00\x01\x02", "", "application/octet-stream"),
    (b"", "photo.png", "image/png"),
]  # fmt: skip


@pytest.mark.parametrize(("head", "name", "expected"), CASES, ids=range(len(CASES)))
def test_content_decides_then_the_name(head: bytes, name: str, expected: str, tmp_path: Path) -> None:
    assert media_type(head, name) == expected
    assert is_media_type(expected)
    if head:
        path = tmp_path / (name or "file")
        path.write_bytes(head)
        found = Media.from_path(path)
        assert found == Media(expected, base64.b64encode(head).decode(), name=path.name)
        assert Media.from_path(str(path), "image/x-mine").mime == "image/x-mine"


@given(st.binary(max_size=64), st.text(max_size=8))
def test_any_bytes_have_a_type_and_come_back(data: bytes, name: str) -> None:
    made = Media.from_bytes(data, name=name)
    assert is_media_type(made.mime)
    assert made.data is not None and base64.b64decode(made.data) == data
    assert made == Media(made.mime, made.data, name=name) == Media.from_bytes(bytearray(data), name=name)


@pytest.mark.parametrize(("head", "_", "expected"), CASES[:7], ids=range(7))
def test_the_wires_read_the_same_bytes_in_base64(head: bytes, _: str, expected: str) -> None:
    assert mime_of_data(base64.b64encode(head + bytes(9000)).decode()) == expected


@pytest.mark.parametrize("data", ["", "iV", "é", "====", "AAAA"])
def test_base64_that_says_nothing(data: str) -> None:
    assert mime_of_data(data) == ""


@pytest.mark.parametrize("data", [PNG, bytearray(PNG), memoryview(PNG)])
def test_swapped_arguments_are_refused_with_the_right_order(data: Any) -> None:
    with pytest.raises(
        TypeError, match=r"type first.*Media\.from_bytes\(data, 'image/png'\).*Media\('image/png', data\)"
    ):
        Media(data, "image/png")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"base64 text, got .*: Media\.from_bytes\(data, 'image/png'\)"):
        Media("image/png", data)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the mime of a Media is a word"):
        Media(data)  # type: ignore[arg-type]


def test_swapped_texts_are_refused_when_they_are_said() -> None:
    swapped = Media(base64.b64encode(PNG).decode(), "image/png")
    for say in (human, system, lambda part: tool_result(ToolCall("a", "b"), part)):
        with pytest.raises(TypeError, match="type first"):
            say(swapped)  # type: ignore[operator]
    assert human(Media("image/png", "AAAA"), Media("image/*", url="https://example.com/a.png")).blocks


def test_a_stored_conversation_with_swapped_texts_still_loads() -> None:
    """Older versions took it, so it may be in a database."""
    turn = Turn("human", (Media("iVBORw0KGgo=", "image/png"),))
    assert msgspec.json.decode(msgspec.json.encode(turn), type=Turn) == turn


def test_what_cannot_be_attached_says_why(tmp_path: Path) -> None:
    (tmp_path / "empty.png").touch()
    os.mkfifo(tmp_path / "pipe")
    for name, words in {
        "missing.png": "no such file",
        "empty.png": "the file is empty",
        "pipe": "not a regular file",
        ".": "not a regular file",
        "a\0b": "null",
    }.items():
        with pytest.raises(LocalError, match=rf"cannot attach .*{words}"):
            Media.from_path(tmp_path / name)


def test_a_text_is_one_though_the_look_at_its_head_ends_inside_a_character() -> None:
    wave = "\U0001f30a".encode()
    for cut in (1, 2, 3):
        assert Media.from_bytes(b"a" * (HEAD - cut) + wave).mime.startswith("text/plain"), cut
    assert not Media.from_bytes(b"a" * 9 + wave[:3]).mime.startswith("text/")
    assert not Media.from_bytes(b"a" * (HEAD - 5) + wave[:1] + b"aaaaa").mime.startswith("text/")
