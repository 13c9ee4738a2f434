"""Every recorded Messages answer decodes to what was recorded of it, however its bytes are cut."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from midstream import MidstreamError, decode_response, make_decoder
from midstream.core.blocks import Opaque
from midstream.core.events import Done, ErrorEvent
from tests.long_run import in_share
from tests.wires.anthropic.exceptions import CORPUS, EMPTY
from tests.wires.feeding import at_random, by_byte, by_lengths, events_of
from tests.wires.recordings import body_bytes, differences, is_stream, recordings, shared_only

CASES = {case["id"]: case for case in recordings("anthropic-messages")}
STREAMS = {name: case for name, case in CASES.items() if is_stream(case)}


def events(chunks: Any) -> list[Any]:
    return events_of(make_decoder(wire="anthropic", turn_key="t"), chunks)


def outcome(case: dict[str, Any]) -> list[str]:
    expected, raw = case["expected"], body_bytes(case)
    if is_stream(case):
        last = events([raw])[-1]
        if isinstance(last, ErrorEvent) and case["id"] not in EMPTY:
            return [f"unexpected {last.error}"]
        return differences(last.turn, case)
    try:
        turn = decode_response(raw, wire="anthropic", status=case["response"]["status"], turn_key="t")
    except MidstreamError as error:
        wanted = expected.get("error")
        if not wanted:
            return [f"unexpected {error!r}"]
        return [] if (wanted["message"] or "")[:80] in str(error) else [f"{error} does not say {wanted['message']}"]
    if turn.failure and case["id"] not in EMPTY:
        return [f"unexpected {turn.failure}"]
    return ["an error was expected"] if expected.get("error") else differences(turn, case)


def test_the_recordings_are_all_there() -> None:
    assert len(shared_only(CASES)) == 182


def test_answers_equal_what_was_recorded() -> None:
    wrong = {name: found for name, case in CASES.items() if (found := outcome(case)) and name not in CORPUS}
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


def test_at_most_one_in_a_hundred_is_an_exception_and_none_is_stale() -> None:
    cases = shared_only(CASES)
    assert len(CORPUS) <= len(cases) * 0.01
    assert {name for name in CORPUS if not outcome(cases[name])} == set()
    for name in EMPTY:
        assert decode_response(body_bytes(CASES[name]), wire="anthropic").failure == "empty"


def test_every_block_of_a_recording_is_kept() -> None:
    for name, case in CASES.items():
        if case["response"]["status"] >= 400 or is_stream(case):
            continue
        body = case["response"]["body"]
        turn = decode_response(body_bytes(case), wire="anthropic", turn_key="t")
        wanted = [block["type"] for block in body["content"] if block != {"type": "text", "text": ""}]
        tags = {"tool_call": "tool_use"}
        got = [block.kind if isinstance(block, Opaque) else str(block.__struct_config__.tag) for block in turn.blocks]
        wanted = ["thinking" if kind == "redacted_thinking" else kind for kind in wanted]
        assert [tags.get(kind, kind) for kind in got] == wanted, name


@pytest.mark.parametrize("part", range(4))
def test_any_cut_gives_the_same_events(part: int) -> None:
    for number, (name, case) in enumerate(list(STREAMS.items())[part::4]):
        raw = body_bytes(case)
        whole = events([raw])
        assert isinstance(whole[-1], Done), name
        if in_share(number):
            assert events(by_byte(raw)) == whole, name
        assert events(at_random(raw, seed=len(raw))) == whole, name
        if case["response"].get("chunk_lengths"):
            assert events(by_lengths(raw, case["response"]["chunk_lengths"])) == whole, name


def test_a_stream_cut_off_is_truncated_and_keeps_what_came() -> None:
    for name, case in STREAMS.items():
        raw = body_bytes(case)
        cut = raw[: raw.index(b'"message_delta"')].rpartition(b"\n\n")[0] + b"\n\n"
        last = events([cut])[-1]
        assert isinstance(last, ErrorEvent) and last.error.kind == "truncated", name
        done = events([raw])[-1]
        assert last.turn.blocks == done.turn.blocks, name


_SMALL = [name for name, case in STREAMS.items() if len(body_bytes(case)) < 6000][:6]


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(_SMALL), cuts=st.lists(st.integers(0, 6000), max_size=12))
def test_hypothesis_any_split(name: str, cuts: list[int]) -> None:
    raw = body_bytes(STREAMS[name])
    places = sorted({min(cut, len(raw)) for cut in cuts})
    chunks = [raw[a:b] for a, b in zip([0, *places], [*places, len(raw)], strict=True)]
    assert events(chunks) == events([raw])
