"""Every recorded Ollama answer decodes to what was recorded of it, however its bytes are cut."""

from __future__ import annotations

from typing import Any

from midstream import decode_response, make_decoder
from midstream.core.events import Done, ErrorEvent
from tests.wires.feeding import at_random, by_byte, events_of
from tests.wires.recordings import body_bytes, differences, is_stream, recordings, shared_only

CASES = {case["id"]: case for case in recordings("ollama-chat")}
STREAMS = {name: case for name, case in CASES.items() if is_stream(case)}


def events(chunks: Any) -> list[Any]:
    return events_of(make_decoder(wire="ollama", turn_key="t"), chunks)


def outcome(case: dict[str, Any]) -> list[str]:
    raw = body_bytes(case)
    if is_stream(case):
        last = events([raw])[-1]
        return differences(last.turn, case) if isinstance(last, Done) else [f"unexpected {last}"]
    return differences(decode_response(raw, wire="ollama", turn_key="t"), case)


def test_the_recordings_are_all_there() -> None:
    assert len(shared_only(CASES)) == 15


def test_answers_equal_what_was_recorded() -> None:
    wrong = {name: found for name, case in CASES.items() if (found := outcome(case))}
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


def test_any_cut_gives_the_same_events() -> None:
    for name, case in STREAMS.items():
        raw = body_bytes(case)
        whole = events([raw])
        assert events(by_byte(raw)) == whole, name
        assert events(at_random(raw, seed=len(raw))) == whole, name
        assert events([raw.rstrip()]) == whole, name


def test_a_whole_stream_is_also_a_body() -> None:
    for name, case in STREAMS.items():
        raw = body_bytes(case)
        assert decode_response(raw, wire="ollama", turn_key="t") == events([raw])[-1].turn, name


def test_a_stream_cut_off_is_truncated_and_keeps_what_came() -> None:
    for name, case in STREAMS.items():
        raw = body_bytes(case)
        cut = raw[: raw.index(b'"done":true')].rpartition(b"\n")[0]
        last = events([cut])[-1]
        assert isinstance(last, ErrorEvent) and last.error.kind == "truncated", name
        done = events([raw])[-1]
        assert last.turn.blocks == done.turn.blocks, name
