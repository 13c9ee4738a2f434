"""The outside all decoders share, with the least of readers inside: each word is text, `end` says the end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.core.dialect import Dialect
from midstream.core.errors import LimitExceeded, MalformedStream, ProviderError, TruncatedStream
from midstream.core.events import Done, ErrorEvent, ErrorInfo
from midstream.wires.decode_context import DecodeContext
from midstream.wires.gemini.json_array import ArrayFraming
from midstream.wires.ndjson import LineFraming
from midstream.wires.provider_errors import provider_error
from midstream.wires.sse import SSEParser
from midstream.wires.stream_decoder import Framing, StreamDecoder
from tests.wires.feeding import by_byte, events_of

LIMIT = 64


class Words:
    def __init__(self) -> None:
        self.builder = DecodeContext(Dialect("words", "completion"), "t").builder()
        self.end_was_said = False
        self.settled = 0
        self.overfull = False

    def event(self, data: bytes, name: str) -> None:
        word = data.strip(b'{"}').decode("utf-8", "replace")
        if word == "refuse":
            raise provider_error(429, {"error": {"message": "slow down"}})
        if word == "break":
            raise MalformedStream("broken")
        self.end_was_said = self.end_was_said or word == "end"
        self.builder.text(word)

    def whole(self, body: bytes) -> None:
        self.event(body, "")
        self.end_was_said = True

    def end(self) -> None:
        if self.overfull:
            raise LimitExceeded("too long")
        if not self.end_was_said:
            raise TruncatedStream("the end was not said")
        self.builder.finish("end_turn")

    def settle(self) -> None:
        self.settled += 1
        if self.overfull:
            raise LimitExceeded("too long")


def decoder(framing: Framing | None = None, **options: Any) -> tuple[StreamDecoder, Words]:
    words = Words()
    return StreamDecoder(words, framing or SSEParser(limit=LIMIT), limit=LIMIT, **options), words


def last(data: bytes, framing: type[LineFraming | ArrayFraming] | None = None, **options: Any) -> Any:
    made = [decoder(framing(limit=LIMIT) if framing else None, **options)[0] for _ in range(2)]
    events = events_of(made[0], [data])
    assert events_of(made[1], by_byte(data)) == events
    return events[-1]


def test_an_end_that_was_said_is_told_when_the_bytes_are_over() -> None:
    end = last(b"data: a\n\ndata: end\n\n")
    assert isinstance(end, Done) and end.turn.text == "aend"
    assert last(b"data: end\n\ndata: [DONE]\n\ndata: more\n\n").turn.text == "end"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"data: a\n\n", "truncated"),
        (b"data: a\n\ndata: [DONE]\n\n", "truncated"),
        (b"data: a\n\ndata: break\n\n", "malformed"),
        (b"data: a\n\ndata: refuse\n\n", "rate_limited"),
        (b"data: a\n\ndata: " + b"x" * LIMIT + b"\n\n", "limit"),
    ],
)
def test_what_cannot_go_on_ends_the_answer_with_what_came(data: bytes, kind: str) -> None:
    end = last(data)
    assert isinstance(end, ErrorEvent)
    assert (end.error.kind, end.turn.text) == (kind, "a")
    assert end.error.retryable == (kind in ("truncated", "rate_limited"))


def test_the_reader_settles_before_an_error_is_told() -> None:
    for word in (b"break", b"refuse"):
        made, words = decoder()
        made.feed(b"data: " + word + b"\n\n")
        assert words.settled == 1


def test_the_first_error_is_told_even_if_settling_fails() -> None:
    made, words = decoder()
    words.overfull = True
    (end,) = made.feed(b"data: break\n\n")[-1:]
    assert isinstance(end, ErrorEvent) and end.error.message == "broken"


@pytest.mark.parametrize("lead", [b"", b"\xef\xbb\xbf", b" \r\n", b"\xef\xbb\xbf\n"])
def test_what_is_no_stream_is_read_whole(lead: bytes) -> None:
    assert last(lead + b'{"a"}').turn.text == "a"
    made, _ = decoder()
    assert made.read_body(lead + b'{"a"}')[-1].turn.text == "a"  # type: ignore[union-attr]
    end = last(lead + b"<html>")
    assert isinstance(end, ErrorEvent) and "HTML" in end.error.message


def test_a_body_has_a_limit() -> None:
    body = b"{" + b"x" * LIMIT
    assert last(body).error.kind == "limit"
    made, _ = decoder()
    (end,) = made.read_body(body)[-1:]
    assert isinstance(end, ErrorEvent) and end.error.kind == "limit"


def test_lines_and_arrays_are_framed_as_events_are() -> None:
    lines = {"framing": LineFraming, "instead": {b"<": None}}
    assert last(b'{"a"}\n\n{"end"}', **lines).turn.text == "aend"
    assert "HTML" in last(b"<p>", **lines).error.message
    made, _ = decoder(instead={b"[": ArrayFraming(limit=LIMIT), b"{": None})
    events = made.feed(b'[{"a"},{"end"}]')
    assert isinstance(events[-1], Done) and events[-1].turn.text == "aend"
    made, _ = decoder(instead={b"[": ArrayFraming(limit=LIMIT), b"{": None})
    assert isinstance(made.read_body(b'[{"a"},{"end"}]')[-1], Done)


@pytest.mark.parametrize("kind", ["transport", "idle_timeout", "truncated", "aborted"])
def test_an_end_that_was_said_stands_when_the_line_drops(kind: str) -> None:
    for word, stands in ((b"end", kind != "aborted"), (b"a", False)):
        made, _ = decoder()
        made.feed(b"data: " + word + b"\n\n")
        (end,) = made.fail(ErrorInfo(kind, "lost"))[-1:]
        assert isinstance(end, Done) if stands else isinstance(end, ErrorEvent) and end.error.kind == kind
        assert made.fail(ErrorInfo(kind, "lost")) == made.feed(b"data: a\n\n") == made.close() == []


def test_an_end_that_does_not_fit_is_the_error_when_the_line_drops() -> None:
    made, words = decoder()
    made.feed(b"data: end\n\n")
    words.overfull = True
    (end,) = made.fail(ErrorInfo("transport", "lost"))[-1:]
    assert isinstance(end, ErrorEvent) and end.error.kind == "limit"


def test_progress_counts_data_and_nothing_else() -> None:
    made, _ = decoder()
    made.feed(b": hello\n\ndata:\n\ndata: \n\ndata: a\n\ndata: end\n\ndata: [DONE]\n\n")
    assert made.progress == 2


def test_a_burst_of_many_slices_is_read_to_its_end() -> None:
    end = last_of_burst(b"data: end\n\n")
    assert isinstance(end, Done) and len(end.turn.text) == 20_000 + 3
    assert isinstance(last_of_burst(b"data: break\n\n"), ErrorEvent)


def last_of_burst(tail: bytes) -> Any:
    return events_of(decoder()[0], [b"data: a\n\n" * 20_000 + tail])[-1]


@given(st.binary(max_size=80), st.sampled_from([b"", b"data: ", b"[", b"{", b"<", b"\xef\xbb\xbf"]))
def test_any_bytes_end_in_one_terminal_event(data: bytes, lead: bytes) -> None:
    for framing in (None, LineFraming):
        assert isinstance(last(lead + data, framing), (Done, ErrorEvent))


def test_an_error_of_the_provider_keeps_its_status() -> None:
    with pytest.raises(ProviderError):
        raise last(b"data: refuse\n\n").to_exception()
    assert last(b"data: refuse\n\n").error.status == 429
