from __future__ import annotations

import json

import pytest

from midstream.core.errors import MidstreamError
from midstream.recording import BadRecording, Chunk, Payload, decode_exchange, encode_exchange, read_exchange

from .exchanges import exchange


def test_a_thousand_recordings_come_back_as_they_were() -> None:
    for seed in range(1000):
        made = exchange(seed)
        data = encode_exchange(made)
        assert decode_exchange(data) == made, seed
        assert encode_exchange(decode_exchange(data)) == data, seed


def test_every_line_is_json_that_others_read() -> None:
    for seed in range(100):
        lines = encode_exchange(exchange(seed)).decode().removesuffix("\n").split("\n")
        read = [json.loads(line) for line in lines]
        assert read[0]["midstream"] == "recording" and read[0]["version"] == 1
        assert "request" in read[1] and "end" in read[-1]


def test_text_is_readable_and_bytes_survive_a_cut_inside_a_character() -> None:
    made = exchange(0)
    whole, half, rest = "é".encode(), b"\xc3", b"\xa9"
    from msgspec.structs import replace

    made = replace(made, head=exchange(1).head, chunks=(Chunk(1, whole), Chunk(2, half), Chunk(3, rest)))
    lines = encode_exchange(made).decode().splitlines()
    assert '[1,"text","é"]' in lines and '[2,"base64","ww=="]' in lines
    assert decode_exchange(encode_exchange(made)).body == whole + whole


@pytest.mark.parametrize("body", [b"", b"null", b"0", b'"x"', b'{"b":1,"a":2}', b"{", b"\xff\x00", "é".encode()])
def test_bodies_of_requests(body: bytes) -> None:
    payload = Payload.of(body)
    assert (b"" if payload is None else payload.data) == (b'{"a":2,"b":1}' if b"b" in body else body)


def test_every_cut_of_a_file_is_refused_by_name(tmp_path) -> None:  # type: ignore[no-untyped-def]
    data = encode_exchange(exchange(2))
    file = tmp_path / "x.jsonl"
    for size in range(len(data) - 1):
        file.write_bytes(data[:size])
        with pytest.raises(BadRecording, match=r"x\.jsonl"):
            read_exchange(file)


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (b"{}", "is not a recording"),
        (b"\xff", "is not a recording"),
        (b'{"midstream":"other"}', "is not a recording"),
        (b'{"midstream":"recording","version":9}', "version 9 .* reads up to 1"),
    ],
)
def test_other_files_are_refused(first: bytes, says: str) -> None:
    with pytest.raises(BadRecording, match=says):
        decode_exchange(first + b"\n{}\n")


def test_errors_come_back_in_their_class() -> None:
    for seed in range(50):
        error = exchange(seed).error
        if error is not None:
            restored = error.to_exception()
            assert isinstance(restored, MidstreamError) and str(restored) == error.message
