"""What kind of media base64 data is, by how it begins, and what of it each host is sent."""

from __future__ import annotations

import json
import re
from base64 import b64encode

import pytest

from midstream import Conversation, Media, Text, Turn, encode_request, human
from midstream.sim.players import make_players
from midstream.wires.history_cache import HistoryCache
from midstream.wires.media import mime_of_data, plain_base64, text_of_file
from tests.long_run import each_once

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


PNG = b64encode(BEGINNINGS["image/png"]).decode()
# Bytes that need both letters of the alphabet that differ from the one for URLs, and padding.
ODD = b64encode(BEGINNINGS["image/png"][:8] + b"\xfb\xff\xbe\xff").decode() + "AA=="
URL_SAFE = ODD.replace("+", "-").replace("/", "_").rstrip("=")
GIF, PDF = (b64encode(BEGINNINGS[kind]).decode() for kind in ("image/gif", "application/pdf"))
PLAYERS = make_players()
READERS = (
    "openai",
    "moonshot-k2.5",
    "xai",
    "claude",
    "openai-responses-5",
    "gemini-2.5-flash",
    "ollama",
    "cohere-vision",
)
CLOUD_FILE = "https://generativelanguage.googleapis.com/v1beta/files/a1"


def sent(reader: str, *media: Media) -> tuple[str, list[str]]:
    """The body that a reader is sent, and why something in it was changed."""
    target = PLAYERS[reader].target
    request = encode_request(target, Conversation((human(Text("look"), *media),)), cache=None)
    return request.body.decode(), [f"{note.code}: {note.why}" for note in request.notes]


def seen(reader: str, media: Media) -> str | None:
    """The type under which a reader gets an image (where its wire has one), or None where it gets a line of text instead."""
    body, notes = sent(reader, media)
    if "omitted" in body:
        assert [note.partition(":")[0] for note in notes] == ["unsupported_media"]
        return None
    assert not notes
    found = re.search(r"image/[a-z*+-]+", body)
    return found[0] if found else ""


@each_once(("reader", READERS), ("media", [
        Media("image/png", PNG), Media("image/jpeg", PNG), Media("image/*", PNG), Media("", PNG), Media("IMAGE/PNG", PNG),
        Media("image/svg+xml", PNG), Media("image/png; name=a.png", PNG), Media("application/octet-stream", PNG),
        Media("", url=f"data:image/webp;base64,{PNG}"), Media("image/png", f"{PNG[:20]}\r\n{PNG[20:]}\n"),
    ]))  # fmt: skip
def test_an_image_goes_under_the_type_that_it_has(reader: str, media: Media) -> None:
    body, notes = sent(reader, media)
    assert PNG in body
    assert not notes
    assert seen(reader, media) == ("" if reader == "ollama" else "image/png")


@pytest.mark.parametrize("reader", READERS)
def test_base64_of_any_spelling_is_sent_plain(reader: str) -> None:
    body, notes = sent(reader, Media("image/png", URL_SAFE))
    assert ODD in body
    assert not notes


@each_once(
    ("reader", READERS),
    (
        "media, why",
        [
            (Media("image/png", "not base64!!"), "its data is not base64"),
            (Media("image/png", ""), "it has no data and no address"),
            (Media("image/png"), "it has no data and no address"),
            (Media("image/tiff", b64encode(b"II*\x00" + bytes(40)).decode()), "this model does not read image/tiff"),
            (Media("image/png", b64encode(b"BM" + bytes(40)).decode()), "this model does not read image/bmp"),
            (Media("image/svg+xml", b64encode(b"<svg/>").decode()), "this model does not read image/svg+xml"),
            (Media("image/svg+xml", url="https://a.test/b.svg"), "this model does not read image/svg+xml"),
        ],
    ),
)
def test_what_every_host_refuses_is_told_as_text(reader: str, media: Media, why: str) -> None:
    body, notes = sent(reader, media)
    assert "[image omitted]" in body
    assert notes == [f"unsupported_media: {why}; sent a placeholder instead"]


@pytest.mark.parametrize(
    ("media", "readers"),
    [
        (Media("image/gif", GIF), set(READERS) - {"xai", "gemini-2.5-flash"}),
        (Media("image/heic", b64encode(b"\x00\x00\x00\x18ftypheic" + bytes(40)).decode()), {"gemini-2.5-flash"}),
        (Media("image/png", url="https://a.test/b.png"), set(READERS) - {"ollama"}),
        (Media("image/jpg", url="https://a.test/b.jpg"), set(READERS) - {"ollama"}),
        (Media("image/*", url="file-AbC123"), {"openai-responses-5"}),
        (Media("image/*", url="file_011CNha8iCJcU1wXNR6q4V8w"), {"claude"}),
        (Media("image/*", url="ms://abc"), {"moonshot-k2.5"}),
        (Media("image/*", url="gs://bucket/a"), {"gemini-2.5-flash"}),
        (Media("image/png", url=CLOUD_FILE), {"gemini-2.5-flash"}),
        (Media("image/*", url="data:image/svg+xml,%3Csvg/%3E"), set()),
        # A PDF stays a PDF whatever it is called, and goes where files do.
        (Media("image/png", PDF), {"openai", "claude", "openai-responses-5", "gemini-2.5-flash"}),
    ],
)  # fmt: skip
def test_a_medium_goes_only_to_hosts_that_can_open_it(media: Media, readers: set[str]) -> None:
    assert {reader for reader in READERS if seen(reader, media) is not None} == readers


@pytest.mark.parametrize("reader", READERS)
def test_fields_of_another_wire_stay_at_home(reader: str) -> None:
    foreign = {
        "cache_control": {"type": "ephemeral"},
        "mediaResolution": {"level": "x"},
        "detail": "original",
        "strange": 1,
    }
    own = {"claude": "cache_control", "gemini-2.5-flash": "mediaResolution", "openai-responses-5": "detail"}.get(reader)
    body, _ = sent(reader, Media("image/png", PNG, extra=foreign))
    assert [key for key in foreign if f'"{key}"' in body] == [own] * (own is not None)


@each_once(
    ("reader", ["openai", "openrouter-responses"]),
    (
        "kind, format_",
        [("mpeg", "mp3"), ("mp3", "mp3"), ("x-wav", "wav"), ("wav; rate=16000", "wav"), ("flac", "flac")],
    ),
)
def test_sounds_are_named_in_the_words_of_the_wire(reader: str, kind: str, format_: str) -> None:
    assert f'"format":"{format_}"' in sent(reader, Media(f"audio/{kind}", "QUJD"))[0]


@pytest.mark.parametrize("reader", ["openai", "cohere-vision", "openai-responses-5"])
def test_the_detail_of_an_image_is_kept(reader: str) -> None:
    assert '"detail":"low"' in sent(reader, Media("image/png", PNG, extra={"detail": "low"}))[0]


def test_data_that_nobody_can_name_is_sent_as_it_came() -> None:
    """Only the host can judge it."""
    assert '"data":"ELIDED_120_CHARS"' in sent("claude", Media("image/png", "ELIDED_120_CHARS"))[0]


@pytest.mark.parametrize(
    ("data", "plain"),
    [
        ("", ""), ("QUJD", "QUJD"), ("QUI", "QUI="), ("QQ", "QQ=="), ("QQ=", "QQ=="), ("QUJ\nD", "QUJD"), ("-_-_", "+/+/"),
        ("Q", ""), ("QUJDR", ""), ("Q=Q=", ""), ("é" * 4, ""), ("QU!D", ""), ("====", ""),
    ],
)  # fmt: skip
def test_plain_base64(data: str, plain: str) -> None:
    assert plain_base64(data) == plain


@pytest.mark.parametrize("kind", ["text/plain", "text/csv; charset=utf-8", "application/json"])
def test_text_files_are_read_however_they_are_spelled(kind: str) -> None:
    data = b64encode("über >>>???".encode()).decode()
    for spelled in (data, data.rstrip("="), data.replace("+", "-").replace("/", "_")):
        for media in (Media(kind, spelled), Media("", url=f"data:{kind};base64,{spelled}")):
            assert text_of_file(media) == "über >>>???"
    assert text_of_file(Media(kind, "/w==")) is None  # not UTF-8
    assert text_of_file(Media(kind, url="https://a.test/b")) is None


@pytest.mark.parametrize("reader", READERS)
def test_a_request_with_odd_media_begins_the_next_one(reader: str) -> None:
    """What is sent of a medium depends on nothing that comes later."""
    target, cache = PLAYERS[reader].target, HistoryCache()
    odd = [
        Media("image/png", URL_SAFE),
        Media("image/tiff", PNG),
        Media("image/png", "!"),
        Media("image/*", url="ms://a"),
    ]
    first = Conversation((human(Text("look"), *odd),))
    then = Conversation((*first.turns, Turn("ai", (Text("so"),)), human(Text("go on"), Media("image/gif", GIF))))
    bodies = [json.loads(encode_request(target, each, cache=cache).body) for each in (first, then)]
    assert bodies[1] == json.loads(encode_request(target, then, cache=None).body)
    field = next(key for key in ("messages", "input", "contents") if key in bodies[0])
    before, after = (json.dumps(body[field])[:-1] for body in bodies)
    assert after.startswith(before)
