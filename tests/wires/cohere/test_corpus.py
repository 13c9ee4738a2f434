"""Every recorded Cohere answer decodes to what was recorded of it, however its bytes are cut."""

from __future__ import annotations

from typing import Any

from midstream import MidstreamError, decode_response, make_decoder
from midstream.core.blocks import Opaque
from midstream.core.events import Done, ErrorEvent
from tests.wires.feeding import at_random, by_byte, events_of
from tests.wires.recordings import body_bytes, differences, is_stream, recordings, shared_only

CASES = {case["id"]: case for case in recordings("cohere-chat")}
STREAMS = {name: case for name, case in CASES.items() if is_stream(case)}


def events(chunks: Any) -> list[Any]:
    return events_of(make_decoder(wire="cohere", turn_key="t"), chunks)


def compare(turn: Any, case: dict[str, Any]) -> list[str]:
    """A plan is thinking here; the recordings count it apart."""
    expected = case["expected"]
    thought = expected["reasoning"] + (expected.get("tool_plan") or "")
    found = differences(turn, {**case, "expected": {**expected, "reasoning": thought}})
    plan = "".join([block.text for block in turn.blocks if getattr(block, "field", "") == "tool_plan"])
    found += [] if plan == (expected.get("tool_plan") or "") else [f"plan: got {plan!r}"]
    raw_ids = [call.raw_id for call in turn.tool_calls]
    found += [] if raw_ids == [call["id"] for call in expected["tool_calls"]] else [f"ids: got {raw_ids}"]
    usage = case["expected"]["usage"]
    if usage and (turn.usage.raw, turn.usage.cache_read) != (usage, usage.get("cached_tokens", 0)):
        found.append(f"usage: got {turn.usage}")
    return found + ([] if turn.response_id == expected["id"] else [f"id: got {turn.response_id}"])


def outcome(case: dict[str, Any]) -> list[str]:
    expected, raw = case["expected"], body_bytes(case)
    if is_stream(case):
        last = events([raw])[-1]
        return compare(last.turn, case) if isinstance(last, Done) else [f"unexpected {last}"]
    try:
        turn = decode_response(raw, wire="cohere", status=case["response"]["status"], turn_key="t")
    except MidstreamError as error:
        wanted = expected.get("error")
        return [] if wanted and wanted["message"] in str(error) else [f"unexpected {error!r}"]
    return ["an error was expected"] if expected.get("error") else compare(turn, case)


def test_the_recordings_are_all_there() -> None:
    assert (len(shared_only(CASES)), len(shared_only(STREAMS))) == (23, 10)


def test_answers_equal_what_was_recorded() -> None:
    wrong = {name: found for name, case in CASES.items() if (found := outcome(case))}
    assert not wrong, "\n".join(f"{name}: {found}" for name, found in wrong.items())


def test_any_cut_gives_the_same_events() -> None:
    for name, case in STREAMS.items():
        raw = body_bytes(case)
        whole = events([raw])
        assert events(by_byte(raw)) == whole, name
        for seed in range(5):
            assert events(at_random(raw, seed=seed)) == whole, name
        assert events([raw.removesuffix(b"data: [DONE]\n\n").rstrip()]) == whole, name


def test_citations_are_kept() -> None:
    for name, case in CASES.items():
        body, raw = case["response"]["body"], body_bytes(case)
        if case["response"]["status"] == 200:
            blocks = events([raw])[-1].turn.blocks
            kept = [each for block in blocks if isinstance(block, Opaque) for each in block.data]
            told = raw.count(b'"citation-start"') if is_stream(case) else len(body["message"].get("citations") or ())
            assert len(kept) == told, name


def test_a_stream_cut_off_is_truncated_and_keeps_what_came() -> None:
    for name, case in STREAMS.items():
        raw = body_bytes(case)
        last = events([raw[: raw.index(b"event: message-end")]])[-1]
        assert isinstance(last, ErrorEvent) and last.error.kind == "truncated", name
        assert last.turn.blocks == events([raw])[-1].turn.blocks, name
