"""The event-stream parser against the WHATWG specification and the two options an LLM client needs."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from midstream.core.errors import LimitExceeded
from midstream.wires.sse import ServerSentEvent, SSEParser
from tests.long_run import each_once
from tests.shared_data import shared, vectors
from tests.wires.feeding import by_byte


def parse(chunks: Any, **options: Any) -> list[ServerSentEvent]:
    parser = SSEParser(**options)
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events + parser.close()


def cuts(chunks: list[bytes]) -> dict[str, list[bytes]]:
    whole = b"".join(chunks)
    return {"as given": chunks, "whole": [whole], "byte by byte": by_byte(whole)}


def test_whatwg_vectors() -> None:
    cases = msgspec.json.decode(shared("vectors/reliability/sse.json").read_bytes())["vectors"]
    assert len(cases) == 119
    for case in cases:
        chunks = [part["s"].encode() if "s" in part else base64.b64decode(part["b64"]) for part in case["chunks"]]
        for how, pieces in cuts(chunks).items():
            for lenient, key in ((False, "expected_events"), (True, "expected_events_lenient")):
                if key not in case:
                    continue
                got = [
                    {"event": event.event, "data": event.text, "id": event.id, "retry": event.retry}
                    for event in parse(pieces, lenient_end=lenient)
                ]
                wanted = case[key]
                for ours, theirs in zip(got, wanted, strict=False):
                    if "retry" not in theirs and (ours["retry"] is None or case.get("retry_unchecked")):
                        ours.pop("retry")
                assert got == wanted, (case["name"], how, key)


def test_framing_vectors() -> None:
    for name, case in vectors("streaming/sse-framing.json").items():
        expected = case["expected"]
        wanted = expected.get("data") or expected.get("data_lenient")
        if not wanted or expected.get("done"):
            continue  # [DONE], errors and stalls are the decoder's and the transport's business
        pieces = [
            base64.b64decode(part["base64"]) if isinstance(part, dict) else part.encode()
            for part in case["input"]["chunks"]
        ]
        for how, chunks in cuts(pieces).items():
            assert [event.text for event in parse(chunks)] == wanted, (name, how)


@pytest.mark.parametrize("how", ["as given", "whole", "byte by byte"])
def test_own_cases(how: str) -> None:
    source = [
        b"\xef\xbb\xbf: hello\ndata: a\r\ndata: b\r",
        b"\n\r\nevent: x\nid: 7\nretry: 30\ndata:c\n\n",
        b"data\n\nevent: gone\n\ndata: \xff\xe2\x82\n\ndata: last",
    ]
    got = [(event.event, event.text, event.id, event.retry) for event in parse(cuts(source)[how])]
    assert got == [
        ("message", "a\nb", "", None),
        ("x", "c", "7", 30),
        ("message", "", "7", None),
        ("message", "\ufffd\ufffd", "7", None),
        ("message", "last", "7", None),
    ]
    assert [event.text for event in parse(cuts(source)[how], lenient_end=False)][-1] != "last"


@given(st.binary(max_size=400), st.lists(st.integers(1, 40), max_size=30))
def test_any_split_gives_the_same_events(data: bytes, lengths: list[int]) -> None:
    noise = data.replace(b"\x00", b"\n").replace(b"\x01", b"data: ").replace(b"\x02", b"\r")
    pieces, at = [], 0
    for length in lengths:
        pieces.append(noise[at : at + length])
        at += length
    pieces.append(noise[at:])
    assert parse(pieces) == parse([noise]) == parse(by_byte(noise))


@pytest.mark.parametrize("source", [b"data: " + b"x" * 200, b"data: x\n" * 60, b"y" * 200 + b"\n"])
def test_more_than_the_limit_is_a_typed_error(source: bytes) -> None:
    for pieces in ([source], by_byte(source)):
        with pytest.raises(LimitExceeded):
            parse(pieces, limit=100)


@given(
    st.lists(
        st.sampled_from([b"data: x\n", b"\n", b"data: " + b"y" * 30 + b"\n", b": c\n", b"data: z\n\n", b"q" * 45])
    ),
    st.data(),
)
def test_what_came_before_the_limit_is_delivered_at_any_split(lines: list[bytes], draw: st.DataObject) -> None:
    raw = b"".join(lines)
    cut = draw.draw(st.integers(0, len(raw)))

    def outcome(pieces: list[bytes]) -> tuple[list[bytes], bool]:
        parser, found = SSEParser(limit=40), []
        try:
            for piece in pieces:
                found += parser.feed(piece)
            found += parser.close()
        except LimitExceeded:
            return [event.data for event in found], True
        return [event.data for event in found], False

    assert outcome([raw]) == outcome(by_byte(raw)) == outcome([raw[:cut], raw[cut:]])


def test_comments_are_read_past_without_being_kept() -> None:
    assert parse([b": keep-alive\n" * 100 + b"data: 1\n\n"], limit=50) == [ServerSentEvent(b"1")]


RULES: dict[str, tuple[bytes, list[tuple[str, str, str, int | None]]]] = {
    "one space is taken off, no more": (b"data:   x \n\n", [("message", "  x ", "", None)]),
    "a colon in the value is the value's": (b"data: a: b\n\n", [("message", "a: b", "", None)]),
    "names are exact": (b"Data: a\ndata : b\n data: c\ndatax: d\n\n", []),
    "an unknown field says nothing": (b"odd: 1\ndata: a\nodd\n\n", [("message", "a", "", None)]),
    "the last event name counts": (b"event: a\nevent: b\ndata: 1\n\n", [("b", "1", "", None)]),
    "an empty event name is none": (b"event:\ndata: 1\n\n", [("message", "1", "", None)]),
    "a name without data is forgotten": (b"event: a\n\ndata: 1\n\n", [("message", "1", "", None)]),
    "an id stays": (b"id: 7\ndata: 1\n\ndata: 2\n\n", [("message", "1", "7", None), ("message", "2", "7", None)]),
    "an id needs no data": (b"id: 7\n\ndata: 1\n\n", [("message", "1", "7", None)]),
    "an empty id resets": (b"id: 7\n\nid\ndata: 1\n\n", [("message", "1", "", None)]),
    "an id with a null is no id": (b"id: 7\nid: a\0b\ndata: 1\n\n", [("message", "1", "7", None)]),
    "retry is digits": (b"retry: 05\ndata: 1\n\n", [("message", "1", "", 5)]),
    "retry with anything else is none": (b"retry: +5\nretry: 1.5\nretry: 5x\ndata: 1\n\n", [("message", "1", "", None)]),
    "retry has fifteen digits at most": (
        b"retry: 123456789012345\ndata: 1\n\nretry: 1234567890123456\ndata: 2\n\n",
        [("message", "1", "", 123456789012345), ("message", "2", "", None)],
    ),
    "a retry without measure is survived": (b"retry: " + b"9" * 5000 + b"\ndata: 1\n\n", []),
    "fields in any order": (b"data: 1\nevent: x\n\n", [("x", "1", "", None)]),
    "carriage returns end lines": (b"data: a\rdata: b\r\rdata: c\r\r", [("message", "a\nb", "", None), ("message", "c", "", None)]),
    "CR CR LF is a line and a blank one": (b"data: a\r\r\ndata: b\n\n", [("message", "a", "", None), ("message", "b", "", None)]),
    "LF CR is a line and a blank one": (b"data: a\n\rdata: b\n\r", [("message", "a", "", None), ("message", "b", "", None)]),
    "data without a value is an empty line": (b"data\ndata\n\n", [("message", "\n", "", None)]),
    "other separators are text": ("data: a\u2028b\u0085c\x0b\x0c\n\n".encode(), [("message", "a\u2028b\u0085c\x0b\x0c", "", None)]),
    "one mark of byte order is taken off": (b"\xef\xbb\xbfdata: 1\n\n", [("message", "1", "", None)]),
    "two are not": (b"\xef\xbb\xbf\xef\xbb\xbfdata: 1\n\ndata: 2\n\n", [("message", "2", "", None)]),
    "broken characters are replaced": (b"data: a\xffb\xe4\xbd\n\n", [("message", "a\ufffdb\ufffd", "", None)]),
    "blank lines and comments keep alive": (b"\n\r\n: x\n:\n\ndata: 1\n\n:\n", [("message", "1", "", None)]),
    "no stream at all": (b'{"error": "x"}\n', []),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_rules(rule: str) -> None:
    source, wanted = RULES[rule]
    for pieces in ([source], by_byte(source), [source[:9], source[9:]]):
        got = [(event.event, event.text, event.id, event.retry) for event in parse(pieces)]
        if "without measure" in rule:
            assert [text for _, text, _, _ in got] == ["1"]
        else:
            assert got == wanted


@pytest.mark.parametrize("source", [b"data: 1\n\ndata: 2", b"data: 1\n\ndata: 2\n", b"data: 1\r\n\r\ndata: 2\r\n"])
def test_an_event_without_its_blank_line_counts_only_at_a_lenient_end(source: bytes) -> None:
    for pieces in ([source], by_byte(source)):
        assert [event.text for event in parse(pieces)] == ["1", "2"]
        assert [event.text for event in parse(pieces, lenient_end=False)] == ["1"]


def test_a_mark_of_byte_order_and_nothing_after_it() -> None:
    assert parse([b"\xef\xbb\xbfdata: 1"]) == [ServerSentEvent(b"1")]


@each_once(("junk", [b":", b"x", b" ", b"\t", b"\r", b"\x00", b"d", b"e", b"\xef\xbb\xbf", b"\n"]), ("event", [b"event: a\n%bdata: y\n\n", b"%bevent: a\ndata: y\n\n", b"event: a%b\ndata: y\n\n", b"event:%b\ndata: y\n\n", b"event: a\ndata:%b y\n\n", b"%bdata: y\n\n", b"data: y%b\n\n"]))  # fmt: skip
def test_a_shortcut_takes_only_what_it_reads_as_the_specification_does(event: bytes, junk: bytes) -> None:
    """At once, behind another event, and byte by byte, which no shortcut sees."""
    odd = event % junk
    first = b"data: x\n\n"
    slowly = parse(by_byte(first + odd + first))
    assert parse([first, odd, first]) == slowly
    assert parse([first + odd + first]) == slowly
