"""Every recorded Gemini answer decodes to what was recorded of it, however its bytes are cut."""

from __future__ import annotations

from typing import Any

import pytest

from midstream import MidstreamError, decode_response, make_decoder
from midstream.core.blocks import Opaque
from midstream.core.events import ErrorEvent
from tests.wires.feeding import at_random, by_byte, by_lengths, events_of
from tests.wires.gemini.exceptions import CORPUS, EMPTY, NO_FINISH
from tests.wires.recordings import body_bytes, differences, is_stream, recordings, shared_only

CASES = {case["id"]: case for case in recordings("gemini")}
STREAMS = {name: case for name, case in CASES.items() if is_stream(case)}
SILENT = {**EMPTY, **NO_FINISH}


def events(chunks: Any) -> list[Any]:
    return events_of(make_decoder(wire="gemini", turn_key="t"), chunks)


def compare(turn: Any, case: dict[str, Any]) -> list[str]:
    expected = case["expected"]
    if isinstance(expected["finish_reason"], int):  # protobuf's number; ours is its text
        case = {**case, "expected": {**expected, "finish_reason": str(expected["finish_reason"])}}
    return differences(turn, case, output_holds_reasoning=False)


def outcome(case: dict[str, Any]) -> list[str]:
    expected, raw = case["expected"], body_bytes(case)
    if is_stream(case):
        last = events([raw])[-1]
        if isinstance(last, ErrorEvent) and case["id"] not in SILENT:
            return [f"unexpected {last.error}"]
        return compare(last.turn, case)
    try:
        turn = decode_response(raw, wire="gemini", status=case["response"]["status"], turn_key="t")
    except MidstreamError as error:
        wanted = expected.get("error")
        if not wanted:
            return [f"unexpected {error!r}"]
        return [] if (wanted["message"] or "")[:80] in str(error) else [f"{error} does not say {wanted['message']}"]
    if turn.failure and case["id"] not in SILENT:
        return [f"unexpected {turn.failure}"]
    return ["an error was expected"] if expected.get("error") else compare(turn, case)


def test_the_recordings_are_all_there() -> None:
    assert len(shared_only(CASES)) == 98


def test_answers_equal_what_was_recorded() -> None:
    wrong = {name: found for name, case in CASES.items() if (found := outcome(case)) and name not in CORPUS}
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


def test_there_is_one_exception_and_none_is_stale() -> None:
    cases = shared_only(CASES)
    assert len(CORPUS) <= 1
    assert {name for name in CORPUS if not outcome(cases[name])} == set()
    for name, kind in {**dict.fromkeys(EMPTY, "empty"), **dict.fromkeys(NO_FINISH, "truncated")}.items():
        if name in STREAMS:
            assert events([body_bytes(CASES[name])])[-1].error.kind == kind
        else:
            assert decode_response(body_bytes(CASES[name]), wire="gemini").failure == kind


def test_every_part_of_a_recording_is_kept() -> None:
    """Whole bodies: one block a part, but for blank text without a signature."""
    for name, case in CASES.items():
        body = case["response"]["body"]
        if case["response"]["status"] >= 400 or is_stream(case):
            continue
        candidate = body["candidates"][0]
        turn = decode_response(body_bytes(case), wire="gemini", turn_key="t")
        parts = [part for part in candidate["content"].get("parts", []) if part != {"text": ""}]
        signed = [part["thoughtSignature"] for part in parts if "thoughtSignature" in part]
        kept = []
        for block in turn.blocks:
            extra = block.data if isinstance(block, Opaque) else block.extra
            found = getattr(block, "signature", None) or (extra or {}).get("thoughtSignature")
            kept += [found] if found else []
        assert kept == signed, name
        for key in ("groundingMetadata", "urlContextMetadata"):
            if candidate.get(key):
                assert turn.extra is not None and turn.extra[key] == candidate[key], name


def test_signatures_of_a_stream_are_kept() -> None:
    for name, case in STREAMS.items():
        raw = body_bytes(case)
        turn = events([raw])[-1].turn
        kept = str(turn.blocks).count("thoughtSignature") + str(turn.blocks).count("signature='")
        if name not in NO_FINISH:
            assert kept == raw.count(b'"thoughtSignature"'), name


@pytest.mark.parametrize("part", range(3))
def test_any_cut_gives_the_same_events(part: int) -> None:
    for name, case in list(STREAMS.items())[part::3]:
        raw = body_bytes(case)
        whole = events([raw])
        assert events(by_byte(raw)) == whole, name
        assert events(at_random(raw, seed=len(raw))) == whole, name
        if case["response"].get("chunk_lengths"):
            assert events(by_lengths(raw, case["response"]["chunk_lengths"])) == whole, name


def test_a_stream_cut_before_its_finish_reason_is_truncated_and_keeps_what_came() -> None:
    for name, case in STREAMS.items():
        if name in SILENT:
            continue
        raw = body_bytes(case)
        cut = raw[: raw.index(b'"finishReason"')]
        last = events([cut])[-1]
        assert isinstance(last, ErrorEvent), name
        if raw[:1] == b"[":
            assert last.error.kind == "truncated", name
        else:  # an event stream gives its unfinished last event too
            assert last.error.kind in ("truncated", "malformed"), name
        assert events([raw])[-1].turn.text.startswith(last.turn.text), name
